//! Parameters of statements: `$1`, `$2`, … in the syntax tree, and their replacement by values.
//!
//! A parameter is replaced by a cast of its value's text, so that every kind of statement treats it
//! like a literal of the parameter's type.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use arrow::datatypes::{DataType as ArrowType, Field};
use datafusion::common::ScalarValue;
use datafusion::sql::parser::Statement as Tree;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Select, SelectItem, Value, VisitMut, VisitorMut,
};
use thalweg_dialect::walk;
use thalweg_formats::text::{ValueFormatter, holds_numerics};
use thalweg_types::{Error, Result, SqlState};
use thalweg_values::types::sql_name;

use crate::statement::ast_tools;

/// PostgreSQL's wire protocol counts parameters with 16 bits.
const PARAMETERS_MAX: usize = 65_535;

/// Number of parameters of a statement: the greatest number that it names, or the number of
/// declared types.
///
/// # Errors
/// If a parameter has no number, or one that is too great (`42P02`); if the type of a parameter
/// that the statement does not name is not declared (`42P18`), as in PostgreSQL.
pub(crate) fn count<T>(tree: &Tree, declared: &[Option<T>]) -> Result<usize> {
    let mut named = Ok(BTreeSet::new());
    each_expression(tree, &mut |expr| {
        if let (Some(name), Ok(numbers)) = (placeholder(expr), &mut named) {
            match number(name) {
                Ok(number) => drop(numbers.insert(number)),
                Err(error) => named = Err(error),
            }
        }
        named.is_ok()
    });
    let named = named?;
    let greatest = named.last().copied().unwrap_or(0);
    let is_known = |number: &usize| {
        named.contains(number) || declared.get(number - 1).is_some_and(Option::is_some)
    };
    match (1..=greatest).find(|number| !is_known(number)) {
        None => Ok(greatest.max(declared.len())),
        Some(number) => {
            let message = format!("could not determine data type of parameter ${number}");
            Err(Error::new(SqlState::INDETERMINATE_DATATYPE, message))
        }
    }
}

/// The name of the parameter if the expression is one.
pub(crate) fn placeholder(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Placeholder(name) => Some(name),
            _ => None,
        },
        _ => None,
    }
}

/// The number behind the `$`.
pub(crate) fn number(name: &str) -> Result<usize> {
    let number = name.strip_prefix('$').and_then(|digits| digits.parse().ok());
    match number {
        Some(number @ 1..=PARAMETERS_MAX) => Ok(number),
        _ => {
            let message = format!("there is no parameter {name}");
            Err(Error::new(SqlState::UNDEFINED_PARAMETER, message))
        }
    }
}

/// # Errors
/// If a statement that is about to run has a parameter without a value.
pub(crate) fn refuse_unbound(tree: &Tree) -> Result<()> {
    let mut unbound = None;
    each_expression(tree, &mut |expr| {
        unbound = placeholder(expr).map(str::to_owned);
        unbound.is_none()
    });
    let Some(name) = unbound else { return Ok(()) };
    let message = format!("there is no parameter {name}");
    Err(Error::new(SqlState::UNDEFINED_PARAMETER, message))
}

/// Replaces parameters by expressions. Parameters without one stay.
pub(crate) fn bind(tree: &mut Tree, values: &[Option<Expr>]) {
    match tree {
        Tree::Statement(statement) => {
            let _ = walk::visit_mut(statement.as_mut(), &mut Unnamed);
            bind_in(statement.as_mut(), values);
        }
        Tree::Explain(explain) => bind(&mut explain.statement, values),
        _ => {}
    }
}

/// Names the columns that are parameters. A column that is replaced by a cast would otherwise be
/// named after its type.
struct Unnamed;

impl VisitorMut for Unnamed {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr) = item
                && is_parameter(expr)
            {
                let alias = Ident::with_quote('"', "?column?");
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
            }
        }
        ControlFlow::Continue(())
    }
}

/// True if an expression is a parameter and nothing more.
pub(crate) fn is_parameter(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_parameter(inner),
        expr => placeholder(expr).is_some(),
    }
}

/// [`bind`] for a part of a tree.
pub(crate) fn bind_in(part: &mut impl VisitMut, values: &[Option<Expr>]) {
    let _ = walk::visit_expressions_mut(part, |expr| {
        let at = placeholder(expr).and_then(|name| number(name).ok());
        if let Some(Some(value)) = at.and_then(|at| values.get(at - 1)) {
            *expr = value.clone();
        }
        ControlFlow::<()>::Continue(())
    });
}

fn each_expression(tree: &Tree, visit: &mut impl FnMut(&Expr) -> bool) {
    match tree {
        Tree::Statement(statement) => {
            let _ = walk::visit_expressions(statement.as_ref(), |expr| match visit(expr) {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            });
        }
        Tree::Explain(explain) => each_expression(&explain.statement, visit),
        _ => {}
    }
}

/// `CAST(NULL AS the field's type)`, in which an argument of `EXECUTE` replaces the NULL. Numerics
/// keep their digits.
///
/// # Errors
/// If SQL has no name for the type.
pub(crate) fn cast_to(field: &Field) -> Result<Expr> {
    ast_tools::expression(&format!("CAST(NULL AS {})", name_without_digits(field)?))
}

fn name_without_digits(field: &Field) -> Result<String> {
    match field.data_type() {
        ArrowType::List(item) if holds_numerics(item.data_type()) => {
            Ok(format!("{}[]", name_without_digits(item)?))
        }
        numeric if holds_numerics(numeric) => Ok("numeric".to_owned()),
        _ => sql_name(field),
    }
}

/// `CAST(value AS the field's type)`; NULL if there is no value.
///
/// # Errors
/// If the value has no text.
pub(crate) fn literal(value: Option<&ScalarValue>, field: &Field) -> Result<Expr> {
    let mut cast = ast_tools::expression(&format!("CAST(NULL AS {})", sql_name(field)?))?;
    if let (Some(value), Expr::Cast { expr, .. }) = (value, &mut cast)
        && !value.is_null()
    {
        let array = value.to_array().map_err(|error| {
            Error::internal("the value of a parameter cannot be read").with_source(error)
        })?;
        // The text is read again, whatever the session's style.
        let mut text = String::new();
        ValueFormatter::of_session(&array, None)?.format(0, &mut text);
        **expr = Expr::Value(Value::SingleQuotedString(text).into());
    }
    Ok(cast)
}
