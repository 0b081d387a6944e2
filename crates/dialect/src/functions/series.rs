//! `generate_series` as an array: whole numbers, numerics, and moments an interval apart.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Decimal128Array, Int32Array, Int64Array, ListArray, PrimitiveArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType as ArrowType, Decimal128Type, Field, Int64Type, IntervalMonthDayNano,
    IntervalMonthDayNanoType, TimestampMicrosecondType,
};
use datafusion::logical_expr::{ScalarUDF, TypeSignature};
use thalweg_types::{DataType, Error, Result, SqlState};

use super::define::Function;
use crate::arithmetic::numeric::decimal_of;
use crate::calendar::{Civil, MICROS_PER_DAY, days_in_month};
use crate::cast::{Manner, convert, is_text};
use crate::errors::external;
use crate::stop::go_on;
use crate::types::{arrow_type, display_name};

/// How many items all series of one batch may have together: they lie in memory.
pub(super) const ITEMS_MAX: usize = 100_000_000;

/// After so many items, in some milliseconds, it is seen whether anybody still wants them.
const ITEMS_BETWEEN_CHECKS: usize = 1 << 16;

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let lengths = TypeSignature::OneOf(vec![TypeSignature::Any(2), TypeSignature::Any(3)]);
    let series = Function::signed("generate_series", lengths, ArrowType::Null, generate).returning(
        |arguments| match item_type(arguments) {
            Ok(item) => Ok(list_of(item)),
            Err(error) => Err(external(error)),
        },
    );
    vec![series.into_udf()]
}

fn list_of(item: ArrowType) -> ArrowType {
    ArrowType::List(Arc::new(Field::new("item", item, true)))
}

/// The type of the items, by the types of start, end and step.
fn item_type(arguments: &[ArrowType]) -> Result<ArrowType> {
    let is_moment =
        |given: &ArrowType| matches!(given, ArrowType::Timestamp(_, _) | ArrowType::Date32);
    let Some((start, rest)) = arguments.split_first() else { return Err(undefined(arguments)) };
    if is_moment(start) && arguments.len() == 3 {
        let plain = matches!(start, ArrowType::Timestamp(_, None));
        let moment = if plain { DataType::Timestamp } else { DataType::Timestamptz };
        return Ok(arrow_type(&moment));
    }
    let numbers = || std::iter::once(start).chain(rest).filter(|given| **given != ArrowType::Null);
    if numbers().all(ArrowType::is_integer) {
        let small = |given: &ArrowType| matches!(given, ArrowType::Int16 | ArrowType::Int32);
        return Ok(if numbers().all(small) { ArrowType::Int32 } else { ArrowType::Int64 });
    }
    let scales: Option<Vec<i8>> =
        numbers().map(|given| decimal_of(given).map(|(_, scale)| scale)).collect();
    match scales.and_then(|scales| scales.into_iter().max()) {
        Some(scale) => Ok(ArrowType::Decimal128(38, scale.max(0))),
        None => Err(undefined(arguments)),
    }
}

fn undefined(arguments: &[ArrowType]) -> Error {
    let names = arguments.iter().map(|given| display_name(&Field::new("", given.clone(), true)));
    let names = names.collect::<Vec<_>>().join(", ");
    Error::new(
        SqlState::UNDEFINED_FUNCTION,
        format!("function generate_series({names}) does not exist"),
    )
    .with_hint("You might need to add explicit type casts.")
}

fn generate(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let types: Vec<ArrowType> = columns.iter().map(|column| column.data_type().clone()).collect();
    let item = item_type(&types)?;
    match &item {
        ArrowType::Timestamp(_, _) => moments(columns, item),
        ArrowType::Decimal128(_, scale) => {
            let one = 10_i128.pow(u32::from(scale.unsigned_abs()));
            let numbers =
                columns.iter().map(|column| to(column, &item)).collect::<Result<Vec<_>>>()?;
            let values = |place: usize, row: usize| -> Option<i128> {
                let Some(column) = numbers.get(place) else { return Some(one) };
                column.is_valid(row).then(|| column.as_primitive::<Decimal128Type>().value(row))
            };
            let (items, ends, valid) = steps(columns[0].len(), values)?;
            let items = Decimal128Array::from(items).with_data_type(item);
            lists(Arc::new(items), ends, valid)
        }
        _ => {
            let numbers = columns
                .iter()
                .map(|column| to(column, &ArrowType::Int64))
                .collect::<Result<Vec<_>>>()?;
            let values = |place: usize, row: usize| -> Option<i128> {
                let Some(column) = numbers.get(place) else { return Some(1) };
                let column = column.as_primitive::<Int64Type>();
                column.is_valid(row).then(|| i128::from(column.value(row)))
            };
            let (items, ends, valid) = steps(columns[0].len(), values)?;
            let items = items.into_iter().map(|item| item as i64);
            let items: ArrayRef = match item {
                ArrowType::Int32 => {
                    Arc::new(Int32Array::from_iter_values(items.map(|item| item as i32)))
                }
                _ => Arc::new(Int64Array::from_iter_values(items)),
            };
            lists(items, ends, valid)
        }
    }
}

