//! The fields of an interval that a type such as `interval hour` or `interval(3)` keeps.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{DataType as ArrowType, Int64Type, IntervalMonthDayNanoType};
use datafusion::logical_expr::ScalarUDF;
use thalweg_formats::text::{IntervalFields, IntervalPart};
use thalweg_types::{DataType, Error, Result};
use thalweg_values::scalar_function::Function;
use thalweg_values::types::arrow_type;

const PARTS: [(IntervalPart, &str); 6] = [
    (IntervalPart::Year, "year"),
    (IntervalPart::Month, "month"),
    (IntervalPart::Day, "day"),
    (IntervalPart::Hour, "hour"),
    (IntervalPart::Minute, "minute"),
    (IntervalPart::Second, "second"),
];

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let interval = arrow_type(&DataType::Interval);
    let arguments: &[&[ArrowType]] = &[&[interval.clone(), ArrowType::Utf8View, ArrowType::Int64]];
    vec![Function::new("interval_in_fields", arguments, interval, in_fields).into_udf()]
}

/// The name of a part.
pub fn part_name(part: IntervalPart) -> &'static str {
    PARTS[part as usize].1
}

/// `interval_in_fields(interval, smallest, digits)`: the smallest part that is kept, and the digits
/// of seconds. Both are part of a type's name, and so the same for all rows.
fn in_fields(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let intervals = columns[0].as_primitive::<IntervalMonthDayNanoType>();
    if intervals.is_empty() {
        return Ok(Arc::clone(&columns[0]));
    }
    let smallest = columns[1].as_string_view().value(0);
    let digits = columns[2].as_primitive::<Int64Type>().value(0);
    let part = PARTS.iter().find(|(_, name)| *name == smallest);
    let (part, _) = part.ok_or_else(|| Error::internal("no part of an interval is called so"))?;
    let second_digits = u8::try_from(digits).ok();
    let fields = IntervalFields { parts: Some((IntervalPart::Year, *part)), second_digits };
    let kept = intervals.unary::<_, IntervalMonthDayNanoType>(|interval| fields.kept(interval));
    Ok(Arc::new(kept))
}
