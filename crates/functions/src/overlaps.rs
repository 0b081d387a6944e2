//! `(start, end) OVERLAPS (start, end)`, where an end may be a length.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::compute::kernels::numeric::add;
use arrow::datatypes::{DataType as ArrowType, Int64Type, TimeUnit};
use datafusion::logical_expr::{ScalarUDF, TypeSignature};
use thalweg_types::{DataType, Error, Result, SqlState};
use thalweg_values::cast::{Manner, convert};
use thalweg_values::scalar_function::Function;

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let signature = TypeSignature::Any(4);
    vec![Function::signed("overlaps", signature, ArrowType::Boolean, overlaps).into_udf()]
}

fn overlaps(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let of_day = columns.iter().any(|column| matches!(column.data_type(), ArrowType::Time64(_)));
    let moments = |start: &ArrayRef, end: &ArrayRef| -> Result<_> {
        let start = moment(start, of_day)?;
        let end = match end.data_type() {
            ArrowType::Interval(_) => behind(&start, end)?,
            _ => moment(end, of_day)?,
        };
        Ok((micros(&start)?, micros(&end)?))
    };
    let one = moments(&columns[0], &columns[1])?;
    let other = moments(&columns[2], &columns[3])?;
    let (one, other) = (periods(&one), periods(&other));
    let met = one.zip(other).map(|(one, other)| meet(one?, other?));
    Ok(Arc::new(met.collect::<BooleanArray>()))
}

/// A time, or `None` if it is not known.
type Known = Option<i64>;

/// Starts and ends in order. A period with neither start nor end is NULL.
fn periods((starts, ends): &(ArrayRef, ArrayRef)) -> impl Iterator<Item = Option<(i64, Known)>> {
    let starts = starts.as_primitive::<Int64Type>().iter();
    starts.zip(ends.as_primitive::<Int64Type>().iter()).map(|period| match period {
        (Some(start), Some(end)) => Some((start.min(end), Some(start.max(end)))),
        (Some(known), None) | (None, Some(known)) => Some((known, None)),
        (None, None) => None,
    })
}

/// True if two periods share a moment; the end of a period is not part of it.
fn meet(one: (i64, Known), other: (i64, Known)) -> Option<bool> {
    if one.0 == other.0 {
        return (one.1.is_some() && other.1.is_some()).then_some(true);
    }
    let (early, late) = if one.0 < other.0 { (one, other) } else { (other, one) };
    match early.1? {
        end if late.0 < end => Some(true),
        _ => late.1.map(|_| false),
    }
}

fn moment(column: &ArrayRef, of_day: bool) -> Result<ArrayRef> {
    let to = if of_day { DataType::Time } else { DataType::Timestamptz };
    let from = arrow::datatypes::Field::new("", column.data_type().clone(), true);
    convert(column, &from, &to, Manner::Explicit)?.ok_or_else(|| {
        let error_text = format!("function overlaps does not exist for {}", column.data_type());
        Error::new(SqlState::UNDEFINED_FUNCTION, error_text)
    })
}

fn behind(start: &ArrayRef, length: &ArrayRef) -> Result<ArrayRef> {
    let error_text = |error| thalweg_values::errors::from_arrow_error(&error);
    match start.data_type() {
        ArrowType::Time64(_) => {
            let day = ArrowType::Timestamp(TimeUnit::Microsecond, None);
            let micros = arrow::compute::cast(start, &ArrowType::Int64).map_err(error_text)?;
            let start = arrow::compute::cast(&micros, &day).map_err(error_text)?;
            add(&start, length).map_err(error_text)
        }
        _ => add(start, length).map_err(error_text),
    }
}

fn micros(moments: &ArrayRef) -> Result<ArrayRef> {
    arrow::compute::cast(moments, &ArrowType::Int64)
        .map_err(|error| thalweg_values::errors::from_arrow_error(&error))
}
