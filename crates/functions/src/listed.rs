//! `x IN (…)` as one call, which computes `x` once.

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::compute::kernels::cmp::eq;
use arrow::compute::kernels::numeric::add;
use arrow::compute::or_kleene;
use arrow::datatypes::{DataType as ArrowType, Float32Type, Float64Type};
use datafusion::logical_expr::{ScalarUDF, TypeSignature};
use thalweg_types::Result;
use thalweg_values::errors::from_arrow_error;
use thalweg_values::scalar_function::Function;

/// True if the first argument equals one of the others, else NULL if one of them is NULL. All
/// arguments have one type, which is no array.
pub static LISTED: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let signature = TypeSignature::VariadicAny;
    Function::signed("is_listed", signature, ArrowType::Boolean, is_listed).into_udf()
});

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    vec![Arc::clone(&LISTED)]
}

fn is_listed(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let tested = with_one_zero(&columns[0])?;
    let mut found = BooleanArray::from(vec![false; tested.len()]);
    for item in &columns[1..] {
        let equal = eq(&tested, &with_one_zero(item)?).map_err(|error| from_arrow_error(&error))?;
        found = or_kleene(&found, &equal).map_err(|error| from_arrow_error(&error))?;
    }
    Ok(Arc::new(found))
}

/// Floating point numbers whose zeros have no sign, which Arrow would tell apart.
fn with_one_zero(column: &ArrayRef) -> Result<ArrayRef> {
    let sum = match column.data_type() {
        ArrowType::Float32 => {
            let zeros = column.as_primitive::<Float32Type>().unary::<_, Float32Type>(|_| 0.0);
            add(column, &zeros)
        }
        ArrowType::Float64 => {
            let zeros = column.as_primitive::<Float64Type>().unary::<_, Float64Type>(|_| 0.0);
            add(column, &zeros)
        }
        _ => return Ok(Arc::clone(column)),
    };
    sum.map_err(|error| from_arrow_error(&error))
}

#[cfg(test)]
mod tests {
    use arrow::array::{Float64Array, Int64Array};

    use super::*;

    #[test]
    fn a_value_is_listed_as_sql_says() {
        let column =
            |values: &[Option<i64>]| Arc::new(Int64Array::from(values.to_vec())) as ArrayRef;
        let columns = [
            column(&[Some(1), Some(2), Some(3), None]),
            column(&[Some(1), Some(1), None, Some(1)]),
            column(&[None, Some(2), Some(4), Some(2)]),
        ];
        let wanted = BooleanArray::from(vec![Some(true), Some(true), None, None]);
        assert_eq!(is_listed(&columns).unwrap().as_boolean(), &wanted);
        let zeros = [0.0, -0.0].map(|zero| Arc::new(Float64Array::from(vec![zero])) as ArrayRef);
        assert!(is_listed(&zeros).unwrap().as_boolean().value(0));
    }
}
