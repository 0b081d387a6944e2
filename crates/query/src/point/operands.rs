//! The values of a point statement: parameters or literals.

use std::sync::Arc;

use arrow::array::{Array as _, ArrayRef, AsArray, PrimitiveArray};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType as ArrowType, Field, FieldRef, Int16Type, Int32Type, Int64Type,
};
use datafusion::common::{DataFusionError, ScalarValue};
use datafusion::sql::sqlparser::ast::{Expr, UnaryOperator, Value, ValueWithSpan};
use thalweg_types::{DataType, Error, Result};

use crate::numeric_parameters::field_of_value;

/// A literal, in its column's type.
pub(super) struct Constant {
    field: FieldRef,
    value: ScalarValue,
}

impl Constant {
    /// A literal for a column; `None` if its conversion to the column's type is not trivial.
    pub(super) fn of(expr: &Expr, column: &DataType) -> Option<Constant> {
        let value = match (expr, column) {
            (Expr::Value(ValueWithSpan { value, .. }), _) => literal(value, "", column)?,
            (Expr::UnaryOp { op: UnaryOperator::Minus, expr }, _) => match expr.as_ref() {
                Expr::Value(ValueWithSpan { value: value @ Value::Number(..), .. }) => {
                    literal(value, "-", column)?
                }
                _ => return None,
            },
            _ => return None,
        };
        let field = Arc::new(Field::new("constant", value.data_type(), true));
        Some(Constant { field, value })
    }
}

fn literal(value: &Value, sign: &str, column: &DataType) -> Option<ScalarValue> {
    Some(match (value, column) {
        (Value::Number(digits, _), DataType::Int2) => {
            ScalarValue::Int16(Some(format!("{sign}{digits}").parse().ok()?))
        }
        (Value::Number(digits, _), DataType::Int4) => {
            ScalarValue::Int32(Some(format!("{sign}{digits}").parse().ok()?))
        }
        (Value::Number(digits, _), DataType::Int8) => {
            ScalarValue::Int64(Some(format!("{sign}{digits}").parse().ok()?))
        }
        (Value::SingleQuotedString(text), DataType::Text { max_chars: None }) => {
            ScalarValue::Utf8View(Some(text.clone()))
        }
        (Value::Boolean(value), DataType::Boolean) => ScalarValue::Boolean(Some(*value)),
        _ => return None,
    })
}

/// The operand for a column of a key.
pub(super) struct KeyOperand {
    pub(super) at: usize,
    /// The column's type, if the operand has another one: a narrower integer, or a numeric with
    /// other digits.
    pub(super) other: Option<ArrowType>,
}

/// The new value of a column.
#[derive(Clone, Copy)]
pub(super) enum Assigned {
    Operand(usize),
    /// The old value plus or minus an operand.
    Sum(usize, Sign),
}

#[derive(Clone, Copy)]
pub(super) enum Sign {
    Plus,
    Minus,
}

/// The values of one execution.
pub(super) struct Operands<'a> {
    parameters: &'a [FieldRef],
    values: Vec<ScalarValue>,
    constants: &'a [Constant],
}

