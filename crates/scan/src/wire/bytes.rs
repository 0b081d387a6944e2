//! Reading and writing plain values. Input may be arbitrary bytes.

use thalweg_types::Result;

use super::malformed;

/// The bytes that are still unread. All methods fail if too few are left.
pub(super) struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    /// Starts at the first byte.
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

    /// Reads one byte.
    pub fn byte(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    /// Reads a boolean; fails unless the byte is 0 or 1.
    pub fn truth(&mut self) -> Result<bool> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(malformed("what is neither true nor false")),
        }
    }

    /// Reads a position or length of 32 bits.
    pub fn number(&mut self) -> Result<usize> {
        Ok(u32::from_le_bytes(self.array()?) as usize)
    }

    /// Reads the number of following elements, each of which takes at least one byte.
    pub fn length(&mut self) -> Result<usize> {
        let length = self.number()?;
        if length > self.0.len() {
            return Err(malformed("it ends too early"));
        }
        Ok(length)
    }

    /// Reads a 64-bit integer.
    pub fn int(&mut self) -> Result<i64> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    /// Reads a list of 64-bit integers.
    pub fn ints(&mut self) -> Result<Vec<i64>> {
        (0..self.length()?).map(|_| self.int()).collect()
    }

    /// Reads a 128-bit integer.
    pub fn wide(&mut self) -> Result<i128> {
        Ok(i128::from_le_bytes(self.array()?))
    }

    /// Reads a float.
    pub fn float(&mut self) -> Result<f64> {
        Ok(f64::from_bits(u64::from_le_bytes(self.array()?)))
    }

    /// Reads a text; fails unless it is UTF-8.
    pub fn text(&mut self) -> Result<&'a str> {
        let length = self.length()?;
        std::str::from_utf8(self.bytes(length)?).map_err(|_| malformed("a text is not UTF-8"))
    }

    /// Fails if unread bytes are left.
    pub fn end(&self) -> Result<()> {
        if self.0.is_empty() { Ok(()) } else { Err(malformed("something follows its end")) }
    }
}

/// The bytes written so far.
#[derive(Default)]
pub(super) struct Output(pub Vec<u8>);

impl Output {
    /// Appends one byte.
    pub fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    /// Appends a boolean as 0 or 1.
    pub fn truth(&mut self, truth: bool) {
        self.byte(truth.into());
    }

    /// Appends a position or length; `None` if it exceeds 32 bits.
    pub fn number(&mut self, number: usize) -> Option<()> {
        self.0.extend(u32::try_from(number).ok()?.to_le_bytes());
        Some(())
    }

    /// Appends a 64-bit integer.
    pub fn int(&mut self, int: i64) {
        self.0.extend(int.to_le_bytes());
    }

    /// Appends a list of 64-bit integers; `None` if it is too long.
    pub fn ints(&mut self, ints: &[i64]) -> Option<()> {
        self.number(ints.len())?;
        ints.iter().for_each(|int| self.int(*int));
        Some(())
    }

    /// Appends a 128-bit integer.
    pub fn wide(&mut self, wide: i128) {
        self.0.extend(wide.to_le_bytes());
    }

    /// Appends a float by its bits.
    pub fn float(&mut self, float: f64) {
        self.0.extend(float.to_bits().to_le_bytes());
    }

    /// Appends a text with its length; `None` if it is too long.
    pub fn text(&mut self, text: &str) -> Option<()> {
        self.number(text.len())?;
        self.0.extend(text.as_bytes());
        Some(())
    }
}
