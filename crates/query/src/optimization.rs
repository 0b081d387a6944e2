//! Analysis and optimisation of plans, in time that grows linearly with the depth of subqueries.
//!
//! DataFusion checks a plan before and after its passes. The check of a subquery's expression
//! checks everything inside it, and so does the walk that found it: each level of nesting doubles
//! the work (`assert_subqueries_are_valid`, DataFusion 55.2; no upstream issue found). For plans
//! with subqueries inside subqueries, this module runs the same passes without these checks.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion, TreeNodeRewriter};
use datafusion::error::Result;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Explain, Expr, LogicalPlan, Subquery};
use datafusion::optimizer::analyzer::function_rewrite::ApplyFunctionRewrites;
use datafusion::optimizer::{AnalyzerRule, ApplyOrder, OptimizerRule};

/// Applies the rules of the analyzer and of the optimizer to a plan.
///
/// # Errors
/// Errors of the rules.
pub(crate) fn optimize(state: &SessionState, plan: &LogicalPlan) -> Result<LogicalPlan> {
    if !has_nested_subqueries(plan)? {
        return state.optimize(plan);
    }
    match plan {
        LogicalPlan::Explain(explain) => {
            let analyzed = analyze(state, explain.plan.as_ref().clone())?;
            Ok(LogicalPlan::Explain(Explain {
                plan: Arc::new(optimize_analyzed(state, analyzed)?),
                logical_optimization_succeeded: true,
                ..explain.clone()
            }))
        }
        plan => optimize_analyzed(state, analyze(state, plan.clone())?),
    }
}

/// Applies the rules of the analyzer.
pub(crate) fn analyze(state: &SessionState, plan: LogicalPlan) -> Result<LogicalPlan> {
    let (analyzer, options) = (state.analyzer(), state.config_options());
    let mut plan = plan;
    if !analyzer.function_rewrites().is_empty() {
        let rewrites = ApplyFunctionRewrites::new(analyzer.function_rewrites().to_vec());
        plan = rewrites.analyze(plan, options)?;
    }
    for rule in &analyzer.rules {
        plan = rule.analyze(plan, options).map_err(|error| error.context(rule.name()))?;
    }
    Ok(plan)
}

/// Applies the rules of the optimizer until they change nothing more.
pub(crate) fn optimize_analyzed(state: &SessionState, plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut plan = plan;
    for _ in 0..state.config_options().optimizer.max_passes {
        let before = plan.clone();
        for rule in state.optimizers() {
            plan = match rule.apply_order() {
                Some(order) => {
                    let mut pass = Pass { order, rule: rule.as_ref(), state };
                    plan.rewrite_with_subqueries(&mut pass)
                }
                None => rule.rewrite(plan, state),
            }
            .map_err(|error| error.context(format!("Optimizer rule '{}' failed", rule.name())))?
            .data;
        }
        if plan == before {
            break;
        }
    }
    Ok(plan)
}

/// One rule on its way through a plan and the subqueries in it.
struct Pass<'a> {
    order: ApplyOrder,
    rule: &'a dyn OptimizerRule,
    state: &'a SessionState,
}

impl TreeNodeRewriter for Pass<'_> {
    type Node = LogicalPlan;

    fn f_down(&mut self, node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        match self.order {
            ApplyOrder::TopDown => self.rule.rewrite(node, self.state),
            ApplyOrder::BottomUp => Ok(Transformed::no(node)),
        }
    }

    fn f_up(&mut self, node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        match self.order {
            ApplyOrder::BottomUp => self.rule.rewrite(node, self.state),
            ApplyOrder::TopDown => Ok(Transformed::no(node)),
        }
    }
}

/// The subquery that an expression stands for.
pub(crate) fn subquery_of(expression: &Expr) -> Option<&Subquery> {
    match expression {
        Expr::ScalarSubquery(subquery) => Some(subquery),
        Expr::Exists(exists) => Some(&exists.subquery),
        Expr::InSubquery(member) => Some(&member.subquery),
        Expr::SetComparison(comparison) => Some(&comparison.subquery),
        _ => None,
    }
}

fn has_nested_subqueries(plan: &LogicalPlan) -> Result<bool> {
    any_subquery(plan, &mut |inner| any_subquery(&inner.subquery, &mut |_| Ok(true)))
}

