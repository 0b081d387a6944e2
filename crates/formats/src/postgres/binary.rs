//! Encodes single values in binary form.

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, BooleanArray, Date32Array, Decimal128Array,
    Decimal256Array, Float32Array, Float64Array, Int16Array, Int32Array, Int64Array,
    IntervalMonthDayNanoArray, ListArray, StringViewArray, Time64MicrosecondArray,
    TimestampMicrosecondArray,
};
use arrow::buffer::NullBuffer;
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, FieldRef, IntervalUnit, TimeUnit};
use thalweg_types::{Error, Result};

use super::numeric;
use super::types::Type;
use crate::columns::{JSONB, UUID, storable_type, type_tag};
use crate::text::ValueFormatter;

/// Days from 1970-01-01, Arrow's epoch, to 2000-01-01, PostgreSQL's epoch.
pub(super) const EPOCH_DAYS: i32 = 10_957;
pub(super) const EPOCH_MICROSECONDS: i64 = EPOCH_DAYS as i64 * 86_400_000_000;

/// Version number before the text of `jsonb` in binary form.
const JSONB_VERSION: u8 = 1;

/// Writes the values of one column in binary form.
pub(super) struct BinaryColumn {
    nulls: Option<NullBuffer>,
    values: Values,
}

/// The length field of a NULL.
pub(super) const NULL: [u8; 4] = (-1_i32).to_be_bytes();

enum Values {
    Boolean(BooleanArray),
    Int2(Int16Array),
    Int4(Int32Array),
    Int8(Int64Array),
    /// Object identifiers: 64 bits in tables, 32 in PostgreSQL.
    Oid(Int64Array),
    Float4(Float32Array),
    Float8(Float64Array),
    Decimal128(Decimal128Array, i8),
    Decimal256(Decimal256Array, i8),
    Text(StringViewArray),
    Uuid(StringViewArray),
    Jsonb(StringViewArray),
    Bytea(BinaryViewArray),
    Date(Date32Array),
    Time(Time64MicrosecondArray),
    Timestamp(TimestampMicrosecondArray),
    Interval(IntervalMonthDayNanoArray),
    List(ListArray, Box<BinaryColumn>, u32),
    /// The fields of rows within rows, each with its type.
    Record(Vec<(u32, BinaryColumn)>),
    /// Values of a type that PostgreSQL lacks, declared as text.
    AsText(ValueFormatter),
}

impl BinaryColumn {
    pub(super) fn new(field: &Field, array: &ArrayRef) -> Result<BinaryColumn> {
        if let Some(column) = BinaryColumn::with_records(field, array)? {
            return Ok(column);
        }
        let Some(wanted) = storable_type(array.data_type()) else {
            let values = Values::AsText(ValueFormatter::new(array)?);
            return Ok(BinaryColumn { nulls: array.nulls().cloned(), values });
        };
        let array = cast_to(array, &wanted)?;
        let values = values(field, &array)?;
        Ok(BinaryColumn { nulls: array.nulls().cloned(), values })
    }

