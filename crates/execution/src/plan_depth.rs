//! Limits the depth of plans and the possible depth of their expressions.
//!
//! The parser bounds the depth of a statement's text. But views and common table expressions stack,
//! and the optimizer merges the expressions of one projection into those of the next. So this
//! limits the sum along a path of the plan: each operator counts one plus the depth of its deepest
//! expression. Recursive code in planning, execution and destructors has enough stack for this many
//! levels.

use std::collections::HashMap;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};
use thalweg_types::{Error, Result, SqlState};

use crate::stack;

/// The largest sum along a path. A chain of 1,000 operators in one expression is well below.
const DEPTH_MAX: usize = 6_000;

/// Checks a plan as the planner made it, before any pass changes it.
///
/// # Errors
/// `54001` if it is too deep.
pub fn check(plan: &LogicalPlan) -> Result<()> {
    if depth_of(plan, &mut HashMap::new()) <= DEPTH_MAX {
        return Ok(());
    }
    Err(Error::new(SqlState::STATEMENT_TOO_COMPLEX, "statement is too complex")
        .with_detail(format!(
            "Its operators and expressions lie too deep inside each other (the limit is \
             {DEPTH_MAX})."
        ))
        .with_hint("Store the rows of inner queries in tables, or split the statement."))
}

/// Shared plans are measured once.
fn depth_of(plan: &LogicalPlan, known: &mut HashMap<*const LogicalPlan, usize>) -> usize {
    if let Some(depth) = known.get(&std::ptr::from_ref(plan)) {
        return *depth;
    }
    let depth = stack::growing(|| {
        let (mut expressions, mut below) = (0, 0);
        let measured = plan.apply_expressions(|expression| {
            let depth = expression_depth(expression, &mut |inner| {
                below = below.max(depth_of(inner, known));
            });
            expressions = expressions.max(depth);
            Ok(TreeNodeRecursion::Continue)
        });
        debug_assert!(measured.is_ok(), "measuring cannot fail");
        for input in plan.inputs() {
            below = below.max(depth_of(input, known));
        }
        if let LogicalPlan::TableScan(scan) = plan
            && let Some(view) = scan.source.get_logical_plan()
        {
            below = below.max(depth_of(&view, &mut HashMap::new()));
        }
        1 + expressions + below
    });
    known.insert(std::ptr::from_ref(plan), depth);
    depth
}

/// Goes level by level, without recursion.
fn expression_depth(expression: &Expr, take_subquery: &mut dyn FnMut(&LogicalPlan)) -> usize {
    let mut depth = 0;
    let mut level = vec![expression];
    while !level.is_empty() {
        depth += 1;
        let mut next = Vec::new();
        for expression in level {
            match expression {
                Expr::Exists(exists) => take_subquery(&exists.subquery.subquery),
                Expr::InSubquery(within) => take_subquery(&within.subquery.subquery),
                Expr::SetComparison(compared) => take_subquery(&compared.subquery.subquery),
                Expr::ScalarSubquery(scalar) => take_subquery(&scalar.subquery),
                _ => {}
            }
            let gathered = expression.apply_children(|child| {
                next.push(child);
                Ok(TreeNodeRecursion::Continue)
            });
            debug_assert!(gathered.is_ok(), "gathering cannot fail");
        }
        level = next;
    }
    depth
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::{LogicalPlanBuilder, lit};

    use super::*;

    #[test]
    fn operators_and_their_expressions_add_up() {
        let mut plan = LogicalPlanBuilder::empty(true);
        for _ in 0..3 {
            plan = plan.project(vec![(lit(1) + lit(2)).alias("a")]).unwrap();
        }
        // Each projection counts one, plus the alias, the sum and its operands.
        let depth = depth_of(&plan.build().unwrap(), &mut HashMap::new());
        assert_eq!(depth, 1 + 3 * 4);
    }

    #[test]
    fn deep_plans_are_refused() {
        let levels = |count: usize| {
            let mut plan = LogicalPlanBuilder::empty(true);
            for _ in 0..count {
                plan = plan.limit(0, Some(1)).unwrap();
            }
            check(&plan.build().unwrap())
        };
        assert!(levels(1_000).is_ok());
        assert_eq!(levels(DEPTH_MAX).unwrap_err().state().0, "54001");
    }
}
