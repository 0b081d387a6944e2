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
use thalweg_values::arithmetic::add_to_moment;
use thalweg_values::arithmetic::numeric::decimal_of;
use thalweg_values::calendar::MICROS_PER_DAY;
use thalweg_values::cast::{Manner, convert, is_text};
use thalweg_values::errors::external;
use thalweg_values::scalar_function::Function;
use thalweg_values::statement_control::{check_cancelled, check_value};
use thalweg_values::types::{arrow_type, display_name};
use thalweg_values::zone::{Zone, session_zone};

/// Maximum number of items that all series of one batch have together: they lie in memory.
pub(super) const ITEMS_MAX: usize = 100_000_000;

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
    // A literal in quotes has the type of the other end.
    let first = match (start, rest) {
        (ArrowType::Utf8, [end, _]) => end,
        _ => start,
    };
    if is_moment(first) && arguments.len() == 3 {
        let plain = matches!(first, ArrowType::Timestamp(_, None));
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
    if matches!(item, ArrowType::Timestamp(_, _)) {
        return moments(columns, item);
    }
    let (items, ends, valid) = steps(columns[0].len(), number_columns(columns, &item)?)?;
    lists(numbers(items, &item), ends, valid)
}

/// Start, end and step of each row, in the units of the items.
fn number_columns(
    columns: &[ArrayRef],
    item: &ArrowType,
) -> Result<impl Fn(usize, usize) -> Option<i128> + use<>> {
    let (wide, one) = match item {
        ArrowType::Decimal128(_, scale) => {
            (item.clone(), 10_i128.pow(u32::from(scale.unsigned_abs())))
        }
        _ => (ArrowType::Int64, 1),
    };
    let numbers = columns.iter().map(|column| to(column, &wide)).collect::<Result<Vec<_>>>()?;
    Ok(move |place: usize, row: usize| {
        let Some(column) = numbers.get(place) else { return Some(one) };
        column.is_valid(row).then(|| match column.as_primitive_opt::<Decimal128Type>() {
            Some(decimals) => decimals.value(row),
            None => i128::from(column.as_primitive::<Int64Type>().value(row)),
        })
    })
}

fn numbers(items: Vec<i128>, item: &ArrowType) -> ArrayRef {
    let narrow = || items.iter().map(|item| *item as i64);
    match item {
        ArrowType::Decimal128(..) => {
            Arc::new(Decimal128Array::from(items).with_data_type(item.clone()))
        }
        ArrowType::Int32 => {
            Arc::new(Int32Array::from_iter_values(narrow().map(|item| item as i32)))
        }
        _ => Arc::new(Int64Array::from_iter_values(narrow())),
    }
}

fn to(column: &ArrayRef, target: &ArrowType) -> Result<ArrayRef> {
    cast(column, target).map_err(|error| thalweg_values::errors::from_arrow_error(&error))
}

fn lists(items: ArrayRef, lengths: Vec<usize>, valid: Vec<bool>) -> Result<ArrayRef> {
    let field = Arc::new(Field::new("item", items.data_type().clone(), true));
    let offsets = OffsetBuffer::from_lengths(lengths);
    let lists = ListArray::try_new(field, offsets, items, Some(NullBuffer::from(valid)));
    Ok(Arc::new(lists.map_err(|error| thalweg_values::errors::from_arrow_error(&error))?))
}

fn zero_step() -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, "step size cannot equal zero")
}

fn too_many() -> Error {
    Error::new(SqlState::OUT_OF_MEMORY, "generate_series gives too many rows")
        .with_hint("Give the bounds as plain numbers: such a series is made row by row.")
}

/// Checks now and then that there is memory for another item.
fn look<T>(items: &Vec<T>) -> Result<()> {
    if items.len() == items.capacity() {
        check_cancelled()?;
        // The vector grows to twice as many, and the items become an array of their own.
        let bytes = 2 * size_of_val(items.as_slice());
        check_value(bytes, bytes)?;
    }
    match items.len() < ITEMS_MAX {
        true => Ok(()),
        false => Err(too_many()),
    }
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
                look(&items)?;
                items.push(item);
                item += step;
            }
            valid.push(true);
        } else {
            valid.push(false);
        }
        lengths.push(items.len() - before);
    }
    Ok((items, lengths, valid))
}

/// Starts, ends and steps of series of moments.
type MomentColumns = (
    PrimitiveArray<TimestampMicrosecondType>,
    PrimitiveArray<TimestampMicrosecondType>,
    PrimitiveArray<IntervalMonthDayNanoType>,
);

fn moment_columns(columns: &[ArrayRef]) -> Result<MomentColumns> {
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
    let types: Vec<ArrowType> = columns.iter().map(|column| column.data_type().clone()).collect();
    let is_zoned = matches!(item_type(&types)?, ArrowType::Timestamp(_, Some(_)));
    let moment = if is_zoned { DataType::Timestamptz } else { DataType::Timestamp };
    let (starts, ends) = (converted(0, moment.clone())?, converted(1, moment)?);
    let steps = converted(2, DataType::Interval)?;
    Ok((
        starts.as_primitive::<TimestampMicrosecondType>().clone(),
        ends.as_primitive::<TimestampMicrosecondType>().clone(),
        steps.as_primitive::<IntervalMonthDayNanoType>().clone(),
    ))
}

/// The zone whose clocks count the days of a series of such items.
fn zone_of(item: &ArrowType) -> Zone {
    match item {
        ArrowType::Timestamp(_, Some(_)) => session_zone(),
        _ => Zone::UTC,
    }
}

