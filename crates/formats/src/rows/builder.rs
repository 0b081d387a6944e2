//! Builds columns from rows.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, ArrowPrimitiveType, BinaryViewBuilder, BooleanArray, BooleanBuilder,
    PrimitiveBuilder, StringViewBuilder,
};
use arrow::compute::filter;
use arrow::datatypes::{
    ArrowNativeType, DataType, Date32Type, Decimal128Type, Decimal256Type, FieldRef, Float32Type,
    Float64Type, Int16Type, Int32Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType,
    Time64MicrosecondType, TimestampMicrosecondType, i256,
};
use thalweg_types::{Error, Result, SqlState};

use super::{Value, cut_off, marks, wrong_type};
use crate::columns::{TIMES_OF_DAY, type_tag};
use crate::text::{ColumnBuilder, null_refused, parse};

/// PostgreSQL's range: dates from 4713 BC to 5874897 AD, and timestamps to 294276 AD.
const DATES: std::ops::RangeInclusive<i32> = -2_440_588..=2_145_031_948;
const TIMES: std::ops::Range<i64> = -210_866_803_200_000_000..9_223_371_331_200_000_000;

/// Builds columns from a sequence of rows.
pub struct RowsBuilder {
    fields: Vec<FieldRef>,
    columns: Vec<Column>,
    /// Bytes of the NULL bitmap.
    marks: usize,
    /// Rows in the columns, including rows that were rejected midway.
    rows: usize,
    refused: Vec<usize>,
}

enum Column {
    Boolean(BooleanBuilder),
    Int2(PrimitiveBuilder<Int16Type>),
    Int4(PrimitiveBuilder<Int32Type>),
    Int8(PrimitiveBuilder<Int64Type>),
    Float4(PrimitiveBuilder<Float32Type>),
    Float8(PrimitiveBuilder<Float64Type>),
    Decimal128(PrimitiveBuilder<Decimal128Type>, u8),
    Decimal256(PrimitiveBuilder<Decimal256Type>, u8),
    Date(PrimitiveBuilder<Date32Type>),
    Time(PrimitiveBuilder<Time64MicrosecondType>),
    Timestamp(PrimitiveBuilder<TimestampMicrosecondType>),
    Interval(PrimitiveBuilder<IntervalMonthDayNanoType>),
    Text(StringViewBuilder),
    Bytea(BinaryViewBuilder),
    /// Values that are sent as text and parsed.
    Parsed(ColumnBuilder),
}

impl RowsBuilder {
    /// A builder for rows of these fields, whose types must be those of tables.
    ///
    /// # Errors
    /// If a type is not supported in tables.
    pub fn new(fields: Vec<FieldRef>) -> Result<RowsBuilder> {
        let columns = fields.iter().map(Column::new).collect::<Result<_>>()?;
        let marks = marks(&fields);
        Ok(RowsBuilder { fields, columns, marks, rows: 0, refused: Vec::new() })
    }

    /// Number of accepted rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows - self.refused.len()
    }

    /// True if there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a packed row.
    ///
    /// # Errors
    /// If the row is rejected.
    #[inline]
    pub fn push_packed(&mut self, row: &[u8]) -> Result<()> {
        let Some((marks, mut rest)) = row.split_at_checked(self.marks) else {
            return Err(cut_off());
        };
        for (place, (column, field)) in self.columns.iter_mut().zip(&self.fields).enumerate() {
            let mark = marks.get(place / 8).is_some_and(|byte| byte >> (place % 8) & 1 == 1);
            let put = match mark {
                true => column.put_null(field),
                false => column.put_packed(&mut rest, field),
            };
            if let Err(error) = put {
                return Err(self.refuse(place, error));
            }
        }
        self.rows += 1;
        if rest.is_empty() {
            return Ok(());
        }
        self.refused.push(self.rows - 1);
        let message = "a packed row is longer than its values";
        Err(Error::new(SqlState::INVALID_BINARY_REPRESENTATION, message))
    }

    /// Adds a row of single values.
    ///
    /// # Errors
    /// If the row is rejected.
    pub fn push_values<'v, E: Into<Error>>(
        &mut self,
        mut values: impl Iterator<Item = Result<Value<'v>, E>>,
    ) -> Result<()> {
        for place in 0..self.columns.len() {
            let (column, field) = (&mut self.columns[place], &self.fields[place]);
            let put = match values.next() {
                None => Err(wrong_count(self.fields.len())),
                Some(Err(error)) => Err(error.into()),
                Some(Ok(Value::Null)) => column.put_null(field),
                Some(Ok(value)) => column.put_value(value, field),
            };
            if let Err(error) = put {
                return Err(self.refuse(place, error));
            }
        }
        self.rows += 1;
        if values.next().is_none() {
            return Ok(());
        }
        self.refused.push(self.rows - 1);
        Err(wrong_count(self.fields.len()))
    }

    /// Completes a row that one of its columns rejected.
    #[cold]
    fn refuse(&mut self, place: usize, error: Error) -> Error {
        for column in &mut self.columns[place..] {
            column.fill();
        }
        self.refused.push(self.rows);
        self.rows += 1;
        error
    }

    /// The columns of all accepted rows. The builder starts over.
    pub fn finish(&mut self) -> Vec<ArrayRef> {
        let columns: Vec<ArrayRef> = self.columns.iter_mut().map(Column::finish).collect();
        let rows = std::mem::take(&mut self.rows);
        let refused = std::mem::take(&mut self.refused);
        if refused.is_empty() {
            return columns;
        }
        let mut kept = vec![true; rows];
        refused.iter().for_each(|row| kept[*row] = false);
        let kept = BooleanArray::from(kept);
        columns.iter().map(|column| filter(column, &kept).expect("a mark for each row")).collect()
    }
}

