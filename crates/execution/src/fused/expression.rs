//! Translates DataFusion's expressions to those of the fused aggregate.

use std::cell::Cell;
use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator as PlanOperator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr,
    Literal, NegativeExpr, NotExpr,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use thalweg_scan::{Comparison, Lane, Number, Operator, Predicate};

use super::filter::compare;
use super::{arithmetic, conversion, time};
use crate::parameter_values;

/// A translated expression over the columns of a scan.
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

impl Value {
    /// The scan's column at `index`.
    pub fn column(index: usize, data_type: DataType) -> Value {
        Value { form: Form::Column(index), data_type }
    }

    /// A computed number; `data_type` is its type in the plan.
    pub fn number(number: Number, data_type: DataType) -> Value {
        Value { form: Form::Number(number), data_type }
    }

    /// The lane that values of this type are computed in; `None` for types that are not numbers
    /// here.
    pub fn lane(&self) -> Option<Lane> {
        Lane::of(&self.data_type)
    }

    /// The value as a number; `None` if it is not a number, or is a literal NULL.
    pub fn to_number(&self) -> Option<Number> {
        let lane = self.lane()?;
        match &self.form {
            Form::Column(index) => Some(Number::Column(*index)),
            Form::Number(number) => Some(number.clone()),
            Form::Literal(literal) => literal_number(literal, lane),
        }
    }

    /// Like [`Value::to_number`], with `Some(None)` for a literal NULL.
    fn to_nullable(&self) -> Option<Option<Number>> {
        if self.is_null() { Some(None) } else { self.to_number().map(Some) }
    }

    /// True for a literal NULL only, not for a column that may be NULL.
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

/// Maximum number of nodes that the expressions over the same columns are translated to.
///
/// A translation copies what it needs twice: both truths of a condition, the tested value for each
/// branch of a `CASE`, the expression behind a column of a projection. Copies inside of copies grow
/// exponentially with the depth.
const NODES_MAX: usize = 20_000;

/// The columns that expressions refer to. A column is `None` if it could not be translated;
/// expressions that use it cannot be translated either.
pub(super) struct Columns {
    values: Vec<Option<Measured>>,
    schema: SchemaRef,
    /// Number of further nodes that may be made.
    nodes_left: Cell<usize>,
}

/// A translated value with its number of nodes.
#[derive(Clone)]
struct Measured {
    value: Value,
    nodes: usize,
}

impl Columns {
    /// The columns of a table; `None` for those that no expression may use.
    pub fn of_table(values: Vec<Option<Value>>, schema: SchemaRef) -> Columns {
        let measured = |value: Value| Measured { value, nodes: 1 };
        let values = values.into_iter().map(|value| value.map(measured)).collect();
        Columns { values, schema, nodes_left: Cell::new(NODES_MAX) }
    }

