//! Builds a column of any type from texts.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, ArrowPrimitiveType, BinaryViewBuilder, BooleanBuilder, ListArray, NullBufferBuilder,
    PrimitiveBuilder, StringViewBuilder,
};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Decimal256Type, Field, FieldRef, Float32Type,
    Float64Type, Int16Type, Int32Type, Int64Type, IntervalMonthDayNanoType, IntervalUnit,
    Time64MicrosecondType, TimeUnit, TimestampMicrosecondType,
};
use thalweg_types::{Error, Result, SqlState};

use super::jsonb::jsonb;
use super::{array, parse};
use crate::columns::{JSON, JSONB, UUID, type_tag};

/// A column under construction. Its type's rules apply to the texts.
pub struct ColumnBuilder {
    field: FieldRef,
    values: Values,
}

enum Values {
    Boolean(BooleanBuilder),
    Int2(PrimitiveBuilder<Int16Type>),
    Int4(PrimitiveBuilder<Int32Type>),
    Int8(PrimitiveBuilder<Int64Type>),
    Float4(PrimitiveBuilder<Float32Type>),
    Float8(PrimitiveBuilder<Float64Type>),
    Decimal128(PrimitiveBuilder<Decimal128Type>, u8, i8),
    Decimal256(PrimitiveBuilder<Decimal256Type>, u8, i8),
    Text(StringViewBuilder),
    Uuid(StringViewBuilder),
    Json(StringViewBuilder),
    Jsonb(StringViewBuilder),
    Bytea(BinaryViewBuilder),
    Date(PrimitiveBuilder<Date32Type>),
    Time(PrimitiveBuilder<Time64MicrosecondType>),
    Timestamp(PrimitiveBuilder<TimestampMicrosecondType>),
    Timestamptz(PrimitiveBuilder<TimestampMicrosecondType>),
    Interval(PrimitiveBuilder<IntervalMonthDayNanoType>),
    List(Box<ListBuilder>),
}

struct ListBuilder {
    items: ColumnBuilder,
    offsets: Vec<i32>,
    nulls: NullBufferBuilder,
}

/// A rejected value, and the number of values of the call before it.
#[derive(Debug)]
pub struct Refused {
    pub row: usize,
    pub error: Error,
}

impl ColumnBuilder {
    /// An empty column of the field's type. Fails if values of the type cannot be parsed.
    pub fn new(field: &FieldRef) -> Result<ColumnBuilder> {
        let values = match field.data_type() {
            DataType::Boolean => Values::Boolean(BooleanBuilder::new()),
            DataType::Int16 => Values::Int2(PrimitiveBuilder::new()),
            DataType::Int32 => Values::Int4(PrimitiveBuilder::new()),
            DataType::Int64 => Values::Int8(PrimitiveBuilder::new()),
            DataType::Float32 => Values::Float4(PrimitiveBuilder::new()),
            DataType::Float64 => Values::Float8(PrimitiveBuilder::new()),
            DataType::Decimal128(precision, scale) => {
                Values::Decimal128(typed(field), *precision, *scale)
            }
            DataType::Decimal256(precision, scale) => {
                Values::Decimal256(typed(field), *precision, *scale)
            }
            DataType::Utf8View => match type_tag(field) {
                Some(UUID) => Values::Uuid(StringViewBuilder::new()),
                Some(JSON) => Values::Json(StringViewBuilder::new()),
                Some(JSONB) => Values::Jsonb(StringViewBuilder::new()),
                _ => Values::Text(StringViewBuilder::new()),
            },
            DataType::BinaryView => Values::Bytea(BinaryViewBuilder::new()),
            DataType::Date32 => Values::Date(PrimitiveBuilder::new()),
            DataType::Time64(TimeUnit::Microsecond) => Values::Time(PrimitiveBuilder::new()),
            DataType::Timestamp(TimeUnit::Microsecond, None) => Values::Timestamp(typed(field)),
            DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => {
                Values::Timestamptz(typed(field))
            }
            DataType::Interval(IntervalUnit::MonthDayNano) => {
                Values::Interval(PrimitiveBuilder::new())
            }
            DataType::List(item) => Values::List(Box::new(ListBuilder::new(item)?)),
            other => {
                return Err(Error::unsupported(format!("reading text as Arrow's type {other}")));
            }
        };
        Ok(ColumnBuilder { field: Arc::clone(field), values })
    }

