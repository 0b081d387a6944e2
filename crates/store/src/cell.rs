//! Single values of key columns: reading, hashing and comparing them without an allocation a row.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::hash::{BuildHasher, Hasher};

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    ArrowNativeType, ArrowPrimitiveType, DataType as ArrowType, Date32Type, Decimal128Type,
    Decimal256Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
    IntervalMonthDayNano, IntervalMonthDayNanoType, Time64MicrosecondType,
    TimestampMicrosecondType, i256,
};
use foldhash::fast::FixedState;

use crate::codec;

/// One value. Equal values of one type are equal cells and hash alike. NULL equals NULL here, so
/// callers exclude rows with NULL keys.
#[derive(Clone, Debug)]
pub(crate) enum Cell<'a> {
    Null,
    Number(i64),
    Wide(i128),
    Widest(i256),
    Bytes(&'a [u8]),
    /// A value of a nested type, encoded: equal values have equal bytes.
    Nested(Cow<'a, [u8]>),
}

impl PartialEq for Cell<'_> {
    fn eq(&self, other: &Cell<'_>) -> bool {
        match (self, other) {
            (Cell::Number(left), Cell::Number(right)) => left == right,
            (Cell::Bytes(left), Cell::Bytes(right)) => left == right,
            (Cell::Wide(left), Cell::Wide(right)) => left == right,
            (Cell::Widest(left), Cell::Widest(right)) => left == right,
            (Cell::Nested(left), Cell::Nested(right)) => left == right,
            (Cell::Null, Cell::Null) => true,
            _ => false,
        }
    }
}

impl Cell<'_> {
    /// Orders two values of one type, neither of them NULL, as PostgreSQL does; texts compare by
    /// their bytes. The order of nested types is arbitrary.
    #[inline]
    pub fn compare(&self, other: &Cell<'_>) -> Ordering {
        match (self, other) {
            (Cell::Number(left), Cell::Number(right)) => left.cmp(right),
            (Cell::Bytes(left), Cell::Bytes(right)) => left.cmp(right),
            (Cell::Wide(left), Cell::Wide(right)) => left.cmp(right),
            (Cell::Widest(left), Cell::Widest(right)) => left.cmp(right),
            (Cell::Nested(left), Cell::Nested(right)) => left.cmp(right),
            _ => unreachable!("values of one type, neither of them NULL"),
        }
    }
}

/// The value of `array` at `row`.
#[inline]
pub(crate) fn cell(array: &dyn Array, row: usize) -> Cell<'_> {
    if array.is_null(row) {
        return Cell::Null;
    }
    match array.data_type() {
        ArrowType::Int64 => Cell::Number(array.as_primitive::<Int64Type>().value(row)),
        ArrowType::Int32 => Cell::Number(array.as_primitive::<Int32Type>().value(row).into()),
        ArrowType::Utf8View => Cell::Bytes(array.as_string_view().value(row).as_bytes()),
        ArrowType::BinaryView => Cell::Bytes(array.as_binary_view().value(row)),
        ArrowType::Int16 => Cell::Number(array.as_primitive::<Int16Type>().value(row).into()),
        ArrowType::Boolean => Cell::Number(array.as_boolean().value(row).into()),
        ArrowType::Float32 => {
            Cell::Number(float_bits(array.as_primitive::<Float32Type>().value(row).into()))
        }
        ArrowType::Float64 => {
            Cell::Number(float_bits(array.as_primitive::<Float64Type>().value(row)))
        }
        ArrowType::Date32 => Cell::Number(array.as_primitive::<Date32Type>().value(row).into()),
        ArrowType::Time64(_) => {
            Cell::Number(array.as_primitive::<Time64MicrosecondType>().value(row))
        }
        ArrowType::Timestamp(..) => {
            Cell::Number(array.as_primitive::<TimestampMicrosecondType>().value(row))
        }
        ArrowType::Decimal128(..) => Cell::Wide(array.as_primitive::<Decimal128Type>().value(row)),
        ArrowType::Decimal256(..) => {
            Cell::Widest(array.as_primitive::<Decimal256Type>().value(row))
        }
        ArrowType::Interval(_) => Cell::Wide(interval_nanoseconds(
            array.as_primitive::<IntervalMonthDayNanoType>().value(row),
        )),
        _ => Cell::Nested(codec::encode_value(array, row).into()),
    }
}

