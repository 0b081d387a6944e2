//! Rows of a catalog table, gathered one at a time and by the names of their columns.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Float32Array, Float64Array, Int16Array, Int32Array, Int64Array,
    IntervalMonthDayNanoArray, ListArray, RecordBatch, StringViewArray, TimestampMicrosecondArray,
    new_null_array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType as ArrowType, Field, FieldRef, IntervalMonthDayNano, SchemaRef};
use arrow::error::ArrowError;

/// Value of one column in one row.
#[derive(Clone, Debug)]
pub(in crate::catalog) enum Value {
    Null,
    Flag(bool),
    Number(i64),
    Real(f64),
    Text(Cow<'static, str>),
    /// Microseconds since 1970.
    Instant(i64),
    Seconds(i64),
    List(Vec<Value>),
}

impl From<bool> for Value {
    fn from(flag: bool) -> Value {
        Value::Flag(flag)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Value {
        Value::Number(number)
    }
}

impl From<i32> for Value {
    fn from(number: i32) -> Value {
        Value::Number(i64::from(number))
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Value {
        Value::Number(i64::from(number))
    }
}

impl From<usize> for Value {
    /// Counts beyond an `i64` do not occur; they would saturate.
    fn from(number: usize) -> Value {
        Value::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Value {
        Value::Real(number)
    }
}

impl From<&'static str> for Value {
    fn from(text: &'static str) -> Value {
        Value::Text(Cow::Borrowed(text))
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(Cow::Owned(text))
    }
}

impl From<&String> for Value {
    fn from(text: &String) -> Value {
        Value::Text(Cow::Owned(text.clone()))
    }
}

impl<V: Into<Value>> From<Option<V>> for Value {
    fn from(value: Option<V>) -> Value {
        value.map_or(Value::Null, Into::into)
    }
}

impl<V: Into<Value>> From<Vec<V>> for Value {
    fn from(values: Vec<V>) -> Value {
        Value::List(values.into_iter().map(Into::into).collect())
    }
}

/// The rows of one table.
pub(in crate::catalog) struct Rows {
    schema: SchemaRef,
    columns: Vec<Vec<Value>>,
    count: usize,
}

impl Rows {
    pub(in crate::catalog) fn new(schema: &SchemaRef) -> Rows {
        let columns = schema.fields().iter().map(|_| Vec::new()).collect();
        Rows { schema: Arc::clone(schema), columns, count: 0 }
    }

    /// Adds a row. Columns that are not named are NULL if they may be, and else empty, false or 0.
    pub(in crate::catalog) fn push<'a>(
        &mut self,
        values: impl IntoIterator<Item = (&'a str, Value)>,
    ) {
        for (name, value) in values {
            let index = self.schema.index_of(name);
            let index = index.expect("a row names columns that its table has");
            self.columns[index].push(value);
        }
        self.count += 1;
        for (column, field) in self.columns.iter_mut().zip(self.schema.fields()) {
            if column.len() < self.count {
                column.push(default_of(field));
            }
        }
    }

    pub(in crate::catalog) fn finish(self) -> Result<RecordBatch, ArrowError> {
        let arrays = self.columns.into_iter().zip(self.schema.fields());
        let arrays = arrays.map(|(values, field)| array(values, field)).collect();
        RecordBatch::try_new_with_options(
            self.schema,
            arrays,
            &arrow::array::RecordBatchOptions::new().with_row_count(Some(self.count)),
        )
    }
}

fn default_of(field: &Field) -> Value {
    if field.is_nullable() {
        return Value::Null;
    }
    match field.data_type() {
        ArrowType::Boolean => Value::Flag(false),
        ArrowType::Utf8View => Value::Text(Cow::Borrowed("")),
        ArrowType::List(_) => Value::List(Vec::new()),
        ArrowType::Float32 | ArrowType::Float64 => Value::Real(0.0),
        number if number.is_integer() => Value::Number(0),
        _ => Value::Null,
    }
}

/// A column of the field's type.
pub(in crate::catalog) fn array(values: Vec<Value>, field: &FieldRef) -> ArrayRef {
    let numbers = |values: Vec<Value>| values.into_iter().map(number);
    match field.data_type() {
        ArrowType::Boolean => {
            let flags = values.into_iter().map(|value| match value {
                Value::Flag(flag) => Some(flag),
                other => mismatch(field, &other),
            });
            Arc::new(flags.collect::<BooleanArray>())
        }
        ArrowType::Int16 => {
            let narrow = |number| i16::try_from(number).unwrap_or(i16::MAX);
            Arc::new(numbers(values).map(|n| n.map(narrow)).collect::<Int16Array>())
        }
        ArrowType::Int32 => {
            let narrow = |number| i32::try_from(number).unwrap_or(i32::MAX);
            Arc::new(numbers(values).map(|n| n.map(narrow)).collect::<Int32Array>())
        }
        ArrowType::Int64 => Arc::new(numbers(values).collect::<Int64Array>()),
        ArrowType::Float32 => Arc::new(
            values.into_iter().map(|v| real(v).map(|r| r as f32)).collect::<Float32Array>(),
        ),
        ArrowType::Float64 => Arc::new(values.into_iter().map(real).collect::<Float64Array>()),
        ArrowType::Utf8View => {
            let texts = values.into_iter().map(|value| match value {
                Value::Text(text) => Some(text),
                other => mismatch(field, &other),
            });
            Arc::new(texts.collect::<StringViewArray>())
        }
        ArrowType::Timestamp(_, zone) => {
            let instants = values.into_iter().map(|value| match value {
                Value::Instant(micros) => Some(micros),
                other => mismatch(field, &other),
            });
            let instants: TimestampMicrosecondArray = instants.collect();
            Arc::new(instants.with_timezone_opt(zone.clone()))
        }
        ArrowType::Interval(_) => {
            let intervals = values.into_iter().map(|value| match value {
                Value::Seconds(seconds) => {
                    Some(IntervalMonthDayNano::new(0, 0, seconds * 1_000_000_000))
                }
                other => mismatch(field, &other),
            });
            Arc::new(intervals.collect::<IntervalMonthDayNanoArray>())
        }
        ArrowType::List(item) => list(values, item),
        other => new_null_array(other, values.len()),
    }
}

fn list(values: Vec<Value>, item: &FieldRef) -> ArrayRef {
    let (mut items, mut lengths, mut valid) = (Vec::new(), Vec::new(), Vec::new());
    for value in values {
        let members = match value {
            Value::List(members) => Some(members),
            other => mismatch(item, &other),
        };
        valid.push(members.is_some());
        let members = members.unwrap_or_default();
        lengths.push(members.len());
        items.extend(members);
    }
    let offsets = OffsetBuffer::from_lengths(lengths);
    let nulls = NullBuffer::from(valid);
    Arc::new(ListArray::new(Arc::clone(item), offsets, array(items, item), Some(nulls)))
}

fn number(value: Value) -> Option<i64> {
    match value {
        Value::Number(number) => Some(number),
        Value::Null => None,
        other => unreachable!("{other:?} is no number"),
    }
}

fn real(value: Value) -> Option<f64> {
    match value {
        Value::Real(number) => Some(number),
        Value::Number(number) => Some(number as f64),
        Value::Null => None,
        other => unreachable!("{other:?} is no number"),
    }
}

/// NULL fits every column; anything else of another type is a mistake in this crate.
fn mismatch<T>(field: &Field, value: &Value) -> Option<T> {
    match value {
        Value::Null => None,
        other => unreachable!("{other:?} does not fit {}", field.name()),
    }
}
