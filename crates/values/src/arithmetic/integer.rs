//! `+`, `-`, `*`, `/`, `%` and `#` on integers.
//!
//! `#` is here because DataFusion folds `a # a` to zero, also where `a` is NULL (no upstream issue
//! found).

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::datatypes::{DataType as ArrowType, Int16Type, Int32Type, Int64Type};
use datafusion::common::{Result as PlanResult, ScalarValue, exec_err};
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::{
    ColumnarValue, Expr, Operator, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use thalweg_types::{Error, SqlState};

use crate::errors::external;
use crate::scalar_function::has_unplanned_null;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum IntegerOperator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Xor,
}

impl IntegerOperator {
    pub(super) fn of(operator: Operator) -> Option<IntegerOperator> {
        Some(match operator {
            Operator::Plus => IntegerOperator::Add,
            Operator::Minus => IntegerOperator::Subtract,
            Operator::Multiply => IntegerOperator::Multiply,
            Operator::Divide => IntegerOperator::Divide,
            Operator::Modulo => IntegerOperator::Modulo,
            Operator::BitwiseXor => IntegerOperator::Xor,
            _ => return None,
        })
    }

    fn symbol(self) -> &'static str {
        match self {
            IntegerOperator::Add => "+",
            IntegerOperator::Subtract => "-",
            IntegerOperator::Multiply => "*",
            IntegerOperator::Divide => "/",
            IntegerOperator::Modulo => "%",
            IntegerOperator::Xor => "BIT_XOR",
        }
    }
}

/// An integer operator as a function of two operands of one type.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct IntegerArithmetic {
    operator: IntegerOperator,
    signature: Signature,
}

