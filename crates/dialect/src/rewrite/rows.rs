//! Comparisons of rows, spelled out by column: DataFusion compares single values only.

use std::cmp::Ordering;
use std::ops::ControlFlow;

use crate::walk;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Query,
    SelectItem, SetExpr, Statement, TableFactor, UnaryOperator, Value, VisitorMut,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use thalweg_types::{Error, Result, SqlState};

use super::aggregates::names_aggregate;
use super::build::call;
use super::copies::check_repeated;
use super::own_expressions;

/// A name in a query written here that is replaced by the comparison.
const COMPARED: &str = "__compared";

/// Rewrites `expr` if it is a comparison of rows; the expressions inside are rewritten separately.
pub(super) fn compare_rows(expr: &mut Expr) -> Result<()> {
    let rewritten = match expr {
        Expr::BinaryOp { left, op: BinaryOperator::Overlaps, right } => {
            match (row(left), row(right)) {
                (Some(left), Some(right)) if left.len() == 2 && right.len() == 2 => {
                    Some(call("overlaps", left.into_iter().chain(right).collect()))
                }
                _ => None,
            }
        }
        Expr::BinaryOp { left, op, right } => match (row(left), row(right)) {
            (Some(left), Some(right)) => comparison(&left, op, &right)?,
            (Some(left), None) => match subquery_of(right) {
                Some(subquery) => with_row_of(&left, op, subquery)?,
                None => None,
            },
            _ => None,
        },
        Expr::IsDistinctFrom(left, right) => match (row(left), row(right)) {
            (Some(left), Some(right)) => Some(any_of(pairs(&left, &right)?, |left, right| {
                Expr::IsDistinctFrom(Box::new(left), Box::new(right))
            })),
            _ => None,
        },
        Expr::IsNotDistinctFrom(left, right) => match (row(left), row(right)) {
            (Some(left), Some(right)) => Some(all_of(pairs(&left, &right)?, |left, right| {
                Expr::IsNotDistinctFrom(Box::new(left), Box::new(right))
            })),
            _ => None,
        },
        // Both tests hold only if every member passes: a row may be neither.
        Expr::IsNull(tested) => row(tested).map(|members| each_is(members, Expr::IsNull)),
        Expr::IsNotNull(tested) => row(tested).map(|members| each_is(members, Expr::IsNotNull)),
        Expr::InList { expr: tested, list, negated } => match row(tested) {
            Some(tested) => Some(in_list(&tested, list, *negated)?),
            None => None,
        },
        Expr::InSubquery { expr: tested, subquery, negated } => match row(tested) {
            Some(tested) => {
                let found = with_any_row_of(&tested, &BinaryOperator::Eq, subquery, false)?;
                found.map(|found| negate_if(*negated, found))
            }
            None => None,
        },
        Expr::AnyOp { left, compare_op, right, .. } => match (row(left), right.as_ref()) {
            (Some(tested), Expr::Subquery(query)) => {
                with_any_row_of(&tested, compare_op, query, false)?
            }
            _ => None,
        },
        // Holds for all rows if no row violates it.
        Expr::AllOp { left, compare_op, right } => match (row(left), right.as_ref()) {
            (Some(tested), Expr::Subquery(query)) => {
                let failing = with_any_row_of(&tested, compare_op, query, true)?;
                failing.map(|failing| negate_if(true, failing))
            }
            _ => None,
        },
        _ => None,
    };
    if let Some(rewritten) = rewritten {
        *expr = rewritten;
    }
    Ok(())
}

/// The members of `(a, b)` or `ROW(a, b)`.
fn row(expr: &Expr) -> Option<Vec<Expr>> {
    match expr {
        Expr::Tuple(members) => Some(members.clone()),
        Expr::Nested(inner) => row(inner),
        Expr::Function(function) if function.name.to_string().eq_ignore_ascii_case("row") => {
            let FunctionArguments::List(list) = &function.args else { return None };
            list.args
                .iter()
                .map(|argument| match argument {
                    FunctionArg::Unnamed(FunctionArgExpr::Expr(member)) => Some(member.clone()),
                    _ => None,
                })
                .collect()
        }
        _ => None,
    }
}

