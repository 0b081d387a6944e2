//! Packs columns into rows.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Decimal256Type, FieldRef, Float32Type, Float64Type,
    Int16Type, Int32Type, Int64Type, IntervalMonthDayNanoType, Time64MicrosecondType,
    TimestampMicrosecondType,
};
use thalweg_types::Result;

use super::marks;
use crate::text::format_value;

/// Packs rows of some columns.
pub struct RowPacker<'a> {
    columns: &'a [ArrayRef],
    marks: usize,
    text: String,
}

impl<'a> RowPacker<'a> {
    /// The columns have the fields' types; nullable fields decide if there is a NULL bitmap.
    #[must_use]
    pub fn new(fields: &[FieldRef], columns: &'a [ArrayRef]) -> RowPacker<'a> {
        RowPacker { columns, marks: marks(fields), text: String::new() }
    }

    /// Appends a row's bytes.
    ///
    /// # Errors
    /// If a value cannot be written as text.
    pub fn pack(&mut self, row: usize, out: &mut Vec<u8>) -> Result<()> {
        let begin = out.len();
        out.resize(begin + self.marks, 0);
        for (place, column) in self.columns.iter().enumerate() {
            if column.is_null(row) {
                out[begin + place / 8] |= 1 << (place % 8);
            } else {
                self.text.clear();
                pack_value(column, row, &mut self.text, out)?;
            }
        }
        Ok(())
    }
}

fn pack_value(column: &ArrayRef, row: usize, text: &mut String, out: &mut Vec<u8>) -> Result<()> {
    macro_rules! fixed {
        ($type:ty) => {
            out.extend_from_slice(&column.as_primitive::<$type>().value(row).to_le_bytes())
        };
    }
    match column.data_type() {
        DataType::Boolean => out.push(u8::from(column.as_boolean().value(row))),
        DataType::Int16 => fixed!(Int16Type),
        DataType::Int32 => fixed!(Int32Type),
        DataType::Int64 => fixed!(Int64Type),
        DataType::Float32 => fixed!(Float32Type),
        DataType::Float64 => fixed!(Float64Type),
        DataType::Decimal128(..) => fixed!(Decimal128Type),
        DataType::Decimal256(..) => fixed!(Decimal256Type),
        DataType::Date32 => fixed!(Date32Type),
        DataType::Time64(_) => fixed!(Time64MicrosecondType),
        DataType::Timestamp(..) => fixed!(TimestampMicrosecondType),
        DataType::Interval(_) => {
            let value = column.as_primitive::<IntervalMonthDayNanoType>().value(row);
            out.extend_from_slice(&value.months.to_le_bytes());
            out.extend_from_slice(&value.days.to_le_bytes());
            out.extend_from_slice(&(value.nanoseconds / 1_000).to_le_bytes());
        }
        DataType::Utf8View => sized(column.as_string_view().value(row).as_bytes(), out),
        DataType::BinaryView => sized(column.as_binary_view().value(row), out),
        _ => {
            format_value(column, row, text)?;
            sized(text.as_bytes(), out);
        }
    }
    Ok(())
}

fn sized(value: &[u8], out: &mut Vec<u8>) {
    let mut length = value.len();
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend_from_slice(value);
}