impl Column {
    fn new(field: &FieldRef) -> Result<Column> {
        Ok(match field.data_type() {
            DataType::Boolean => Column::Boolean(BooleanBuilder::new()),
            DataType::Int16 => Column::Int2(PrimitiveBuilder::new()),
            DataType::Int32 => Column::Int4(PrimitiveBuilder::new()),
            DataType::Int64 => Column::Int8(PrimitiveBuilder::new()),
            DataType::Float32 => Column::Float4(PrimitiveBuilder::new()),
            DataType::Float64 => Column::Float8(PrimitiveBuilder::new()),
            DataType::Decimal128(precision, _) => Column::Decimal128(typed(field), *precision),
            DataType::Decimal256(precision, _) => Column::Decimal256(typed(field), *precision),
            DataType::Date32 => Column::Date(PrimitiveBuilder::new()),
            DataType::Time64(_) => Column::Time(PrimitiveBuilder::new()),
            DataType::Timestamp(..) => Column::Timestamp(typed(field)),
            DataType::Interval(_) => Column::Interval(PrimitiveBuilder::new()),
            DataType::Utf8View if is_plain(field) => Column::Text(StringViewBuilder::new()),
            DataType::BinaryView => Column::Bytea(BinaryViewBuilder::new()),
            // The column is nullable because this builder checks for NULLs itself.
            _ => Column::Parsed(ColumnBuilder::new(&nullable(field))?),
        })
    }

    /// Reads one packed value, and advances `rest` behind it.
    #[inline]
    fn put_packed(&mut self, rest: &mut &[u8], field: &FieldRef) -> Result<()> {
        match self {
            Column::Int4(column) => column.append_value(i32::from_le_bytes(fixed(rest)?)),
            Column::Int8(column) => column.append_value(i64::from_le_bytes(fixed(rest)?)),
            Column::Text(column) => column.append_value(text(sized(rest)?)?),
            Column::Boolean(column) => match fixed(rest)? {
                [value @ (0 | 1)] => column.append_value(value == 1),
                [_] => return Err(out_of_range(field)),
            },
            Column::Int2(column) => column.append_value(i16::from_le_bytes(fixed(rest)?)),
            Column::Float4(column) => column.append_value(f32::from_le_bytes(fixed(rest)?)),
            Column::Float8(column) => column.append_value(f64::from_le_bytes(fixed(rest)?)),
            Column::Decimal128(column, precision) => {
                let value = i128::from_le_bytes(fixed(rest)?);
                let fits = value.unsigned_abs() < 10_u128.pow(u32::from(*precision));
                column.append_value(in_range(value, fits, field)?);
            }
            Column::Decimal256(column, precision) => {
                let value = i256::from_le_bytes(fixed(rest)?);
                let bound = i256::from_i128(10).checked_pow(u32::from(*precision));
                let fits = value.checked_abs().zip(bound).is_some_and(|(value, to)| value < to);
                column.append_value(in_range(value, fits, field)?);
            }
            Column::Date(column) => {
                let days = i32::from_le_bytes(fixed(rest)?);
                column.append_value(in_range(
                    days,
                    DATES.contains(&days) || matches!(days, i32::MIN | i32::MAX),
                    field,
                )?);
            }
            Column::Time(column) => {
                let time = i64::from_le_bytes(fixed(rest)?);
                column.append_value(in_range(time, TIMES_OF_DAY.contains(&time), field)?);
            }
            Column::Timestamp(column) => {
                let time = i64::from_le_bytes(fixed(rest)?);
                column.append_value(in_range(
                    time,
                    TIMES.contains(&time) || matches!(time, i64::MIN | i64::MAX),
                    field,
                )?);
            }
            Column::Interval(column) => column.append_value(interval(rest, field)?),
            Column::Bytea(column) => column.append_value(sized(rest)?),
            Column::Parsed(column) => column.append(Some(text(sized(rest)?)?))?,
        }
        Ok(())
    }

