//! Rows packed into bytes.
//!
//! If one of a row's columns may be NULL, a row begins with a bit for each column, the first in the
//! lowest bit of the first byte, set where the value is NULL. The values that are not NULL follow,
//! in the columns' order, little-endian:
//!
//! | type | bytes |
//! | --- | --- |
//! | `boolean` | 1: 0 or 1 |
//! | `smallint`, `integer`, `bigint` | 2, 4, 8 |
//! | `real`, `double precision` | 4, 8 |
//! | `numeric(p, s)`: the number times 10 to the power of s | 16; 32 from 39 digits on |
//! | `date`: days since 1970 | 4 |
//! | `time`, `timestamp`, `timestamptz`: microseconds, since midnight or since 1970 in UTC | 8 |
//! | `interval`: months and days in 4 each, microseconds in 8 | 16 |
//! | `text`, `varchar`, `bytea`, and all others as text | their length as a varint, themselves |

/// Packs a row, a value after the other.
///
/// ```
/// use thalweg_protocol::RowWriter;
///
/// // A table of (integer, integer, text), none of which may be NULL.
/// let mut row = RowWriter::new(3, false);
/// row.int4(7).int4(-1).text("eight");
/// assert_eq!(row.finish(), b"\x07\0\0\0\xff\xff\xff\xff\x05eight");
/// ```
#[derive(Clone, Debug, Default)]
pub struct RowWriter {
    bytes: Vec<u8>,
    nullable: bool,
    columns: usize,
    column: usize,
}

impl RowWriter {
    /// For a row of so many columns, of which some may be NULL or none.
    #[must_use]
    pub fn new(columns: usize, nullable: bool) -> RowWriter {
        let mut writer = RowWriter { bytes: Vec::new(), nullable, columns, column: 0 };
        writer.begin();
        writer
    }

    fn begin(&mut self) {
        let bitmap = if self.nullable { self.columns.div_ceil(8) } else { 0 };
        self.bytes.resize(bitmap, 0);
        self.column = 0;
    }

    fn fixed(&mut self, bytes: &[u8]) -> &mut RowWriter {
        self.bytes.extend_from_slice(bytes);
        self.column += 1;
        self
    }

    /// Appends a `boolean` as one byte.
    pub fn bool(&mut self, value: bool) -> &mut RowWriter {
        self.fixed(&[u8::from(value)])
    }

    /// Appends a `smallint` as 2 bytes, little-endian.
    pub fn int2(&mut self, value: i16) -> &mut RowWriter {
        self.fixed(&value.to_le_bytes())
    }

    /// Appends an `integer` as 4 bytes, little-endian.
    pub fn int4(&mut self, value: i32) -> &mut RowWriter {
        self.fixed(&value.to_le_bytes())
    }

    /// Appends a `bigint` as 8 bytes, little-endian.
    pub fn int8(&mut self, value: i64) -> &mut RowWriter {
        self.fixed(&value.to_le_bytes())
    }

    /// Appends a `real` as 4 bytes, little-endian.
    pub fn float4(&mut self, value: f32) -> &mut RowWriter {
        self.fixed(&value.to_le_bytes())
    }

    /// Appends a `double precision` as 8 bytes, little-endian.
    pub fn float8(&mut self, value: f64) -> &mut RowWriter {
        self.fixed(&value.to_le_bytes())
    }

    /// A `numeric(p, s)` of at most 38 digits, times 10 to the power of s.
    pub fn numeric(&mut self, value: i128) -> &mut RowWriter {
        self.fixed(&value.to_le_bytes())
    }

    /// Days since 1970.
    pub fn date(&mut self, days: i32) -> &mut RowWriter {
        self.int4(days)
    }

    /// Microseconds since midnight, or since 1970 in UTC.
    pub fn time(&mut self, microseconds: i64) -> &mut RowWriter {
        self.int8(microseconds)
    }

    /// Appends an `interval` as 16 bytes: months, days and microseconds.
    pub fn interval(&mut self, months: i32, days: i32, microseconds: i64) -> &mut RowWriter {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&months.to_le_bytes());
        bytes[4..8].copy_from_slice(&days.to_le_bytes());
        bytes[8..].copy_from_slice(&microseconds.to_le_bytes());
        self.fixed(&bytes)
    }

    /// A value of a text type, or of another type that is sent as text.
    pub fn text(&mut self, value: &str) -> &mut RowWriter {
        self.bytes(value.as_bytes())
    }

    /// Appends a `bytea`: its length as a varint, then its bytes.
    pub fn bytes(&mut self, value: &[u8]) -> &mut RowWriter {
        let mut length = value.len();
        while length >= 0x80 {
            self.bytes.push(length as u8 | 0x80);
            length >>= 7;
        }
        self.bytes.push(length as u8);
        self.fixed(value)
    }

    /// Panics for a row none of whose columns may be NULL.
    pub fn null(&mut self) -> &mut RowWriter {
        assert!(self.nullable, "a row without NULLs has no place to say so");
        self.bytes[self.column / 8] |= 1 << (self.column % 8);
        self.column += 1;
        self
    }

    /// The row. The writer is ready for the next one.
    ///
    /// Panics where it has not got all of its values.
    pub fn finish(&mut self) -> Vec<u8> {
        assert_eq!(self.column, self.columns, "a row has a value for each of its columns");
        let room = self.bytes.len();
        let row = std::mem::replace(&mut self.bytes, Vec::with_capacity(room));
        self.begin();
        row
    }
}