impl<'a> Operands<'a> {
    /// `None` if a value cannot be converted to its parameter's type: clients may bind values of
    /// other types.
    pub(super) fn new(
        parameters: &'a [FieldRef],
        values: &[ScalarValue],
        constants: &'a [Constant],
    ) -> Option<Operands<'a>> {
        let converted = parameters.iter().zip(values).map(|(parameter, value)| {
            let is_fit = value.data_type() == *parameter.data_type()
                || matches!(
                    (value, parameter.data_type()),
                    (ScalarValue::Decimal128(Some(_), ..), ArrowType::Decimal128(..))
                );
            match is_fit {
                true => Some(value.clone()),
                false => value.cast_to(field_of_value(parameter, value).data_type()).ok(),
            }
        });
        Some(Operands { parameters, values: converted.collect::<Option<_>>()?, constants })
    }

    /// True if these are the values that were bound, regardless of their original types.
    pub(super) fn are(&self, bound: &[ScalarValue]) -> bool {
        self.values.iter().zip(bound).all(|(own, bound)| {
            own == bound || own.cast_to(&bound.data_type()).is_ok_and(|back| back == *bound)
        })
    }

    pub(super) fn field(&self, at: usize) -> &FieldRef {
        match self.parameters.get(at) {
            Some(field) => field,
            None => &self.constants[at - self.parameters.len()].field,
        }
    }

    pub(super) fn value(&self, at: usize) -> &ScalarValue {
        match self.values.get(at) {
            Some(value) => value,
            None => &self.constants[at - self.values.len()].value,
        }
    }

    pub(super) fn array(&self, at: usize) -> Result<ArrayRef> {
        self.value(at).to_array().map_err(unreadable)
    }

    /// The values of a key's columns, in their types; `None` if a column cannot have the value.
    pub(super) fn key(&self, operands: &[KeyOperand]) -> Result<Option<Vec<ArrayRef>>> {
        let values = operands.iter().map(|KeyOperand { at, other }| {
            let value = match other {
                None => return self.array(*at).map(Some),
                Some(other @ ArrowType::Decimal128(..)) => rescaled(self.value(*at), other),
                Some(other) => Some(self.value(*at).cast_to(other).map_err(unreadable)?),
            };
            value.map(|value| value.to_array().map_err(unreadable)).transpose()
        });
        values.collect()
    }
}

/// A numeric in a type with another precision or scale; `None` if the type does not have it.
pub(super) fn rescaled(value: &ScalarValue, to: &ArrowType) -> Option<ScalarValue> {
    let (ScalarValue::Decimal128(value, _, from), &ArrowType::Decimal128(precision, scale)) =
        (value, to)
    else {
        return None;
    };
    let Some(value) = *value else {
        return Some(ScalarValue::Decimal128(None, precision, scale));
    };
    let places = i32::from(scale) - i32::from(*from);
    let unit = 10_i128.checked_pow(places.unsigned_abs());
    let value = match (places, unit) {
        _ if value == 0 => 0,
        (0.., unit) => value.checked_mul(unit?)?,
        (_, unit) => unit.filter(|unit| value % unit == 0).map(|unit| value / unit)?,
    };
    let fits = value.unsigned_abs() < 10_u128.checked_pow(u32::from(precision))?;
    fits.then_some(ScalarValue::Decimal128(Some(value), precision, scale))
}

fn unreadable(error: DataFusionError) -> Error {
    Error::internal("the value of a parameter cannot be read").with_source(error)
}

/// The sum or the difference of two integers of one type; `None` on overflow.
pub(super) fn added(left: &ArrayRef, right: &ArrayRef, sign: Sign) -> Option<ArrayRef> {
    match (left.data_type(), right.data_type()) {
        (ArrowType::Int16, ArrowType::Int16) => {
            sum::<Int16Type>(left, right, sign, i16::checked_add, i16::checked_sub)
        }
        (ArrowType::Int32, ArrowType::Int32) => {
            sum::<Int32Type>(left, right, sign, i32::checked_add, i32::checked_sub)
        }
        (ArrowType::Int64, ArrowType::Int64) => {
            sum::<Int64Type>(left, right, sign, i64::checked_add, i64::checked_sub)
        }
        _ => None,
    }
}

fn sum<T: ArrowPrimitiveType>(
    left: &ArrayRef,
    right: &ArrayRef,
    sign: Sign,
    plus: fn(T::Native, T::Native) -> Option<T::Native>,
    minus: fn(T::Native, T::Native) -> Option<T::Native>,
) -> Option<ArrayRef> {
    let (left, right) = (left.as_primitive::<T>(), right.as_primitive::<T>());
    if left.is_null(0) || right.is_null(0) {
        return Some(Arc::new(PrimitiveArray::<T>::new_null(1)));
    }
    let add = match sign {
        Sign::Plus => plus,
        Sign::Minus => minus,
    };
    let sum = add(left.value(0), right.value(0))?;
    Some(Arc::new(PrimitiveArray::<T>::from_value(sum, 1)))
}
