//! The messages that come by the million, looked at where they lie.
//!
//! Fields may come in any order, and twice; as protobuf has it, the last of a single one counts.

use crate::Malformed;
use crate::fields::{Field, Fields};
use crate::v1::{Durability, Operation};

/// A [`WriteRequest`](crate::v1::WriteRequest).
#[derive(Clone, Copy)]
pub struct WriteRef<'a> {
    pub durability: Durability,
    pub atomic: bool,
    /// True if the message announces a table.
    pub has_tables: bool,
    bytes: &'a [u8],
}

const TABLES: u32 = 2;
const ROWS: u32 = 3;

impl<'a> WriteRef<'a> {
    /// # Errors
    /// If the bytes are no such message. Nested messages are not checked.
    #[inline]
    pub fn read(bytes: &'a [u8]) -> Result<WriteRef<'a>, Malformed> {
        let mut request = WriteRef {
            durability: Durability::Unspecified,
            atomic: false,
            has_tables: false,
            bytes,
        };
        for field in Fields(bytes) {
            match field? {
                (ROWS, rows) => drop(rows.bytes()?),
                (TABLES, table) => {
                    table.bytes()?;
                    request.has_tables = true;
                }
                (1, durability) => request.durability = number(durability)?,
                (4, atomic) => request.atomic = atomic.varint()? != 0,
                _ => {}
            }
        }
        Ok(request)
    }

    /// The tables, each to be decoded as a [`Table`](crate::v1::Table).
    pub fn tables(&self) -> impl Iterator<Item = &'a [u8]> {
        parts(self.bytes, TABLES)
    }

    /// The parts of the request for one table each. Malformed ones are errors when they are
    /// reached.
    #[inline]
    pub fn rows(&self) -> impl Iterator<Item = Result<RowsRef<'a>, Malformed>> {
        parts(self.bytes, ROWS).map(RowsRef::read)
    }
}

/// [`Rows`](crate::v1::Rows).
#[derive(Clone, Copy)]
pub struct RowsRef<'a> {
    pub table: u32,
    pub operation: Operation,
    /// Number of packed rows.
    pub packed_count: usize,
    /// Number of rows given as values.
    pub values_count: usize,
    /// Number of expected versions.
    pub expected_count: usize,
    /// An Arrow IPC stream, or nothing.
    pub arrow: &'a [u8],
    bytes: &'a [u8],
}

const PACKED: u32 = 3;
const VALUES: u32 = 4;
const EXPECTED: u32 = 6;

impl<'a> RowsRef<'a> {
    #[inline]
    fn read(bytes: &'a [u8]) -> Result<RowsRef<'a>, Malformed> {
        let mut rows = RowsRef {
            table: 0,
            operation: Operation::Unspecified,
            packed_count: 0,
            values_count: 0,
            expected_count: 0,
            arrow: &[],
            bytes,
        };
        for field in Fields(bytes) {
            match field? {
                (PACKED, row) => {
                    row.bytes()?;
                    rows.packed_count += 1;
                }
                (VALUES, values) => {
                    values.bytes()?;
                    rows.values_count += 1;
                }
                (1, table) => rows.table = table.varint()? as u32,
                (2, operation) => rows.operation = number(operation)?,
                (5, arrow) => rows.arrow = arrow.bytes()?,
                (EXPECTED, versions) => rows.expected_count += versions_in(versions)?.count(),
                _ => {}
            }
        }
        Ok(rows)
    }

    /// The blocks of packed rows, in their order.
    #[inline]
    pub fn packed(&self) -> impl Iterator<Item = &'a [u8]> {
        parts(self.bytes, PACKED)
    }

    /// The rows that were sent as lists of values, in their order.
    pub fn values(&self) -> impl Iterator<Item = ValuesRef<'a>> {
        parts(self.bytes, VALUES).map(ValuesRef)
    }

    /// The expected versions, in the order of the rows. Malformed fields are skipped.
    pub fn expected(&self) -> impl Iterator<Item = u64> {
        let fields = Fields(self.bytes).filter_map(|field| match field {
            Ok((EXPECTED, versions)) => versions_in(versions).ok(),
            _ => None,
        });
        fields.flatten()
    }
}

/// A [`SearchRequest`](crate::v1::SearchRequest).
#[derive(Clone, Copy)]
pub struct SearchRef<'a> {
    pub has_tables: bool,
    bytes: &'a [u8],
}

impl<'a> SearchRef<'a> {
    /// # Errors
    /// If the bytes are no such message. Nested messages are not checked.
    #[inline]
    pub fn read(bytes: &'a [u8]) -> Result<SearchRef<'a>, Malformed> {
        let mut request = SearchRef { has_tables: false, bytes };
        for field in Fields(bytes) {
            match field? {
                (1, table) => {
                    table.bytes()?;
                    request.has_tables = true;
                }
                (2 | 3, part) => drop(part.bytes()?),
                _ => {}
            }
        }
        Ok(request)
    }

    /// The tables to search, still encoded.
    pub fn tables(&self) -> impl Iterator<Item = &'a [u8]> {
        parts(self.bytes, 1)
    }

