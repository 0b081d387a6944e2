//! Rewrites a query so that its plan determines the types of parameters that are operands: each
//! operator, call or choice among values with a parameter becomes a call of
//! [`parameter_type`](super::parameter_type), whose other arguments are the other operands.
//!
//! Such queries are planned and never run.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, CeilFloorKind, DateTimeField, Expr, Function, FunctionArg,
    FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident, ObjectName, Query, Select,
    SelectItem, SetExpr, TableFactor, TrimWhereField, UnaryOperator, Value, VisitorMut,
};

use super::parameter_type::{self, Rule};
use crate::catalog::overloads::{Kind, kind_of};
use crate::parameters::is_parameter;
use crate::statement::{ast_tools, folded};

/// Functions that return one of their arguments.
const CHOOSING: [&str; 3] = ["coalesce", "greatest", "least"];

/// The visitor that rewrites such expressions.
#[derive(Default)]
pub(super) struct Operands {
    /// Calls of table functions. Their arguments are planned apart.
    pub(super) of_tables: Vec<Expr>,
}

impl VisitorMut for Operands {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        ask_columns(&mut query.body);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Some(asked) = asked(expr) {
            *expr = asked;
        } else if let Expr::Function(function) = expr {
            ask_in_place(function);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        let (name, arguments) = match factor {
            TableFactor::Table { name, args: Some(arguments), .. } => (&*name, &arguments.args),
            TableFactor::Function { name, args, .. } => (&*name, &*args),
            _ => return ControlFlow::Continue(()),
        };
        if let (Some(name), Some(values)) = (plain_name(name), unnamed(arguments)) {
            self.of_tables.extend(call(Rule::Function, &name, &values));
        }
        ControlFlow::Continue(())
    }
}

fn asked(expr: &Expr) -> Option<Expr> {
    use BinaryOperator::{And, Or, Xor};
    match expr {
        Expr::BinaryOp { op: And | Or | Xor, .. } => None,
        Expr::BinaryOp { left, op, right } => compared(left, &symbol(op), right),
        Expr::IsDistinctFrom(left, right) | Expr::IsNotDistinctFrom(left, right) => {
            compared(left, "=", right)
        }
        Expr::Like { expr, pattern, .. } => call(Rule::Operator, "~~", &[expr, pattern]),
        Expr::ILike { expr, pattern, .. } => call(Rule::Operator, "~~*", &[expr, pattern]),
        Expr::Between { expr, low, high, .. } => call(Rule::EachWith, "=", &[expr, low, high]),
        Expr::InList { expr, list, .. } => asked_list(expr, list),
        Expr::InSubquery { expr, subquery, .. } if is_parameter(expr) => {
            call(Rule::EachWith, "=", &[expr, &Expr::Subquery(subquery.clone())])
        }
        Expr::AnyOp { left, compare_op, right, .. } | Expr::AllOp { left, compare_op, right } => {
            match unnested(right) {
                Expr::Subquery(_) => compared(left, &symbol(compare_op), unnested(right)),
                items => call(Rule::Quantified, &symbol(compare_op), &[left, items]),
            }
        }
        Expr::Array(array) => {
            let item = call(Rule::Common, "", &array.elem.iter().collect::<Vec<_>>())?;
            let mut items = array.clone();
            items.elem = vec![item];
            Some(Expr::Array(items))
        }
        Expr::Case { operand, conditions, else_result, .. } => {
            asked_case(expr, operand.as_deref(), conditions, else_result.as_deref())
        }
        Expr::Function(function) => asked_function(function),
        other => asked_syntax(other),
    }
}

