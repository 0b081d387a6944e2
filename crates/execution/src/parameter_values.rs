//! Parameters of plans, and their values in the current execution.
//!
//! A plan that is cached has calls of a function in the place of its parameters. The function
//! returns the value of the current execution.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Literal};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use parking_lot::Mutex;

/// The name of the functions that stand for parameters.
pub const NAME: &str = "thalweg_parameter";

/// The values of one plan's parameters in its current execution.
#[derive(Debug, Default)]
pub struct ParameterValues(Mutex<Vec<ScalarValue>>);

impl ParameterValues {
    /// The values of a first execution.
    #[must_use]
    pub fn of(values: &[ScalarValue]) -> Arc<ParameterValues> {
        Arc::new(ParameterValues(Mutex::new(values.to_vec())))
    }

    /// Replaces the values by those of the next execution.
    pub fn set(&self, values: &[ScalarValue]) {
        let mut held = self.0.lock();
        held.clear();
        held.extend_from_slice(values);
    }

    fn get(&self, number: usize) -> Option<ScalarValue> {
        self.0.lock().get(number - 1).cloned()
    }
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
    let is_parameter = |part: &Arc<dyn PhysicalExpr>| Ok(is_bound(part));
    if !is_made_of_values(expression) || !expression.exists(is_parameter).ok()? {
        return None;
    }
    bound(expression).ok()?.downcast_ref::<Literal>().map(|literal| literal.value().clone())
}

fn is_made_of_values(expression: &Arc<dyn PhysicalExpr>) -> bool {
    let is_known = expression.is::<CastExpr>() || expression.is::<BinaryExpr>();
    expression.is::<Literal>()
        || is_bound(expression)
        || (is_known && expression.children().into_iter().all(is_made_of_values))
}

/// True if an expression is a parameter.
#[must_use]
pub fn is_bound(expression: &Arc<dyn PhysicalExpr>) -> bool {
    let call = expression.downcast_ref::<ScalarFunctionExpr>();
    call.is_some_and(|call| is_value_of_parameter(call.fun()))
}

/// A parameter of a type; numbers begin at 1.
#[must_use]
pub fn parameter(
    number: usize,
    data_type: DataType,
    values: &Arc<ParameterValues>,
) -> Arc<dyn PhysicalExpr> {
    let field = Arc::new(Field::new(NAME, data_type.clone(), true));
    let function = Arc::new(function_of(number, data_type, values));
    Arc::new(ScalarFunctionExpr::new(NAME, function, Vec::new(), field, Arc::default()))
}

/// The function that returns the value of a parameter; numbers begin at 1.
#[must_use]
pub fn function_of(number: usize, data_type: DataType, values: &Arc<ParameterValues>) -> ScalarUDF {
    ScalarUDF::from(BoundParameter::new(number, data_type, values))
}

/// True if a function returns the value of a parameter.
#[must_use]
pub fn is_value_of_parameter(function: &ScalarUDF) -> bool {
    function.inner().is::<BoundParameter>()
}

/// The value of this execution if the call is a parameter.
pub(crate) fn value(call: &ScalarFunctionExpr) -> Option<ScalarValue> {
    call.fun().inner().downcast_ref::<BoundParameter>()?.value().ok()
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
    use datafusion::logical_expr::Operator;
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