    /// A column of records or of arrays of them, which no table has.
    fn with_records(field: &Field, array: &ArrayRef) -> Result<Option<BinaryColumn>> {
        let (array, values) = match array.data_type() {
            DataType::Struct(fields) => {
                let declared = match field.data_type() {
                    DataType::Struct(declared) if declared.len() == fields.len() => declared,
                    _ => fields,
                };
                let columns = declared.iter().zip(array.as_struct().columns());
                let columns = columns.map(|(field, column)| {
                    Ok((Type::of(field).oid, BinaryColumn::new(field, column)?))
                });
                (ArrayRef::clone(array), Values::Record(columns.collect::<Result<_>>()?))
            }
            DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _)
                if is_record(item) =>
            {
                let array = cast_to(array, &DataType::List(FieldRef::clone(item)))?;
                let values = values(field, &array)?;
                (array, values)
            }
            _ => return Ok(None),
        };
        Ok(Some(BinaryColumn { nulls: array.nulls().cloned(), values }))
    }

    fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    /// Appends a value with its length.
    pub(super) fn append(&self, row: usize, out: &mut Vec<u8>) {
        if self.is_null(row) {
            return out.extend_from_slice(&NULL);
        }
        match &self.values {
            Values::Boolean(column) => {
                let [a, b, c, d] = 1_u32.to_be_bytes();
                out.extend_from_slice(&[a, b, c, d, u8::from(column.value(row))]);
            }
            Values::Int2(column) => {
                let ([a, b, c, d], [e, f]) = (2_u32.to_be_bytes(), column.value(row).to_be_bytes());
                out.extend_from_slice(&[a, b, c, d, e, f]);
            }
            Values::Int4(column) => append_four(column.value(row).to_be_bytes(), out),
            Values::Int8(column) => append_eight(column.value(row).to_be_bytes(), out),
            Values::Oid(column) => append_four((column.value(row) as u32).to_be_bytes(), out),
            Values::Float4(column) => append_four(column.value(row).to_be_bytes(), out),
            Values::Float8(column) => append_eight(column.value(row).to_be_bytes(), out),
            Values::Date(column) => {
                // The maximum and the minimum represent the infinities in both systems.
                let days = match column.value(row) {
                    i32::MAX => i32::MAX,
                    days => days.saturating_sub(EPOCH_DAYS),
                };
                append_four(days.to_be_bytes(), out);
            }
            Values::Time(column) => append_eight(column.value(row).to_be_bytes(), out),
            Values::Timestamp(column) => {
                let time = match column.value(row) {
                    i64::MAX => i64::MAX,
                    time => time.saturating_sub(EPOCH_MICROSECONDS),
                };
                append_eight(time.to_be_bytes(), out);
            }
            Values::Text(column) => append_bytes(column.value(row).as_bytes(), out),
            Values::Bytea(column) => append_bytes(column.value(row), out),
            _ => with_length(out, |out| self.encode(row, out)),
        }
    }

    /// Appends a value of variable length, without the length.
    fn encode(&self, row: usize, out: &mut Vec<u8>) {
        match &self.values {
            Values::Decimal128(column, scale) => {
                numeric::encode_128(column.value(row), *scale, out);
            }
            Values::Decimal256(column, scale) => {
                numeric::encode_256(column.value(row), *scale, out);
            }
            Values::Uuid(column) => encode_uuid(column.value(row), out),
            Values::Jsonb(column) => {
                out.push(JSONB_VERSION);
                out.extend_from_slice(column.value(row).as_bytes());
            }
            Values::Interval(column) => {
                let interval = column.value(row);
                out.extend_from_slice(&(interval.nanoseconds / 1_000).to_be_bytes());
                out.extend_from_slice(&interval.days.to_be_bytes());
                out.extend_from_slice(&interval.months.to_be_bytes());
            }
            Values::List(column, items, oid) => encode_list(column, items, *oid, row, out),
            Values::Record(fields) => encode_record(fields, row, out),
            Values::AsText(column) => {
                let mut text = String::new();
                column.format(row, &mut text);
                out.extend_from_slice(text.as_bytes());
            }
            _ => unreachable!("values of a fixed size are written with it"),
        }
    }
}

/// Appends a value of four bytes with its length.
fn append_four(value: [u8; 4], out: &mut Vec<u8>) {
    let mut sized = [0, 0, 0, 4, 0, 0, 0, 0];
    sized[4..].copy_from_slice(&value);
    out.extend_from_slice(&sized);
}

/// Appends a value of eight bytes with its length.
fn append_eight(value: [u8; 8], out: &mut Vec<u8>) {
    let mut sized = [0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0];
    sized[4..].copy_from_slice(&value);
    out.extend_from_slice(&sized);
}

/// Appends bytes with their length.
pub(super) fn append_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    out.extend_from_slice(bytes);
}

fn cast_to(array: &ArrayRef, wanted: &DataType) -> Result<ArrayRef> {
    if wanted == array.data_type() {
        return Ok(ArrayRef::clone(array));
    }
    let options = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(array, wanted, &options)
        .map_err(|error| Error::internal("a column cannot be sent").with_source(error))
}

/// True if values are records, or arrays of them.
fn is_record(field: &Field) -> bool {
    match field.data_type() {
        DataType::Struct(_) => true,
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            is_record(item)
        }
        _ => false,
    }
}

