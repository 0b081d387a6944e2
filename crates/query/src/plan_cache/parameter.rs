//! Parameters in plans that are made before their values are known.
//!
//! While a statement is planned, `$1` is a call of an opaque function, of which DataFusion knows
//! only the type: its argument prevents DataFusion from evaluating it. The cached plan has in its
//! place a call of a function that returns the value of the current execution.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::logical_expr::expr::{InList, Placeholder, ScalarFunction};
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility, binary_expr,
};
use thalweg_execution::parameter_values::{
    NAME, ParameterValues, function_of, is_value_of_parameter,
};
use thalweg_values::types::sql_name;

use crate::parameters::number;
use crate::statement::ast_tools;

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
    matches!(expr, Expr::ScalarFunction(call) if is_value_of_parameter(&call.func))
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
    let func = Arc::new(function_of(number, data_type, values));
    Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction { func, args: Vec::new() })))
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
