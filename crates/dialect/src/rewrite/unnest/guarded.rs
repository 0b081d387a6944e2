//! Subqueries that other parts of an expression guard.
//!
//! `CASE WHEN a <> 0 THEN (SELECT max(b / a) FROM u) END` divides by no zero, because a subquery is
//! evaluated only for the rows that reach it. Its domain has the bindings of those rows alone.

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{BinaryExpr, Case, Expr, Operator, binary_expr, lit};

use super::native::{Place, is_native};
use super::replace::Replace;
use super::{contains_subquery, is_subquery};

/// Replaces subqueries from the leaves up, and from left to right.
pub(super) struct Guarded<'r, 'a> {
    replace: &'r mut Replace<'a>,
    place: Place,
    /// Conditions that hold for the rows that reach the current expression.
    guards: Vec<Expr>,
}

impl<'r, 'a> Guarded<'r, 'a> {
    pub(super) fn new(replace: &'r mut Replace<'a>, place: Place) -> Guarded<'r, 'a> {
        Guarded { replace, place, guards: Vec::new() }
    }

    /// The expression without those of its subqueries that are not left to DataFusion.
    pub(super) fn replaced(&mut self, expression: Expr) -> Result<Expr> {
        if !contains_subquery(&expression) {
            return Ok(expression);
        }
        let before = self.guards.len();
        let replaced = match expression {
            Expr::BinaryExpr(BinaryExpr { left, op, right })
                if matches!(op, Operator::And | Operator::Or) =>
            {
                let decided = op == Operator::Or;
                let condition = *left.clone();
                self.replaced(*left).and_then(|left| {
                    self.guard(condition, Operator::IsDistinctFrom, decided);
                    Ok(binary_expr(left, op, self.replaced(*right)?))
                })
            }
            Expr::Case(case) => self.case(case),
            Expr::ScalarFunction(call) if call.func.name() == "coalesce" => self.coalesce(call),
            other => self.other(other),
        };
        self.guards.truncate(before);
        replaced
    }

    fn replaced_under(&mut self, before: usize, expression: Expr) -> Result<Expr> {
        let replaced = self.replaced(expression);
        self.guards.truncate(before);
        replaced
    }

    /// The value that IN tests may hold a subquery itself.
    fn other(&mut self, expression: Expr) -> Result<Expr> {
        let expression =
            expression.map_children(|child| self.replaced(child).map(Transformed::yes)).data()?;
        if !is_subquery(&expression) || is_native(&expression, self.place, &self.replace.plan)? {
            return Ok(expression);
        }
        self.replace.guard = conjunction(self.guards.iter().cloned());
        let replaced = self.replace.replace(expression);
        self.replace.guard = None;
        replaced
    }

    /// Each argument is evaluated where those before it are NULL.
    fn coalesce(&mut self, mut call: ScalarFunction) -> Result<Expr> {
        let arguments = std::mem::take(&mut call.args).into_iter().map(|argument| {
            let missing = argument.clone().is_null();
            let argument = self.replaced(argument)?;
            self.guard_by(missing);
            Ok(argument)
        });
        call.args = arguments.collect::<Result<_>>()?;
        Ok(Expr::ScalarFunction(call))
    }

    fn case(&mut self, case: Case) -> Result<Expr> {
        let operand = case.expr.map(|operand| self.replaced(*operand)).transpose()?;
        let mut branches = Vec::with_capacity(case.when_then_expr.len());
        for (when, then) in case.when_then_expr {
            let condition = match &operand {
                Some(operand) => operand.clone().eq(*when.clone()),
                None => *when.clone(),
            };
            let when = self.replaced(*when)?;
            let before = self.guards.len();
            self.guard(condition.clone(), Operator::IsNotDistinctFrom, true);
            let then = self.replaced_under(before, *then)?;
            self.guard(condition, Operator::IsDistinctFrom, true);
            branches.push((Box::new(when), Box::new(then)));
        }
        let otherwise = case.else_expr.map(|otherwise| self.replaced(*otherwise)).transpose()?;
        Ok(Expr::Case(Case::new(operand.map(Box::new), branches, otherwise.map(Box::new))))
    }

    /// Adds the guard `condition IS [NOT] DISTINCT FROM value`.
    fn guard(&mut self, condition: Expr, operator: Operator, value: bool) {
        let value = lit(ScalarValue::Boolean(Some(value)));
        self.guard_by(binary_expr(condition, operator, value));
    }

    /// Adds a guard that the plan can compute by itself, and gives the same each time.
    /// The plan may be one side of a join whose condition is about both.
    fn guard_by(&mut self, guard: Expr) {
        let is_foreign = contains_subquery(&guard) || guard.is_volatile() || guard.contains_outer();
        let schema = self.replace.plan.schema();
        let is_known =
            guard.column_refs().into_iter().all(|column| schema.index_of_column(column).is_ok());
        if is_known && !is_foreign {
            self.guards.push(guard);
        }
    }
}
