//! Arithmetic on dates, times of day, moments and intervals.

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, PrimitiveArray};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType as ArrowType, Date32Type, Field, Float64Type, Int32Type,
    Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, Time64MicrosecondType,
    TimestampMicrosecondType,
};
use datafusion::logical_expr::{ScalarUDF, TypeSignature};
use thalweg_types::{DataType, Error, Result, SqlState};

use crate::calendar::{
    Civil, MICROS_PER_DAY, MICROS_PER_SECOND, days_in_month, is_infinite, is_infinite_day,
};
use crate::cast::{Manner, convert, stored_micros};
use crate::scalar_function::{Compute, Function, planned_numbers};
use crate::types::arrow_type;
use crate::zone::{Zone, session_zone};

const DAYS_PER_MONTH: f64 = 30.0;
const SECONDS_PER_DAY: f64 = 86_400.0;

/// A function of two values of given types, made once.
macro_rules! operator {
    ($get:ident, $name:literal, [$left:expr, $right:expr], $returns:expr, $compute:expr) => {
        pub(super) fn $get() -> &'static Arc<ScalarUDF> {
            static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
                let arguments = [$left, $right].map(|data_type| arrow_type(&data_type));
                let compute: Compute = $compute;
                Function::new($name, &[&arguments], arrow_type(&$returns), compute).into_udf()
            });
            &FUNCTION
        }
    };
}

use DataType::{Date, Float8, Int4, Int8, Interval, Time, Timestamp};

operator!(date_difference, "date_subtract", [Date, Date], Int4, subtract_dates);
operator!(later_date, "date_add_days", [Date, Int8], Date, add_days);
operator!(time_difference, "time_subtract", [Time, Time], Interval, subtract_times);
operator!(later_time, "time_add", [Time, Interval], Time, add_to_time);
operator!(date_at_time, "date_add_time", [Date, Time], Timestamp, add_time_to_date);
operator!(interval_product, "interval_multiply", [Interval, Float8], Interval, multiply);
operator!(interval_quotient, "interval_divide", [Interval, Float8], Interval, divide);

/// Any two moments, or a moment and a date.
pub(super) fn moment_difference() -> &'static Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        let interval = arrow_type(&Interval);
        let signature = TypeSignature::Any(2);
        Function::signed("timestamp_subtract", signature, interval, subtract_moments).into_udf()
    });
    &FUNCTION
}

/// A moment plus an interval, by the clocks of the session's zone.
pub(super) fn later_moment() -> &'static Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        let arguments = [DataType::Timestamptz, Interval].map(|data_type| arrow_type(&data_type));
        let moment = arrow_type(&DataType::Timestamptz);
        Function::new("timestamptz_add_interval", &[&arguments], moment, add_to_moments).into_udf()
    });
    &FUNCTION
}

fn add_to_moments(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let zone = session_zone();
    let sums = each::<TimestampMicrosecondType, IntervalMonthDayNanoType, TimestampMicrosecondType>(
        columns,
        |moment, interval| {
            let sum = add_to_moment(moment, interval, &zone);
            sum.ok_or_else(|| out_of_range("timestamp"))
        },
    )?;
    let sums = planned_numbers::<TimestampMicrosecondType>(&sums)?;
    Ok(Arc::new(sums.with_data_type(arrow_type(&DataType::Timestamptz))))
}

/// Adds months first, up to the last day of the month at most, then days, then the time. Months and
/// days keep the time that the zone's clocks show; the time is added to the moment itself.
///
/// `None` if the sum is out of range. An infinite moment stays.
#[must_use]
pub fn add_to_moment(moment: i64, interval: IntervalMonthDayNano, zone: &Zone) -> Option<i64> {
    if is_infinite(moment) {
        return Some(moment);
    }
    let mut sum = moment;
    if interval.months != 0 {
        let local = zone.local(sum)?;
        let (days, clock) = (local.div_euclid(MICROS_PER_DAY), local.rem_euclid(MICROS_PER_DAY));
        let Civil { year, month, day } = Civil::from_days(days);
        let months = year * 12 + i64::from(month) - 1 + i64::from(interval.months);
        let (year, month) = (months.div_euclid(12), months.rem_euclid(12) as u32 + 1);
        let day = day.min(days_in_month(year, month));
        let days = Civil { year, month, day }.to_days();
        sum = zone.utc(days.checked_mul(MICROS_PER_DAY)?.checked_add(clock)?)?;
    }
    if interval.days != 0 {
        let days = i64::from(interval.days).checked_mul(MICROS_PER_DAY)?;
        sum = zone.utc(zone.local(sum)?.checked_add(days)?)?;
    }
    sum.checked_add(interval.nanoseconds / 1_000)
}

/// Rows of two columns, where neither is NULL.
fn each<A, B, C>(
    columns: &[ArrayRef],
    compute: impl Fn(A::Native, B::Native) -> Result<C::Native>,
) -> Result<ArrayRef>
where
    A: ArrowPrimitiveType,
    B: ArrowPrimitiveType,
    C: ArrowPrimitiveType,
{
    let (left, right) = (planned_numbers::<A>(&columns[0])?, planned_numbers::<B>(&columns[1])?);
    let computed = left.iter().zip(&right).map(|pair| match pair {
        (Some(left), Some(right)) => compute(left, right).map(Some),
        _ => Ok(None),
    });
    Ok(Arc::new(computed.collect::<Result<PrimitiveArray<C>>>()?))
}

fn out_of_range(what: &str) -> Error {
    Error::new(SqlState::DATETIME_OVERFLOW, format!("{what} out of range"))
}

