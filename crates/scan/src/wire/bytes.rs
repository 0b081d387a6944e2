//! Plain values in bytes that may be anything.

use thalweg_types::Result;

use super::malformed;

/// What is left to read.
pub(super) struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub fn new(bytes: &'a [u8]) -> Input<'a> {
        Input(bytes)
    }

    fn bytes(&mut self, length: usize) -> Result<&'a [u8]> {
        let Some((bytes, rest)) = self.0.split_at_checked(length) else {
            return Err(malformed("it ends too early"));
        };
        self.0 = rest;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let Some((bytes, rest)) = self.0.split_first_chunk() else {
            return Err(malformed("it ends too early"));
        };
        self.0 = rest;
        Ok(*bytes)
    }

    pub fn byte(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    pub fn truth(&mut self) -> Result<bool> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(malformed("what is neither true nor false")),
        }
    }

    pub fn number(&mut self) -> Result<usize> {
        Ok(u32::from_le_bytes(self.array()?) as usize)
    }

    /// How many things follow, of which each takes a byte or more.
    pub fn length(&mut self) -> Result<usize> {
        let length = self.number()?;
        if length > self.0.len() {
            return Err(malformed("it ends too early"));
        }
        Ok(length)
    }

    pub fn int(&mut self) -> Result<i64> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    pub fn ints(&mut self) -> Result<Vec<i64>> {
        (0..self.length()?).map(|_| self.int()).collect()
    }

    pub fn wide(&mut self) -> Result<i128> {
        Ok(i128::from_le_bytes(self.array()?))
    }

    pub fn float(&mut self) -> Result<f64> {
        Ok(f64::from_bits(u64::from_le_bytes(self.array()?)))
    }

    pub fn text(&mut self) -> Result<&'a str> {
        let length = self.length()?;
        std::str::from_utf8(self.bytes(length)?).map_err(|_| malformed("a text is not UTF-8"))
    }

    pub fn end(&self) -> Result<()> {
        if self.0.is_empty() { Ok(()) } else { Err(malformed("something follows its end")) }
    }
}

/// What was written so far.
#[derive(Default)]
pub(super) struct Output(pub Vec<u8>);

impl Output {
    pub fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    pub fn truth(&mut self, truth: bool) {
        self.byte(truth.into());
    }

    /// A place or a length; `None` where nobody reads one as large.
    pub fn number(&mut self, number: usize) -> Option<()> {
        self.0.extend(u32::try_from(number).ok()?.to_le_bytes());
        Some(())
    }

    pub fn int(&mut self, int: i64) {
        self.0.extend(int.to_le_bytes());
    }

    pub fn ints(&mut self, ints: &[i64]) -> Option<()> {
        self.number(ints.len())?;
        ints.iter().for_each(|int| self.int(*int));
        Some(())
    }

    pub fn wide(&mut self, wide: i128) {
        self.0.extend(wide.to_le_bytes());
    }

    pub fn float(&mut self, float: f64) {
        self.0.extend(float.to_bits().to_le_bytes());
    }

    pub fn text(&mut self, text: &str) -> Option<()> {
        self.number(text.len())?;
        self.0.extend(text.as_bytes());
        Some(())
    }
}
