//! Parameters of type `numeric`.
//!
//! A statement is described with `numeric(38,10)` for them. Each value that is bound has its own
//! precision and scale, so that it keeps all of its digits. A run is planned for the types of its
//! values; runs whose values have equal types share plans.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, FieldRef, Fields};
use datafusion::common::{DataFusionError, ScalarValue};
use thalweg_formats::text::{holds_numerics, numeric_with_own_digits};
use thalweg_types::{Error, Result};

/// True if some parameter is a numeric or an array of numerics.
pub(crate) fn any(parameters: &[FieldRef]) -> bool {
    parameters.iter().any(|parameter| holds_numerics(parameter.data_type()))
}

/// The values as they are bound: those of numeric parameters become numerics with their own digits
/// if they have another type.
///
/// # Errors
/// If a value is no number, or has too many digits.
pub(crate) fn fitted<'v>(
    parameters: &[FieldRef],
    values: &'v [ScalarValue],
) -> Result<Cow<'v, [ScalarValue]>> {
    let is_foreign = |(parameter, value): (&FieldRef, &ScalarValue)| {
        holds_numerics(parameter.data_type()) && !value.is_null() && !is_own(&value.data_type())
    };
    if !parameters.iter().zip(values).any(is_foreign) {
        return Ok(Cow::Borrowed(values));
    }
    let mut fitted = values.to_vec();
    for (parameter, value) in parameters.iter().zip(&mut fitted) {
        if is_foreign((parameter, value)) {
            let array: ArrayRef = value.to_array().map_err(unreadable)?;
            let array = numeric_with_own_digits(parameter, &array)?;
            *value = ScalarValue::try_from_array(&array, 0).map_err(unreadable)?;
        }
    }
    Ok(Cow::Owned(fitted))
}

fn unreadable(error: DataFusionError) -> Error {
    Error::internal("the value of a parameter cannot be read").with_source(error)
}

/// True for the types of numerics that parameters have.
fn is_own(data_type: &DataType) -> bool {
    match data_type {
        DataType::List(item) => is_own(item.data_type()),
        other => matches!(other, DataType::Decimal128(_, 0..)),
    }
}

/// The parameter's field, with the type of its value if that is a numeric.
pub(crate) fn field_of_value(parameter: &FieldRef, value: &ScalarValue) -> FieldRef {
    let data_type = value.data_type();
    let is_numeric = holds_numerics(parameter.data_type()) && is_own(&data_type);
    match is_numeric && !value.is_null() && data_type != *parameter.data_type() {
        true => Arc::new(parameter.as_ref().clone().with_data_type(data_type)),
        false => Arc::clone(parameter),
    }
}

/// [`field_of_value`] of all parameters.
pub(crate) fn fields_of_values<'p>(
    parameters: &'p [FieldRef],
    values: &[ScalarValue],
) -> Cow<'p, [FieldRef]> {
    if !any(parameters) {
        return Cow::Borrowed(parameters);
    }
    let fields = parameters.iter().zip(values).map(|(field, value)| field_of_value(field, value));
    Cow::Owned(fields.collect())
}

/// True if two results have the same columns, apart from precisions and scales of numerics.
pub(crate) fn are_alike(described: &Fields, now: &Fields) -> bool {
    described.len() == now.len()
        && described.iter().zip(now).all(|(described, now)| {
            described.name() == now.name()
                && is_alike(described.data_type(), now.data_type())
                && described.metadata() == now.metadata()
        })
}

/// True if two types are equal apart from precisions and scales of numerics.
pub(crate) fn is_alike(described: &DataType, now: &DataType) -> bool {
    match (described, now) {
        (DataType::List(described), DataType::List(now)) => {
            is_alike(described.data_type(), now.data_type())
        }
        (described, now) => {
            (described.is_decimal() && now.is_decimal()) || described.equals_datatype(now)
        }
    }
}
