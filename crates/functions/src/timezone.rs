//! `AT TIME ZONE`, as the function that it is.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use arrow::datatypes::{
    DataType as ArrowType, Field, IntervalMonthDayNanoType, TimestampMicrosecondType,
};
use datafusion::common::{Result as PlanResult, exec_err};
use datafusion::logical_expr::{ScalarUDF, TypeSignature};
use thalweg_types::{DataType, Error, Result};
use thalweg_values::calendar::is_infinite;
use thalweg_values::cast::{Manner, convert, is_text, stored_micros, to_text};
use thalweg_values::scalar_function::Function;
use thalweg_values::types::arrow_type;
use thalweg_values::zone::{Zone, local, utc};

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let timezone = Function::signed("timezone", TypeSignature::Any(2), ArrowType::Null, timezone)
        .returning(returned);
    vec![timezone.into_udf()]
}

/// A moment becomes what the zone's clocks show; what they show becomes a moment.
fn returned(arguments: &[ArrowType]) -> PlanResult<ArrowType> {
    match arguments {
        [_, ArrowType::Timestamp(_, None)] => Ok(arrow_type(&DataType::Timestamptz)),
        [_, ArrowType::Timestamp(_, Some(_)) | ArrowType::Date32 | ArrowType::Null] => {
            Ok(arrow_type(&DataType::Timestamp))
        }
        [_, text] if is_text(text) => Ok(arrow_type(&DataType::Timestamp)),
        _ => exec_err!("Function 'timezone' does not take such arguments"),
    }
}

fn timezone(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let to_moment = matches!(columns[1].data_type(), ArrowType::Timestamp(_, None));
    let values = moments(&columns[1])?;
    let zones = Zones::of(&columns[0])?;
    let mut last: Option<(usize, Zone)> = None;
    let converted = values.iter().enumerate().map(|(row, value)| {
        let (Some(value), true) = (value, zones.column.is_valid(row)) else { return Ok(None) };
        if is_infinite(value) {
            return Ok(Some(value));
        }
        let zone = match &last {
            Some((at, zone)) if zones.same(*at, row) => zone.clone(),
            _ => zones.at(row)?,
        };
        let converted = match to_moment {
            true => utc(&zone, value),
            false => local(&zone, value),
        };
        last = Some((row, zone));
        converted.map(Some)
    });
    let converted = converted.collect::<Result<PrimitiveArray<TimestampMicrosecondType>>>()?;
    let target = if to_moment { DataType::Timestamptz } else { DataType::Timestamp };
    Ok(Arc::new(converted.with_data_type(arrow_type(&target))))
}

/// Microseconds since 1970. A date is midnight of the session's zone.
fn moments(column: &ArrayRef) -> Result<PrimitiveArray<TimestampMicrosecondType>> {
    let field = Field::new("", column.data_type().clone(), true);
    let target = match column.data_type() {
        ArrowType::Timestamp(_, None) => DataType::Timestamp,
        _ => DataType::Timestamptz,
    };
    let converted = convert(column, &field, &target, Manner::Explicit)?;
    let micros = converted.as_ref().and_then(stored_micros);
    micros.ok_or_else(|| Error::internal(format!("{} is no moment", column.data_type())))?
}

/// Zones as names or as intervals.
struct Zones {
    column: ArrayRef,
}

impl Zones {
    fn of(column: &ArrayRef) -> Result<Zones> {
        let column = match column.data_type() {
            ArrowType::Interval(_) => column.clone(),
            _ => to_text(column)?,
        };
        Ok(Zones { column })
    }

    fn at(&self, row: usize) -> Result<Zone> {
        match self.column.data_type() {
            ArrowType::Interval(_) => {
                Zone::of_interval(self.column.as_primitive::<IntervalMonthDayNanoType>().value(row))
            }
            _ => Zone::of_zone_argument(self.column.as_string_view().value(row)),
        }
    }

    /// True if two rows have the same zone: most columns of zones have one.
    fn same(&self, first: usize, second: usize) -> bool {
        match self.column.data_type() {
            ArrowType::Interval(_) => false,
            _ => {
                let names = self.column.as_string_view();
                names.value(first) == names.value(second)
            }
        }
    }
}
