//! Conditions that guard others: `y <> 0 AND 10 / y > 3` divides no row by zero.
//!
//! PostgreSQL evaluates the operands of AND and OR from left to right, and stops as soon as the
//! result is known. DataFusion computes both operands for all rows of a batch, unless the left one
//! decides most of them, and turns a CASE with boolean results into ANDs and ORs. Upstream:
//! <https://github.com/apache/datafusion/issues/8927> and
//! <https://github.com/apache/datafusion/pull/25143>.
//!
//! [`guarded`] is the last step before a plan becomes executable. Where an operand may fail, the
//! AND or OR around it becomes a CASE, which computes each result for the rows that take it alone:
//!
//! ```text
//! b / a > 1 AND a <> 0   ──►   CASE WHEN (a <> 0) IS DISTINCT FROM true THEN false
//!                                   ELSE b / a > 1 END
//! ```
//!
//! Operands that cannot fail come first, in their order, and then the others in theirs: so no pass
//! before has to keep them in place. Conditions without operands that may fail stay as they are.

mod fallible;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result as PlanResult, ScalarValue, internal_err};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{BinaryExpr, Case, Expr, ExprSchemable, LogicalPlan, Operator, lit};

use self::fallible::{may_fail, may_refuse};
use crate::analyze::visible_columns;

/// A plan in which operands that may fail are computed only for the rows that the other operands
/// leave undecided.
///
/// # Errors
/// If the plan cannot be put together again.
pub fn guarded(plan: LogicalPlan) -> PlanResult<LogicalPlan> {
    plan.transform_up_with_subqueries(guard_node).data()
}

/// An expression with guards, as those of a plan have them. `schema` holds the columns that it may
/// name.
///
/// # Errors
/// If its types cannot be found.
pub fn guarded_expression(expr: Expr, schema: &DFSchema) -> PlanResult<Expr> {
    Guards { schema }.value(expr)
}

fn guard_node(node: LogicalPlan) -> PlanResult<Transformed<LogicalPlan>> {
    // A scan uses its filters to skip data; nothing computes them.
    if matches!(node, LogicalPlan::TableScan(_)) || !has_conditions(&node)? {
        return Ok(Transformed::no(node));
    }
    let schema = visible_columns(&node)?;
    let guards = Guards { schema: &schema };
    match node {
        LogicalPlan::Filter(mut filter) => {
            filter.predicate = guards.condition(filter.predicate)?;
            Ok(Transformed::yes(LogicalPlan::Filter(filter)))
        }
        LogicalPlan::Join(mut join) => {
            join.filter = join.filter.map(|filter| guards.condition(filter)).transpose()?;
            Ok(Transformed::yes(LogicalPlan::Join(join)))
        }
        other => {
            let names = NamePreserver::new(&other);
            let node = other.map_expressions(|expr| {
                if !holds_conditions(&expr)? {
                    return Ok(Transformed::no(expr));
                }
                let name = names.save(&expr);
                guards.value(expr).map(|expr| Transformed::yes(name.restore(expr)))
            })?;
            node.map_data(LogicalPlan::recompute_schema)
        }
    }
}