impl IntegerArithmetic {
    pub(super) fn new(operator: IntegerOperator) -> IntegerArithmetic {
        IntegerArithmetic { operator, signature: Signature::any(2, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for IntegerArithmetic {
    fn name(&self) -> &str {
        match self.operator {
            IntegerOperator::Add => "integer_add",
            IntegerOperator::Subtract => "integer_subtract",
            IntegerOperator::Multiply => "integer_multiply",
            IntegerOperator::Divide => "integer_divide",
            IntegerOperator::Modulo => "integer_modulo",
            IntegerOperator::Xor => "integer_xor",
        }
    }

    /// The name that the operator would have, so that columns keep their names.
    fn schema_name(&self, args: &[Expr]) -> PlanResult<String> {
        match args {
            [left, right] => Ok(format!(
                "{} {} {}",
                left.schema_name(),
                self.operator.symbol(),
                right.schema_name()
            )),
            _ => exec_err!("{} takes two operands", self.name()),
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

    /// Any value of their type. Bounds without a type cannot be compared, and then DataFusion would
    /// not see that rows are in the order of a comparison.
    fn evaluate_bounds(&self, operands: &[&Interval]) -> PlanResult<Interval> {
        let mut types = operands.iter().map(|operand| operand.data_type());
        let known = types.find(|operand| !operand.is_null());
        Interval::make_unbounded(&known.unwrap_or(ArrowType::Null))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
        let [left, right] = args.args.as_slice() else {
            return exec_err!("{} takes two operands", self.name());
        };
        let types = (left.data_type(), right.data_type());
        if types.0 != types.1 && has_unplanned_null(&args.args) {
            return ScalarValue::try_from(args.return_type()).map(ColumnarValue::Scalar);
        }
        let computed = match types.0 {
            ArrowType::Null => {
                return ScalarValue::try_from(args.return_type()).map(ColumnarValue::Scalar);
            }
            other if other != types.1 => {
                return exec_err!("{} does not take {other} and {}", self.name(), types.1);
            }
            ArrowType::Int16 => compute::<Int16Type>(self.operator, left, right),
            ArrowType::Int32 => compute::<Int32Type>(self.operator, left, right),
            ArrowType::Int64 => compute::<Int64Type>(self.operator, left, right),
            other => return exec_err!("{} does not take {other}", self.name()),
        }?;
        computed.map_err(external)
    }
}

/// An integer type whose results are computed together with a witness of their overflow.
pub(super) trait Checked: ArrowPrimitiveType {
    const NAME: &'static str;

    /// Each gives the wrapped result, and a value that is negative if it wrapped.
    fn add(left: Self::Native, right: Self::Native) -> (Self::Native, Self::Native);
    fn subtract(left: Self::Native, right: Self::Native) -> (Self::Native, Self::Native);
    fn multiply(left: Self::Native, right: Self::Native) -> (Self::Native, Self::Native);
    fn xor(left: Self::Native, right: Self::Native) -> (Self::Native, Self::Native);
    fn divide(left: Self::Native, right: Self::Native) -> Option<Self::Native>;
    fn modulo(left: Self::Native, right: Self::Native) -> Option<Self::Native>;
    fn either(left: Self::Native, right: Self::Native) -> Self::Native;
    fn is_overflow(witness: Self::Native) -> bool;
}

macro_rules! checked {
    ($arrow:ty, $native:ty, $wide:ty, $name:literal) => {
        impl Checked for $arrow {
            const NAME: &'static str = $name;

            #[inline(always)]
            fn add(left: $native, right: $native) -> ($native, $native) {
                let sum = left.wrapping_add(right);
                // The sum wrapped if both operands have the opposite sign.
                (sum, (left ^ sum) & (right ^ sum))
            }

            #[inline(always)]
            fn subtract(left: $native, right: $native) -> ($native, $native) {
                let difference = left.wrapping_sub(right);
                (difference, (left ^ right) & (left ^ difference))
            }

            #[inline(always)]
            fn multiply(left: $native, right: $native) -> ($native, $native) {
                let product = <$wide>::from(left) * <$wide>::from(right);
                let wrapped = product as $native;
                (wrapped, -<$native>::from(product != <$wide>::from(wrapped)))
            }

            #[inline(always)]
            fn xor(left: $native, right: $native) -> ($native, $native) {
                (left ^ right, 0)
            }

            #[inline(always)]
            fn divide(left: $native, right: $native) -> Option<$native> {
                left.checked_div(right)
            }

            #[inline(always)]
            fn modulo(left: $native, right: $native) -> Option<$native> {
                (right != 0).then(|| left.wrapping_rem(right))
            }

            #[inline(always)]
            fn either(left: $native, right: $native) -> $native {
                left | right
            }

            #[inline(always)]
            fn is_overflow(witness: $native) -> bool {
                witness < 0
            }
        }
    };
}

checked!(Int16Type, i16, i32, "smallint");
checked!(Int32Type, i32, i64, "integer");
checked!(Int64Type, i64, i128, "bigint");

/// The outer result is an error of the plan, the inner one an error of the operation.
fn compute<T: Checked>(
    operator: IntegerOperator,
    left: &ColumnarValue,
    right: &ColumnarValue,
) -> PlanResult<Result<ColumnarValue, Error>> {
    let operation = match operator {
        IntegerOperator::Add => return wrapping::<T>(left, right, T::add),
        IntegerOperator::Subtract => return wrapping::<T>(left, right, T::subtract),
        IntegerOperator::Multiply => return wrapping::<T>(left, right, T::multiply),
        IntegerOperator::Xor => return wrapping::<T>(left, right, T::xor),
        IntegerOperator::Divide => T::divide,
        IntegerOperator::Modulo => T::modulo,
    };
    let (left, right, scalar) = operands::<T>(left, right)?;
    let nulls = NullBuffer::union(left.nulls(), right.nulls());
    let zero = T::default_value();
    let mut failed = None;
    let values = paired(&left, &right, |index, left, right| {
        operation(left, right).unwrap_or_else(|| {
            let is_null = nulls.as_ref().is_some_and(|nulls| nulls.is_null(index));
            if !is_null && failed.is_none() {
                failed = Some(if right == zero { division_by_zero() } else { overflow::<T>() });
            }
            zero
        })
    });
    match failed {
        Some(error) => Ok(Err(error)),
        None => finish::<T>(values, nulls, scalar).map(Ok),
    }
}

/// Computes every row, then asks once whether any row wrapped.
fn wrapping<T: Checked>(
    left: &ColumnarValue,
    right: &ColumnarValue,
    operation: impl Fn(T::Native, T::Native) -> (T::Native, T::Native),
) -> PlanResult<Result<ColumnarValue, Error>> {
    let (left, right, scalar) = operands::<T>(left, right)?;
    let nulls = NullBuffer::union(left.nulls(), right.nulls());
    let mut witness = T::default_value();
    let values = paired(&left, &right, |_, left, right| {
        let (value, wrapped) = operation(left, right);
        witness = T::either(witness, wrapped);
        value
    });
    if T::is_overflow(witness) {
        let mut wrapped = false;
        // Values under NULLs may have wrapped, but they are never read.
        paired(&left, &right, |index, left, right| {
            let is_null = nulls.as_ref().is_some_and(|nulls| nulls.is_null(index));
            wrapped |= !is_null && T::is_overflow(operation(left, right).1);
            T::default_value()
        });
        if wrapped {
            return Ok(Err(overflow::<T>()));
        }
    }
    finish::<T>(values, nulls, scalar).map(Ok)
}

/// Both operands as arrays; an operand that is one value has one row. The flag is true if the
/// result is one value too.
fn operands<T: Checked>(
    left: &ColumnarValue,
    right: &ColumnarValue,
) -> PlanResult<(PrimitiveArray<T>, PrimitiveArray<T>, bool)> {
    let rows = |value: &ColumnarValue| -> PlanResult<PrimitiveArray<T>> {
        let array = match value {
            ColumnarValue::Array(array) => array.clone(),
            ColumnarValue::Scalar(scalar) => scalar.to_array()?,
        };
        Ok(array.as_primitive::<T>().clone())
    };
    let scalar = |value: &ColumnarValue| matches!(value, ColumnarValue::Scalar(_));
    let (many_left, many_right) = (!scalar(left), !scalar(right));
    let (left, right) = (rows(left)?, rows(right)?);
    let spread = |one: PrimitiveArray<T>, count: usize| match one.is_null(0) {
        true => PrimitiveArray::<T>::new_null(count),
        false => one,
    };
    Ok(match (many_left, many_right) {
        (true, false) => {
            let right = spread(right, left.len());
            (left, right, false)
        }
        (false, true) => (spread(left, right.len()), right, false),
        (many, _) => (left, right, !many),
    })
}

fn paired<T: Checked>(
    left: &PrimitiveArray<T>,
    right: &PrimitiveArray<T>,
    mut operation: impl FnMut(usize, T::Native, T::Native) -> T::Native,
) -> Vec<T::Native> {
    let (left, right) = (left.values(), right.values());
    match (left.len(), right.len()) {
        (a, b) if a == b => left
            .iter()
            .zip(right.iter())
            .enumerate()
            .map(|(index, (left, right))| operation(index, *left, *right))
            .collect(),
        (_, 1) => {
            let right = right[0];
            left.iter().enumerate().map(|(index, left)| operation(index, *left, right)).collect()
        }
        (1, _) => {
            let left = left[0];
            right.iter().enumerate().map(|(index, right)| operation(index, left, *right)).collect()
        }
        (a, b) => unreachable!("operands of {a} and {b} rows"),
    }
}

fn finish<T: Checked>(
    values: Vec<T::Native>,
    nulls: Option<NullBuffer>,
    scalar: bool,
) -> PlanResult<ColumnarValue> {
    let array: ArrayRef = Arc::new(PrimitiveArray::<T>::new(ScalarBuffer::from(values), nulls));
    if scalar {
        return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?));
    }
    Ok(ColumnarValue::Array(array))
}

fn overflow<T: Checked>() -> Error {
    Error::new(SqlState::NUMERIC_OUT_OF_RANGE, format!("{} out of range", T::NAME))
}

pub(super) fn division_by_zero() -> Error {
    Error::new(SqlState::DIVISION_BY_ZERO, "division by zero")
}
