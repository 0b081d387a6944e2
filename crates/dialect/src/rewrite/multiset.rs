//! `INTERSECT ALL` and `EXCEPT ALL`, with the right number of each row.
//!
//! DataFusion plans both as a semi or anti join, which keeps or drops all copies of a row at once.
//! Numbering the copies on both sides, and joining on the number too, pairs them one by one: of n
//! and m copies INTERSECT ALL keeps the smaller number, EXCEPT ALL keeps n - m.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{NullEquality, Result};
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::{
    Distinct, Expr, ExprFunctionExt, Join, JoinType, LogicalPlan, Projection, Window, col,
};
use datafusion::optimizer::AnalyzerRule;

/// The rule. It belongs behind DataFusion's own analyzer rules.
#[derive(Debug, Default)]
pub struct CountSetOperations {}

impl AnalyzerRule for CountSetOperations {
    fn name(&self) -> &str {
        "count_set_operations"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Join(join) if is_counted(&join) => count(join).map(Transformed::yes),
            other => Ok(Transformed::no(other)),
        })
        .data()
    }
}

/// Only set operations join on all columns with NULL equal to NULL, and only those with ALL do it
/// over rows that may come twice.
fn is_counted(join: &Join) -> bool {
    matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
        && join.null_equality == NullEquality::NullEqualsNull
        && join.filter.is_none()
        && join.on.len() == join.left.schema().fields().len()
        && !matches!(join.left.as_ref(), LogicalPlan::Distinct(Distinct::All(_)))
}

fn count(join: Join) -> Result<LogicalPlan> {
    const LEFT: &str = "__copy_left";
    const RIGHT: &str = "__copy_right";
    let (left_keys, right_keys): (Vec<Expr>, Vec<Expr>) = join.on.iter().cloned().unzip();
    let left = Arc::new(number(&join.left, left_keys, LEFT)?);
    let right = Arc::new(number(&join.right, right_keys, RIGHT)?);
    let mut on = join.on;
    on.push((col(LEFT), col(RIGHT)));
    let columns = join.left.schema().columns().into_iter().map(Expr::Column).collect();
    let paired = Join::try_new(
        left,
        right,
        on,
        None,
        join.join_type,
        join.join_constraint,
        join.null_equality,
        false,
    )?;
    let paired = Arc::new(LogicalPlan::Join(paired));
    Ok(LogicalPlan::Projection(Projection::try_new(columns, paired)?))
}

/// `input` with the number of each row among its equals.
fn number(input: &Arc<LogicalPlan>, keys: Vec<Expr>, name: &str) -> Result<LogicalPlan> {
    let number = row_number().partition_by(keys).build()?.alias(name);
    Ok(LogicalPlan::Window(Window::try_new(vec![number], Arc::clone(input))?))
}