fn pairs(left: &[Expr], right: &[Expr]) -> Result<Vec<(Expr, Expr)>> {
    if left.len() != right.len() || left.is_empty() {
        return Err(Error::new(
            SqlState::SYNTAX_ERROR,
            "unequal number of entries in row expressions",
        ));
    }
    Ok(left.iter().cloned().zip(right.iter().cloned()).collect())
}

fn comparison(left: &[Expr], op: &BinaryOperator, right: &[Expr]) -> Result<Option<Expr>> {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    let pairs = pairs(left, right)?;
    Ok(Some(match op {
        Eq => all_of(pairs, |left, right| binary(left, Eq, right)),
        NotEq => any_of(pairs, |left, right| binary(left, NotEq, right)),
        Lt | LtEq => lexicographic(&pairs, &Lt, op)?,
        Gt | GtEq => lexicographic(&pairs, &Gt, op)?,
        _ => return Ok(None),
    }))
}

/// `(a, b) < (x, y)` is `a < x OR (a = x AND b < y)`; only the last column compares with `<=`.
fn lexicographic(
    pairs: &[(Expr, Expr)],
    strict: &BinaryOperator,
    last: &BinaryOperator,
) -> Result<Expr> {
    let [(left, right), rest @ ..] = pairs else { unreachable!("rows are not empty") };
    if rest.is_empty() {
        return Ok(binary(left.clone(), last.clone(), right.clone()));
    }
    check_repeated(left)?;
    check_repeated(right)?;
    let decided = binary(left.clone(), strict.clone(), right.clone());
    let equal = binary(left.clone(), BinaryOperator::Eq, right.clone());
    let then = binary(equal, BinaryOperator::And, lexicographic(rest, strict, last)?);
    Ok(nested(binary(decided, BinaryOperator::Or, nested(then))))
}

fn in_list(tested: &[Expr], list: &[Expr], negated: bool) -> Result<Expr> {
    let mut equal = Vec::with_capacity(list.len());
    if list.len() > 1 {
        tested.iter().try_for_each(check_repeated)?;
    }
    for member in list {
        let members = row(member).ok_or_else(|| {
            Error::new(SqlState::SYNTAX_ERROR, "a row is compared with something that is no row")
        })?;
        let same =
            all_of(pairs(tested, &members)?, |left, right| binary(left, BinaryOperator::Eq, right));
        equal.push(same);
    }
    if equal.is_empty() {
        return Err(Error::new(SqlState::SYNTAX_ERROR, "IN needs a list of rows"));
    }
    Ok(negate_if(negated, nested(one_of(equal))))
}

/// A balanced tree: recursive passes take much longer over a deep one.
fn one_of(mut conditions: Vec<Expr>) -> Expr {
    let behind = conditions.split_off(conditions.len() / 2);
    match <[Expr; 1]>::try_from(behind) {
        Ok([last]) if conditions.is_empty() => last,
        Ok([last]) => binary(one_of(conditions), BinaryOperator::Or, last),
        Err(behind) => binary(one_of(conditions), BinaryOperator::Or, nested(one_of(behind))),
    }
}

/// Rewrites a test of rows against a subquery in a `WHERE`, where false and NULL are alike, so that
/// a join can answer it.
pub(super) fn find_rows(condition: &mut Expr) -> Result<()> {
    let found = match condition {
        Expr::Nested(inner) => return find_rows(inner),
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            find_rows(left)?;
            return find_rows(right);
        }
        Expr::InSubquery { expr: tested, subquery, negated: false } => {
            row(tested).map(|tested| has_row(&tested, subquery))
        }
        Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. } => match right.as_ref() {
            Expr::Subquery(query) => row(left).map(|tested| has_row(&tested, query)),
            _ => None,
        },
        _ => None,
    };
    if let Some(found) = found {
        *condition = found?;
    }
    Ok(())
}

