//! Moves semi-joins below the joins that they would otherwise follow.
//!
//! `WHERE o_orderkey IN (SELECT …)` over three joined tables becomes a semi-join above both joins,
//! though its condition is on one table only. If the subquery has conditions and the tables have
//! none, this pass moves the semi-join down to that table. Then the joins process fewer rows, and
//! workers send fewer.
//!
//! ```text
//!   LeftSemi                         Inner
//!     Inner                            LeftSemi
//!       orders            ──►            orders
//!       lineitem                         subquery with a condition
//!     subquery with a condition        lineitem
//! ```
//!
//! Promises: rows and columns stay the same. If the tables are filtered themselves, the plan stays
//! unchanged, and their keys filter the rows of the subquery (`reduce`).

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode as _};
use datafusion::common::{Column, DFSchema, JoinType};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, Join, LogicalPlan, Projection};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// The pass. It runs when filters have been pushed down.
#[derive(Debug)]
pub struct PushDownSemiJoins;

impl OptimizerRule for PushDownSemiJoins {
    fn name(&self) -> &'static str {
        "push_down_semi_joins"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Join(semi) = &plan else { return Ok(Transformed::no(plan)) };
        let is_semi = semi.join_type == JoinType::LeftSemi && semi.filter.is_none();
        if !is_semi || is_filtered(&semi.left)? || !is_filtered(&semi.right)? {
            return Ok(Transformed::no(plan));
        }
        match moved(semi, &semi.left)? {
            Some(moved) => Ok(Transformed::yes(moved)),
            None => Ok(Transformed::no(plan)),
        }
    }
}

/// True if a condition or limit already reduces the rows of a plan's tables.
fn is_filtered(plan: &LogicalPlan) -> Result<bool> {
    plan.exists(|node| {
        Ok(match node {
            LogicalPlan::Filter(_) | LogicalPlan::Limit(_) => true,
            LogicalPlan::TableScan(scan) => !scan.filters.is_empty() || scan.fetch.is_some(),
            LogicalPlan::Join(join) => join.join_type == JoinType::LeftSemi,
            _ => false,
        })
    })
}

/// A semi-join's first side with the semi-join moved into it; `None` if it must stay above.
fn moved(semi: &Join, first: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    match first {
        LogicalPlan::Join(join) => below_join(semi, join),
        // Its columns have the same names below it.
        LogicalPlan::Projection(projection) if projection.expr.iter().all(is_column) => {
            let Some(input) = moved(semi, &projection.input)? else { return Ok(None) };
            let projected = Projection::try_new(projection.expr.clone(), Arc::new(input))?;
            Ok(Some(LogicalPlan::Projection(projected)))
        }
        _ => Ok(None),
    }
}

fn is_column(expr: &Expr) -> bool {
    matches!(expr, Expr::Column(_))
}

fn below_join(semi: &Join, join: &Join) -> Result<Option<LogicalPlan>> {
    if join.join_type != JoinType::Inner {
        return Ok(None);
    }
    let (mut left, mut right) = (Arc::clone(&join.left), Arc::clone(&join.right));
    let side = match (has_all(left.schema(), semi), has_all(right.schema(), semi)) {
        (true, false) => &mut left,
        (false, true) => &mut right,
        _ => return Ok(None),
    };
    *side = Arc::new(match moved(semi, side)? {
        Some(moved) => moved,
        None => LogicalPlan::Join(over(semi, side)?),
    });
    let moved = Join::try_new(
        left,
        right,
        join.on.clone(),
        join.filter.clone(),
        join.join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )?;
    Ok(Some(LogicalPlan::Join(moved)))
}

/// Puts a semi-join over another first side.
fn over(semi: &Join, first: &Arc<LogicalPlan>) -> Result<Join> {
    Join::try_new(
        Arc::clone(first),
        Arc::clone(&semi.right),
        semi.on.clone(),
        None,
        semi.join_type,
        semi.join_constraint,
        semi.null_equality,
        semi.null_aware,
    )
}

/// True if all left columns of a semi-join's conditions belong to one plan.
fn has_all(schema: &DFSchema, semi: &Join) -> bool {
    let has = |column: &Column| schema.has_column(column);
    semi.on.iter().all(|(left, _)| left.try_as_col().is_some_and(has))
}
