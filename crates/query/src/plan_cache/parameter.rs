//! Parameters in plans that are made before their values are known.
//!
//! While a statement is planned, `$1` is a call of an opaque function, of which DataFusion knows
//! only the type: its argument prevents DataFusion from evaluating it. The cached plan has in its
//! place a call of a function that returns the value of the current execution.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::expr::{InList, Placeholder, ScalarFunction};
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility, binary_expr,
};
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Literal};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use parking_lot::Mutex;
use thalweg_values::types::sql_name;

use crate::parameters::number;
use crate::statement::ast_tools;

const NAME: &str = "thalweg_parameter";

/// The values of one plan's parameters in its current execution.
#[derive(Debug, Default)]
pub struct ParameterValues(Mutex<Vec<ScalarValue>>);

impl ParameterValues {
    /// The values of a first execution.
    #[must_use]
    pub fn of(values: &[ScalarValue]) -> Arc<ParameterValues> {
        Arc::new(ParameterValues(Mutex::new(values.to_vec())))
    }

    pub(crate) fn set(&self, values: &[ScalarValue]) {
        let mut held = self.0.lock();
        held.clear();
        held.extend_from_slice(values);
    }

    fn get(&self, number: usize) -> Option<ScalarValue> {
        self.0.lock().get(number - 1).cloned()
    }
}

/// True if a parameter of this type can be bound after planning.
pub(super) fn may_wait(field: &Field) -> bool {
    field.metadata().is_empty()
        && matches!(
            field.data_type(),
            DataType::Boolean
                | DataType::Int16
                | DataType::Int32
                | DataType::Int64
                | DataType::Float32
                | DataType::Float64
                | DataType::Decimal128(..)
                | DataType::Utf8View
                | DataType::Date32
                | DataType::Timestamp(..)
        )
}

/// The expression that replaces a parameter while its statement is planned.
pub(super) fn standing_in(
    place: usize,
    field: &Field,
) -> thalweg_types::Result<datafusion::sql::sqlparser::ast::Expr> {
    let name = sql_name(field)?;
    let text = format!("CAST({NAME}(${}, CAST(NULL AS {name})) AS {name})", place + 1);
    ast_tools::expression(&text)
}

/// The function that replaces parameters while planning.
pub(super) fn function() -> ScalarUDF {
    ScalarUDF::from(UnboundParameter { signature: Signature::any(2, Volatility::Immutable) })
}

/// The plan with parameters that read the values of the current execution.
pub(super) fn with_values(plan: LogicalPlan, values: &Arc<ParameterValues>) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| {
        node.map_expressions(|expr| {
            expr.transform_up(|expr| held(expr, values)?.transform_data(one_by_one))
        })
    })
    .data()
}

/// Rewrites `IN` over a list with parameters as equalities. DataFusion would build a set from the
/// list while planning, and the next execution would see this one's values in it.
fn one_by_one(expr: Expr) -> Result<Transformed<Expr>> {
    let Expr::InList(InList { expr: tested, list, negated }) = &expr else {
        return Ok(Transformed::no(expr));
    };
    let mut waits = false;
    for item in list {
        waits |= item.exists(|part| Ok(is_held(part)))?;
    }
    if !waits {
        return Ok(Transformed::no(expr));
    }
    let (compare, join) = match negated {
        false => (Operator::Eq, Operator::Or),
        true => (Operator::NotEq, Operator::And),
    };
    let mut all: Vec<Expr> = list
        .iter()
        .map(|item| binary_expr(tested.as_ref().clone(), compare, item.clone()))
        .collect();
    // Combine pairwise into a balanced tree, so that a long list does not nest deeply.
    while all.len() > 1 {
        let mut rest = all.into_iter();
        all = Vec::with_capacity(rest.len().div_ceil(2));
        while let Some(left) = rest.next() {
            all.push(match rest.next() {
                Some(right) => binary_expr(left, join, right),
                None => left,
            });
        }
    }
    Ok(all.pop().map_or_else(|| Transformed::no(expr), Transformed::yes))
}