fn has_row(tested: &[Expr], subquery: &Query) -> Result<Expr> {
    let Beside { members, names, columns } = Beside::of(tested, subquery)?;
    let equal =
        all_of(pairs(&members, &columns)?, |left, right| binary(left, BinaryOperator::Eq, right));
    let sql = format!("SELECT 1 FROM (SELECT 1) AS \"__rows\"({names}) WHERE \"{COMPARED}\"");
    let subquery = Box::new(over_rows(&sql, subquery, &equal)?);
    Ok(Expr::Exists { subquery, negated: false })
}

/// `(a, b) < (SELECT …)`: NULL where there is no row, and an error where there are several.
fn with_row_of(tested: &[Expr], op: &BinaryOperator, subquery: &Query) -> Result<Option<Expr>> {
    let Beside { members, names, columns } = Beside::of(tested, subquery)?;
    let Some(compared) = comparison(&members, op, &columns)? else { return Ok(None) };
    let sql = format!("SELECT \"{COMPARED}\" FROM (SELECT 1) AS \"__rows\"({names})");
    Ok(Some(Expr::Subquery(Box::new(over_rows(&sql, subquery, &nested(compared))?))))
}

/// Three answers out of one scalar subquery: true if a row compares so, or does not if it is
/// `negated`; NULL if one might.
fn with_any_row_of(
    tested: &[Expr],
    op: &BinaryOperator,
    subquery: &Query,
    negated: bool,
) -> Result<Option<Expr>> {
    let Beside { members, names, columns } = Beside::of(tested, subquery)?;
    let Some(compared) = comparison(&members, op, &columns)? else { return Ok(None) };
    let compared = nested(negate_if(negated, nested(compared)));
    let sql = format!(
        "SELECT CASE WHEN count(CASE WHEN \"{COMPARED}\" THEN 1 END) > 0 THEN true \
         WHEN count(CASE WHEN \"{COMPARED}\" IS NULL THEN 1 END) > 0 THEN NULL ELSE false END \
         FROM (SELECT 1) AS \"__rows\"({names})"
    );
    Ok(Some(Expr::Subquery(Box::new(over_rows(&sql, subquery, &compared)?))))
}

/// A row that is compared with a subquery.
struct Beside {
    members: Vec<Expr>,
    /// The names of the subquery's columns, as a list.
    names: String,
    columns: Vec<Expr>,
}

impl Beside {
    fn of(tested: &[Expr], subquery: &Query) -> Result<Beside> {
        if tested.iter().any(gathers_rows) {
            // It would belong to the new query around the subquery.
            return Err(Error::unsupported(
                "an aggregate or a window function in a row beside a subquery",
            ));
        }
        let error_text = match width_of(&subquery.body).map(|width| width.cmp(&tested.len())) {
            Some(Ordering::Less) => Some("subquery has too few columns"),
            Some(Ordering::Greater) => Some("subquery has too many columns"),
            Some(Ordering::Equal) | None => None,
        };
        if let Some(error_text) = error_text {
            return Err(Error::new(SqlState::SYNTAX_ERROR, error_text));
        }
        let name = |place: usize| Ident::with_quote('"', format!("__row_{place}"));
        let names: Vec<Ident> = (1..=tested.len()).map(name).collect();
        let listed = names.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let columns = names.into_iter().map(Expr::Identifier).collect();
        Ok(Beside { members: tested.iter().map(operand).collect(), names: listed, columns })
    }
}

/// A member of a row as one side of an operator.
fn operand(member: &Expr) -> Expr {
    match member {
        Expr::Identifier(_)
        | Expr::CompoundIdentifier(_)
        | Expr::Value(_)
        | Expr::Function(_)
        | Expr::Nested(_) => member.clone(),
        other => nested(other.clone()),
    }
}

