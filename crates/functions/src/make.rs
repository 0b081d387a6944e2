//! Dates, times, moments and intervals from their parts, and whether they are finite.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, PrimitiveArray};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType as ArrowType, Date32Type, Float64Type, Int64Type, IntervalMonthDayNano,
    IntervalMonthDayNanoType, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType,
};
use datafusion::logical_expr::{ScalarUDF, TypeSignature};
use thalweg_types::{DataType, Error, Result, SqlState};
use thalweg_values::calendar::{
    Civil, MICROS_PER_DAY, MICROS_PER_SECOND, is_infinite, is_infinite_day,
};
use thalweg_values::scalar_function::{Compute, Function};
use thalweg_values::types::arrow_type;
use thalweg_values::zone::{Zone, session_zone, utc};

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let (int, float, text) = (ArrowType::Int64, ArrowType::Float64, ArrowType::Utf8View);
    let moment =
        vec![int.clone(), int.clone(), int.clone(), int.clone(), int.clone(), float.clone()];
    let zoned: Vec<ArrowType> = moment.iter().cloned().chain([text]).collect();
    let parts = |count: usize| -> Vec<ArrowType> {
        (0..count).map(|place| if place == 6 { float.clone() } else { int.clone() }).collect()
    };
    let intervals: Vec<Vec<ArrowType>> = (1..=7).map(parts).collect();
    let intervals: Vec<&[ArrowType]> = intervals.iter().map(Vec::as_slice).collect();
    let finite: Compute = is_finite;
    vec![
        Function::new(
            "make_date",
            &[&[int.clone(), int.clone(), int.clone()]],
            arrow_type(&DataType::Date),
            make_date,
        )
        .into_udf(),
        Function::new(
            "make_time",
            &[&[int.clone(), int.clone(), float.clone()]],
            arrow_type(&DataType::Time),
            make_time,
        )
        .into_udf(),
        Function::new(
            "make_timestamp",
            &[&moment],
            arrow_type(&DataType::Timestamp),
            make_timestamp,
        )
        .into_udf(),
        Function::new(
            "make_timestamptz",
            &[&moment, &zoned],
            arrow_type(&DataType::Timestamptz),
            make_timestamptz,
        )
        .into_udf(),
        Function::new("make_interval", &intervals, arrow_type(&DataType::Interval), make_interval)
            .into_udf(),
        Function::signed("isfinite", TypeSignature::Any(1), ArrowType::Boolean, finite).into_udf(),
    ]
}

fn out_of_range(what: &str) -> Error {
    Error::new(SqlState::DATETIME_OVERFLOW, format!("{what} field value out of range"))
}

/// Whole numbers by place, and the seconds behind them.
struct Parts<'a> {
    columns: &'a [ArrayRef],
}

impl Parts<'_> {
    fn whole(&self, place: usize, row: usize) -> i64 {
        self.columns[place].as_primitive::<Int64Type>().value(row)
    }

    /// Microseconds since midnight of an hour, a minute and seconds from `place` on.
    fn clock(&self, place: usize, row: usize) -> Option<i64> {
        let (hour, minute) = (self.whole(place, row), self.whole(place + 1, row));
        let seconds = self.columns[place + 2].as_primitive::<Float64Type>().value(row);
        let valid = (0..=24).contains(&hour)
            && (0..60).contains(&minute)
            && (0.0..=60.0).contains(&seconds);
        let micros = (seconds * MICROS_PER_SECOND as f64).round() as i64;
        let clock = (hour * 60 + minute) * 60 * MICROS_PER_SECOND + micros;
        (valid && clock <= MICROS_PER_DAY).then_some(clock)
    }

    /// The day of a year, a month and a day. There is no year 0: before 1 is the year 1 BC.
    fn civil(&self, row: usize) -> Option<Civil> {
        let part = |place: usize| u32::try_from(self.whole(place, row)).unwrap_or(0);
        let year = match self.whole(0, row) {
            0 => return None,
            year @ ..0 => year + 1,
            year => year,
        };
        Civil::checked(year, part(1), part(2))
    }

    fn local_moment(&self, row: usize) -> Result<i64> {
        let moment = self.civil(row).zip(self.clock(3, row));
        let (civil, clock) = moment.ok_or_else(|| out_of_range("date/time"))?;
        Ok(civil.to_days() * MICROS_PER_DAY + clock)
    }

    /// One value for each row that has all its parts.
    fn make<N>(&self, make: impl Fn(usize) -> Result<N>) -> Result<Vec<Option<N>>> {
        let rows = self.columns.first().map_or(0, |column| column.len());
        let whole = |row: usize| self.columns.iter().all(|column| column.is_valid(row));
        (0..rows).map(|row| whole(row).then(|| make(row)).transpose()).collect()
    }
}

