//! `EXTRACT(unit FROM value)`, which gives `numeric`, and `date_part`, which gives floats.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Float64Array};
use arrow::datatypes::{
    DataType as ArrowType, Date32Type, Field, FieldRef, IntervalMonthDayNano,
    IntervalMonthDayNanoType, Time64MicrosecondType, TimestampMicrosecondType,
};
use datafusion::common::{Result as PlanResult, ScalarValue, exec_err};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    TypeSignature, Volatility,
};
use thalweg_types::{DataType, Error, Result, SqlState};
use thalweg_values::calendar::{MICROS_PER_DAY, MICROS_PER_SECOND, is_infinite, is_infinite_day};
use thalweg_values::cast::{Manner, convert, is_text, to_text};
use thalweg_values::date_pattern::Clock;
use thalweg_values::errors::external;
use thalweg_values::scalar_function::Function;
use thalweg_values::types;
use thalweg_values::zone::{Zone, session_zone};

const MICROS_PER_HOUR: i64 = 3_600 * MICROS_PER_SECOND;
/// The day 0 of Julian day numbers is so long before 1970.
const JULIAN_OF_1970: i64 = 2_440_588;
/// As many digits of a day as PostgreSQL gives for almost all of its microseconds.
const JULIAN_SCALE: i8 = 20;

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let date_part =
        Function::signed("date_part", TypeSignature::Any(2), ArrowType::Float64, date_part);
    vec![date_part.alias("datepart").into_udf()]
}

/// Plans `EXTRACT`. Its unit is known then, which decides the scale of the result.
#[derive(Debug)]
pub(super) struct ExtractPlanner;

impl ExprPlanner for ExtractPlanner {
    fn plan_extract(&self, args: Vec<Expr>) -> PlanResult<PlannerResult<Vec<Expr>>> {
        let unit = match args.as_slice() {
            [Expr::Literal(unit, _), _] => unit.try_as_str().flatten().map(str::to_owned),
            _ => None,
        };
        let Some(unit) = unit else { return Ok(PlannerResult::Original(args)) };
        let unit = Unit::of(&unit).map_err(external)?;
        let value = args.into_iter().skip(1).collect();
        Ok(PlannerResult::Planned(ScalarUDF::from(Extract::new(unit)).call(value)))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Unit {
    Microseconds,
    Milliseconds,
    Second,
    Minute,
    Hour,
    Day,
    DayOfWeek,
    IsoDayOfWeek,
    DayOfYear,
    Week,
    Month,
    Quarter,
    Year,
    IsoYear,
    Decade,
    Century,
    Millennium,
    Epoch,
    Julian,
    Timezone,
    TimezoneHour,
    TimezoneMinute,
}

impl Unit {
    fn of(name: &str) -> Result<Unit> {
        let lower = name.trim().trim_matches(['\'', '"']).to_ascii_lowercase();
        Ok(match lower.as_str() {
            "microsecond" | "microseconds" | "us" | "usec" | "usecs" => Unit::Microseconds,
            "millisecond" | "milliseconds" | "ms" | "msec" | "msecs" => Unit::Milliseconds,
            "second" | "seconds" | "s" | "sec" | "secs" => Unit::Second,
            "minute" | "minutes" | "m" | "min" | "mins" => Unit::Minute,
            "hour" | "hours" | "h" | "hr" | "hrs" => Unit::Hour,
            "day" | "days" | "d" => Unit::Day,
            "dow" | "dayofweek" => Unit::DayOfWeek,
            "isodow" => Unit::IsoDayOfWeek,
            "doy" | "dayofyear" => Unit::DayOfYear,
            "week" | "weeks" | "w" => Unit::Week,
            "month" | "months" | "mon" | "mons" => Unit::Month,
            "quarter" | "qtr" => Unit::Quarter,
            "year" | "years" | "y" | "yr" | "yrs" => Unit::Year,
            "isoyear" => Unit::IsoYear,
            "decade" | "decades" | "dec" => Unit::Decade,
            "century" | "centuries" | "c" => Unit::Century,
            "millennium" | "millennia" | "millenium" | "mil" => Unit::Millennium,
            "epoch" => Unit::Epoch,
            "julian" => Unit::Julian,
            "timezone" => Unit::Timezone,
            "timezone_hour" => Unit::TimezoneHour,
            "timezone_minute" => Unit::TimezoneMinute,
            _ => {
                return Err(Error::new(
                    SqlState::INVALID_PARAMETER_VALUE,
                    format!("unit \"{lower}\" not recognized"),
                ));
            }
        })
    }

    /// Number of digits that the unit has behind the point, for values with fractions of a second.
    fn scale(self, of_date: bool) -> i8 {
        match self {
            Unit::Second => 6,
            Unit::Epoch if !of_date => 6,
            Unit::Milliseconds => 3,
            Unit::Julian if !of_date => JULIAN_SCALE,
            _ => 0,
        }
    }

    fn name(self) -> String {
        match self {
            Unit::DayOfWeek => "dow".to_owned(),
            Unit::IsoDayOfWeek => "isodow".to_owned(),
            Unit::TimezoneHour => "timezone_hour".to_owned(),
            Unit::TimezoneMinute => "timezone_minute".to_owned(),
            Unit::DayOfYear => "doy".to_owned(),
            other => format!("{other:?}").to_ascii_lowercase(),
        }
    }
}

/// The type of value that a unit is taken from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Date,
    Time,
    /// Without a zone.
    Timestamp,
    Moment,
    Interval,
}

impl Source {
    fn of(data_type: &ArrowType) -> Option<Source> {
        Some(match data_type {
            ArrowType::Date32 | ArrowType::Date64 => Source::Date,
            ArrowType::Time32(_) | ArrowType::Time64(_) => Source::Time,
            ArrowType::Interval(_) | ArrowType::Duration(_) => Source::Interval,
            ArrowType::Timestamp(_, None) => Source::Timestamp,
            ArrowType::Timestamp(_, Some(_)) | ArrowType::Null => Source::Moment,
            text if is_text(text) => Source::Timestamp,
            _ => return None,
        })
    }