    fn put_value(&mut self, value: Value<'_>, field: &FieldRef) -> Result<()> {
        match (&mut *self, value) {
            (column, Value::Text(text)) => column.put_text(text, field)?,
            (Column::Boolean(column), Value::Bool(value)) => column.append_value(value),
            (Column::Int2(column), Value::Int(value)) => put_integer(column, value, field)?,
            (Column::Int4(column), Value::Int(value)) => put_integer(column, value, field)?,
            (Column::Int8(column), Value::Int(value)) => put_integer(column, value, field)?,
            (Column::Float4(column), Value::Int(value)) => column.append_value(value as f32),
            (Column::Float8(column), Value::Int(value)) => column.append_value(value as f64),
            (Column::Float8(column), Value::Float(value)) => column.append_value(value),
            (Column::Float4(column), Value::Float(value)) => {
                let narrow = value as f32;
                let fits = narrow.is_finite() || !value.is_finite();
                column.append_value(in_range(narrow, fits, field)?);
            }
            (column @ (Column::Decimal128(..) | Column::Decimal256(..)), Value::Int(value)) => {
                column.put_text(&value.to_string(), field)?;
            }
            (column @ (Column::Decimal128(..) | Column::Decimal256(..)), Value::Float(value)) => {
                column.put_text(&value.to_string(), field)?;
            }
            (Column::Bytea(column), Value::Bytes(value)) => column.append_value(value),
            (Column::Timestamp(column), Value::Timestamp(time)) => {
                column.append_value(in_range(time, TIMES.contains(&time), field)?);
            }
            (_, Value::Timestamp(_)) => return Err(wrong_type(field, "a timestamp")),
            (_, Value::Bool(_)) => return Err(wrong_type(field, "a boolean")),
            (_, Value::Int(_)) => return Err(wrong_type(field, "an integer")),
            (_, Value::Float(_)) => return Err(wrong_type(field, "a floating point number")),
            (_, Value::Bytes(_)) => return Err(wrong_type(field, "bytes")),
            (_, Value::Null) => self.put_null(field)?,
        }
        Ok(())
    }

    /// Parses a text as a value of the column's type.
    fn put_text(&mut self, given: &str, field: &FieldRef) -> Result<()> {
        let given = text(given.as_bytes())?;
        match self {
            Column::Boolean(column) => column.append_value(parse::boolean(given)?),
            Column::Int2(column) => column.append_value(parse::int2(given)?),
            Column::Int4(column) => column.append_value(parse::int4(given)?),
            Column::Int8(column) => column.append_value(parse::int8(given)?),
            Column::Float4(column) => column.append_value(parse::float4(given)?),
            Column::Float8(column) => column.append_value(parse::float8(given)?),
            Column::Decimal128(column, precision) => {
                let scale = scale_of(field.data_type());
                column.append_value(parse::decimal128(given, *precision, scale)?);
            }
            Column::Decimal256(column, precision) => {
                let scale = scale_of(field.data_type());
                column.append_value(parse::decimal256(given, *precision, scale)?);
            }
            Column::Date(column) => column.append_value(parse::date(given)?),
            Column::Time(column) => column.append_value(parse::time(given)?),
            Column::Timestamp(column) => {
                let zoned = matches!(field.data_type(), DataType::Timestamp(_, Some(_)));
                let read = if zoned { parse::timestamptz } else { parse::timestamp };
                column.append_value(read(given)?);
            }
            Column::Interval(column) => column.append_value(parse::interval(given)?),
            Column::Text(column) => column.append_value(given),
            Column::Bytea(column) => column.append_value(parse::bytea(given)?),
            Column::Parsed(column) => column.append(Some(given))?,
        }
        Ok(())
    }

    fn put_null(&mut self, field: &FieldRef) -> Result<()> {
        if !field.is_nullable() {
            return Err(null_refused(field.name()));
        }
        self.fill();
        Ok(())
    }

