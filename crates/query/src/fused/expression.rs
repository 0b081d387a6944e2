//! From DataFusion's expressions to what the fused aggregate computes.

use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator as PlanOperator;
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Column, Literal};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use thalweg_scan::{Lane, Number, Operator, Width};

use crate::kept;

/// The digits of the numbers of 16, 32 and 64 bits.
const INT_DIGITS: [u8; 3] = [5, 10, 19];

/// What an expression is, over the columns of a scan.
#[derive(Clone, Debug)]
pub(super) struct Value {
    pub form: Form,
    pub data_type: DataType,
}

#[derive(Clone, Debug)]
pub(super) enum Form {
    /// A column of the scan, of any type.
    Column(usize),
    Number(Number),
    Literal(ScalarValue),
}

/// In what form numbers of a type are computed; `None` for types that are no numbers.
pub(super) fn lane_of(data_type: &DataType) -> Option<Lane> {
    Some(match data_type {
        DataType::Boolean
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::Date32
        | DataType::Time64(_)
        | DataType::Timestamp(..) => Lane::Int,
        DataType::Float32 | DataType::Float64 => Lane::Float,
        DataType::Decimal128(..) => Lane::Decimal,
        _ => return None,
    })
}

impl Value {
    pub fn column(index: usize, data_type: DataType) -> Value {
        Value { form: Form::Column(index), data_type }
    }

    fn number(number: Number, data_type: DataType) -> Value {
        Value { form: Form::Number(number), data_type }
    }

    pub fn lane(&self) -> Option<Lane> {
        lane_of(&self.data_type)
    }

    /// The value as a number; `None` where it is none, or is NULL.
    pub fn to_number(&self) -> Option<Number> {
        let lane = self.lane()?;
        match &self.form {
            Form::Column(index) => Some(Number::Column(*index)),
            Form::Number(number) => Some(number.clone()),
            Form::Literal(literal) => literal_number(literal, lane),
        }
    }

    pub fn is_null(&self) -> bool {
        matches!(&self.form, Form::Literal(literal) if literal.is_null())
    }
}

fn literal_number(literal: &ScalarValue, lane: Lane) -> Option<Number> {
    let int = match literal {
        ScalarValue::Boolean(Some(value)) => Some(i64::from(*value)),
        ScalarValue::Int16(Some(value)) => Some(i64::from(*value)),
        ScalarValue::Int32(Some(value)) | ScalarValue::Date32(Some(value)) => {
            Some(i64::from(*value))
        }
        ScalarValue::Int64(Some(value))
        | ScalarValue::Time64Microsecond(Some(value))
        | ScalarValue::TimestampMicrosecond(Some(value), _) => Some(*value),
        _ => None,
    };
    match (lane, int, literal) {
        (Lane::Int, Some(value), _) => Some(Number::Int(value)),
        (Lane::Float, _, ScalarValue::Float64(Some(value))) => Some(Number::Float(*value)),
        (Lane::Float, _, ScalarValue::Float32(Some(value))) => {
            Some(Number::Float(f64::from(*value)))
        }
        (Lane::Decimal, _, ScalarValue::Decimal128(Some(value), _, _)) => {
            Some(Number::Decimal(*value))
        }
        _ => None,
    }
}

/// The columns that expressions refer to: what is known of each, `None` for what could not be
/// understood. Who needs one of these is not understood either.
pub(super) struct Columns {
    pub values: Vec<Option<Value>>,
    pub schema: SchemaRef,
}