/// True if an expression is the value of a parameter.
fn is_held(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if call.func.inner().is::<BoundParameter>())
}

fn held(expr: Expr, values: &Arc<ParameterValues>) -> Result<Transformed<Expr>> {
    let Expr::ScalarFunction(ScalarFunction { func, args }) = &expr else {
        return Ok(Transformed::no(expr));
    };
    if !func.inner().is::<UnboundParameter>() {
        return Ok(Transformed::no(expr));
    }
    let [Expr::Placeholder(Placeholder { id, .. }), typed] = args.as_slice() else {
        return plan_err!("a parameter was planned away");
    };
    let Ok(number) = number(id) else { return plan_err!("{id} is no parameter") };
    let data_type = match typed {
        Expr::Literal(literal, _) => literal.data_type(),
        Expr::Cast(cast) => cast.field.data_type().clone(),
        _ => return plan_err!("the type of a parameter was planned away"),
    };
    let func = Arc::new(ScalarUDF::from(BoundParameter::new(number, data_type, values)));
    Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction { func, args: Vec::new() })))
}

/// Replaces the parameters of an expression, and casts and operators over them, by the values of
/// this execution.
///
/// # Errors
/// If an operator does not accept the value.
pub fn bound(expression: &Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
    Arc::clone(expression)
        .transform_up(|expression| {
            let found = match expression.downcast_ref::<ScalarFunctionExpr>() {
                Some(function) => value(function),
                None => computed(&expression),
            };
            Ok(match found {
                Some(value) => Transformed::yes(Arc::new(Literal::new(value)) as _),
                None => Transformed::no(expression),
            })
        })
        .data()
}

/// Evaluates a cast or a binary operator over literals. `None` also if it fails: the error is
/// reported only if a row needs the value.
fn computed(operator: &Arc<dyn PhysicalExpr>) -> Option<ScalarValue> {
    let operands = operator.children();
    let is_known = operator.is::<CastExpr>() || operator.is::<BinaryExpr>();
    if !is_known || !operands.iter().all(|operand| operand.is::<Literal>()) {
        return None;
    }
    let one_row = RecordBatchOptions::new().with_row_count(Some(1));
    let no_columns = Arc::new(Schema::empty());
    let row = RecordBatch::try_new_with_options(no_columns, Vec::new(), &one_row).ok()?;
    match operator.evaluate(&row).ok()? {
        ColumnarValue::Scalar(value) => Some(value),
        ColumnarValue::Array(values) => ScalarValue::try_from_array(&values, 0).ok(),
    }
}

/// The value in this execution of an expression over parameters: a parameter, or casts and
/// operators over parameters. `None` also if it fails, for example if a cast overflows.
#[must_use]
pub fn value_of_run(expression: &Arc<dyn PhysicalExpr>) -> Option<ScalarValue> {
    let is_parameter = |part: &Arc<dyn PhysicalExpr>| Ok(is_held_call(part));
    if !is_made_of_values(expression) || !expression.exists(is_parameter).ok()? {
        return None;
    }
    bound(expression).ok()?.downcast_ref::<Literal>().map(|literal| literal.value().clone())
}

fn is_made_of_values(expression: &Arc<dyn PhysicalExpr>) -> bool {
    let is_known = expression.is::<CastExpr>() || expression.is::<BinaryExpr>();
    expression.is::<Literal>()
        || is_held_call(expression)
        || (is_known && expression.children().into_iter().all(is_made_of_values))
}

pub(super) fn is_held_call(expression: &Arc<dyn PhysicalExpr>) -> bool {
    let call = expression.downcast_ref::<ScalarFunctionExpr>();
    call.is_some_and(|call| call.fun().inner().is::<BoundParameter>())
}

/// A parameter of a type; numbers begin at 1.
#[must_use]
pub fn parameter(
    number: usize,
    data_type: DataType,
    values: &Arc<ParameterValues>,
) -> Arc<dyn PhysicalExpr> {
    let field = Arc::new(Field::new(NAME, data_type.clone(), true));
    let function = Arc::new(ScalarUDF::from(BoundParameter::new(number, data_type, values)));
    Arc::new(ScalarFunctionExpr::new(NAME, function, Vec::new(), field, Arc::default()))
}

