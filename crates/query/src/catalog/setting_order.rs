//! The order of `set_config` and `current_setting` in one statement.
//!
//! The planner folds `current_setting` of a constant, so that conditions with it are sent to
//! workers. In a statement that changes settings itself, it is called for each row instead.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan};

/// `current_setting`, as a function that is not folded.
pub(super) const SETTING_NOW: &str = "thalweg_setting_now";

/// The plan with settings read in the order of its expressions, if it changes some.
pub(crate) fn settings_in_order(plan: LogicalPlan, state: &SessionState) -> Result<LogicalPlan> {
    if !has_call(&plan, "set_config")? || !has_call(&plan, "current_setting")? {
        return Ok(plan);
    }
    let Some(now) = state.scalar_functions().get(SETTING_NOW) else { return Ok(plan) };
    let replaced = plan.transform_up_with_subqueries(|plan| {
        let names = NamePreserver::new(&plan);
        plan.map_expressions(|expr| {
            let name = names.save(&expr);
            let replaced = expr.transform_up(|expr| {
                Ok(match expr {
                    Expr::ScalarFunction(ScalarFunction { func, args })
                        if func.name() == "current_setting" =>
                    {
                        Transformed::yes(now.call(args))
                    }
                    other => Transformed::no(other),
                })
            })?;
            Ok(match replaced.transformed {
                true => replaced.update_data(|expr| name.restore(expr)),
                false => replaced,
            })
        })
    })?;
    Ok(replaced.data)
}

fn has_call(plan: &LogicalPlan, name: &str) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|plan| {
        plan.apply_expressions(|expr| {
            expr.apply(|expr| {
                found |= matches!(expr, Expr::ScalarFunction(call) if call.func.name() == name);
                Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
            })
        })
    })?;
    Ok(found)
}