fn to(column: &ArrayRef, target: &ArrowType) -> Result<ArrayRef> {
    cast(column, target).map_err(|error| crate::errors::from_arrow_error(&error))
}

fn lists(items: ArrayRef, lengths: Vec<usize>, valid: Vec<bool>) -> Result<ArrayRef> {
    let field = Arc::new(Field::new("item", items.data_type().clone(), true));
    let offsets = OffsetBuffer::from_lengths(lengths);
    let lists = ListArray::try_new(field, offsets, items, Some(NullBuffer::from(valid)));
    Ok(Arc::new(lists.map_err(|error| crate::errors::from_arrow_error(&error))?))
}

fn zero_step() -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, "step size cannot equal zero")
}

fn too_many() -> Error {
    Error::new(SqlState::OUT_OF_MEMORY, "generate_series gives too many rows")
        .with_hint("Give the bounds as plain numbers: such a series is made row by row.")
}

/// The items of all rows, how many each row has, and which rows are not NULL.
type Items<T> = (Vec<T>, Vec<usize>, Vec<bool>);

fn steps(rows: usize, value: impl Fn(usize, usize) -> Option<i128>) -> Result<Items<i128>> {
    let (mut items, mut lengths, mut valid) = (Vec::new(), Vec::new(), Vec::new());
    for row in 0..rows {
        let before = items.len();
        let bounds = (value(0, row), value(1, row), value(2, row));
        if let (Some(start), Some(end), Some(step)) = bounds {
            if step == 0 {
                return Err(zero_step());
            }
            let mut item = start;
            while if step > 0 { item <= end } else { item >= end } {
                items.push(item);
                item += step;
                if items.len().is_multiple_of(ITEMS_BETWEEN_CHECKS) {
                    go_on()?;
                }
                if items.len() > ITEMS_MAX {
                    return Err(too_many());
                }
            }
            valid.push(true);
        } else {
            valid.push(false);
        }
        lengths.push(items.len() - before);
    }
    Ok((items, lengths, valid))
}

fn moments(columns: &[ArrayRef], item: ArrowType) -> Result<ArrayRef> {
    let converted = |place: usize, target: DataType| -> Result<ArrayRef> {
        let field = Field::new("", columns[place].data_type().clone(), true);
        let types = || columns.iter().map(|column| column.data_type().clone()).collect::<Vec<_>>();
        let from = columns[place].data_type();
        let fits = target != DataType::Interval
            || is_text(from)
            || matches!(from, ArrowType::Interval(_) | ArrowType::Null);
        let converted = match fits {
            true => convert(&columns[place], &field, &target, Manner::Explicit)?,
            false => None,
        };
        converted.ok_or_else(|| undefined(&types()))
    };
    let (starts, ends) = (converted(0, DataType::Timestamp)?, converted(1, DataType::Timestamp)?);
    let steps = converted(2, DataType::Interval)?;
    let (starts, ends) = (
        starts.as_primitive::<TimestampMicrosecondType>(),
        ends.as_primitive::<TimestampMicrosecondType>(),
    );
    let steps = steps.as_primitive::<IntervalMonthDayNanoType>();
    let (mut items, mut lengths, mut valid) = (Vec::new(), Vec::new(), Vec::new());
    for row in 0..starts.len() {
        let before = items.len();
        let is_valid = starts.is_valid(row) && ends.is_valid(row) && steps.is_valid(row);
        valid.push(is_valid);
        if is_valid {
            let (mut moment, end, step) = (starts.value(row), ends.value(row), steps.value(row));
            let forward = length(step);
            if forward == 0 {
                return Err(zero_step());
            }
            while if forward > 0 { moment <= end } else { moment >= end } {
                items.push(moment);
                moment = later(moment, step).ok_or_else(|| {
                    Error::new(SqlState::DATETIME_OVERFLOW, "timestamp out of range")
                })?;
                if items.len() > ITEMS_MAX {
                    return Err(too_many());
                }
            }
        }
        lengths.push(items.len() - before);
    }
    let items = PrimitiveArray::<TimestampMicrosecondType>::from_iter_values(items);
    lists(Arc::new(items.with_data_type(item)), lengths, valid)
}

fn length(step: IntervalMonthDayNano) -> i128 {
    let days = i128::from(step.months) * 30 + i128::from(step.days);
    days * i128::from(MICROS_PER_DAY) + i128::from(step.nanoseconds / 1_000)
}

/// Months first, to the month's last day at most, then days, then the time.
fn later(moment: i64, step: IntervalMonthDayNano) -> Option<i64> {
    let (days, clock) = (moment.div_euclid(MICROS_PER_DAY), moment.rem_euclid(MICROS_PER_DAY));
    let Civil { year, month, day } = Civil::from_days(days);
    let months = year * 12 + i64::from(month) - 1 + i64::from(step.months);
    let (year, month) = (months.div_euclid(12), months.rem_euclid(12) as u32 + 1);
    let day = day.min(days_in_month(year, month));
    let days = Civil { year, month, day }.to_days() + i64::from(step.days);
    days.checked_mul(MICROS_PER_DAY)?.checked_add(clock)?.checked_add(step.nanoseconds / 1_000)
}