/// The value of this execution if the call is a parameter.
pub(crate) fn value(call: &ScalarFunctionExpr) -> Option<ScalarValue> {
    call.fun().inner().downcast_ref::<BoundParameter>()?.value().ok()
}

/// A parameter in a statement that is being planned.
#[derive(Debug, PartialEq, Eq, Hash)]
struct UnboundParameter {
    signature: Signature,
}

impl ScalarUDFImpl for UnboundParameter {
    fn name(&self) -> &str {
        NAME
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        match args.first() {
            Some(Expr::Placeholder(Placeholder { id, .. })) => Ok(id.clone()),
            _ => plan_err!("{NAME} is for parameters"),
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [_, data_type] => Ok(data_type.clone()),
            _ => plan_err!("{NAME} takes a parameter and a value of its type"),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types = args.arg_fields.iter().map(|field| field.data_type().clone());
        let data_type = self.return_type(&types.collect::<Vec<_>>())?;
        Ok(Arc::new(Field::new(NAME, data_type, true)))
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        exec_err!("a parameter has no value before its statement runs")
    }
}

/// A parameter in a cached plan.
#[derive(Debug)]
struct BoundParameter {
    number: usize,
    data_type: DataType,
    values: Arc<ParameterValues>,
    /// Volatile, so that DataFusion never keeps the value of one execution for the next.
    signature: Signature,
}

impl BoundParameter {
    fn new(number: usize, data_type: DataType, values: &Arc<ParameterValues>) -> BoundParameter {
        let signature = Signature::nullary(Volatility::Volatile);
        BoundParameter { number, data_type, values: Arc::clone(values), signature }
    }

    fn value(&self) -> Result<ScalarValue> {
        match self.values.get(self.number) {
            Some(value) if value.data_type() == self.data_type => Ok(value),
            Some(value) => value.cast_to(&self.data_type),
            None => exec_err!("there is no value for parameter ${}", self.number),
        }
    }
}

impl PartialEq for BoundParameter {
    fn eq(&self, other: &BoundParameter) -> bool {
        self.number == other.number && Arc::ptr_eq(&self.values, &other.values)
    }
}

impl Eq for BoundParameter {}

impl Hash for BoundParameter {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.number.hash(state);
        Arc::as_ptr(&self.values).hash(state);
    }
}

impl ScalarUDFImpl for BoundParameter {
    fn name(&self) -> &str {
        NAME
    }

    fn schema_name(&self, _: &[Expr]) -> Result<String> {
        Ok(format!("${}", self.number))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.data_type.clone())
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.value().map(ColumnarValue::Scalar)
    }
}

#[cfg(test)]
mod tests {
    use datafusion::physical_expr::expressions::{Column, binary, cast, col, lit};

    use super::*;

    fn bound_to(expression: Arc<dyn PhysicalExpr>) -> String {
        bound(&expression).unwrap().to_string()
    }

    #[test]
    fn casts_and_sums_of_values_are_values() {
        let schema = Schema::new(vec![Field::new("id", DataType::Int64, true)]);
        let wide = |value: i16| cast(lit(value), &schema, DataType::Int64).unwrap();
        let id = || col("id", &schema).unwrap();
        let is = |value| binary(id(), Operator::Eq, value, &schema).unwrap();
        assert_eq!(bound_to(is(wide(5))), "id@0 = 5");
        let sum = binary(wide(5), Operator::Plus, wide(6), &schema).unwrap();
        assert_eq!(bound_to(is(sum)), "id@0 = 11");
        // A column has no value while binding, and a failure is reported only when a row needs the
        // value.
        let of_row = binary(id(), Operator::Plus, wide(6), &schema).unwrap();
        assert!(bound_to(is(of_row)).contains("id@0 + 6"));
        let quotient = binary(wide(5), Operator::Divide, wide(0), &schema).unwrap();
        assert!(bound_to(is(quotient)).contains("5 / 0"));
        assert!(bound(&id()).unwrap().is::<Column>());
    }
}
