//! Strict conversion of arrays of any type to the types of columns: a value that does not fit is an
//! error.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, ListArray, StringViewBuilder, make_array,
    new_null_array,
};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::compute::kernels::cmp;
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{
    DataType, Field, FieldRef, Float64Type, IntervalUnit, Time64MicrosecondType,
};
use thalweg_types::{Error, Result, SqlState};

use crate::columns::{TIMES_OF_DAY, UUID, type_name, type_tag};
use crate::csv::invalid_bytes;
use crate::text::{ColumnBuilder, Refused, ValueFormatter, format_uuid, null_refused};

/// The conversion of one type's values to those of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Plan {
    Same,
    Nulls,
    /// Arrow's cast, which rejects values that do not fit.
    Cast,
    /// Arrow's cast, with values rejected of which it would lose a part.
    Exact,
    /// To floating-point numbers with a smaller range.
    Narrow,
    /// A change of the unit, for the same moment.
    Moment,
    /// A time of day: Arrow's type allows values that are no time of day.
    Time,
    /// Text that must be well-formed for the type.
    Parse,
    /// Bytes that must be UTF-8.
    Utf8,
    UuidBytes,
    List(Box<Plan>),
    /// First to the given type.
    Through(DataType, Box<Plan>),
}

impl Plan {
    fn find(from: &DataType, target: &Field) -> Option<Plan> {
        use DataType as T;
        let to = target.data_type();
        let has_tag = type_tag(target).is_some();
        Some(match (from, to) {
            (T::Null, _) => Plan::Nulls,
            (T::Dictionary(_, values), _) => Plan::through(values, target)?,
            (T::RunEndEncoded(_, values), _) => Plan::through(values.data_type(), target)?,
            (text, T::Utf8View) if is_text(text) && has_tag => Plan::Parse,
            (text, T::Interval(_)) if is_text(text) => Plan::Parse,
            (T::Time32(_) | T::Time64(_), T::Time64(_)) => Plan::Time,
            (from, to) if from == to && !matches!(to, T::List(_)) => Plan::Same,
            (text, T::Utf8View) if is_text(text) => Plan::Cast,
            (T::FixedSizeBinary(16), T::Utf8View) if type_tag(target) == Some(UUID) => {
                Plan::UuidBytes
            }
            (T::BinaryView, T::Utf8View) if !has_tag => Plan::Utf8,
            (bytes, T::Utf8View) if is_bytes(bytes) && !has_tag => {
                Plan::Through(T::BinaryView, Box::new(Plan::Utf8))
            }
            (bytes, T::BinaryView) if is_bytes(bytes) => Plan::Cast,
            (number, T::Float32) if number.is_floating() => Plan::Narrow,
            (number, T::Float64) if number.is_numeric() => Plan::Cast,
            (number, T::Float32) if number.is_numeric() => Plan::Cast,
            (number, T::Decimal128(..) | T::Decimal256(..)) if number.is_numeric() => Plan::Cast,
            (number, T::Int16 | T::Int32 | T::Int64) if number.is_integer() => Plan::Cast,
            (number, T::Int16 | T::Int32 | T::Int64) if number.is_numeric() => Plan::Exact,
            (T::Date32 | T::Date64, T::Date32) => Plan::Cast,
            (T::Date32 | T::Date64, T::Timestamp(_, None)) => Plan::Cast,
            (T::Timestamp(..), T::Timestamp(..)) => Plan::Moment,
            (T::Interval(_) | T::Duration(_), T::Interval(IntervalUnit::MonthDayNano)) => {
                Plan::Cast
            }
            (
                T::List(item)
                | T::LargeList(item)
                | T::FixedSizeList(item, _)
                | T::ListView(item)
                | T::LargeListView(item),
                T::List(target_item),
            ) => Plan::List(Box::new(Plan::find(item.data_type(), target_item)?)),
            _ => return None,
        })
    }

    fn through(values: &DataType, target: &Field) -> Option<Plan> {
        Some(Plan::Through(values.clone(), Box::new(Plan::find(values, target)?)))
    }