/// A value of a fixed-width type, read from its bytes in memory.
#[inline]
pub(crate) fn fixed_cell(data_type: &ArrowType, bytes: &[u8]) -> Cell<'static> {
    const WIDTH: &str = "as many bytes as the type is wide";
    match data_type {
        ArrowType::Float32 => {
            Cell::Number(float_bits(f32::from_le_bytes(bytes.try_into().expect(WIDTH)).into()))
        }
        ArrowType::Float64 => {
            Cell::Number(float_bits(f64::from_le_bytes(bytes.try_into().expect(WIDTH))))
        }
        ArrowType::Interval(_) => Cell::Wide(interval_nanoseconds(IntervalMonthDayNano {
            months: i32::from_le_bytes(bytes[..4].try_into().expect(WIDTH)),
            days: i32::from_le_bytes(bytes[4..8].try_into().expect(WIDTH)),
            nanoseconds: i64::from_le_bytes(bytes[8..].try_into().expect(WIDTH)),
        })),
        _ => match (integer(bytes), bytes.len()) {
            (Some(value), _) => Cell::Number(value),
            (None, 16) => Cell::Wide(i128::from_le_bytes(bytes.try_into().expect(WIDTH))),
            (None, _) => Cell::Widest(i256::from_le_bytes(bytes.try_into().expect(WIDTH))),
        },
    }
}

/// An integer, read from its bytes in memory; `None` if there are more than eight.
#[inline]
pub(crate) fn integer(bytes: &[u8]) -> Option<i64> {
    if let Ok(bytes) = bytes.try_into() {
        return Some(i64::from_le_bytes(bytes));
    }
    if let Ok(bytes) = bytes.try_into() {
        return Some(i32::from_le_bytes(bytes).into());
    }
    bytes.try_into().ok().map(|bytes| i16::from_le_bytes(bytes).into())
}

/// A number that orders as its float does in PostgreSQL: -0 equals 0, NaN equals NaN and is greater
/// than all numbers.
fn float_bits(value: f64) -> i64 {
    let value = if value.is_nan() { f64::NAN } else { value + 0.0 };
    let bits = value.to_bits() as i64;
    // Among negative floats, greater bits mean a lesser value.
    if bits < 0 { bits ^ i64::MAX } else { bits }
}

/// Length of an interval. PostgreSQL compares intervals with 30 days a month and 24 hours a day.
fn interval_nanoseconds(value: IntervalMonthDayNano) -> i128 {
    const DAY: i128 = 86_400_000_000_000;
    let days = i128::from(value.months) * 30 + i128::from(value.days);
    days * DAY + i128::from(value.nanoseconds)
}

const SEED: u64 = 0x243F_6A88_85A3_08D3;

#[inline]
fn mix(state: u64, value: u64) -> u64 {
    let product = u128::from(state ^ value) * 0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835_u128;
    (product as u64) ^ ((product >> 64) as u64)
}

#[inline]
fn mix_bytes(state: u64, bytes: &[u8]) -> u64 {
    let mut hasher = FixedState::with_seed(SEED).build_hasher();
    hasher.write(bytes);
    mix(state, hasher.finish())
}

fn mix_cell(state: u64, cell: &Cell<'_>) -> u64 {
    match cell {
        Cell::Null => state,
        Cell::Number(value) => mix(state, *value as u64),
        Cell::Wide(value) => mix(mix(state, *value as u64), (*value >> 64) as u64),
        Cell::Widest(value) => mix_bytes(state, &value.to_le_bytes()),
        Cell::Bytes(bytes) => mix_bytes(state, bytes),
        Cell::Nested(bytes) => mix_bytes(state, bytes),
    }
}

fn mix_numbers<T: ArrowPrimitiveType>(array: &dyn Array, states: &mut [u64])
where
    T::Native: ArrowNativeType + Into<i64>,
{
    for (state, value) in states.iter_mut().zip(array.as_primitive::<T>().values()) {
        *state = mix(*state, (*value).into() as u64);
    }
}

