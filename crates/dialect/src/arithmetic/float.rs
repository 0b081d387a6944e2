//! Division of floating point numbers, where a zero below the line is an error.

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray};
use arrow::compute::kernels::numeric::div;
use arrow::datatypes::{ArrowNativeTypeOp, DataType as ArrowType, Float32Type, Float64Type};
use datafusion::common::{Result as PlanResult, exec_err};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr_common::datum::apply;

use super::integer::division_by_zero;

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct FloatDivision {
    signature: Signature,
}

impl Default for FloatDivision {
    fn default() -> FloatDivision {
        FloatDivision { signature: Signature::any(2, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for FloatDivision {
    fn name(&self) -> &str {
        "float_divide"
    }

    fn schema_name(&self, args: &[Expr]) -> PlanResult<String> {
        match args {
            [left, right] => Ok(format!("{} / {}", left.schema_name(), right.schema_name())),
            _ => exec_err!("float_divide takes two operands"),
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[ArrowType]) -> PlanResult<ArrowType> {
        Ok(arg_types[0].clone())
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
        let [left, right] = args.args.as_slice() else {
            return exec_err!("float_divide takes two operands");
        };
        let divisor = match right {
            ColumnarValue::Array(array) => array.clone(),
            ColumnarValue::Scalar(scalar) => scalar.to_array()?,
        };
        let zeros = match divisor.data_type() {
            ArrowType::Float32 => zeros::<Float32Type>(&divisor),
            _ => zeros::<Float64Type>(&divisor),
        };
        // `NULL / 0` is NULL.
        if !zeros.is_empty() {
            let dividend = left.to_array(args.number_rows)?;
            let divides = match right {
                ColumnarValue::Array(_) => zeros.iter().any(|row| dividend.is_valid(*row)),
                ColumnarValue::Scalar(_) => dividend.null_count() < dividend.len(),
            };
            if divides {
                return Err(DataFusionError::External(Box::new(division_by_zero())));
            }
        }
        apply(left, right, div)
    }
}

/// The rows that hold a zero.
fn zeros<T: ArrowPrimitiveType>(array: &ArrayRef) -> Vec<usize> {
    let values = array.as_primitive::<T>();
    // Hardly ever is there one: the common case is one pass without a branch.
    if !values.values().iter().fold(false, |found, value| found | value.is_zero()) {
        return Vec::new();
    }
    (0..values.len()).filter(|row| values.is_valid(*row) && values.value(*row).is_zero()).collect()
}