/// Takes a packed row apart, a value after the other. `None` is NULL.
///
/// ```
/// use thalweg_protocol::{PackedRow, RowWriter};
///
/// let packed = RowWriter::new(2, true).int8(1).null().finish();
/// let mut row = PackedRow::new(&packed, 2, true).unwrap();
/// assert_eq!(row.int8().unwrap(), Some(1));
/// assert_eq!(row.text().unwrap(), None);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PackedRow<'a> {
    nulls: &'a [u8],
    rest: &'a [u8],
    column: usize,
}

const CUT: crate::Malformed = crate::Malformed("a packed row is cut off");

impl<'a> PackedRow<'a> {
    /// # Errors
    /// Where there are not even the marks of its NULLs.
    pub fn new(
        row: &'a [u8],
        columns: usize,
        nullable: bool,
    ) -> Result<PackedRow<'a>, crate::Malformed> {
        let bitmap = if nullable { columns.div_ceil(8) } else { 0 };
        let (nulls, rest) = row.split_at_checked(bitmap).ok_or(CUT)?;
        Ok(PackedRow { nulls, rest, column: 0 })
    }

    fn is_null(&mut self) -> bool {
        let byte = self.nulls.get(self.column / 8).copied().unwrap_or(0);
        let null = byte >> (self.column % 8) & 1 == 1;
        self.column += 1;
        null
    }

    fn fixed<const WIDTH: usize>(&mut self) -> Result<Option<[u8; WIDTH]>, crate::Malformed> {
        if self.is_null() {
            return Ok(None);
        }
        let (value, rest) = self.rest.split_first_chunk().ok_or(CUT)?;
        self.rest = rest;
        Ok(Some(*value))
    }

    /// Reads a `boolean`; any byte other than 0 is true. `None` is NULL.
    pub fn bool(&mut self) -> Result<Option<bool>, crate::Malformed> {
        Ok(self.fixed::<1>()?.map(|[byte]| byte != 0))
    }

    /// Reads a `smallint`; `None` is NULL.
    pub fn int2(&mut self) -> Result<Option<i16>, crate::Malformed> {
        Ok(self.fixed()?.map(i16::from_le_bytes))
    }

    /// Also a date, in days since 1970.
    pub fn int4(&mut self) -> Result<Option<i32>, crate::Malformed> {
        Ok(self.fixed()?.map(i32::from_le_bytes))
    }

    /// Also a time, in microseconds.
    pub fn int8(&mut self) -> Result<Option<i64>, crate::Malformed> {
        Ok(self.fixed()?.map(i64::from_le_bytes))
    }

    /// Reads a `real`; `None` is NULL.
    pub fn float4(&mut self) -> Result<Option<f32>, crate::Malformed> {
        Ok(self.fixed()?.map(f32::from_le_bytes))
    }

    /// Reads a `double precision`; `None` is NULL.
    pub fn float8(&mut self) -> Result<Option<f64>, crate::Malformed> {
        Ok(self.fixed()?.map(f64::from_le_bytes))
    }

    /// Reads a `numeric` in units of its last digit; `None` is NULL.
    pub fn numeric(&mut self) -> Result<Option<i128>, crate::Malformed> {
        Ok(self.fixed()?.map(i128::from_le_bytes))
    }

    /// Reads a text without copying it; `None` is NULL. Fails if it is not UTF-8.
    pub fn text(&mut self) -> Result<Option<&'a str>, crate::Malformed> {
        let text = self.bytes()?.map(str::from_utf8).transpose();
        text.map_err(|_| crate::Malformed("a text is not UTF-8"))
    }

    /// Reads a `bytea` without copying it; `None` is NULL.
    pub fn bytes(&mut self) -> Result<Option<&'a [u8]>, crate::Malformed> {
        if self.is_null() {
            return Ok(None);
        }
        let mut length = 0_usize;
        for shift in (0..35).step_by(7) {
            let (byte, rest) = self.rest.split_first().ok_or(CUT)?;
            self.rest = rest;
            length |= usize::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                let (value, rest) = self.rest.split_at_checked(length).ok_or(CUT)?;
                self.rest = rest;
                return Ok(Some(value));
            }
        }
        Err(crate::Malformed("a value is longer than it can be"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_all_types_come_back() {
        let long = "é".repeat(100);
        let mut writer = RowWriter::new(10, true);
        writer.bool(true).int2(-2).int4(-3).int8(i64::MIN).float4(0.5).float8(-0.25);
        writer.numeric(i128::MAX).text(&long).null().text("");
        let packed = writer.finish();
        let mut row = PackedRow::new(&packed, 10, true).unwrap();
        assert_eq!(row.bool().unwrap(), Some(true));
        assert_eq!(row.int2().unwrap(), Some(-2));
        assert_eq!(row.int4().unwrap(), Some(-3));
        assert_eq!(row.int8().unwrap(), Some(i64::MIN));
        assert_eq!(row.float4().unwrap(), Some(0.5));
        assert_eq!(row.float8().unwrap(), Some(-0.25));
        assert_eq!(row.numeric().unwrap(), Some(i128::MAX));
        assert_eq!(row.text().unwrap(), Some(long.as_str()));
        assert_eq!(row.bytes().unwrap(), None);
        assert_eq!(row.text().unwrap(), Some(""));
        assert!(row.rest.is_empty());
        assert_eq!(writer.bool(true).column, 1, "a finished writer starts over");
    }

    #[test]
    fn a_row_that_is_cut_anywhere_is_noticed() {
        let packed = RowWriter::new(3, true).int4(1).text("abc").int8(2).finish();
        for end in 0..packed.len() {
            let read = || {
                let mut row = PackedRow::new(&packed[..end], 3, true)?;
                row.int4()?;
                row.text()?;
                row.int8()
            };
            assert_eq!(read().unwrap_err(), CUT, "{end} bytes");
        }
    }
}