    /// Adds a placeholder: NULL, or a value if the column has no NULLs.
    fn fill(&mut self) {
        match self {
            Column::Boolean(column) => column.append_null(),
            Column::Int2(column) => column.append_null(),
            Column::Int4(column) => column.append_null(),
            Column::Int8(column) => column.append_null(),
            Column::Float4(column) => column.append_null(),
            Column::Float8(column) => column.append_null(),
            Column::Decimal128(column, _) => column.append_null(),
            Column::Decimal256(column, _) => column.append_null(),
            Column::Date(column) => column.append_null(),
            Column::Time(column) => column.append_null(),
            Column::Timestamp(column) => column.append_null(),
            Column::Interval(column) => column.append_null(),
            Column::Text(column) => column.append_null(),
            Column::Bytea(column) => column.append_null(),
            Column::Parsed(column) => {
                column.append(None).expect("its builder takes NULLs");
            }
        }
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Column::Boolean(column) => Arc::new(column.finish()),
            Column::Int2(column) => Arc::new(column.finish()),
            Column::Int4(column) => Arc::new(column.finish()),
            Column::Int8(column) => Arc::new(column.finish()),
            Column::Float4(column) => Arc::new(column.finish()),
            Column::Float8(column) => Arc::new(column.finish()),
            Column::Decimal128(column, _) => Arc::new(column.finish()),
            Column::Decimal256(column, _) => Arc::new(column.finish()),
            Column::Date(column) => Arc::new(column.finish()),
            Column::Time(column) => Arc::new(column.finish()),
            Column::Timestamp(column) => Arc::new(column.finish()),
            Column::Interval(column) => Arc::new(column.finish()),
            Column::Text(column) => Arc::new(column.finish()),
            Column::Bytea(column) => Arc::new(column.finish()),
            Column::Parsed(column) => column.finish(),
        }
    }
}

/// True if a column of texts accepts every text.
fn is_plain(field: &FieldRef) -> bool {
    use crate::columns::{JSON, JSONB, UUID};
    !matches!(type_tag(field), Some(UUID | JSON | JSONB))
}

fn nullable(field: &FieldRef) -> FieldRef {
    Arc::new(field.as_ref().clone().with_nullable(true))
}

fn typed<T: ArrowPrimitiveType>(field: &FieldRef) -> PrimitiveBuilder<T> {
    PrimitiveBuilder::new().with_data_type(field.data_type().clone())
}

fn scale_of(data_type: &DataType) -> i8 {
    match data_type {
        DataType::Decimal128(_, scale) | DataType::Decimal256(_, scale) => *scale,
        _ => 0,
    }
}

fn put_integer<T: ArrowPrimitiveType>(
    column: &mut PrimitiveBuilder<T>,
    value: i64,
    field: &FieldRef,
) -> Result<()>
where
    T::Native: TryFrom<i64> + ArrowNativeType,
{
    let value = T::Native::try_from(value).map_err(|_| out_of_range(field))?;
    column.append_value(value);
    Ok(())
}

#[inline]
fn fixed<const WIDTH: usize>(rest: &mut &[u8]) -> Result<[u8; WIDTH]> {
    let (value, behind) = rest.split_first_chunk().ok_or_else(cut_off)?;
    *rest = behind;
    Ok(*value)
}

/// Reads a value that follows its length.
#[inline]
fn sized<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8]> {
    let mut length = 0_usize;
    for shift in (0..35).step_by(7) {
        let [byte] = fixed(rest)?;
        length |= usize::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            let (value, behind) = rest.split_at_checked(length).ok_or_else(cut_off)?;
            *rest = behind;
            return Ok(value);
        }
    }
    Err(cut_off())
}

/// A text: UTF-8 without a byte 0, as in PostgreSQL.
#[inline]
fn text(bytes: &[u8]) -> Result<&str> {
    let text = str::from_utf8(bytes).ok().filter(|_| memchr::memchr(0, bytes).is_none());
    text.ok_or_else(|| {
        let message = "invalid byte sequence for encoding \"UTF8\"";
        Error::new(SqlState::INVALID_BYTE_SEQUENCE, message)
    })
}

fn interval(rest: &mut &[u8], field: &FieldRef) -> Result<IntervalMonthDayNano> {
    let months = i32::from_le_bytes(fixed(rest)?);
    let days = i32::from_le_bytes(fixed(rest)?);
    let nanoseconds = i64::from_le_bytes(fixed(rest)?).checked_mul(1_000);
    let nanoseconds = nanoseconds.ok_or_else(|| out_of_range(field))?;
    Ok(IntervalMonthDayNano { months, days, nanoseconds })
}

fn in_range<T>(value: T, fits: bool, field: &FieldRef) -> Result<T> {
    if fits { Ok(value) } else { Err(out_of_range(field)) }
}

#[cold]
fn out_of_range(field: &FieldRef) -> Error {
    let type_name = crate::columns::type_name(field);
    let message =
        format!("a value for column \"{}\" is out of range for {type_name}", field.name());
    Error::new(SqlState::NUMERIC_OUT_OF_RANGE, message)
}

fn wrong_count(columns: usize) -> Error {
    let message = format!("a row has {columns} values, one for each column that was announced");
    Error::new(SqlState::PROTOCOL_VIOLATION, message)
}