    fn run(&self, array: &ArrayRef, target: &FieldRef) -> Result<ArrayRef, Refused> {
        let to = target.data_type();
        match self {
            Plan::Same => Ok(Arc::clone(array)),
            Plan::Nulls => Ok(new_null_array(to, array.len())),
            Plan::Cast => cast(array, target),
            Plan::Exact => cast_exactly(array, target),
            Plan::Narrow => cast_narrowly(array, target),
            Plan::Moment => cast(&in_zone_of(array, to), target),
            Plan::Time => time_of_day(array, target),
            Plan::Parse => parse(array, target),
            Plan::Utf8 => utf8(array),
            Plan::UuidBytes => Ok(uuid_texts(array)),
            Plan::List(items) => convert_lists(items, array, target),
            Plan::Through(first, rest) => {
                let field = Arc::new(Field::new(target.name(), first.clone(), true));
                rest.run(&cast(array, &field)?, target)
            }
        }
    }
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

fn is_bytes(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_)
    )
}

/// The conversion of a source's column to a table's.
#[derive(Clone, Debug)]
pub(crate) struct Conversion {
    plan: Plan,
    target: FieldRef,
}

impl Conversion {
    /// An error if values of the source's type can't be values of the column.
    pub fn new(source: &Field, target: &FieldRef) -> Result<Conversion> {
        let plan = Plan::find(source.data_type(), target).ok_or_else(|| {
            Error::new(
                SqlState::DATATYPE_MISMATCH,
                format!(
                    "column \"{}\" is of type {} but the file's is of type {}",
                    target.name(),
                    type_name(target),
                    type_name(source)
                ),
            )
        })?;
        Ok(Conversion { plan, target: Arc::clone(target) })
    }

    /// Converts an array of the source type. Fails at the first row whose value does not fit, or is
    /// NULL in a column that is not nullable.
    pub fn run(&self, array: &ArrayRef) -> Result<ArrayRef, Refused> {
        let converted = self.plan.run(array, &self.target)?;
        debug_assert_eq!(converted.data_type(), self.target.data_type());
        if !self.target.is_nullable() && converted.null_count() > 0 {
            let row = (0..converted.len()).find(|row| converted.is_null(*row)).unwrap_or(0);
            return Err(Refused { row, error: null_refused(self.target.name()) });
        }
        Ok(converted)
    }
}

/// Arrow's cast. If it fails, the lenient cast finds the value that did not fit.
fn cast(array: &ArrayRef, target: &FieldRef) -> Result<ArrayRef, Refused> {
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    let error = match cast_with_options(array, target.data_type(), &strict) {
        Ok(converted) => return Ok(converted),
        Err(error) => error,
    };
    let forgiving = CastOptions { safe: true, ..CastOptions::default() };
    let row = cast_with_options(array, target.data_type(), &forgiving).ok().and_then(|converted| {
        (0..array.len()).find(|row| converted.is_null(*row) && array.is_valid(*row))
    });
    match row {
        Some(row) => Err(does_not_fit(array, row, target)),
        None => Err(Refused {
            row: 0,
            error: Error::new(SqlState::NUMERIC_OUT_OF_RANGE, error.to_string()),
        }),
    }
}

fn cast_exactly(array: &ArrayRef, target: &FieldRef) -> Result<ArrayRef, Refused> {
    let converted = cast(array, target)?;
    let source = Arc::new(Field::new(target.name(), array.data_type().clone(), true));
    let back = cast(&converted, &source)?;
    match cmp::neq(&back, array) {
        Ok(differs) => refuse_first(&differs, array, target)?,
        Err(error) => {
            return Err(Refused { row: 0, error: Error::internal(error.to_string()) });
        }
    }
    Ok(converted)
}

fn cast_narrowly(array: &ArrayRef, target: &FieldRef) -> Result<ArrayRef, Refused> {
    let converted = cast(array, target)?;
    if array.data_type() == &DataType::Float64 {
        let wide = array.as_primitive::<Float64Type>();
        let narrow = converted.as_primitive::<arrow::datatypes::Float32Type>();
        let became_infinite = wide
            .iter()
            .zip(narrow.values())
            .map(|(wide, narrow)| Some(narrow.is_infinite() && wide.is_some_and(f64::is_finite)));
        refuse_first(&became_infinite.collect(), array, target)?;
    }
    Ok(converted)
}

fn time_of_day(array: &ArrayRef, target: &FieldRef) -> Result<ArrayRef, Refused> {
    let converted = cast(array, target)?;
    let times = converted.as_primitive::<Time64MicrosecondType>();
    let outside = BooleanArray::from_unary(times, |time| !TIMES_OF_DAY.contains(&time));
    refuse_first(&outside, array, target)?;
    Ok(converted)
}