    /// Parses and appends one value; `None` is NULL. Fails if the text is not valid for the type.
    pub fn append(&mut self, text: Option<&str>) -> Result<()> {
        self.extend(std::iter::once(text)).map_err(|refused| refused.error)
    }

    /// Appends values until one is rejected. The column then contains the values before it.
    pub fn extend<'t>(
        &mut self,
        texts: impl Iterator<Item = Option<&'t str>>,
    ) -> Result<(), Refused> {
        let field = &self.field;
        match &mut self.values {
            Values::Boolean(column) => fill(texts, field, |text| {
                text.map(parse::boolean).transpose().map(|value| column.append_option(value))
            }),
            Values::Int2(column) => fill_with(texts, field, column, parse::int2),
            Values::Int4(column) => fill_with(texts, field, column, parse::int4),
            Values::Int8(column) => fill_with(texts, field, column, parse::int8),
            Values::Float4(column) => fill_with(texts, field, column, parse::float4),
            Values::Float8(column) => fill_with(texts, field, column, parse::float8),
            Values::Decimal128(column, precision, scale) => {
                let (precision, scale) = (*precision, *scale);
                fill_with(texts, field, column, |text| parse::decimal128(text, precision, scale))
            }
            Values::Decimal256(column, precision, scale) => {
                let (precision, scale) = (*precision, *scale);
                fill_with(texts, field, column, |text| parse::decimal256(text, precision, scale))
            }
            Values::Text(column) => fill(texts, field, |text| {
                column.append_option(text);
                Ok(())
            }),
            Values::Uuid(column) => fill(texts, field, |text| {
                text.map(parse::uuid).transpose().map(|value| column.append_option(value))
            }),
            Values::Json(column) => fill(texts, field, |text| {
                text.map(parse::json).transpose().map(|_| column.append_option(text))
            }),
            Values::Jsonb(column) => fill(texts, field, |text| {
                text.map(jsonb).transpose().map(|value| column.append_option(value))
            }),
            Values::Bytea(column) => fill(texts, field, |text| {
                text.map(parse::bytea).transpose().map(|value| column.append_option(value))
            }),
            Values::Date(column) => fill_with(texts, field, column, parse::date),
            Values::Time(column) => fill_with(texts, field, column, parse::time),
            Values::Timestamp(column) => fill_with(texts, field, column, parse::timestamp),
            Values::Timestamptz(column) => fill_with(texts, field, column, parse::timestamptz),
            Values::Interval(column) => fill_with(texts, field, column, parse::interval),
            Values::List(column) => fill(texts, field, |text| column.append_text(text)),
        }
    }

    /// Appends a list, whose items `append_items` appends to the column of items.
    ///
    /// `None` if the column has no lists.
    pub(crate) fn append_list(
        &mut self,
        append_items: impl FnOnce(&mut ColumnBuilder) -> Result<()>,
    ) -> Option<Result<()>> {
        let Values::List(column) = &mut self.values else { return None };
        Some(append_items(&mut column.items).and_then(|()| column.close(true)))
    }

    pub(crate) fn field(&self) -> &FieldRef {
        &self.field
    }

    /// The column so far. The builder starts over.
    pub fn finish(&mut self) -> ArrayRef {
        match &mut self.values {
            Values::Boolean(column) => Arc::new(column.finish()),
            Values::Int2(column) => Arc::new(column.finish()),
            Values::Int4(column) => Arc::new(column.finish()),
            Values::Int8(column) => Arc::new(column.finish()),
            Values::Float4(column) => Arc::new(column.finish()),
            Values::Float8(column) => Arc::new(column.finish()),
            Values::Decimal128(column, ..) => Arc::new(column.finish()),
            Values::Decimal256(column, ..) => Arc::new(column.finish()),
            Values::Text(column)
            | Values::Uuid(column)
            | Values::Json(column)
            | Values::Jsonb(column) => Arc::new(column.finish()),
            Values::Bytea(column) => Arc::new(column.finish()),
            Values::Date(column) => Arc::new(column.finish()),
            Values::Time(column) => Arc::new(column.finish()),
            Values::Timestamp(column) | Values::Timestamptz(column) => Arc::new(column.finish()),
            Values::Interval(column) => Arc::new(column.finish()),
            Values::List(column) => Arc::new(column.finish()),
        }
    }
}