/// True if there is an aggregate or a window function in it, outside of the queries inside.
fn gathers_rows(member: &Expr) -> bool {
    let gathers = |function: &Function| {
        function.over.is_some()
            || function.filter.is_some()
            || !function.within_group.is_empty()
            || names_aggregate(function)
    };
    own_expressions::look_at(member, |expr| match expr {
        Expr::Function(function) if gathers(function) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    })
    .is_break()
}

/// Number of columns of a query that lists them.
fn width_of(body: &SetExpr) -> Option<usize> {
    match body {
        SetExpr::Select(select) => {
            let is_column = |item: &SelectItem| {
                matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. })
            };
            select.projection.iter().all(is_column).then_some(select.projection.len())
        }
        SetExpr::Query(query) => width_of(&query.body),
        SetExpr::SetOperation { left, .. } => width_of(left),
        SetExpr::Values(values) => Some(values.rows.first()?.content.len()),
        _ => None,
    }
}

fn subquery_of(expr: &Expr) -> Option<&Query> {
    match expr {
        Expr::Subquery(query) => Some(query),
        Expr::Nested(inner) => subquery_of(inner),
        _ => None,
    }
}

/// A query that this module wrote, with `rows` and `compared` in the places of their placeholders.
/// Neither is written as text, which would lose its nesting.
fn over_rows(sql: &str, rows: &Query, compared: &Expr) -> Result<Query> {
    struct Fill<'e>(&'e Expr);
    impl VisitorMut for Fill<'_> {
        type Break = ();
        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if matches!(expr, Expr::Identifier(name) if name.value == COMPARED) {
                *expr = self.0.clone();
            }
            ControlFlow::Continue(())
        }
    }
    let mut query = parse_query(sql)?;
    let _ = walk::visit_mut(&mut query, &mut Fill(compared));
    let SetExpr::Select(select) = query.body.as_mut() else {
        return Err(Error::internal("a SELECT was parsed as something else"));
    };
    if let TableFactor::Derived { subquery, .. } = &mut select.from[0].relation {
        **subquery = rows.clone();
    }
    Ok(query)
}

/// Parses a query that this module wrote.
pub(super) fn parse_query(sql: &str) -> Result<Query> {
    let unreadable = |found: &dyn std::fmt::Display| {
        Error::internal(format!("a rewritten query does not parse: {found}: {sql}"))
    };
    let mut statements =
        Parser::parse_sql(&PostgreSqlDialect {}, sql).map_err(|error| unreadable(&error))?;
    match statements.pop() {
        Some(Statement::Query(query)) => Ok(*query),
        _ => Err(unreadable(&"no query")),
    }
}

/// The condition that a test holds for every member; it is true if there are none.
fn each_is(members: Vec<Expr>, test: fn(Box<Expr>) -> Expr) -> Expr {
    let tests = members.into_iter().map(|member| test(Box::new(nested(member))));
    let all = tests.reduce(|left, right| binary(left, BinaryOperator::And, right));
    nested(all.unwrap_or_else(|| Expr::value(Value::Boolean(true))))
}

fn all_of(pairs: Vec<(Expr, Expr)>, compare: impl Fn(Expr, Expr) -> Expr) -> Expr {
    chain(pairs, BinaryOperator::And, compare)
}

fn any_of(pairs: Vec<(Expr, Expr)>, compare: impl Fn(Expr, Expr) -> Expr) -> Expr {
    chain(pairs, BinaryOperator::Or, compare)
}

fn chain(
    pairs: Vec<(Expr, Expr)>,
    operator: BinaryOperator,
    compare: impl Fn(Expr, Expr) -> Expr,
) -> Expr {
    let chained = pairs
        .into_iter()
        .map(|(left, right)| compare(left, right))
        .reduce(|left, right| binary(left, operator.clone(), right))
        .expect("rows are not empty");
    nested(chained)
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

fn nested(expr: Expr) -> Expr {
    Expr::Nested(Box::new(expr))
}

fn negate_if(negated: bool, expr: Expr) -> Expr {
    if !negated {
        return expr;
    }
    Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(expr) }
}