fn values(field: &Field, array: &ArrayRef) -> Result<Values> {
    Ok(match array.data_type() {
        DataType::Boolean => Values::Boolean(array.as_boolean().clone()),
        DataType::Int16 => Values::Int2(array.as_primitive().clone()),
        DataType::Int32 => Values::Int4(array.as_primitive().clone()),
        // Tagged integers are object identifiers of some kind.
        DataType::Int64 if Type::of(field).size == 4 => Values::Oid(array.as_primitive().clone()),
        DataType::Int64 => Values::Int8(array.as_primitive().clone()),
        DataType::Float32 => Values::Float4(array.as_primitive().clone()),
        DataType::Float64 => Values::Float8(array.as_primitive().clone()),
        DataType::Decimal128(_, scale) => Values::Decimal128(array.as_primitive().clone(), *scale),
        DataType::Decimal256(_, scale) => Values::Decimal256(array.as_primitive().clone(), *scale),
        DataType::Utf8View if type_tag(field) == Some(UUID) => {
            Values::Uuid(array.as_string_view().clone())
        }
        DataType::Utf8View if type_tag(field) == Some(JSONB) => {
            Values::Jsonb(array.as_string_view().clone())
        }
        DataType::Utf8View => Values::Text(array.as_string_view().clone()),
        DataType::BinaryView => Values::Bytea(array.as_binary_view().clone()),
        DataType::Date32 => Values::Date(array.as_primitive().clone()),
        DataType::Time64(TimeUnit::Microsecond) => Values::Time(array.as_primitive().clone()),
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            Values::Timestamp(array.as_primitive().clone())
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            Values::Interval(array.as_primitive().clone())
        }
        DataType::List(item) => {
            let item = match field.data_type() {
                DataType::List(declared)
                | DataType::LargeList(declared)
                | DataType::FixedSizeList(declared, _) => declared,
                _ => item,
            };
            let lists = array.as_list::<i32>().clone();
            let oid = innermost(item);
            let items = BinaryColumn::new(item, lists.values())?;
            Values::List(lists, Box::new(items), oid)
        }
        other => return Err(Error::internal(format!("a column of {other} cannot be sent"))),
    })
}

/// The OID of the values in arrays of arrays.
fn innermost(item: &Field) -> u32 {
    match item.data_type() {
        DataType::List(inner) => innermost(inner),
        _ => Type::of(item).oid,
    }
}

/// A UUID's 16 bytes; tables store UUIDs as text in a single form.
fn encode_uuid(text: &str, out: &mut Vec<u8>) {
    let digits = text.bytes().filter_map(|byte| char::from(byte).to_digit(16));
    let mut high = None;
    let start = out.len();
    for digit in digits {
        match high.take() {
            None => high = Some(digit as u8),
            Some(high) => out.push(high << 4 | digit as u8),
        }
    }
    debug_assert_eq!(out.len() - start, 16, "a UUID has 16 bytes");
}

/// A record: the number of its fields, then the type, the length and the value of each.
fn encode_record(fields: &[(u32, BinaryColumn)], row: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&(fields.len() as u32).to_be_bytes());
    for (oid, column) in fields {
        out.extend_from_slice(&oid.to_be_bytes());
        column.append(row, out);
    }
}

/// An array: its dimensions, then its items, each with its length.
fn encode_list(column: &ListArray, items: &BinaryColumn, oid: u32, row: usize, out: &mut Vec<u8>) {
    let mut sizes = Vec::new();
    dimensions(column, items, row, &mut sizes);
    let at = out.len();
    out.extend_from_slice(&(sizes.len() as u32).to_be_bytes());
    out.extend_from_slice(&0_u32.to_be_bytes());
    out.extend_from_slice(&oid.to_be_bytes());
    for size in &sizes {
        out.extend_from_slice(&(*size as u32).to_be_bytes());
        // The lower bound of arrays is 1.
        out.extend_from_slice(&1_u32.to_be_bytes());
    }
    let mut has_nulls = false;
    encode_items(column, items, row, &mut has_nulls, out);
    out[at + 7] = u8::from(has_nulls);
}

/// The sizes of a value's dimensions: those of its first item on each level.
fn dimensions(column: &ListArray, items: &BinaryColumn, row: usize, sizes: &mut Vec<usize>) {
    let length = column.value_length(row) as usize;
    if length == 0 {
        return;
    }
    sizes.push(length);
    if let Values::List(inner, inner_items, _) = &items.values {
        dimensions(inner, inner_items, column.value_offsets()[row] as usize, sizes);
    }
}

fn encode_items(
    column: &ListArray,
    items: &BinaryColumn,
    row: usize,
    has_nulls: &mut bool,
    out: &mut Vec<u8>,
) {
    let offsets = column.value_offsets();
    for item in offsets[row] as usize..offsets[row + 1] as usize {
        let is_null = items.is_null(item);
        *has_nulls |= is_null;
        match &items.values {
            Values::List(inner, inner_items, _) if !is_null => {
                encode_items(inner, inner_items, item, has_nulls, out);
            }
            _ => items.append(item, out),
        }
    }
}

/// Writes a value with a 32-bit length before it.
fn with_length(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    write(out);
    let length = (out.len() - at - 4) as u32;
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}