fn has_conditions(node: &LogicalPlan) -> PlanResult<bool> {
    let mut found = false;
    node.apply_expressions(|expr| {
        found |= holds_conditions(expr)?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// True if an expression contains a part that may need a guard.
fn holds_conditions(expr: &Expr) -> PlanResult<bool> {
    expr.exists(|part| {
        Ok(match part {
            Expr::BinaryExpr(binary) => is_logical(binary.op),
            Expr::AggregateFunction(call) => call.params.filter.is_some(),
            _ => false,
        })
    })
}

fn is_logical(operator: Operator) -> bool {
    matches!(operator, Operator::And | Operator::Or)
}

struct Guards<'a> {
    schema: &'a DFSchema,
}

impl Guards<'_> {
    /// Guards an expression as a condition: only true matters, false and NULL are alike.
    fn condition(&self, expr: Expr) -> PlanResult<Expr> {
        match expr {
            Expr::BinaryExpr(binary) if is_logical(binary.op) => {
                let operator = binary.op;
                let parts = operands(binary).into_iter().map(|part| self.condition(part));
                let parts = parts.collect::<PlanResult<Vec<Expr>>>()?;
                Ok(match self.in_order(operator, parts) {
                    Ok(plain) => plain,
                    Err(parts) => decided_by_first(operator, parts),
                })
            }
            Expr::Case(case) if case.expr.is_none() && self.gives_truths(&case) => {
                self.case(case, |results, expr| results.condition(expr))
            }
            other => self.value(other),
        }
    }

    /// Guards an expression whose value matters, so that NULL and false differ.
    fn value(&self, expr: Expr) -> PlanResult<Expr> {
        match expr {
            Expr::BinaryExpr(binary) if is_logical(binary.op) => {
                let operator = binary.op;
                let parts = operands(binary).into_iter().map(|part| self.value(part));
                let parts = parts.collect::<PlanResult<Vec<Expr>>>()?;
                match self.in_order(operator, parts) {
                    Ok(plain) => Ok(plain),
                    Err(parts) => self.one_by_one(operator, parts),
                }
            }
            Expr::Case(case) if case.expr.is_none() => {
                self.case(case, |results, expr| results.value(expr))
            }
            Expr::AggregateFunction(mut call) => {
                let filter = call.params.filter.take();
                let filter = filter.map(|filter| self.condition(*filter).map(boxed)).transpose()?;
                let call = Expr::AggregateFunction(call);
                let call = call.map_children(|child| self.value(child).map(Transformed::yes))?;
                let Expr::AggregateFunction(mut call) = call.data else {
                    return internal_err!("an aggregate stays one");
                };
                call.params.filter = filter;
                Ok(Expr::AggregateFunction(call))
            }
            other => other.map_children(|child| self.value(child).map(Transformed::yes)).data(),
        }
    }

    fn gives_truths(&self, case: &Case) -> bool {
        let (_, result) = &case.when_then_expr[0];
        matches!(result.get_type(self.schema), Ok(arrow::datatypes::DataType::Boolean))
    }

    fn case(
        &self,
        case: Case,
        result: impl Fn(&Self, Expr) -> PlanResult<Expr>,
    ) -> PlanResult<Expr> {
        let branches = case.when_then_expr.into_iter().map(|(when, then)| {
            Ok((Box::new(self.condition(*when)?), Box::new(result(self, *then)?)))
        });
        let branches = branches.collect::<PlanResult<Vec<_>>>()?;
        let otherwise = case.else_expr.map(|expr| result(self, *expr).map(Box::new)).transpose()?;
        Ok(Expr::Case(Case::new(None, branches, otherwise)))
    }

    /// Joins the operands into one condition if none of them may fail. Otherwise returns the
    /// operands: the ones that cannot fail, joined, come first, then the others.
    fn in_order(&self, operator: Operator, parts: Vec<Expr>) -> Result<Expr, Vec<Expr>> {
        if !parts.iter().any(|part| may_fail(part, self.schema)) {
            return Ok(joined(operator, parts).expect("an operator has operands"));
        }
        let (fallible, safe): (Vec<Expr>, Vec<Expr>) =
            parts.into_iter().partition(|part| may_fail(part, self.schema));
        Err(joined(operator, safe).into_iter().chain(fallible).collect())
    }

    /// AND or OR with NULL as a third value: each operand is computed for the rows that the
    /// operands before it leave undecided.
    fn one_by_one(&self, operator: Operator, parts: Vec<Expr>) -> PlanResult<Expr> {
        let mut parts = parts.into_iter();
        let mut before = parts.next().expect("an operator has operands");
        let decides = operator == Operator::Or;
        for next in parts {
            let decided = (boxed(lit(decides)), boxed(lit(decides)));
            before = if before.nullable(self.schema)? {
                let unknown = Expr::Literal(ScalarValue::Boolean(None), None);
                let beside = binary(next.clone(), operator, unknown);
                let open = (boxed(lit(!decides)), boxed(next));
                Expr::Case(Case::new(Some(boxed(before)), vec![decided, open], Some(boxed(beside))))
            } else if decides {
                let branches = vec![(boxed(before), boxed(lit(true)))];
                Expr::Case(Case::new(None, branches, Some(boxed(next))))
            } else {
                let branches = vec![(boxed(before), boxed(next))];
                Expr::Case(Case::new(None, branches, Some(boxed(lit(false)))))
            };
        }
        Ok(before)
    }
}

/// An aggregate with a filter of its own, in a grouping or a window, which computes those of its
/// arguments that may be refused for the rows that pass. Here and not as the last step, so that no
/// pass takes an argument out for all rows.
pub(crate) fn filtered_arguments(expr: &Expr) -> Option<Expr> {
    let (mut expr, filter) = match expr {
        Expr::AggregateFunction(call) => (expr.clone(), call.params.filter.as_deref()?),
        Expr::WindowFunction(call) => (expr.clone(), call.params.filter.as_deref()?),
        _ => return None,
    };
    let arguments = match &mut expr {
        Expr::AggregateFunction(call) => &mut call.params.args,
        Expr::WindowFunction(call) => &mut call.params.args,
        _ => return None,
    };
    let mut is_changed = false;
    for argument in arguments.iter_mut().filter(|argument| may_refuse(argument)) {
        let branches = vec![(boxed(filter.clone()), boxed(argument.clone()))];
        *argument = Expr::Case(Case::new(None, branches, None));
        is_changed = true;
    }
    is_changed.then_some(expr)
}

/// AND or OR as a condition, where NULL counts as false.
fn decided_by_first(operator: Operator, mut parts: Vec<Expr>) -> Expr {
    let last = parts.pop().expect("an operator has operands");
    if parts.is_empty() {
        return last;
    }
    let branches = parts.into_iter().map(|part| match operator {
        Operator::Or => (boxed(part), boxed(lit(true))),
        _ => (boxed(binary(part, Operator::IsDistinctFrom, lit(true))), boxed(lit(false))),
    });
    Expr::Case(Case::new(None, branches.collect(), Some(boxed(last))))
}

/// The operands of a chain of one operator, from left to right.
fn operands(chain: BinaryExpr) -> Vec<Expr> {
    let operator = chain.op;
    let (mut open, mut found) = (vec![*chain.right, *chain.left], Vec::new());
    while let Some(expr) = open.pop() {
        match expr {
            Expr::BinaryExpr(inner) if inner.op == operator => {
                open.push(*inner.right);
                open.push(*inner.left);
            }
            other => found.push(other),
        }
    }
    found
}

/// The operands under one operator, in halves, so that a long chain is not deep.
pub(crate) fn joined(operator: Operator, mut parts: Vec<Expr>) -> Option<Expr> {
    match parts.len() {
        0 | 1 => parts.pop(),
        count => {
            let right = joined(operator, parts.split_off(count / 2))?;
            Some(binary(joined(operator, parts)?, operator, right))
        }
    }
}

fn binary(left: Expr, operator: Operator, right: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr::new(boxed(left), operator, boxed(right)))
}

fn boxed(expr: Expr) -> Box<Expr> {
    Box::new(expr)
}

#[cfg(test)]
mod tests;