/// True if `test` holds for a subquery in the expressions of a plan.
fn any_subquery(
    plan: &LogicalPlan,
    test: &mut dyn FnMut(&Subquery) -> Result<bool>,
) -> Result<bool> {
    let mut found = false;
    plan.apply(|node| {
        node.apply_expressions(|expression| {
            expression.apply(|expression| {
                if let Some(subquery) = subquery_of(expression) {
                    found = found || test(subquery)?;
                }
                Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
            })
        })
    })?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::time::Duration;

    use futures::StreamExt as _;

    use crate::{Database, Session};

    /// Writes a statement of a given depth.
    type Nesting = fn(usize) -> String;

    fn wrapped(depth: usize, inner: &str, wrap: fn(usize, &str) -> String) -> String {
        (0..depth).rev().fold(inner.to_owned(), |inner, level| wrap(level, &inner))
    }

    fn chained(depth: usize, link: fn(usize) -> String) -> String {
        (1..depth).fold(String::new(), |mut chain, level| {
            let _ = write!(chain, ", {}", link(level));
            chain
        })
    }

    const NESTINGS: [(&str, Nesting); 8] = [
        ("scalar", |depth| {
            let wrap = |_, inner: &str| format!("(SELECT max(x) FROM t WHERE x < {inner})");
            format!("SELECT {}", wrapped(depth, "50", wrap))
        }),
        ("EXISTS", |depth| {
            let wrap = |_, inner: &str| format!("EXISTS (SELECT 1 FROM t WHERE {inner})");
            format!("SELECT count(*) FROM t WHERE {}", wrapped(depth, "x > 0", wrap))
        }),
        ("correlated EXISTS", |depth| {
            let wrap = |level: usize, inner: &str| {
                let own = level + 1;
                format!("EXISTS (SELECT 1 FROM t t{own} WHERE t{own}.x = t{level}.x AND {inner})")
            };
            format!("SELECT count(*) FROM t t0 WHERE {}", wrapped(depth, "true", wrap))
        }),
        ("IN", |depth| {
            let wrap = |_, inner: &str| format!("x IN (SELECT x FROM t WHERE {inner})");
            format!("SELECT count(*) FROM t WHERE {}", wrapped(depth, "x > 0", wrap))
        }),
        ("NOT IN", |depth| {
            let wrap = |_, inner: &str| format!("x NOT IN (SELECT x FROM t WHERE {inner})");
            format!("SELECT count(*) FROM t WHERE {}", wrapped(depth, "x > 0", wrap))
        }),
        ("LATERAL", |depth| {
            let link = |own: usize| {
                let before = own - 1;
                format!("LATERAL (SELECT l{before}.x + 1 AS x) l{own}")
            };
            format!("SELECT count(*) FROM t l0{}", chained(depth, link))
        }),
        ("WITH", |depth| {
            let link = |own: usize| format!("c{own} AS (SELECT x FROM c{})", own - 1);
            let last = depth - 1;
            format!(
                "WITH c0 AS (SELECT x FROM t){} SELECT count(*) FROM c{last}",
                chained(depth, link)
            )
        }),
        ("WITH read twice", |depth| {
            let link = |own: usize| {
                let before = own - 1;
                format!("c{own} AS (SELECT a.x FROM c{before} a JOIN c{before} b ON a.x = b.x)")
            };
            let last = depth - 1;
            format!(
                "WITH c0 AS (SELECT x FROM t){} SELECT count(*) FROM c{last}",
                chained(depth, link)
            )
        }),
    ];

    async fn lines(session: &mut Session, sql: &str) -> usize {
        let mut rows = session.execute(sql).await.unwrap().rows.unwrap();
        let mut lines = 0;
        while let Some(batch) = rows.next().await {
            lines += arrow::util::pretty::pretty_format_batches(&[batch.unwrap()])
                .unwrap()
                .to_string()
                .lines()
                .count();
        }
        lines
    }

    /// If the work doubled with each level, this would not end before the limit.
    #[tokio::test]
    async fn plans_of_nested_queries_grow_linearly() {
        let database = Database::in_memory().unwrap();
        let mut session = database.session();
        session.execute("CREATE TABLE t (x int)").await.unwrap();
        for (kind, nesting) in NESTINGS {
            let mut sizes = Vec::new();
            for depth in [8, 16, 32] {
                let sql = format!("EXPLAIN {}", nesting(depth));
                let planned = lines(&mut session, &sql);
                let limited = tokio::time::timeout(Duration::from_secs(120), planned).await;
                sizes.push(limited.unwrap_or_else(|_| panic!("{kind}, depth {depth}: no end")));
            }
            assert!(sizes[2] <= 3 * sizes[1] && sizes[1] <= 3 * sizes[0], "{kind}: {sizes:?}");
        }
    }
}
