//! Division of floating point numbers, where a zero divisor is an error, and their negation.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray};
use arrow::compute::kernels::numeric::div;
use arrow::datatypes::{ArrowNativeTypeOp, DataType as ArrowType, Float32Type, Float64Type};
use datafusion::common::{Result as PlanResult, ScalarValue, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr_common::datum::apply;

use super::integer::division_by_zero;
use crate::errors::external;
use crate::scalar_function::has_unplanned_null;

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
        let types = (left.data_type(), right.data_type());
        if types.0 != types.1 || !types.0.is_floating() {
            return match has_unplanned_null(&args.args) {
                true => ScalarValue::try_from(args.return_type()).map(ColumnarValue::Scalar),
                false => exec_err!("float_divide does not take {} and {}", types.0, types.1),
            };
        }
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
                return Err(external(division_by_zero()));
            }
        }
        apply(left, right, div)
    }
}

/// `-value`, where a NaN keeps its sign: with another sign it would compare as less than all other
/// numbers.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct FloatNegation {
    signature: Signature,
}

impl Default for FloatNegation {
    fn default() -> FloatNegation {
        FloatNegation { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for FloatNegation {
    fn name(&self) -> &str {
        "float_negate"
    }

    /// The name that the operator would have.
    fn schema_name(&self, args: &[Expr]) -> PlanResult<String> {
        match args {
            [operand] => Ok(format!("(- {})", operand.schema_name())),
            _ => exec_err!("float_negate takes one operand"),
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
        let negated =
            |array: &ArrayRef| -> ArrayRef {
                match array.data_type() {
                    ArrowType::Float32 => {
                        Arc::new(array.as_primitive::<Float32Type>().unary::<_, Float32Type>(
                            |value| if value.is_nan() { value } else { -value },
                        ))
                    }
                    // The planner evaluates a call with a column of NULLs that has no type.
                    ArrowType::Null => Arc::clone(array),
                    _ => Arc::new(array.as_primitive::<Float64Type>().unary::<_, Float64Type>(
                        |value| if value.is_nan() { value } else { -value },
                    )),
                }
            };
        Ok(match &args.args[0] {
            ColumnarValue::Array(array) => ColumnarValue::Array(negated(array)),
            ColumnarValue::Scalar(scalar) => {
                let negated = negated(&scalar.to_array()?);
                ColumnarValue::Scalar(ScalarValue::try_from_array(&negated, 0)?)
            }
        })
    }
}

/// The rows that hold a zero.
fn zeros<T: ArrowPrimitiveType>(array: &ArrayRef) -> Vec<usize> {
    let values = array.as_primitive::<T>();
    // Zeros are rare: the common case is one pass without a branch.
    if !values.values().iter().fold(false, |found, value| found | value.is_zero()) {
        return Vec::new();
    }
    (0..values.len()).filter(|row| values.is_valid(*row) && values.value(*row).is_zero()).collect()
}
