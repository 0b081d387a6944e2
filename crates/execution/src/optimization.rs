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
pub fn optimize(state: &SessionState, plan: &LogicalPlan) -> Result<LogicalPlan> {
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
///
/// # Errors
/// Errors of the rules; the cancel's error if the statement was canceled.
pub fn optimize_analyzed(state: &SessionState, plan: LogicalPlan) -> Result<LogicalPlan> {
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
pub fn subquery_of(expression: &Expr) -> Option<&Subquery> {
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
