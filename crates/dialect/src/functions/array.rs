//! Functions of arrays.

use std::sync::Arc;

use datafusion::common::{DFSchema, Result as PlanResult};
use datafusion::functions_nested::array_has::array_has_any_udf;
use datafusion::functions_nested::remove::array_remove_all_udf;
use datafusion::functions_nested::replace::array_replace_all_udf;
use datafusion::logical_expr::ScalarUDF;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::sql::sqlparser::ast::BinaryOperator;

/// DataFusion's `array_remove` and `array_replace` stop at the first item.
pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let named = |udf: Arc<ScalarUDF>, name: &'static str| {
        Arc::new(udf.as_ref().clone().with_aliases([name]))
    };
    vec![
        named(array_remove_all_udf(), "array_remove"),
        named(array_replace_all_udf(), "array_replace"),
    ]
}

/// `a && b`: whether two arrays share an item.
#[derive(Debug)]
pub(super) struct Overlap;

impl ExprPlanner for Overlap {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        _schema: &DFSchema,
    ) -> PlanResult<PlannerResult<RawBinaryExpr>> {
        match expr.op {
            BinaryOperator::PGOverlap => {
                Ok(PlannerResult::Planned(array_has_any_udf().call(vec![expr.left, expr.right])))
            }
            _ => Ok(PlannerResult::Original(expr)),
        }
    }
}
