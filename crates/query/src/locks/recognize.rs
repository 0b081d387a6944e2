//! Recognizes statements about locks: a `SELECT` that contains calls of lock functions and nothing
//! else.
//!
//! In other queries, plans and retries decide how often a function is called: it may be called
//! twice, not at all, or for rows that conditions exclude. Locks taken that way are of no use, so
//! the functions are refused there.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement as Tree;
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments,
    ObjectName, SelectItem, SetExpr, Statement, TableFactor, Visitor,
};
use thalweg_dialect::parse::parse_single;
use thalweg_dialect::walk;
use thalweg_types::{Error, Result};

use super::functions::is_named;
use crate::statement::{ast_tools, folded};

/// A longer text is not a statement about locks. The limit keeps this check cheap, since it runs
/// for each statement.
const TEXT_BYTES_MAX: usize = 8 << 10;

/// Part of the names of all lock functions.
const MARK: &[u8] = b"_advisory_";

/// Functions whose results may be the key of a lock.
const HASHES: [&str; 2] = ["hashtext", "hashtextextended"];

/// True if a statement is about advisory locks. Such a statement waits for other sessions and
/// computes nothing.
#[must_use]
pub fn takes_locks(sql: &str) -> bool {
    has_mark(sql) && parse_single(sql).is_ok_and(|parsed| has_only_calls(&parsed.statement))
}

/// Like [`takes_locks`], for a parsed statement.
pub(crate) fn is_alone(tree: &Tree, sql: &str) -> bool {
    has_mark(sql) && has_only_calls(tree)
}

fn has_mark(sql: &str) -> bool {
    let is_mark = |bytes: &[u8]| bytes[0] == MARK[0] && bytes.eq_ignore_ascii_case(MARK);
    sql.len() <= TEXT_BYTES_MAX && sql.as_bytes().windows(MARK.len()).any(is_mark)
}

/// True if a statement is a `SELECT` of lock function calls with constant arguments and nothing
/// else.
pub(crate) fn has_only_calls(tree: &Tree) -> bool {
    let Tree::Statement(statement) = tree else { return false };
    let Statement::Query(query) = statement.as_ref() else { return false };
    let SetExpr::Select(select) = query.body.as_ref() else { return false };
    if !are_calls(&select.projection) {
        return false;
    }
    let mut rest = query.as_ref().clone();
    if let SetExpr::Select(select) = rest.body.as_mut() {
        select.projection.clear();
    }
    rest == ast_tools::select(Vec::new(), Vec::new(), None)
}

/// True if all columns of a query are calls of lock functions.
pub(crate) fn are_calls(items: &[SelectItem]) -> bool {
    !items.is_empty() && items.iter().all(is_call)
}

fn is_call(item: &SelectItem) -> bool {
    let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else {
        return false;
    };
    matches!(expr, Expr::Function(call) if is_of_locks(&call.name) && is_of_constants(call))
}

fn is_of_locks(name: &ObjectName) -> bool {
    name_of(name).is_some_and(|name| is_named(&name))
}

fn name_of(name: &ObjectName) -> Option<String> {
    name.0.last().and_then(|part| part.as_ident()).map(folded)
}

/// True if a call is a plain one and all of its arguments are constants.
fn is_of_constants(call: &Function) -> bool {
    let FunctionArguments::List(list) = &call.args else { return false };
    let FunctionArgumentList { duplicate_treatment: None, args, clauses } = list else {
        return false;
    };
    let is_plain = matches!(call.parameters, FunctionArguments::None)
        && call.filter.is_none()
        && call.null_treatment.is_none()
        && call.over.is_none()
        && call.within_group.is_empty()
        && clauses.is_empty();
    is_plain && args.iter().all(is_constant_argument)
}

fn is_constant_argument(argument: &FunctionArg) -> bool {
    matches!(argument, FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) if is_constant(expr))
}

/// True for a literal, a parameter, or an expression made of these.
fn is_constant(expr: &Expr) -> bool {
    match expr {
        Expr::Value(_) | Expr::TypedString(_) => true,
        Expr::Nested(expr) | Expr::UnaryOp { expr, .. } | Expr::Cast { expr, .. } => {
            is_constant(expr)
        }
        Expr::BinaryOp { left, right, .. } => is_constant(left) && is_constant(right),
        Expr::Function(call) => {
            let is_hash = name_of(&call.name).is_some_and(|name| HASHES.contains(&name.as_str()));
            is_hash && is_of_constants(call)
        }
        _ => false,
    }
}

/// Accepts a statement that calls no lock function.
///
/// # Errors
/// If it calls one.
pub(crate) fn check_none(tree: &Tree) -> Result<()> {
    let statement = match tree {
        Tree::Statement(statement) => statement,
        Tree::Explain(explain) => return check_none(&explain.statement),
        _ => return Ok(()),
    };
    match walk::visit(statement, &mut Calls) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// Stops at the first call.
struct Calls;

impl Visitor for Calls {
    type Break = Error;

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Error> {
        match expr {
            Expr::Function(call) => check(&call.name),
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<Error> {
        match factor {
            TableFactor::Table { name, args: Some(_), .. } | TableFactor::Function { name, .. } => {
                check(name)
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

fn check(name: &ObjectName) -> ControlFlow<Error> {
    match name_of(name).filter(|name| is_named(name)) {
        Some(name) => ControlFlow::Break(in_this_place(&name)),
        None => ControlFlow::Continue(()),
    }
}

/// The error for a lock function that is called inside another statement.
pub(super) fn in_this_place(name: &str) -> Error {
    Error::unsupported(format!("{name} within another statement")).with_hint(
        "Take the lock with SELECT pg_advisory_lock(…) in a statement of its own, and name it by \
         constants.",
    )
}
