//! Locks that a plan would not take.
//!
//! What nobody looks at is left out of a plan, also where computing it does something: of `WITH l
//! AS (SELECT pg_advisory_lock(1)) SELECT t.* FROM l, t` the call would be. Who believes to have a
//! lock must have it, so such a statement is refused.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result as PlanResult;
use datafusion::logical_expr::{Expr, LogicalPlan};
use thalweg_dialect::errors::external;
use thalweg_types::Error;

use super::functions::is_named;

/// Lets a plan pass that calls each function for locks that it is to call.
///
/// # Errors
/// Where the optimised plan has lost one.
pub(crate) fn check_none_is_lost(plan: &LogicalPlan, optimized: &LogicalPlan) -> PlanResult<()> {
    let wanted = Calls::of(plan)?;
    if wanted.count == 0 {
        return Ok(());
    }
    let left = Calls::of(optimized)?;
    // Where there are no rows, nothing is called for them.
    if left.count >= wanted.count || left.is_without_rows {
        return Ok(());
    }
    let what = "an advisory lock in a column that is not looked at";
    let hint = "Take the lock in a statement of its own, or in a column of the result.";
    Err(external(Error::unsupported(what).with_hint(hint)))
}

#[derive(Default)]
struct Calls {
    count: usize,
    /// Whether a part of the plan is known to give no rows.
    is_without_rows: bool,
}

impl Calls {
    fn of(plan: &LogicalPlan) -> PlanResult<Calls> {
        let mut calls = Calls::default();
        plan.apply_with_subqueries(|node| {
            if let LogicalPlan::EmptyRelation(empty) = node {
                calls.is_without_rows |= !empty.produce_one_row;
            }
            node.apply_expressions(|expr| {
                expr.apply(|expr| {
                    if let Expr::ScalarFunction(call) = expr {
                        calls.count += usize::from(is_named(call.func.name()));
                    }
                    Ok(TreeNodeRecursion::Continue)
                })
            })
        })?;
        Ok(calls)
    }
}