/// The hashes of a key's rows, and which rows have a NULL in the key.
pub(crate) struct KeyHashes {
    pub hashes: Vec<u32>,
    nulls: Option<Vec<bool>>,
}

impl KeyHashes {
    /// Hashes the rows of `columns`, which are the columns of one key in its order.
    pub fn new(columns: &[ArrayRef]) -> KeyHashes {
        let rows = columns.first().map_or(0, |column| column.len());
        let mut states = vec![SEED; rows];
        let mut nulls: Option<Vec<bool>> = None;
        for column in columns {
            assert_eq!(column.len(), rows, "the columns of a key are equally long");
            mix_column(column, &mut states);
            if column.null_count() > 0 {
                let nulls = nulls.get_or_insert_with(|| vec![false; rows]);
                for (row, null) in nulls.iter_mut().enumerate() {
                    *null |= column.is_null(row);
                }
            }
        }
        KeyHashes { hashes: states.into_iter().map(fold).collect(), nulls }
    }

    /// True if a row has a NULL in its key, so that it collides with no other row.
    #[inline]
    pub fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls[row])
    }
}

/// The hash of a single key, equal to the one in [`KeyHashes`]; `None` if the key contains a NULL.
pub(crate) fn hash_cells<'a>(cells: impl Iterator<Item = Cell<'a>>) -> Option<u32> {
    let mut state = SEED;
    for cell in cells {
        if matches!(cell, Cell::Null) {
            return None;
        }
        state = mix_cell(state, &cell);
    }
    Some(fold(state))
}

#[inline]
fn fold(state: u64) -> u32 {
    (state ^ (state >> 32)) as u32
}

fn mix_column(column: &ArrayRef, states: &mut [u64]) {
    match column.data_type() {
        ArrowType::Int64 => mix_numbers::<Int64Type>(column, states),
        ArrowType::Int32 => mix_numbers::<Int32Type>(column, states),
        ArrowType::Int16 => mix_numbers::<Int16Type>(column, states),
        ArrowType::Date32 => mix_numbers::<Date32Type>(column, states),
        ArrowType::Timestamp(..) => mix_numbers::<TimestampMicrosecondType>(column, states),
        _ => {
            for (row, state) in states.iter_mut().enumerate() {
                *state = mix_cell(*state, &cell(column, row));
            }
        }
    }
}

/// True if a row of key columns equals a stored key, whose cells `stored` returns by position.
#[inline]
pub(crate) fn same_key<'a>(
    columns: &[ArrayRef],
    row: usize,
    mut stored: impl FnMut(usize) -> Cell<'a>,
) -> bool {
    columns.iter().enumerate().all(|(index, column)| cell(column, row) == stored(index))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Float64Array, Int64Array, StringViewArray};

    use super::*;

    #[test]
    fn rows_and_single_cells_hash_alike() {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(vec![Some(1), None, Some(i64::MIN)])),
            Arc::new(StringViewArray::from(vec!["a", "b", "a text beyond twelve bytes"])),
            Arc::new(Float64Array::from(vec![0.0, 1.0, -0.0])),
        ];
        let hashes = KeyHashes::new(&columns);
        for row in 0..3 {
            let single = hash_cells(columns.iter().map(|column| cell(column, row)));
            assert_eq!(single.is_none(), hashes.is_null(row));
            assert!(single.is_none_or(|hash| hash == hashes.hashes[row]));
        }
    }

    #[test]
    fn floats_compare_as_in_postgresql() {
        let floats = Float64Array::from(vec![0.0, -0.0, f64::NAN, -f64::NAN, 1.0]);
        assert_eq!(cell(&floats, 0), cell(&floats, 1));
        assert_eq!(cell(&floats, 2), cell(&floats, 3));
        assert_ne!(cell(&floats, 0), cell(&floats, 4));
        let ascending = [f64::NEG_INFINITY, -2.0, -1.0, -0.5, 0.0, 0.5, f64::INFINITY, f64::NAN];
        let ascending = Float64Array::from(ascending.to_vec());
        for (lesser, greater) in (0..7).zip(1..8) {
            let order = cell(&ascending, lesser).compare(&cell(&ascending, greater));
            assert_eq!(order, Ordering::Less);
        }
    }
}