fn make_date(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let parts = Parts { columns };
    let made = parts.make(|row| {
        let days = parts.civil(row).and_then(|civil| i32::try_from(civil.to_days()).ok());
        days.ok_or_else(|| out_of_range("date"))
    })?;
    Ok(Arc::new(made.into_iter().collect::<PrimitiveArray<Date32Type>>()))
}

fn make_time(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let parts = Parts { columns };
    let made = parts.make(|row| parts.clock(0, row).ok_or_else(|| out_of_range("time")))?;
    Ok(Arc::new(made.into_iter().collect::<PrimitiveArray<Time64MicrosecondType>>()))
}

fn make_timestamp(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let parts = Parts { columns };
    let made = parts.make(|row| parts.local_moment(row))?;
    Ok(Arc::new(made.into_iter().collect::<PrimitiveArray<TimestampMicrosecondType>>()))
}

fn make_timestamptz(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let parts = Parts { columns };
    let session_zone = session_zone();
    let made = parts.make(|row| {
        let local = parts.local_moment(row)?;
        let zone = match columns.get(6) {
            Some(zones) => Zone::of_argument(zones.as_string_view().value(row))?,
            None => session_zone.clone(),
        };
        utc(&zone, local)
    })?;
    let made = made.into_iter().collect::<PrimitiveArray<TimestampMicrosecondType>>();
    Ok(Arc::new(made.with_data_type(arrow_type(&DataType::Timestamptz))))
}

/// The interval of years, months, weeks, days, hours, minutes and seconds; trailing parts may be
/// missing.
fn make_interval(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let parts = Parts { columns };
    let made = parts.make(|row| {
        let whole = |place: usize| if place < columns.len() { parts.whole(place, row) } else { 0 };
        let seconds = match columns.get(6) {
            Some(seconds) => seconds.as_primitive::<Float64Type>().value(row),
            None => 0.0,
        };
        let months = whole(0).checked_mul(12).and_then(|months| months.checked_add(whole(1)));
        let days = whole(2).checked_mul(7).and_then(|days| days.checked_add(whole(3)));
        let minutes = whole(4).checked_mul(60).and_then(|minutes| minutes.checked_add(whole(5)));
        let micros = minutes.and_then(|minutes| {
            let micros = (seconds * MICROS_PER_SECOND as f64).round();
            let whole = minutes.checked_mul(60 * MICROS_PER_SECOND)?;
            whole.checked_add(micros as i64)?.checked_mul(1_000)
        });
        let narrow = |value: Option<i64>| value.and_then(|value| i32::try_from(value).ok());
        match (narrow(months), narrow(days), micros) {
            (Some(months), Some(days), Some(nanos)) => {
                Ok(IntervalMonthDayNano::new(months, days, nanos))
            }
            _ => Err(Error::new(SqlState::DATETIME_OVERFLOW, "interval out of range")),
        }
    })?;
    Ok(Arc::new(made.into_iter().collect::<PrimitiveArray<IntervalMonthDayNanoType>>()))
}

/// Days, moments and floats may be infinite.
fn is_finite(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let column = &columns[0];
    let finite: BooleanArray = match column.data_type() {
        ArrowType::Float32 | ArrowType::Float64 => {
            let floats = cast(column, &ArrowType::Float64)
                .map_err(|error| thalweg_values::errors::from_arrow_error(&error))?;
            let floats = floats.as_primitive::<Float64Type>().iter();
            floats.map(|value| value.map(f64::is_finite)).collect()
        }
        ArrowType::Date32 => {
            let days = column.as_primitive::<Date32Type>().iter();
            days.map(|days| days.map(|days| !is_infinite_day(days))).collect()
        }
        ArrowType::Timestamp(TimeUnit::Microsecond, _) => {
            let moments = column.as_primitive::<TimestampMicrosecondType>().iter();
            moments.map(|micros| micros.map(|micros| !is_infinite(micros))).collect()
        }
        _ => (0..column.len()).map(|row| column.is_valid(row).then_some(true)).collect(),
    };
    Ok(Arc::new(finite))
}