    /// The columns of a projection whose items are expressions over these.
    pub fn projected<'e>(
        &self,
        items: impl Iterator<Item = &'e Arc<dyn PhysicalExpr>>,
        schema: SchemaRef,
    ) -> Columns {
        let translate = |item: &'e Arc<dyn PhysicalExpr>| {
            let before = self.nodes_left.get();
            let value = self.translate(item)?;
            Some(Measured { value, nodes: before - self.nodes_left.get() })
        };
        Columns { values: items.map(translate).collect(), schema, nodes_left: Cell::new(NODES_MAX) }
    }

    /// Some of these columns, by their positions.
    pub fn selected(&self, positions: &[usize], schema: SchemaRef) -> Columns {
        let values = positions.iter().map(|position| self.values[*position].clone()).collect();
        Columns { values, schema, nodes_left: Cell::new(NODES_MAX) }
    }

    /// Accounts for new nodes; `None` if they are too many.
    fn add_nodes(&self, nodes: usize) -> Option<()> {
        self.nodes_left.set(self.nodes_left.get().checked_sub(nodes)?);
        Some(())
    }

    /// Translates an expression; `None` if the result might differ from DataFusion's, or if it
    /// would be too large.
    pub fn translate(&self, expression: &Arc<dyn PhysicalExpr>) -> Option<Value> {
        if let Some(column) = expression.downcast_ref::<Column>() {
            let column = self.values.get(column.index())?.as_ref()?;
            self.add_nodes(column.nodes)?;
            return Some(column.value.clone());
        }
        let data_type = expression.data_type(&self.schema).ok()?;
        // Literals are not counted: lists have many, and nothing is inside of them.
        if let Some(literal) = expression.downcast_ref::<Literal>() {
            return Some(Value { form: Form::Literal(literal.value().clone()), data_type });
        }
        self.add_nodes(1)?;
        if let Some(cast) = expression.downcast_ref::<CastExpr>() {
            return conversion::cast(self.translate(cast.expr())?, data_type);
        }
        if let Some(negative) = expression.downcast_ref::<NegativeExpr>() {
            return arithmetic::negated(&self.translate(negative.arg())?);
        }
        if let Some(case) = expression.downcast_ref::<CaseExpr>() {
            return self.choice(case, data_type);
        }
        if let Some(binary) = expression.downcast_ref::<BinaryExpr>() {
            let operator = match binary.op() {
                PlanOperator::Plus => Operator::Add,
                PlanOperator::Minus => Operator::Subtract,
                PlanOperator::Multiply => Operator::Multiply,
                _ if data_type == DataType::Boolean => return self.condition(expression),
                _ => return None,
            };
            let (left, right) = (self.translate(binary.left())?, self.translate(binary.right())?);
            return arithmetic::computed(operator, &left, &right, data_type);
        }
        if let Some(function) = expression.downcast_ref::<ScalarFunctionExpr>() {
            return self.function(function, data_type);
        }
        let is_condition = expression.is::<NotExpr>()
            || expression.is::<IsNullExpr>()
            || expression.is::<IsNotNullExpr>()
            || expression.is::<InListExpr>()
            || expression.is::<LikeExpr>();
        if is_condition { self.condition(expression) } else { None }
    }

    fn function(&self, function: &ScalarFunctionExpr, data_type: DataType) -> Option<Value> {
        if let Some(value) = parameter_values::value(function) {
            return Some(Value { form: Form::Literal(value), data_type });
        }
        let arguments = function.args().iter().map(|argument| self.translate(argument));
        let arguments = arguments.collect::<Option<Vec<Value>>>()?;
        let name = function.fun().name();
        match (name, arguments.as_slice()) {
            ("date_bin", [stride, moment, rest @ ..]) => {
                time::binned(stride, moment, rest.first(), data_type)
            }
            ("date_trunc", [unit, moment]) => time::truncated(unit, moment, data_type),
            ("postgres_cast", [value]) => conversion::postgres(value, data_type),
            ("float_negate", [value]) => arithmetic::negated(value),
            ("float_divide", [left, right]) => {
                arithmetic::computed(Operator::Divide, left, right, data_type)
            }
            (name, [left, right]) => {
                let operator = match name {
                    "integer_add" => Operator::Add,
                    "integer_subtract" => Operator::Subtract,
                    "integer_multiply" => Operator::Multiply,
                    "integer_divide" => Operator::Divide,
                    "integer_modulo" => Operator::Modulo,
                    _ => return None,
                };
                arithmetic::integers(operator, left, right, data_type)
            }
            _ => None,
        }
    }

    /// A condition as a value: true, false or NULL.
    fn condition(&self, condition: &Arc<dyn PhysicalExpr>) -> Option<Value> {
        let number = |truth: bool| Some(Number::Int(truth.into()));
        let case = |truth| Some((self.predicate(condition, truth)?, number(truth)));
        let cases = vec![case(true)?, case(false)?];
        let number = Number::Choice { cases, otherwise: None };
        Some(Value::number(number, DataType::Boolean))
    }

    fn choice(&self, case: &CaseExpr, data_type: DataType) -> Option<Value> {
        let mut cases: Vec<(Predicate, Option<Number>)> = Vec::new();
        for (when, then) in case.when_then_expr() {
            let condition = match case.expr() {
                // Each branch has a copy of the tested value, which is accounted for.
                Some(base) => {
                    compare(Comparison::Equal, &self.translate(base)?, &self.translate(when)?)?
                }
                None => self.predicate(when, true)?,
            };
            cases.push((condition, self.result(then, &data_type)?));
        }
        let otherwise = match case.else_expr() {
            Some(otherwise) => self.result(otherwise, &data_type)?.map(Box::new),
            None => None,
        };
        Some(Value::number(Number::Choice { cases, otherwise }, data_type))
    }

    /// One of the results of a `CASE`.
    fn result(
        &self,
        expression: &Arc<dyn PhysicalExpr>,
        data_type: &DataType,
    ) -> Option<Option<Number>> {
        let value = self.translate(expression)?;
        // A literal NULL may have another type.
        if value.data_type != *data_type && !value.is_null() {
            return None;
        }
        value.to_nullable()
    }
}