fn moments(columns: &[ArrayRef], item: ArrowType) -> Result<ArrayRef> {
    let (starts, ends, steps) = moment_columns(columns)?;
    let (mut items, mut lengths, mut valid) = (Vec::new(), Vec::new(), Vec::new());
    for row in 0..starts.len() {
        let before = items.len();
        let is_valid = starts.is_valid(row) && ends.is_valid(row) && steps.is_valid(row);
        valid.push(is_valid);
        if is_valid {
            let (start, end, step) = (starts.value(row), ends.value(row), steps.value(row));
            let mut moments = Moments::new(start, end, step, zone_of(&item))?;
            while let Some(moment) = moments.next()? {
                look(&items)?;
                items.push(moment);
            }
        }
        lengths.push(items.len() - before);
    }
    let items = PrimitiveArray::<TimestampMicrosecondType>::from_iter_values(items);
    lists(Arc::new(items.with_data_type(item)), lengths, valid)
}

/// Moments an interval apart.
#[derive(Clone)]
struct Moments {
    next: i64,
    end: i64,
    step: IntervalMonthDayNano,
    is_forward: bool,
    /// The zone whose clocks decide how long a day is.
    zone: Zone,
}

impl Moments {
    fn new(start: i64, end: i64, step: IntervalMonthDayNano, zone: Zone) -> Result<Moments> {
        match length(step) {
            0 => Err(zero_step()),
            length => Ok(Moments { next: start, end, step, is_forward: length > 0, zone }),
        }
    }

    fn next(&mut self) -> Result<Option<i64>> {
        let moment = self.next;
        if if self.is_forward { moment > self.end } else { moment < self.end } {
            return Ok(None);
        }
        self.next = add_to_moment(moment, self.step, &self.zone)
            .ok_or_else(|| Error::new(SqlState::DATETIME_OVERFLOW, "timestamp out of range"))?;
        Ok(Some(moment))
    }
}

/// Number of items of a series: the steps that fit into a range, and one for its start.
fn about(range: i128, step: i128) -> u64 {
    let is_empty = range != 0 && (range < 0) != (step < 0);
    if step == 0 || is_empty {
        return 0;
    }
    u64::try_from((range / step).unsigned_abs()).map_or(u64::MAX, |steps| steps.saturating_add(1))
}

/// About how many items the series of each row has, by the columns of its arguments.
///
/// # Errors
/// If there are no such series.
pub fn series_counts(columns: &[ArrayRef]) -> Result<Vec<u64>> {
    let types: Vec<ArrowType> = columns.iter().map(|column| column.data_type().clone()).collect();
    let item = item_type(&types)?;
    let rows = 0..columns[0].len();
    if matches!(item, ArrowType::Timestamp(_, _)) {
        let (starts, ends, steps) = moment_columns(columns)?;
        let count = |row| {
            let is_valid = starts.is_valid(row) && ends.is_valid(row) && steps.is_valid(row);
            let range = i128::from(ends.value(row)) - i128::from(starts.value(row));
            if is_valid { about(range, length(steps.value(row))) } else { 0 }
        };
        return Ok(rows.map(count).collect());
    }
    let value = number_columns(columns, &item)?;
    let count = |row| match (value(0, row), value(1, row), value(2, row)) {
        (Some(start), Some(end), Some(step)) => about(end.saturating_sub(start), step),
        _ => 0,
    };
    Ok(rows.map(count).collect())
}

/// One series, which is made piece by piece.
pub struct Series {
    items: Bounds,
    item: ArrowType,
}

enum Bounds {
    Numbers { next: i128, end: i128, step: i128 },
    Moments(Moments),
}

impl Series {
    /// The series of the arguments of a row; `None` if one of them is NULL. Columns have one row.
    ///
    /// # Errors
    /// If there is no such series.
    pub fn of(columns: &[ArrayRef]) -> Result<Option<Series>> {
        let types: Vec<ArrowType> =
            columns.iter().map(|column| column.data_type().clone()).collect();
        let item = item_type(&types)?;
        let items = match &item {
            ArrowType::Timestamp(_, _) => {
                let (starts, ends, steps) = moment_columns(columns)?;
                if starts.is_null(0) || ends.is_null(0) || steps.is_null(0) {
                    return Ok(None);
                }
                let (start, end, step) = (starts.value(0), ends.value(0), steps.value(0));
                Bounds::Moments(Moments::new(start, end, step, zone_of(&item))?)
            }
            _ => {
                let value = number_columns(columns, &item)?;
                let bounds = (value(0, 0), value(1, 0), value(2, 0));
                let (Some(next), Some(end), Some(step)) = bounds else { return Ok(None) };
                if step == 0 {
                    return Err(zero_step());
                }
                Bounds::Numbers { next, end, step }
            }
        };
        Ok(Some(Series { items, item }))
    }

    /// The next items, `most` at most; fewer at the end, and none behind it.
    ///
    /// # Errors
    /// If a moment is out of range.
    pub fn next(&mut self, most: usize) -> Result<ArrayRef> {
        Ok(match &mut self.items {
            Bounds::Numbers { next, end, step } => {
                let mut items = Vec::new();
                while items.len() < most && if *step > 0 { *next <= *end } else { *next >= *end } {
                    items.push(*next);
                    *next += *step;
                }
                numbers(items, &self.item)
            }
            Bounds::Moments(moments) => {
                let mut items = Vec::new();
                while items.len() < most
                    && let Some(moment) = moments.next()?
                {
                    items.push(moment);
                }
                let items = PrimitiveArray::<TimestampMicrosecondType>::from_iter_values(items);
                Arc::new(items.with_data_type(self.item.clone()))
            }
        })
    }
}

fn length(step: IntervalMonthDayNano) -> i128 {
    let days = i128::from(step.months) * 30 + i128::from(step.days);
    days * i128::from(MICROS_PER_DAY) + i128::from(step.nanoseconds / 1_000)
}