/// Functions that SQL gives a syntax of their own, and operators of one operand that have the types
/// of functions.
fn asked_syntax(expr: &Expr) -> Option<Expr> {
    let function = |name: &str, values: &[&Expr]| call(Rule::Function, name, values);
    match expr {
        Expr::AtTimeZone { timestamp, time_zone } => function("timezone", &[time_zone, timestamp]),
        Expr::Position { expr, r#in } => function("position", &[r#in, expr]),
        Expr::Substring { expr, substring_from, substring_for, shorthand, .. } => {
            let name = if *shorthand { "substr" } else { "substring" };
            let others = substring_from.iter().chain(substring_for).map(Box::as_ref);
            let values: Vec<&Expr> = std::iter::once(expr.as_ref()).chain(others).collect();
            function(name, &values)
        }
        Expr::Overlay { expr, overlay_what, overlay_from, overlay_for } => {
            let mut values: Vec<&Expr> = vec![expr, overlay_what, overlay_from];
            values.extend(overlay_for.as_deref());
            function("overlay", &values)
        }
        Expr::Trim { expr, trim_where, trim_what, .. } => {
            let name = match trim_where {
                Some(TrimWhereField::Leading) => "ltrim",
                Some(TrimWhereField::Trailing) => "rtrim",
                _ => "btrim",
            };
            let values: Vec<&Expr> =
                std::iter::once(expr.as_ref()).chain(trim_what.as_deref()).collect();
            function(name, &values)
        }
        Expr::UnaryOp { op: UnaryOperator::Plus | UnaryOperator::PGAbs, expr } => {
            function("abs", &[expr])
        }
        Expr::UnaryOp { op: op @ (UnaryOperator::Minus | UnaryOperator::BitwiseNot), expr } => {
            call(Rule::Operator, &op.to_string(), &[expr])
        }
        Expr::UnaryOp { op: UnaryOperator::PGSquareRoot, expr } => function("sqrt", &[expr]),
        Expr::UnaryOp { op: UnaryOperator::PGCubeRoot, expr } => function("cbrt", &[expr]),
        Expr::Ceil { expr, field: CeilFloorKind::DateTimeField(DateTimeField::NoDateTime) } => {
            function("ceil", &[expr])
        }
        Expr::Floor { expr, field: CeilFloorKind::DateTimeField(DateTimeField::NoDateTime) } => {
            function("floor", &[expr])
        }
        _ => None,
    }
}

/// A comparison of two values, or of two rows of them.
fn compared(left: &Expr, operator: &str, right: &Expr) -> Option<Expr> {
    let (Expr::Tuple(lefts), Expr::Tuple(rights)) = (unnested(left), unnested(right)) else {
        return call(Rule::Operator, operator, &[left, right]);
    };
    all_of(lefts.iter().zip(rights).filter_map(|(left, right)| compared(left, operator, right)))
}

/// All conditions, as a tree of little depth: planning takes long for chains.
fn all_of(conditions: impl Iterator<Item = Expr>) -> Option<Expr> {
    let mut level: Vec<Expr> = conditions.collect();
    while level.len() > 1 {
        let mut parts = level.into_iter();
        let mut next = Vec::new();
        while let Some(left) = parts.next() {
            next.push(match parts.next() {
                Some(right) => both(left, right),
                None => left,
            });
        }
        level = next;
    }
    level.pop()
}

fn both(left: Expr, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op: BinaryOperator::And, right: Box::new(right) }
}

/// `x IN (…)`: several items have one type with the tested value.
fn asked_list(tested: &Expr, list: &[Expr]) -> Option<Expr> {
    if let Expr::Tuple(_) = unnested(tested) {
        return all_of(list.iter().filter_map(|row| compared(tested, "=", row)));
    }
    let values: Vec<&Expr> = std::iter::once(tested).chain(list).collect();
    call(if list.len() > 1 { Rule::Listed } else { Rule::EachWith }, "=", &values)
}

/// The results of a `CASE` have one type, and each condition is compared with the operand.
fn asked_case(
    case: &Expr,
    operand: Option<&Expr>,
    conditions: &[CaseWhen],
    else_result: Option<&Expr>,
) -> Option<Expr> {
    let tested = operand.and_then(|operand| {
        let conditions = conditions.iter().map(|when| &when.condition);
        let values: Vec<&Expr> = std::iter::once(operand).chain(conditions).collect();
        call(Rule::EachWith, "=", &values)
    });
    let results: Vec<&Expr> =
        conditions.iter().map(|when| &when.result).chain(else_result).collect();
    let result = call(Rule::Common, "", &results);
    if tested.is_none() && result.is_none() {
        return None;
    }
    let mut asked = case.clone();
    let Expr::Case { operand, conditions, else_result, .. } = &mut asked else { return None };
    if let Some(tested) = tested {
        let result = conditions.first()?.result.clone();
        let others = conditions.drain(..).skip(1).map(|when| when.result);
        // Results that are not part of the comparison stay in the query.
        let others: Vec<CaseWhen> = others
            .map(|result| CaseWhen { condition: Expr::value(Value::Boolean(true)), result })
            .collect();
        conditions.push(CaseWhen { condition: tested, result });
        conditions.extend(others);
        *operand = None;
    }
    if let Some(result) = result {
        *else_result = Some(Box::new(result));
        conditions.iter_mut().for_each(|when| when.result = Expr::value(Value::Null));
    }
    Some(asked)
}

fn asked_function(function: &Function) -> Option<Expr> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let (name, values) = (plain_name(&function.name)?, unnamed(&list.args)?);
    if CHOOSING.contains(&name.as_str()) {
        return call(Rule::Common, "", &values);
    }
    if name == "nullif" {
        return call(Rule::First, "=", &values);
    }
    let is_plain = function.over.is_none() && kind_of(&name) == Some(Kind::Scalar);
    if is_plain { call(Rule::Function, &name, &values) } else { None }
}

