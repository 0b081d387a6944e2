//! `date_trunc(unit, value [, zone])`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use arrow::datatypes::{
    DataType as ArrowType, Field, IntervalMonthDayNano, IntervalMonthDayNanoType,
    TimestampMicrosecondType,
};
use datafusion::common::{Result as PlanResult, exec_err};
use datafusion::logical_expr::{ScalarUDF, TypeSignature};
use thalweg_types::{DataType, Error, Result, SqlState};
use thalweg_values::calendar::{Civil, MICROS_PER_DAY, MICROS_PER_SECOND, is_infinite};
use thalweg_values::cast::{Manner, convert, is_text, to_text};
use thalweg_values::scalar_function::Function;
use thalweg_values::types::arrow_type;
use thalweg_values::zone::{Zone, current_zone};

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let lengths = TypeSignature::OneOf(vec![TypeSignature::Any(2), TypeSignature::Any(3)]);
    let truncate = Function::signed("date_trunc", lengths, ArrowType::Null, truncate);
    vec![truncate.returning(returned).alias("datetrunc").into_udf()]
}

/// A date counts as a moment with a zone, as in PostgreSQL.
fn returned(arguments: &[ArrowType]) -> PlanResult<ArrowType> {
    match arguments.get(1) {
        Some(ArrowType::Timestamp(_, None)) => Ok(arrow_type(&DataType::Timestamp)),
        Some(ArrowType::Interval(_) | ArrowType::Duration(_)) => {
            Ok(arrow_type(&DataType::Interval))
        }
        Some(ArrowType::Timestamp(_, Some(_)) | ArrowType::Date32 | ArrowType::Null) => {
            Ok(arrow_type(&DataType::Timestamptz))
        }
        Some(text) if is_text(text) => Ok(arrow_type(&DataType::Timestamptz)),
        _ => exec_err!("Function 'date_trunc' does not take such arguments"),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    /// Units of the clock, in microseconds.
    Clock(i64),
    Day,
    Week,
    /// So many months, counted from a year and month on.
    Months {
        count: i64,
        first_year: i64,
    },
}

impl Unit {
    fn of(name: &str) -> Result<Unit> {
        let years = |count: i64, first_year| Unit::Months { count: count * 12, first_year };
        let lower = name.trim().to_ascii_lowercase();
        Ok(match lower.as_str() {
            "microsecond" | "microseconds" => Unit::Clock(1),
            "millisecond" | "milliseconds" => Unit::Clock(1_000),
            "second" | "seconds" => Unit::Clock(MICROS_PER_SECOND),
            "minute" | "minutes" => Unit::Clock(60 * MICROS_PER_SECOND),
            "hour" | "hours" => Unit::Clock(3_600 * MICROS_PER_SECOND),
            "day" | "days" => Unit::Day,
            "week" | "weeks" => Unit::Week,
            "month" | "months" => Unit::Months { count: 1, first_year: 0 },
            "quarter" => Unit::Months { count: 3, first_year: 0 },
            "year" | "years" => years(1, 0),
            "decade" | "decades" => years(10, 0),
            // The first century began with the year 1.
            "century" | "centuries" => years(100, 1),
            "millennium" | "millennia" => years(1_000, 1),
            _ => {
                let error_text = format!("unit \"{lower}\" not recognized");
                return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, error_text));
            }
        })
    }

    fn moment(self, micros: i64) -> i64 {
        if is_infinite(micros) {
            return micros;
        }
        let days = micros.div_euclid(MICROS_PER_DAY);
        let days = match self {
            Unit::Clock(unit) => return micros - micros.rem_euclid(unit),
            Unit::Day => days,
            // 1970-01-01 was a Thursday; weeks begin on Mondays.
            Unit::Week => days - (days + 3).rem_euclid(7),
            Unit::Months { count, first_year } => {
                let civil = Civil::from_days(days);
                let months = (civil.year - first_year) * 12 + i64::from(civil.month) - 1;
                let first = months - months.rem_euclid(count);
                let (year, month) = (first.div_euclid(12) + first_year, first.rem_euclid(12));
                Civil { year, month: month as u32 + 1, day: 1 }.to_days()
            }
        };
        days * MICROS_PER_DAY
    }

    /// Like [`moment`](Self::moment), by the clocks of a zone.
    fn moment_in(self, zone: &Zone, micros: i64) -> i64 {
        if is_infinite(micros) {
            return micros;
        }
        let offset = zone.offset_at_utc(micros) * MICROS_PER_SECOND;
        let local = self.moment(micros.saturating_add(offset));
        match self {
            // Within a day the offset stays: an hour that the clocks show twice is two hours.
            Unit::Clock(_) => local - offset,
            _ => local - zone.offset_at_local(local) * MICROS_PER_SECOND,
        }
    }

    fn interval(self, interval: IntervalMonthDayNano) -> Result<IntervalMonthDayNano> {
        let IntervalMonthDayNano { months, days, nanoseconds } = interval;
        Ok(match self {
            Unit::Clock(unit) => {
                IntervalMonthDayNano::new(months, days, nanoseconds - nanoseconds % (unit * 1_000))
            }
            Unit::Day => IntervalMonthDayNano::new(months, days, 0),
            Unit::Week => {
                let error_text = "unit \"week\" not supported for type interval";
                return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, error_text)
                    .with_detail("Months usually have fractional weeks."));
            }
            Unit::Months { count, .. } => {
                IntervalMonthDayNano::new(months - months % (count as i32), 0, 0)
            }
        })
    }
}

