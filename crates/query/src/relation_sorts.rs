//! Sorts of relations whose order no `LIMIT` needs are left out.
//!
//! DataFusion's planner does so as it plans each relation, and walks all that is inside for each:
//! in a chain of `WITH` queries the work is the square of their number, and each link holds a copy
//! of all before it (`optimize_subquery_sort`, DataFusion 55.2; no upstream issue found). Here one
//! pass over the whole plan does the same, and the planner's own is switched off.

use std::sync::Arc;

use datafusion::common::tree_node::{
    Transformed, TransformedResult, TreeNodeRecursion, TreeNodeRewriter,
};
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlan;

/// The plan of a statement without sorts in derived tables, views and `WITH` queries, except for
/// those under a `LIMIT`.
pub(crate) fn without_relation_sorts(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut sorts = 0;
    plan.apply_with_subqueries(|node| {
        sorts += usize::from(matches!(node, LogicalPlan::Sort(_)));
        Ok(TreeNodeRecursion::Continue)
    })?;
    match sorts {
        0 => Ok(plan),
        _ => plan.rewrite_with_subqueries(&mut Sorts { around: Vec::new() }).data(),
    }
}

/// The place of an operator.
#[derive(Clone, Copy, Default)]
struct Place {
    is_in_relation: bool,
    is_limited: bool,
}

struct Sorts {
    around: Vec<Place>,
}

impl TreeNodeRewriter for Sorts {
    type Node = LogicalPlan;

    fn f_down(&mut self, node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        let place = self.around.last().copied().unwrap_or_default();
        let mut rest = Transformed::no(node);
        if place.is_in_relation && !place.is_limited {
            while let LogicalPlan::Sort(sort) = rest.data {
                rest = Transformed::yes(Arc::unwrap_or_clone(sort.input));
            }
        }
        self.around.push(match &rest.data {
            LogicalPlan::SubqueryAlias(_) => Place { is_in_relation: true, is_limited: false },
            LogicalPlan::Subquery(_) => Place::default(),
            LogicalPlan::Limit(_) => Place { is_limited: true, ..place },
            _ => place,
        });
        Ok(rest)
    }

    fn f_up(&mut self, node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        self.around.pop();
        Ok(Transformed::no(node))
    }
}