/// Replaces the parameters among the arguments of an aggregate, a window function or a function
/// that returns rows, which must stay what it is.
fn ask_in_place(function: &mut Function) {
    let Some(name) = plain_name(&function.name) else { return };
    let FunctionArguments::List(FunctionArgumentList { args, .. }) = &mut function.args else {
        return;
    };
    if kind_of(&name).is_none() {
        return;
    }
    let Some(values) = unnamed(args) else { return };
    let typed: Vec<(usize, Expr)> = (0..values.len())
        .filter(|at| is_parameter(values[*at]))
        .filter_map(|at| Some((at, call(Rule::Argument(at), &name, &values)?)))
        .collect();
    for (at, typed) in typed {
        args[at] = FunctionArg::Unnamed(FunctionArgExpr::Expr(typed));
    }
}

/// Replaces parameters that are columns of `VALUES` or of a set operation, which have one type.
fn ask_columns(body: &mut SetExpr) {
    if !matches!(body, SetExpr::SetOperation { .. } | SetExpr::Values(_)) {
        return;
    }
    let mut known = Vec::new();
    add_known(body, &mut known);
    replace_cells(body, &|at, cell| {
        let known = known.get(at)?.as_ref()?;
        call(Rule::Common, "", &[cell, known]).filter(|_| is_parameter(cell))
    });
}

/// For each column, the first value that is no parameter.
fn add_known(body: &SetExpr, found: &mut Vec<Option<Expr>>) {
    let mut add = |at: usize, value: &dyn Fn() -> Option<Expr>| {
        if found.len() <= at {
            found.resize(at + 1, None);
        }
        if found[at].is_none() {
            found[at] = value();
        }
    };
    match body {
        SetExpr::SetOperation { left, right, .. } => {
            add_known(left, found);
            add_known(right, found);
        }
        SetExpr::Select(select) => {
            for (at, item) in select.projection.iter().enumerate() {
                add(at, &|| known_item(select, known(item_value(item)?)?));
            }
        }
        SetExpr::Values(values) => {
            for row in &values.rows {
                row.iter().enumerate().for_each(|(at, cell)| add(at, &|| known(cell).cloned()));
            }
        }
        _ => {}
    }
}

/// A column of a query outside of it: the result of a subquery that has this column alone.
fn known_item(select: &Select, value: &Expr) -> Option<Expr> {
    if select.from.is_empty() {
        return Some(value.clone());
    }
    let mut alone = select.clone();
    alone.projection = vec![SelectItem::UnnamedExpr(value.clone())];
    let mut query = ast_tools::select(Vec::new(), Vec::new(), None);
    *query.body = SetExpr::Select(Box::new(alone));
    Some(Expr::Subquery(Box::new(query)))
}

fn known(value: &Expr) -> Option<&Expr> {
    (!is_parameter(value)).then_some(value)
}

fn item_value(item: &SelectItem) -> Option<&Expr> {
    match item {
        SelectItem::UnnamedExpr(value) | SelectItem::ExprWithAlias { expr: value, .. } => {
            Some(value)
        }
        _ => None,
    }
}

/// Replaces the values of columns, by their positions.
fn replace_cells(body: &mut SetExpr, asked: &dyn Fn(usize, &Expr) -> Option<Expr>) {
    let replace = |at: usize, cell: &mut Expr| {
        if let Some(asked) = asked(at, cell) {
            *cell = asked;
        }
    };
    match body {
        SetExpr::SetOperation { left, right, .. } => {
            replace_cells(left, asked);
            replace_cells(right, asked);
        }
        SetExpr::Select(select) => {
            for (at, item) in select.projection.iter_mut().enumerate() {
                if let SelectItem::UnnamedExpr(value)
                | SelectItem::ExprWithAlias { expr: value, .. } = item
                {
                    replace(at, value);
                }
            }
        }
        SetExpr::Values(values) => {
            for row in &mut values.rows {
                row.iter_mut().enumerate().for_each(|(at, cell)| replace(at, cell));
            }
        }
        _ => {}
    }
}

/// The call in place of an expression; `None` if none of the values is a parameter.
fn call(rule: Rule, name: &str, values: &[&Expr]) -> Option<Expr> {
    if !values.iter().any(|value| is_parameter(value)) {
        return None;
    }
    parameter_type::call(rule, name, values)
}

fn unnamed(arguments: &[FunctionArg]) -> Option<Vec<&Expr>> {
    let value = |argument| match argument {
        &FunctionArg::Unnamed(FunctionArgExpr::Expr(ref value)) => Some(value),
        _ => None,
    };
    arguments.iter().map(value).collect()
}

fn plain_name(name: &ObjectName) -> Option<String> {
    let name: &Ident = name.0.last()?.as_ident()?;
    Some(folded(name))
}

fn unnested(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => unnested(inner),
        expr => expr,
    }
}

/// The name of an operator in the catalog.
fn symbol(operator: &BinaryOperator) -> String {
    match operator {
        BinaryOperator::PGCustomBinaryOperator(parts) => parts.last().cloned().unwrap_or_default(),
        other => other.to_string(),
    }
}
