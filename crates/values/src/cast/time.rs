//! Conversions between dates, times and moments. All moments are in microseconds.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use arrow::datatypes::{
    DataType as ArrowType, Date32Type, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType,
    TimestampNanosecondType,
};
use thalweg_types::{DataType, Error, Result, SqlState};

use super::plain_cast;
use crate::calendar::MICROS_PER_DAY;
use crate::zone::{self, current_zone};

pub(super) fn convert(
    array: &ArrayRef,
    to: &DataType,
    target: &ArrowType,
) -> Result<Option<ArrayRef>> {
    match (array.data_type(), to) {
        (ArrowType::Date32 | ArrowType::Date64, DataType::Date) => plain_cast(array, target),
        (ArrowType::Date32 | ArrowType::Date64, DataType::Timestamp | DataType::Timestamptz) => {
            let midnight = midnight(array, &ArrowType::Timestamp(TimeUnit::Microsecond, None))?;
            let midnight = midnight.as_primitive::<TimestampMicrosecondType>().clone();
            let moments = match to {
                DataType::Timestamptz => to_utc(midnight)?,
                _ => midnight,
            };
            Ok(Arc::new(moments.with_data_type(target.clone())) as ArrayRef)
        }
        (ArrowType::Time32(_) | ArrowType::Time64(_), DataType::Time) => plain_cast(array, target),
        (ArrowType::Timestamp(unit, zone), _) => {
            let micros = micros_of(array, *unit)?;
            let micros = match (zone.is_some(), *to == DataType::Timestamptz) {
                (true, false) => to_local(micros)?,
                (false, true) => to_utc(micros)?,
                _ => micros,
            };
            match to {
                DataType::Date => Ok(Arc::new(micros.unary::<_, Date32Type>(|at| match at {
                    i64::MIN => i32::MIN,
                    i64::MAX => i32::MAX,
                    at => at.div_euclid(MICROS_PER_DAY) as i32,
                })) as ArrayRef),
                DataType::Time => Ok(Arc::new(
                    micros.unary::<_, Time64MicrosecondType>(|at| at.rem_euclid(MICROS_PER_DAY)),
                ) as ArrayRef),
                _ => Ok(Arc::new(micros.with_data_type(target.clone())) as ArrayRef),
            }
        }
        _ => return Ok(None),
    }
    .map(Some)
}

type Moments = PrimitiveArray<TimestampMicrosecondType>;

/// Times that the clocks of the session's zone show at moments.
fn to_local(moments: Moments) -> Result<Moments> {
    match current_zone() {
        None => Ok(moments),
        Some(zone) => moments.try_unary(|utc| zone::local(&zone, utc)),
    }
}

/// Moments at which the clocks of the session's zone show times.
fn to_utc(times: Moments) -> Result<Moments> {
    match current_zone() {
        None => Ok(times),
        Some(zone) => times.try_unary(|local| zone::utc(&zone, local)),
    }
}

/// Microseconds since 1970 of moments and timestamps; those of moments are in UTC.
///
/// `None` for other types.
#[must_use]
pub fn stored_micros(array: &ArrayRef) -> Option<Result<Moments>> {
    match array.data_type() {
        ArrowType::Timestamp(unit, _) => Some(micros_of(array, *unit)),
        _ => None,
    }
}

/// Microseconds since 1970 in UTC; nanoseconds are rounded to the nearest.
fn micros_of(array: &ArrayRef, unit: TimeUnit) -> Result<Moments> {
    if unit == TimeUnit::Nanosecond {
        let nanos = array.as_primitive::<TimestampNanosecondType>();
        return Ok(nanos.unary(|at| at.div_euclid(1_000) + i64::from(at.rem_euclid(1_000) >= 500)));
    }
    let ArrowType::Timestamp(_, zone) = array.data_type() else {
        unreachable!("only moments have microseconds");
    };
    let target = ArrowType::Timestamp(TimeUnit::Microsecond, zone.clone());
    let micros = plain_cast(array, &target).map_err(|_| out_of_range())?;
    let micros = micros.as_primitive::<TimestampMicrosecondType>().clone();
    Ok(micros.with_data_type(ArrowType::Timestamp(TimeUnit::Microsecond, None)))
}

fn midnight(array: &ArrayRef, target: &ArrowType) -> Result<ArrayRef> {
    let days = plain_cast(array, &ArrowType::Date32)?;
    let micros: PrimitiveArray<TimestampMicrosecondType> =
        days.as_primitive::<Date32Type>().try_unary(|days| match days {
            i32::MIN => Ok(i64::MIN),
            i32::MAX => Ok(i64::MAX),
            days => i64::from(days).checked_mul(MICROS_PER_DAY).ok_or_else(out_of_range),
        })?;
    Ok(Arc::new(micros.with_data_type(target.clone())))
}

fn out_of_range() -> Error {
    Error::new(SqlState::DATETIME_OVERFLOW, "timestamp out of range")
}

/// PostgreSQL counts from the beginning of 2000, and so rounds halves away from that moment.
const EPOCH_MICROS: i64 = 10_957 * MICROS_PER_DAY;

/// Times and moments rounded to so many digits of a second.
pub fn rounded(array: &ArrayRef, digits: u8) -> ArrayRef {
    let step = 10_i64.pow(6_u32.saturating_sub(u32::from(digits)));
    if step == 1 {
        return Arc::clone(array);
    }
    match array.data_type() {
        ArrowType::Timestamp(TimeUnit::Microsecond, _) => {
            let moments = array.as_primitive::<TimestampMicrosecondType>();
            let rounded = moments.unary::<_, TimestampMicrosecondType>(|at| match at {
                // Infinite moments.
                i64::MIN | i64::MAX => at,
                at => moment_nearest(at, step).unwrap_or(at),
            });
            Arc::new(rounded.with_data_type(array.data_type().clone()))
        }
        ArrowType::Time64(TimeUnit::Microsecond) => {
            let times = array.as_primitive::<Time64MicrosecondType>();
            Arc::new(times.unary::<_, Time64MicrosecondType>(|at| nearest(at, step)))
        }
        _ => Arc::clone(array),
    }
}

/// `None` if there is no such moment.
fn moment_nearest(at: i64, step: i64) -> Option<i64> {
    nearest(at.checked_sub(EPOCH_MICROS)?, step).checked_add(EPOCH_MICROS)
}

/// The multiple of a step that is nearest to a number.
fn nearest(number: i64, step: i64) -> i64 {
    let size = number.saturating_abs().saturating_add(step / 2) / step * step;
    if number < 0 { -size } else { size }
}

pub(super) fn to_interval(array: &ArrayRef, target: &ArrowType) -> Result<Option<ArrayRef>> {
    match array.data_type() {
        ArrowType::Interval(_) | ArrowType::Duration(_) => plain_cast(array, target).map(Some),
        ArrowType::Time32(_) | ArrowType::Time64(_) => {
            let nanos = plain_cast(array, &ArrowType::Time64(TimeUnit::Nanosecond))?;
            let nanos = plain_cast(&nanos, &ArrowType::Int64)?;
            let duration = plain_cast(&nanos, &ArrowType::Duration(TimeUnit::Nanosecond))?;
            plain_cast(&duration, target).map(Some)
        }
        _ => Ok(None),
    }
}
