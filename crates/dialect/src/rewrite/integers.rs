//! Whole numbers that fit `integer` are `integer`, as in PostgreSQL. DataFusion takes them for
//! `bigint`.
//!
//! DataFusion has no hook for the type of a literal. It has one for `{name: value}`, which is not
//! PostgreSQL's syntax: so a number travels as `{integer: number}`, and [`IntegerLiterals`] turns
//! that into a literal of the right type. Numbers that are positions or counts (ORDER BY 1, LIMIT
//! 5, ROWS 2 PRECEDING) stay as they are.

use datafusion::common::{DFSchema, Result as PlanResult, ScalarValue};
use datafusion::logical_expr::Expr as Planned;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawDictionaryExpr};
use datafusion::sql::sqlparser::ast::{
    DictionaryField, Expr, Function, FunctionArg, FunctionArgExpr, GroupByExpr, Ident, LimitClause,
    NamedWindowExpr, OrderByKind, Query, Select, TableFactor, UnaryOperator, Value, WindowFrame,
    WindowFrameBound, WindowSpec, WindowType,
};

/// The key that marks such a number on its way to the planner.
const KEY: &str = "integer";

/// Marks a number; to be called after everything inside `expr` was visited.
pub(super) fn mark(expr: &mut Expr) {
    let number = match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => parse(&digits.to_string()),
            _ => None,
        },
        // The least integer has no positive counterpart.
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match expr.as_ref() {
            Expr::Value(value) => match &value.value {
                Value::Number(digits, _) => parse(&format!("-{digits}")),
                _ => None,
            },
            marked => number_of(marked).and_then(i32::checked_neg),
        },
        _ => None,
    };
    if let Some(number) = number {
        let value = Box::new(Expr::value(Value::Number(number.to_string(), false)));
        *expr = Expr::Dictionary(vec![DictionaryField { key: Ident::new(KEY), value }]);
    }
}

fn parse(digits: &str) -> Option<i32> {
    digits.replace('_', "").parse().ok()
}

/// The number that `expr` was marked for.
fn number_of(expr: &Expr) -> Option<i32> {
    let Expr::Dictionary(fields) = expr else { return None };
    let [DictionaryField { key, value }] = fields.as_slice() else { return None };
    match value.as_ref() {
        Expr::Value(value) if key.value == KEY => match &value.value {
            Value::Number(digits, _) => parse(&digits.to_string()),
            _ => None,
        },
        _ => None,
    }
}

fn unmark(expr: &mut Expr) {
    if let Some(number) = number_of(expr) {
        *expr = Expr::value(Value::Number(number.unsigned_abs().to_string(), false));
        if number < 0 {
            *expr = Expr::UnaryOp { op: UnaryOperator::Minus, expr: Box::new(expr.clone()) };
        }
    }
}

/// Positions and counts of a query.
pub(super) fn unmark_query(query: &mut Query) {
    if let Some(order_by) = &mut query.order_by
        && let OrderByKind::Expressions(orders) = &mut order_by.kind
    {
        orders.iter_mut().for_each(|order| unmark(&mut order.expr));
    }
    if let Some(LimitClause::LimitOffset { limit, offset, .. }) = &mut query.limit_clause {
        limit.iter_mut().for_each(unmark);
        offset.iter_mut().for_each(|offset| unmark(&mut offset.value));
    }
}

/// Positions and counts of a SELECT.
pub(super) fn unmark_select(select: &mut Select) {
    if let GroupByExpr::Expressions(expressions, _) = &mut select.group_by {
        expressions.iter_mut().for_each(unmark);
    }
    for window in &mut select.named_window {
        if let NamedWindowExpr::WindowSpec(spec) = &mut window.1 {
            unmark_window(spec);
        }
    }
}

/// The arguments of a table function, which DataFusion requires to be `bigint`, and table samples.
pub(super) fn unmark_table(factor: &mut TableFactor) {
    let arguments = match factor {
        TableFactor::Table { args: Some(arguments), .. } => &mut arguments.args,
        TableFactor::Function { args, .. } => args,
        _ => return,
    };
    for argument in arguments {
        if let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = argument {
            unmark(expr);
        }
    }
}

/// The frame of a window function.
pub(super) fn unmark_function(function: &mut Function) {
    if let Some(WindowType::WindowSpec(spec)) = &mut function.over {
        unmark_window(spec);
    }
}

fn unmark_window(spec: &mut WindowSpec) {
    let Some(WindowFrame { start_bound, end_bound, .. }) = &mut spec.window_frame else { return };
    for bound in std::iter::once(start_bound).chain(end_bound) {
        if let WindowFrameBound::Preceding(Some(rows)) | WindowFrameBound::Following(Some(rows)) =
            bound
        {
            unmark(rows);
        }
    }
}

/// Turns marked numbers into literals.
#[derive(Debug)]
pub(crate) struct IntegerLiterals;

impl ExprPlanner for IntegerLiterals {
    fn plan_dictionary_literal(
        &self,
        expr: RawDictionaryExpr,
        _schema: &DFSchema,
    ) -> PlanResult<PlannerResult<RawDictionaryExpr>> {
        let number = match expr.values.as_slice() {
            [Planned::Literal(ScalarValue::Int64(Some(number)), _)] => i32::try_from(*number).ok(),
            _ => None,
        };
        Ok(match number {
            Some(_) => PlannerResult::Planned(Planned::Literal(ScalarValue::Int32(number), None)),
            None => PlannerResult::Original(expr),
        })
    }
}
