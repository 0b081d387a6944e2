//! `VARIADIC array`: the items of an array as the last arguments of a function.
//!
//! The parser does not support the word: our dialect reads it as a call of a function that does not
//! exist ([`marked`]). Calls that use it are rewritten to functions that take an array.

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr};
use thalweg_types::{Error, Result, SqlState};

use super::build::{arguments_of, call, text};
use super::names::normalized;
use super::operators::binary;

const MARK: &str = "__variadic";

/// The array behind the word.
pub(crate) fn marked(array: Expr) -> Expr {
    call(MARK, vec![array])
}

fn array_of(expr: &Expr) -> Option<&Expr> {
    let Expr::Function(function) = expr else { return None };
    let name = function.name.0.last()?.as_ident()?;
    match arguments_of(function)?.as_slice() {
        [array] if name.value == MARK => Some(*array),
        _ => None,
    }
}

/// Rewrites `expr` itself; the expressions inside it are rewritten separately.
///
/// # Errors
/// If the word is in a call that does not accept it.
pub(super) fn respell(expr: &mut Expr) -> Result<()> {
    let Expr::Function(function) = &*expr else { return Ok(()) };
    if array_of(expr).is_some() {
        let error_text = "syntax error at or near \"variadic\"";
        return Err(Error::new(SqlState::SYNTAX_ERROR, error_text));
    }
    let arguments = arguments_of(function).unwrap_or_default();
    let Some((last, before)) = arguments.split_last() else { return Ok(()) };
    let Some(array) = array_of(last) else { return Ok(()) };
    let name = function.name.0.last().and_then(|part| part.as_ident()).map(normalized);
    let name = name.unwrap_or_default();
    let Some(respelled) = over_array(&name, before, array) else {
        let error_text = format!("function {name} does not exist for the given argument types");
        return Err(Error::new(SqlState::UNDEFINED_FUNCTION, error_text)
            .with_hint("You might need to add explicit type casts."));
    };
    *expr = respelled;
    Ok(())
}

/// The call of a function with the arguments before the array, and the array's items.
fn over_array(name: &str, before: &[&Expr], array: &Expr) -> Option<Expr> {
    let array = array.clone();
    Some(match (name, before) {
        ("concat", []) => call("array_to_string", vec![array, text("")]),
        ("concat_ws", [separator]) => call("array_to_string", vec![array, (*separator).clone()]),
        ("format", [pattern]) => call("format_items", vec![(*pattern).clone(), array]),
        ("json_build_array", []) => call("json_array_of", vec![array]),
        ("jsonb_build_array", []) => call("jsonb_array_of", vec![array]),
        ("json_build_object", []) => call("json_object_of", vec![array]),
        ("jsonb_build_object", []) => call("jsonb_object_of", vec![array]),
        ("json_extract_path" | "jsonb_extract_path", [document]) => {
            part(document, BinaryOperator::HashArrow, array)
        }
        ("json_extract_path_text" | "jsonb_extract_path_text", [document]) => {
            part(document, BinaryOperator::HashLongArrow, array)
        }
        _ => return None,
    })
}

fn part(document: &Expr, op: BinaryOperator, path: Expr) -> Expr {
    let nested = |expr: Expr| Expr::Nested(Box::new(expr));
    nested(binary(nested(document.clone()), op, nested(path)))
}