fn subtract_dates(columns: &[ArrayRef]) -> Result<ArrayRef> {
    each::<Date32Type, Date32Type, Int32Type>(columns, |left, right| {
        if is_infinite_day(left) || is_infinite_day(right) {
            return Err(Error::new(SqlState::DATETIME_OVERFLOW, "cannot subtract infinite dates"));
        }
        left.checked_sub(right).ok_or_else(|| out_of_range("date"))
    })
}

fn add_days(columns: &[ArrayRef]) -> Result<ArrayRef> {
    each::<Date32Type, Int64Type, Date32Type>(columns, |date, days| {
        if is_infinite_day(date) {
            return Ok(date);
        }
        let sum = i64::from(date).checked_add(days).and_then(|sum| i32::try_from(sum).ok());
        sum.ok_or_else(|| out_of_range("date"))
    })
}

/// Microseconds as days and a time.
fn days_and_time(micros: i64) -> IntervalMonthDayNano {
    let (days, rest) = (micros / MICROS_PER_DAY, micros % MICROS_PER_DAY);
    IntervalMonthDayNano::new(0, days as i32, rest * 1_000)
}

fn subtract_moments(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let is_moment =
        |column: &ArrayRef| matches!(column.data_type(), ArrowType::Timestamp(_, Some(_)));
    let to = match columns.iter().any(is_moment) {
        true => DataType::Timestamptz,
        false => Timestamp,
    };
    let moments = columns.iter().map(|column| moments(column, &to)).collect::<Result<Vec<_>>>()?;
    each::<TimestampMicrosecondType, TimestampMicrosecondType, IntervalMonthDayNanoType>(
        &moments,
        |left, right| {
            if is_infinite(left) || is_infinite(right) {
                let message = "cannot subtract infinite timestamps";
                return Err(Error::new(SqlState::DATETIME_OVERFLOW, message));
            }
            let micros = left.checked_sub(right).ok_or_else(|| out_of_range("interval"))?;
            Ok(days_and_time(micros))
        },
    )
}

/// Dates and moments of one type in microseconds since 1970.
fn moments(column: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let field = Field::new("", column.data_type().clone(), true);
    let converted = convert(column, &field, to, Manner::Explicit)?;
    let micros = converted.as_ref().and_then(stored_micros);
    let micros =
        micros.ok_or_else(|| Error::internal(format!("{} is no moment", column.data_type())))??;
    Ok(Arc::new(micros))
}

fn subtract_times(columns: &[ArrayRef]) -> Result<ArrayRef> {
    each::<Time64MicrosecondType, Time64MicrosecondType, IntervalMonthDayNanoType>(
        columns,
        |left, right| Ok(IntervalMonthDayNano::new(0, 0, (left - right) * 1_000)),
    )
}

/// The clock wraps at midnight; days and months do not affect it.
fn add_to_time(columns: &[ArrayRef]) -> Result<ArrayRef> {
    each::<Time64MicrosecondType, IntervalMonthDayNanoType, Time64MicrosecondType>(
        columns,
        |time, interval| Ok((time + interval.nanoseconds / 1_000).rem_euclid(MICROS_PER_DAY)),
    )
}

fn add_time_to_date(columns: &[ArrayRef]) -> Result<ArrayRef> {
    each::<Date32Type, Time64MicrosecondType, TimestampMicrosecondType>(columns, |date, time| {
        match date {
            i32::MIN => return Ok(i64::MIN),
            i32::MAX => return Ok(i64::MAX),
            _ => {}
        }
        let midnight = i64::from(date).checked_mul(MICROS_PER_DAY);
        let moment = midnight.and_then(|midnight| midnight.checked_add(time));
        moment.ok_or_else(|| out_of_range("timestamp"))
    })
}

fn multiply(columns: &[ArrayRef]) -> Result<ArrayRef> {
    each::<IntervalMonthDayNanoType, Float64Type, IntervalMonthDayNanoType>(
        columns,
        |interval, factor| scale(interval, |part| part * factor),
    )
}

fn divide(columns: &[ArrayRef]) -> Result<ArrayRef> {
    each::<IntervalMonthDayNanoType, Float64Type, IntervalMonthDayNanoType>(
        columns,
        |interval, divisor| {
            if divisor == 0.0 {
                return Err(Error::new(SqlState::DIVISION_BY_ZERO, "division by zero"));
            }
            scale(interval, |part| part / divisor)
        },
    )
}

/// Scales each part; the fraction of months becomes days, and the fraction of days a time.
pub fn scale(
    interval: IntervalMonthDayNano,
    scaled: impl Fn(f64) -> f64,
) -> Result<IntervalMonthDayNano> {
    // Rounding removes errors of binary fractions, which must not make a day of 23:59:59.999999.
    let tidy = |value: f64| (value * 1e6).round_ties_even() / 1e6;
    let whole_months = scaled(f64::from(interval.months));
    let whole_days = scaled(f64::from(interval.days));
    let months = whole_months.trunc();
    let days_of_months = tidy((whole_months - months) * DAYS_PER_MONTH);
    let mut days = whole_days.trunc();
    let mut seconds =
        tidy((whole_days - days + days_of_months - days_of_months.trunc()) * SECONDS_PER_DAY);
    if seconds.abs() >= SECONDS_PER_DAY {
        days += (seconds / SECONDS_PER_DAY).trunc();
        seconds %= SECONDS_PER_DAY;
    }
    days += days_of_months.trunc();
    let micros = scaled(interval.nanoseconds as f64 / 1e3) + seconds * MICROS_PER_SECOND as f64;
    let micros = micros.round_ties_even();
    let limit = f64::from(i32::MAX);
    if !(months.abs() <= limit && days.abs() <= limit && micros.abs() < 9.2e15) {
        return Err(out_of_range("interval"));
    }
    Ok(IntervalMonthDayNano::new(months as i32, days as i32, micros as i64 * 1_000))
}