    fn data_type(self) -> DataType {
        match self {
            Source::Date => DataType::Date,
            Source::Time => DataType::Time,
            Source::Timestamp => DataType::Timestamp,
            Source::Moment => DataType::Timestamptz,
            Source::Interval => DataType::Interval,
        }
    }
}

/// The unit's value as a whole number at the unit's scale.
fn value_of(unit: Unit, source: Source, column: &ArrayRef) -> Result<Vec<Option<i128>>> {
    let field = Field::new("", column.data_type().clone(), true);
    let values = convert(column, &field, &source.data_type(), Manner::Explicit)?
        .ok_or_else(|| Error::internal(format!("{} has no parts", column.data_type())))?;
    let unsupported = || {
        let (unit, name) = (unit.name(), source.data_type());
        let error_text = format!("unit \"{unit}\" not supported for type {name}");
        Error::new(SqlState::FEATURE_NOT_SUPPORTED, error_text)
    };
    fn each<N>(
        values: impl Iterator<Item = Option<N>>,
        part: impl Fn(N) -> Option<i64>,
        unsupported: impl Fn() -> Error,
    ) -> Result<Vec<Option<i128>>> {
        let part = |value| part(value).map(i128::from).ok_or_else(&unsupported);
        values.map(|value| value.map(part).transpose()).collect()
    }
    if is_monotonic(unit) && has_infinity(&values) {
        let what = format!("extracting {} from infinity", unit.name());
        return Err(Error::unsupported(what));
    }
    match source {
        Source::Date => {
            let days = values.as_primitive::<Date32Type>().iter();
            let days = days.map(|days| days.filter(|days| !is_infinite_day(*days)));
            each(days, |days| of_date(unit, i64::from(days)), unsupported)
        }
        Source::Time => {
            let times = values.as_primitive::<Time64MicrosecondType>().iter();
            each(times, |micros| of_time(unit, micros), unsupported)
        }
        Source::Timestamp => {
            let moments = values.as_primitive::<TimestampMicrosecondType>().iter();
            let moments = moments.map(|micros| micros.filter(|micros| !is_infinite(*micros)));
            if unit == Unit::Julian {
                return Ok(moments.map(|micros| micros.map(julian)).collect());
            }
            each(moments, |micros| of_moment(unit, micros), unsupported)
        }
        Source::Moment => {
            let zone = session_zone();
            let moments = values.as_primitive::<TimestampMicrosecondType>().iter();
            let moments = moments.map(|micros| micros.filter(|micros| !is_infinite(*micros)));
            if unit == Unit::Julian {
                let local = |micros| zone.local(micros).unwrap_or(micros);
                return Ok(moments.map(|micros| micros.map(|at| julian(local(at)))).collect());
            }
            each(moments, |micros| of_zoned(unit, &zone, micros), unsupported)
        }
        Source::Interval => {
            let intervals = values.as_primitive::<IntervalMonthDayNanoType>().iter();
            each(intervals, |interval| of_interval(unit, interval), unsupported)
        }
    }
}

/// Units that grow without end: infinite for an infinite moment. Other units are NULL there.
fn is_monotonic(unit: Unit) -> bool {
    matches!(
        unit,
        Unit::Millennium
            | Unit::Century
            | Unit::Decade
            | Unit::Year
            | Unit::IsoYear
            | Unit::Epoch
            | Unit::Julian
    )
}

fn has_infinity(values: &ArrayRef) -> bool {
    if let Some(days) = values.as_primitive_opt::<Date32Type>() {
        return days.iter().flatten().any(is_infinite_day);
    }
    values
        .as_primitive_opt::<TimestampMicrosecondType>()
        .is_some_and(|moments| moments.iter().flatten().any(is_infinite))
}

fn of_date(unit: Unit, days: i64) -> Option<i64> {
    match unit {
        Unit::Epoch => Some(days * 86_400),
        Unit::Microseconds
        | Unit::Milliseconds
        | Unit::Second
        | Unit::Minute
        | Unit::Hour
        | Unit::Timezone
        | Unit::TimezoneHour
        | Unit::TimezoneMinute => None,
        unit => of_moment(unit, days * MICROS_PER_DAY),
    }
}

fn of_time(unit: Unit, micros: i64) -> Option<i64> {
    match unit {
        Unit::Microseconds | Unit::Milliseconds | Unit::Second => {
            Some(micros % (60 * MICROS_PER_SECOND))
        }
        Unit::Minute => Some(micros / (60 * MICROS_PER_SECOND) % 60),
        Unit::Hour => Some(micros / MICROS_PER_HOUR),
        Unit::Epoch => Some(micros),
        _ => None,
    }
}

fn of_moment(unit: Unit, micros: i64) -> Option<i64> {
    let clock = Clock::at(micros);
    let year = clock.civil.year;
    // There is no year 0: the one before 1 is -1.
    let error_text = |year: i64| if year > 0 { year } else { year - 1 };
    Some(match unit {
        Unit::Microseconds | Unit::Milliseconds | Unit::Second | Unit::Minute | Unit::Hour => {
            return of_time(unit, clock.micros);
        }
        Unit::Day => i64::from(clock.civil.day),
        Unit::DayOfWeek => clock.iso_day_of_week() % 7,
        Unit::IsoDayOfWeek => clock.iso_day_of_week(),
        Unit::DayOfYear => clock.day_of_year(),
        Unit::Week => clock.iso_week().1,
        Unit::Month => i64::from(clock.civil.month),
        Unit::Quarter => i64::from(clock.civil.month - 1) / 3 + 1,
        Unit::Year => error_text(year),
        Unit::IsoYear => error_text(clock.iso_week().0),
        Unit::Decade => year.div_euclid(10),
        Unit::Century => error_text((year + 99).div_euclid(100)),
        Unit::Millennium => error_text((year + 999).div_euclid(1_000)),
        Unit::Epoch => micros,
        Unit::Julian => clock.days + JULIAN_OF_1970,
        // Timestamps without a zone have no offset.
        Unit::Timezone | Unit::TimezoneHour | Unit::TimezoneMinute => return None,
    })
}

/// A part of a moment by the clocks of a zone.
fn of_zoned(unit: Unit, zone: &Zone, micros: i64) -> Option<i64> {
    match unit {
        Unit::Epoch => Some(micros),
        Unit::Timezone => Some(zone.offset_at_utc(micros)),
        Unit::TimezoneHour => Some(zone.offset_at_utc(micros) / 3_600),
        Unit::TimezoneMinute => Some(zone.offset_at_utc(micros) / 60 % 60),
        unit => of_moment(unit, zone.local(micros).unwrap_or(micros)),
    }
}

/// The Julian day with its fraction, as a whole number at [`JULIAN_SCALE`].
fn julian(micros: i64) -> i128 {
    let unit = 10_i128.pow(JULIAN_SCALE as u32);
    let days = i128::from(micros.div_euclid(MICROS_PER_DAY) + JULIAN_OF_1970);
    let (over, all) = (i128::from(micros.rem_euclid(MICROS_PER_DAY)), i128::from(MICROS_PER_DAY));
    days * unit + (over * unit + all / 2) / all
}

fn of_interval(unit: Unit, interval: IntervalMonthDayNano) -> Option<i64> {
    let (months, days) = (i64::from(interval.months), i64::from(interval.days));
    let micros = interval.nanoseconds / 1_000;
    Some(match unit {
        Unit::Microseconds | Unit::Milliseconds | Unit::Second | Unit::Minute | Unit::Hour => {
            return of_time(unit, micros);
        }
        Unit::Day => days,
        Unit::Month => months % 12,
        Unit::Quarter => months % 12 / 3 + 1,
        Unit::Year => months / 12,
        Unit::Decade => months / 120,
        Unit::Century => months / 1_200,
        Unit::Millennium => months / 12_000,
        // A year has 365.25 days, a month 30.
        Unit::Epoch => {
            let hours = months / 12 * 8_766 + months % 12 * 720 + days * 24;
            hours * MICROS_PER_HOUR + micros
        }
        _ => return None,
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Extract {
    unit: Unit,
    signature: Signature,
}

impl Extract {
    fn new(unit: Unit) -> Extract {
        Extract { unit, signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Extract {
    fn name(&self) -> &str {
        "extract"
    }

    fn schema_name(&self, args: &[Expr]) -> PlanResult<String> {
        match args {
            [value] => Ok(format!("extract({} FROM {})", self.unit.name(), value.schema_name())),
            _ => exec_err!("extract takes one value"),
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[ArrowType]) -> PlanResult<ArrowType> {
        match Source::of(&arg_types[0]) {
            Some(source) => {
                let scale = self.unit.scale(source == Source::Date);
                let digits = if scale == JULIAN_SCALE { 38 } else { 20 };
                Ok(ArrowType::Decimal128(digits, scale))
            }
            None => {
                let name = types::display_name(&Field::new("", arg_types[0].clone(), true));
                let error_text = format!("function extract(unknown, {name}) does not exist");
                let error = Error::new(SqlState::UNDEFINED_FUNCTION, error_text);
                Err(external(error))
            }
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> PlanResult<FieldRef> {
        let data_type = self.return_type(&[args.arg_fields[0].data_type().clone()])?;
        Ok(Arc::new(Field::new(self.name(), data_type, true)))
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
        let [value] = args.args.as_slice() else { return exec_err!("extract takes one value") };
        let (column, is_scalar) = match value {
            ColumnarValue::Array(array) => (array.clone(), false),
            ColumnarValue::Scalar(scalar) => (scalar.to_array()?, true),
        };
        let target = args.return_field.data_type().clone();
        let Some(source) = Source::of(column.data_type()) else {
            return exec_err!("extract does not take {}", column.data_type());
        };
        let parts = value_of(self.unit, source, &column).map_err(external)?;
        let parts = Decimal128Array::from(parts).with_data_type(target);
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&parts, 0)?),
            false => ColumnarValue::Array(Arc::new(parts)),
        })
    }
}

fn date_part(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let units = to_text(&columns[0])?;
    let units = units.as_string_view();
    let source = Source::of(columns[1].data_type()).ok_or_else(|| {
        let name = types::display_name(&Field::new("", columns[1].data_type().clone(), true));
        let error_text = format!("function date_part(text, {name}) does not exist");
        Error::new(SqlState::UNDEFINED_FUNCTION, error_text)
    })?;
    let mut parts: Vec<Option<f64>> = vec![None; units.len()];
    let mut row = 0;
    while row < units.len() {
        // Consecutive rows with the same unit, the usual case, are computed together.
        let same = |other: &usize| {
            units.is_valid(*other) == units.is_valid(row)
                && (units.is_null(row) || units.value(*other) == units.value(row))
        };
        let end = (row + 1..units.len()).find(|other| !same(other)).unwrap_or(units.len());
        if units.is_valid(row) {
            let unit = Unit::of(units.value(row))?;
            let scale = unit.scale(source == Source::Date);
            let values = value_of(unit, source, &columns[1].slice(row, end - row))?;
            for (place, value) in values.into_iter().enumerate() {
                parts[row + place] = value.map(|value| as_float(value, scale));
            }
        }
        row = end;
    }
    Ok(Arc::new(Float64Array::from(parts)))
}

/// A number with `scale` digits behind the point. If it has more digits than a float, the whole
/// part is as exact as possible.
fn as_float(value: i128, scale: i8) -> f64 {
    let unit = 10_i128.pow(scale as u32);
    match scale {
        JULIAN_SCALE => (value / unit) as f64 + (value % unit) as f64 / unit as f64,
        _ => value as f64 / unit as f64,
    }
}