impl Columns {
    /// What an expression is; `None` where that would not be exactly what DataFusion computes.
    pub fn translate(&self, expression: &Arc<dyn PhysicalExpr>) -> Option<Value> {
        if let Some(column) = expression.downcast_ref::<Column>() {
            return self.values.get(column.index())?.clone();
        }
        let data_type = expression.data_type(&self.schema).ok()?;
        if let Some(literal) = expression.downcast_ref::<Literal>() {
            return Some(Value { form: Form::Literal(literal.value().clone()), data_type });
        }
        if let Some(cast) = expression.downcast_ref::<CastExpr>() {
            return widened(self.translate(cast.expr())?, data_type);
        }
        if let Some(binary) = expression.downcast_ref::<BinaryExpr>() {
            let operator = match binary.op() {
                PlanOperator::Plus => Operator::Add,
                PlanOperator::Minus => Operator::Subtract,
                PlanOperator::Multiply => Operator::Multiply,
                _ => return None,
            };
            let (left, right) = (self.translate(binary.left())?, self.translate(binary.right())?);
            return arithmetic(operator, &left, &right, data_type);
        }
        let function = expression.downcast_ref::<ScalarFunctionExpr>()?;
        if let Some(value) = kept::value(function) {
            return Some(Value { form: Form::Literal(value), data_type });
        }
        let operator = match function.fun().name() {
            "integer_add" => Operator::Add,
            "integer_subtract" => Operator::Subtract,
            "integer_multiply" => Operator::Multiply,
            _ => return None,
        };
        let [left, right] = function.args() else { return None };
        let width = match data_type {
            DataType::Int16 => Width::Int2,
            DataType::Int32 => Width::Int4,
            DataType::Int64 => Width::Int8,
            _ => return None,
        };
        let left = self.translate(left)?.to_number()?;
        let right = self.translate(right)?.to_number()?;
        let operands = Box::new((left, right));
        Some(Value::number(Number::Integers { operator, width, operands }, data_type))
    }
}

fn int_rank(data_type: &DataType) -> Option<usize> {
    [DataType::Int16, DataType::Int32, DataType::Int64].iter().position(|int| int == data_type)
}

fn units(digits: u8) -> i128 {
    10_i128.pow(digits.into())
}

/// A cast that no value is changed by, and that never fails.
fn widened(value: Value, to: DataType) -> Option<Value> {
    if value.data_type == to {
        return Some(value);
    }
    let number = value.to_number()?;
    let from_rank = int_rank(&value.data_type);
    let number = match (&value.data_type, &to) {
        (DataType::Float32, DataType::Float64) => number,
        (_, DataType::Float64) if from_rank.is_some() => Number::FloatOfInt(Box::new(number)),
        (DataType::Decimal128(digits, scale), DataType::Decimal128(to_digits, to_scale)) => {
            let more = u8::try_from(to_scale.checked_sub(*scale)?).ok()?;
            if *to_digits < digits.checked_add(more)? {
                return None;
            }
            match more {
                0 => number,
                more => Number::Rescaled { operand: Box::new(number), units: units(more) },
            }
        }
        (_, DataType::Decimal128(to_digits, to_scale)) => {
            let scale = u8::try_from(*to_scale).ok()?;
            if *to_digits < INT_DIGITS[from_rank?].checked_add(scale)? {
                return None;
            }
            Number::DecimalOfInt { operand: Box::new(number), units: units(scale) }
        }
        (_, to) if int_rank(to)? > from_rank? => number,
        _ => return None,
    };
    Some(Value::number(number, to))
}

fn arithmetic(
    operator: Operator,
    left: &Value,
    right: &Value,
    data_type: DataType,
) -> Option<Value> {
    let (first, second) = (left.to_number()?, right.to_number()?);
    match (&left.data_type, &right.data_type, &data_type) {
        (DataType::Float64, DataType::Float64, DataType::Float64) => {
            let operands = Box::new((first, second));
            Some(Value::number(Number::Floats { operator, operands }, data_type))
        }
        (
            DataType::Decimal128(_, left),
            DataType::Decimal128(_, right),
            DataType::Decimal128(_, scale),
        ) => {
            let operands = match operator {
                Operator::Multiply if left.checked_add(*right)? == *scale => (first, second),
                Operator::Multiply => return None,
                _ => (rescaled(first, *left, *scale)?, rescaled(second, *right, *scale)?),
            };
            let operands = Box::new(operands);
            Some(Value::number(Number::Decimals { operator, operands }, data_type))
        }
        _ => None,
    }
}

/// A decimal with as many digits behind the point as another one.
fn rescaled(number: Number, from: i8, to: i8) -> Option<Number> {
    let more = u8::try_from(to.checked_sub(from)?).ok()?;
    Some(match (more, number) {
        (0, number) => number,
        (more, Number::Decimal(value)) => Number::Decimal(value.checked_mul(units(more))?),
        (more, operand) => Number::Rescaled { operand: Box::new(operand), units: units(more) },
    })
}