/// A unit whose instances all have the same length: the length in microseconds, and the start of
/// one instance. `None` for other names.
#[must_use]
pub fn even_unit(name: &str) -> Option<(i64, i64)> {
    let unit = Unit::of(name).ok()?;
    let micros = match unit {
        Unit::Clock(micros) => micros,
        Unit::Day => MICROS_PER_DAY,
        Unit::Week => 7 * MICROS_PER_DAY,
        Unit::Months { .. } => return None,
    };
    Some((micros, unit.moment(0)))
}

fn truncate(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let target = returned(&columns.iter().map(|c| c.data_type().clone()).collect::<Vec<_>>())
        .map_err(|error| Error::internal(error.to_string()))?;
    let units = to_text(&columns[0])?;
    let units = units.as_string_view();
    let mut last: Option<(usize, Unit)> = None;
    let mut unit_at = |row: usize| -> Result<Option<Unit>> {
        if units.is_null(row) {
            return Ok(None);
        }
        match last {
            Some((at, unit)) if units.value(at) == units.value(row) => Ok(Some(unit)),
            _ => {
                let unit = Unit::of(units.value(row))?;
                last = Some((row, unit));
                Ok(Some(unit))
            }
        }
    };
    let converted = |to: DataType| -> Result<ArrayRef> {
        let field = Field::new("", columns[1].data_type().clone(), true);
        convert(&columns[1], &field, &to, Manner::Explicit)?
            .ok_or_else(|| Error::internal("date_trunc of a type that it does not take"))
    };
    if matches!(target, ArrowType::Interval(_)) {
        let values = converted(DataType::Interval)?;
        let values = values.as_primitive::<IntervalMonthDayNanoType>().iter().enumerate();
        let truncated = values.map(|(row, value)| match (unit_at(row)?, value) {
            (Some(unit), Some(value)) => unit.interval(value).map(Some),
            _ => Ok(None),
        });
        let truncated = truncated.collect::<Result<PrimitiveArray<IntervalMonthDayNanoType>>>()?;
        return Ok(Arc::new(truncated));
    }
    let is_zoned = matches!(target, ArrowType::Timestamp(_, Some(_)));
    let values = converted(if is_zoned { DataType::Timestamptz } else { DataType::Timestamp })?;
    let zones = columns.get(2).map(to_text).transpose()?;
    let session_zone = current_zone().filter(|_| is_zoned);
    let values = values.as_primitive::<TimestampMicrosecondType>().iter().enumerate();
    let truncated = values.map(|(row, value)| {
        let (Some(unit), Some(value)) = (unit_at(row)?, value) else { return Ok(None) };
        match (&zones, &session_zone) {
            (None, None) => Ok(Some(unit.moment(value))),
            (None, Some(zone)) => Ok(Some(unit.moment_in(zone, value))),
            (Some(zones), _) if zones.is_null(row) => Ok(None),
            (Some(zones), _) => {
                let zone = Zone::of_zone_argument(zones.as_string_view().value(row))?;
                Ok(Some(unit.moment_in(&zone, value)))
            }
        }
    });
    let truncated = truncated.collect::<Result<PrimitiveArray<TimestampMicrosecondType>>>()?;
    Ok(Arc::new(truncated.with_data_type(target)))
}

#[cfg(test)]
mod tests {
    use super::{Unit, even_unit};

    #[test]
    fn parts_of_even_units_begin_where_moments_are_cut() {
        let names = ["microseconds", "milliseconds", "second", "minutes", "HOUR", "day", "week"];
        for name in names {
            let (micros, origin) = even_unit(name).unwrap();
            let unit = Unit::of(name).unwrap();
            for moment in (-40_i64..40).map(|n| n * 123_456_789_012) {
                let start = moment - (moment - origin).rem_euclid(micros);
                assert_eq!(start, unit.moment(moment), "{name} of {moment}");
            }
        }
        assert_eq!(even_unit("month"), None);
        assert_eq!(even_unit("fortnight"), None);
    }
}
