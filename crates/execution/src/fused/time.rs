//! Times truncated to units of constant length.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::ScalarValue;
use thalweg_functions::even_unit;
use thalweg_scan::Number;
use thalweg_values::zone::is_utc;

use super::expression::{Form, Value};

/// `date_trunc` with a literal unit.
pub(super) fn truncated(unit: &Value, moment: &Value, data_type: DataType) -> Option<Value> {
    let Form::Literal(literal) = &unit.form else { return None };
    let (unit, origin) = even_unit(literal.try_as_str()??)?;
    let is_moment = match &data_type {
        DataType::Timestamp(TimeUnit::Microsecond, zone) => zone.is_none() || is_utc(),
        _ => false,
    };
    if moment.data_type != data_type || !is_moment {
        return None;
    }
    let operand = Box::new(moment.to_number()?);
    Some(Value::number(Number::Bucket { operand, unit, origin }, data_type))
}

/// `date_bin` of a stride without months, which DataFusion computes in nanoseconds.
pub(super) fn binned(
    stride: &Value,
    moment: &Value,
    origin: Option<&Value>,
    data_type: DataType,
) -> Option<Value> {
    const NANOS_PER_DAY: i64 = 86_400_000_000_000;
    let is_moment = matches!(data_type, DataType::Timestamp(TimeUnit::Nanosecond, _));
    if moment.data_type != data_type || !is_moment {
        return None;
    }
    let unit = match &stride.form {
        Form::Literal(ScalarValue::IntervalMonthDayNano(Some(stride))) if stride.months == 0 => {
            let days = i64::from(stride.days).checked_mul(NANOS_PER_DAY)?;
            days.checked_add(stride.nanoseconds).filter(|unit| *unit > 0)?
        }
        _ => return None,
    };
    let origin = match origin.map(|origin| &origin.form) {
        None => 0,
        Some(Form::Literal(ScalarValue::TimestampNanosecond(Some(origin), _))) => *origin,
        Some(_) => return None,
    };
    let operand = Box::new(moment.to_number()?);
    Some(Value::number(Number::Bucket { operand, unit, origin }, data_type))
}