fn refuse_first(
    differs: &BooleanArray,
    array: &ArrayRef,
    target: &FieldRef,
) -> Result<(), Refused> {
    let found = (0..differs.len()).find(|row| differs.is_valid(*row) && differs.value(*row));
    found.map_or(Ok(()), |row| Err(does_not_fit(array, row, target)))
}

fn does_not_fit(array: &ArrayRef, row: usize, target: &FieldRef) -> Refused {
    let mut value = String::new();
    if let Ok(formatter) = ValueFormatter::new(array) {
        formatter.format(row, &mut value);
    }
    let state = match target.data_type().is_numeric() {
        true => SqlState::NUMERIC_OUT_OF_RANGE,
        false => SqlState::DATETIME_OVERFLOW,
    };
    let type_name = type_name(target);
    let message = format!("value \"{value}\" is out of range for type {type_name}");
    Refused { row, error: Error::new(state, message) }
}

/// Relabels timestamps with the target's zone, in their own unit. All of them count from 1970 in
/// UTC, so no value changes.
fn in_zone_of(array: &ArrayRef, target: &DataType) -> ArrayRef {
    let (DataType::Timestamp(unit, _), DataType::Timestamp(_, zone)) = (array.data_type(), target)
    else {
        unreachable!("only timestamps are converted as moments");
    };
    let data = array.to_data().into_builder().data_type(DataType::Timestamp(*unit, zone.clone()));
    make_array(data.build().expect("timestamps differ in their zones only by name"))
}

fn parse(array: &ArrayRef, target: &FieldRef) -> Result<ArrayRef, Refused> {
    let at_start = |error| Refused { row: 0, error };
    let view = Arc::new(Field::new(target.name(), DataType::Utf8View, true));
    let texts = cast(array, &view)?;
    let nullable = Arc::new(target.as_ref().clone().with_nullable(true));
    let mut builder = ColumnBuilder::new(&nullable).map_err(at_start)?;
    builder.extend(texts.as_string_view().iter())?;
    Ok(builder.finish())
}

fn utf8(array: &ArrayRef) -> Result<ArrayRef, Refused> {
    let mut builder = StringViewBuilder::new();
    for (row, bytes) in array.as_binary_view().iter().enumerate() {
        let text = bytes.map(std::str::from_utf8).transpose().map_err(|error| {
            let bad = &bytes.unwrap_or_default()[error.valid_up_to()..];
            let length = error.error_len().unwrap_or(bad.len());
            Refused { row, error: invalid_bytes(&bad[..length]) }
        })?;
        builder.append_option(text);
    }
    Ok(Arc::new(builder.finish()))
}

fn uuid_texts(array: &ArrayRef) -> ArrayRef {
    let mut builder = StringViewBuilder::new();
    for bytes in array.as_fixed_size_binary() {
        let bytes: Option<[u8; 16]> = bytes.and_then(|bytes| bytes.try_into().ok());
        builder.append_option(bytes.map(|bytes| format_uuid(&bytes)));
    }
    Arc::new(builder.finish())
}

fn convert_lists(
    items_plan: &Plan,
    array: &ArrayRef,
    target: &FieldRef,
) -> Result<ArrayRef, Refused> {
    let (Some(item), DataType::List(target_item)) = (item_of(array), target.data_type()) else {
        unreachable!("only lists are converted as lists");
    };
    let as_list = Arc::new(Field::new(target.name(), DataType::List(item), true));
    let lists = cast(array, &as_list)?;
    let lists = lists.as_list::<i32>();
    let offsets = lists.value_offsets();
    let (first, last) = (offsets[0], offsets[lists.len()]);
    let items = lists.values().slice(first as usize, (last - first) as usize);
    let conversion = Conversion { plan: items_plan.clone(), target: Arc::clone(target_item) };
    let items = conversion.run(&items).map_err(|refused| {
        let place = first + refused.row as i32;
        let row = offsets.partition_point(|offset| *offset <= place).saturating_sub(1);
        Refused { row, error: refused.error }
    })?;
    let offsets: ScalarBuffer<i32> = offsets.iter().map(|offset| offset - first).collect();
    let nulls = lists.nulls().cloned();
    Ok(Arc::new(ListArray::new(Arc::clone(target_item), OffsetBuffer::new(offsets), items, nulls)))
}

fn item_of(array: &ArrayRef) -> Option<FieldRef> {
    match array.data_type() {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::ListView(item)
        | DataType::LargeListView(item) => Some(Arc::clone(item)),
        _ => None,
    }
}
