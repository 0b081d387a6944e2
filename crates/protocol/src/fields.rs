//! The fields of a protobuf message, one after the other, where they lie.

use std::fmt;

/// The bytes are no message of the kind that was expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Malformed {}

/// A field's value by the way in which it is encoded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Field<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Fixed32(u32),
}

const WRONG_KIND: Malformed = Malformed("a field is encoded as another type than its own");
const CUT: Malformed = Malformed("a message is cut off");
const VARINT: Malformed = Malformed("a number is longer than it can be");

impl<'a> Field<'a> {
    /// The value of a varint field; fails if the field has another wire type.
    pub fn varint(self) -> Result<u64, Malformed> {
        match self {
            Field::Varint(value) => Ok(value),
            _ => Err(WRONG_KIND),
        }
    }

    /// The value of a fixed 64-bit field; fails if the field has another wire type.
    pub fn fixed64(self) -> Result<u64, Malformed> {
        match self {
            Field::Fixed64(value) => Ok(value),
            _ => Err(WRONG_KIND),
        }
    }

    /// The bytes of a length-delimited field; fails if the field has another wire type.
    pub fn bytes(self) -> Result<&'a [u8], Malformed> {
        match self {
            Field::Bytes(bytes) => Ok(bytes),
            _ => Err(WRONG_KIND),
        }
    }

    /// The text of a length-delimited field; fails if it has another wire type or is not UTF-8.
    pub fn text(self) -> Result<&'a str, Malformed> {
        str::from_utf8(self.bytes()?).map_err(|_| Malformed("a text is not UTF-8"))
    }
}

/// The fields of a message. Ends behind the first that cannot be read.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    #[inline]
    fn varint(&mut self) -> Result<u64, Malformed> {
        let (&first, rest) = self.0.split_first().ok_or(CUT)?;
        if first < 0x80 {
            self.0 = rest;
            return Ok(first.into());
        }
        self.long_varint()
    }

    fn long_varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first().ok_or(CUT)?;
            self.0 = rest;
            value |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                // The tenth byte has room for one more bit.
                return if shift == 63 && byte > 1 { Err(VARINT) } else { Ok(value) };
            }
        }
        Err(VARINT)
    }

    #[inline]
    fn take(&mut self, length: u64) -> Result<&'a [u8], Malformed> {
        let length = usize::try_from(length).map_err(|_| CUT)?;
        let (taken, rest) = self.0.split_at_checked(length).ok_or(CUT)?;
        self.0 = rest;
        Ok(taken)
    }

    #[inline]
    fn field(&mut self) -> Result<(u32, Field<'a>), Malformed> {
        let key = self.varint()?;
        let key = u32::try_from(key).map_err(|_| Malformed("a field has no possible number"))?;
        let field = match key & 7 {
            0 => Field::Varint(self.varint()?),
            1 => {
                let bytes = self.take(8)?.try_into().expect("eight bytes were taken");
                Field::Fixed64(u64::from_le_bytes(bytes))
            }
            2 => {
                let length = self.varint()?;
                Field::Bytes(self.take(length)?)
            }
            5 => {
                let bytes = self.take(4)?.try_into().expect("four bytes were taken");
                Field::Fixed32(u32::from_le_bytes(bytes))
            }
            _ => return Err(Malformed("a field is of a kind that is not in use")),
        };
        match key >> 3 {
            0 => Err(Malformed("a field has no possible number")),
            number => Ok((number, field)),
        }
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Field<'a>), Malformed>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}