    /// The keys to look up. Malformed parts are errors when they are reached.
    #[inline]
    pub fn keys(&self) -> impl Iterator<Item = Result<KeysRef<'a>, Malformed>> {
        parts(self.bytes, 2).map(KeysRef::read)
    }

    /// The ranges, each to be decoded as a [`Range`](crate::v1::Range).
    pub fn ranges(&self) -> impl Iterator<Item = &'a [u8]> {
        parts(self.bytes, 3)
    }
}

/// [`Keys`](crate::v1::Keys).
#[derive(Clone, Copy)]
pub struct KeysRef<'a> {
    pub table: u32,
    pub packed_count: usize,
    pub values_count: usize,
    pub versions: bool,
    bytes: &'a [u8],
}

impl<'a> KeysRef<'a> {
    #[inline]
    fn read(bytes: &'a [u8]) -> Result<KeysRef<'a>, Malformed> {
        let mut keys =
            KeysRef { table: 0, packed_count: 0, values_count: 0, versions: false, bytes };
        for field in Fields(bytes) {
            match field? {
                (2, key) => {
                    key.bytes()?;
                    keys.packed_count += 1;
                }
                (3, values) => {
                    values.bytes()?;
                    keys.values_count += 1;
                }
                (1, table) => keys.table = table.varint()? as u32,
                (4, versions) => keys.versions = versions.varint()? != 0,
                _ => {}
            }
        }
        Ok(keys)
    }

    /// The blocks of packed keys, in their order.
    #[inline]
    pub fn packed(&self) -> impl Iterator<Item = &'a [u8]> {
        parts(self.bytes, 2)
    }

    /// The keys that were sent as lists of values, in their order.
    pub fn values(&self) -> impl Iterator<Item = ValuesRef<'a>> {
        parts(self.bytes, 3).map(ValuesRef)
    }
}

/// [`Values`](crate::v1::Values) of one row.
#[derive(Clone, Copy)]
pub struct ValuesRef<'a>(&'a [u8]);

/// A [`Value`](crate::v1::Value).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ValueRef<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(&'a str),
    Bytes(&'a [u8]),
}

impl<'a> ValuesRef<'a> {
    /// The values, in their order.
    pub fn read(self) -> impl Iterator<Item = Result<ValueRef<'a>, Malformed>> {
        Fields(self.0).filter_map(|field| match field {
            Ok((1, value)) => Some(value.bytes().and_then(ValueRef::read)),
            Ok(_) => None,
            Err(malformed) => Some(Err(malformed)),
        })
    }
}

impl<'a> ValueRef<'a> {
    fn read(bytes: &'a [u8]) -> Result<ValueRef<'a>, Malformed> {
        let mut value = ValueRef::Null;
        for field in Fields(bytes) {
            value = match field? {
                (1, kind) => ValueRef::Bool(kind.varint()? != 0),
                (2, kind) => {
                    let zigzag = kind.varint()?;
                    ValueRef::Int((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64))
                }
                (3, kind) => ValueRef::Float(f64::from_bits(kind.fixed64()?)),
                (4, kind) => ValueRef::Text(kind.text()?),
                (5, kind) => ValueRef::Bytes(kind.bytes()?),
                _ => value,
            };
        }
        Ok(value)
    }
}

/// The parts of one number of a message whose fields can all be read.
#[inline]
fn parts(bytes: &[u8], number: u32) -> impl Iterator<Item = &[u8]> {
    Fields(bytes).filter_map(move |field| match field {
        Ok((found, Field::Bytes(part))) if found == number => Some(part),
        _ => None,
    })
}

/// A number of an enumeration that is not known counts as unspecified.
fn number<T: TryFrom<i32> + Default>(field: Field<'_>) -> Result<T, Malformed> {
    Ok(T::try_from(field.varint()? as i32).unwrap_or_default())
}

/// Versions come one by one, or many in a field.
fn versions_in(field: Field<'_>) -> Result<impl Iterator<Item = u64>, Malformed> {
    let (one, many) = match field {
        Field::Fixed64(version) => (Some(version), &[][..]),
        many => (None, many.bytes()?),
    };
    let (many, rest) = many.as_chunks::<8>();
    if !rest.is_empty() {
        return Err(Malformed("a message is cut off"));
    }
    Ok(one.into_iter().chain(many.iter().map(|bytes| u64::from_le_bytes(*bytes))))
}

#[cfg(test)]
mod tests;