/// A builder whose arrays have the field's own type with its parameters, as decimals and timestamps
/// need it.
fn typed<T: ArrowPrimitiveType>(field: &Field) -> PrimitiveBuilder<T> {
    PrimitiveBuilder::new().with_data_type(field.data_type().clone())
}

fn fill<'t>(
    texts: impl Iterator<Item = Option<&'t str>>,
    field: &Field,
    mut append: impl FnMut(Option<&'t str>) -> Result<()>,
) -> Result<(), Refused> {
    for (row, text) in texts.enumerate() {
        if text.is_none() && !field.is_nullable() {
            return Err(Refused { row, error: null_refused(field.name()) });
        }
        append(text).map_err(|error| Refused { row, error })?;
    }
    Ok(())
}

fn fill_with<'t, T: ArrowPrimitiveType>(
    texts: impl Iterator<Item = Option<&'t str>>,
    field: &Field,
    column: &mut PrimitiveBuilder<T>,
    parse: impl Fn(&str) -> Result<T::Native>,
) -> Result<(), Refused> {
    fill(texts, field, |text| {
        match text {
            Some(text) => column.append_value(parse(text)?),
            None => column.append_null(),
        }
        Ok(())
    })
}

pub(crate) fn null_refused(column: &str) -> Error {
    Error::new(
        SqlState::NOT_NULL_VIOLATION,
        format!("null value in column \"{column}\" violates not-null constraint"),
    )
}

impl ListBuilder {
    fn new(item: &FieldRef) -> Result<ListBuilder> {
        let items = ColumnBuilder::new(item)?;
        Ok(ListBuilder { items, offsets: vec![0], nulls: NullBufferBuilder::new(0) })
    }

    fn append_text(&mut self, text: Option<&str>) -> Result<()> {
        let Some(text) = text else { return self.close(false) };
        for item in array::parse(text)? {
            self.items.append(item.as_deref())?;
        }
        self.close(true)
    }

    /// Ends a list after the items so far.
    fn close(&mut self, valid: bool) -> Result<()> {
        let end = i32::try_from(self.items.len()).map_err(|_| {
            let message = "the arrays of one column hold too many items";
            Error::new(SqlState::CONFIGURATION_LIMIT_EXCEEDED, message)
        })?;
        self.offsets.push(end);
        self.nulls.append(valid);
        Ok(())
    }

    fn finish(&mut self) -> ListArray {
        let offsets = std::mem::replace(&mut self.offsets, vec![0]);
        // The parts are consistent: ascending offsets that end at the number of items.
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        let item = Arc::clone(&self.items.field);
        ListArray::new(item, offsets, self.items.finish(), self.nulls.finish())
    }
}

impl ColumnBuilder {
    /// Number of values in the column.
    #[must_use]
    pub fn len(&self) -> usize {
        use arrow::array::ArrayBuilder;
        match &self.values {
            Values::Boolean(column) => column.len(),
            Values::Int2(column) => column.len(),
            Values::Int4(column) => column.len(),
            Values::Int8(column) => column.len(),
            Values::Float4(column) => column.len(),
            Values::Float8(column) => column.len(),
            Values::Decimal128(column, ..) => column.len(),
            Values::Decimal256(column, ..) => column.len(),
            Values::Text(column)
            | Values::Uuid(column)
            | Values::Json(column)
            | Values::Jsonb(column) => column.len(),
            Values::Bytea(column) => column.len(),
            Values::Date(column) => column.len(),
            Values::Time(column) => column.len(),
            Values::Timestamp(column) | Values::Timestamptz(column) => column.len(),
            Values::Interval(column) => column.len(),
            Values::List(column) => column.nulls.len(),
        }
    }

    /// True if there are no values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
