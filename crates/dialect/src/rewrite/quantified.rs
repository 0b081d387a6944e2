//! Comparisons with all items of an array, and patterns with escapes of their own.
//!
//! `x = ANY (ARRAY[…])` is `x IN (…)`, which handles NULL, and which scans can use. `LIKE ANY` and
//! `LIKE ALL` are chains of comparisons, and so are others with an array that is written out.

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Value, ValueWithSpan};
use thalweg_types::{Error, Result, SqlState};
use thalweg_values::cast::split_array;

use super::build::{arguments_of, call, text};
use super::names::normalized;
use super::operators::{binary, literal_text};

/// Longer arrays are not expanded into comparisons with each item.
const COMPARED_MAX: usize = 100;

/// Rewrites `expr` itself; the expressions inside are rewritten separately.
pub(super) fn respell(expr: &mut Expr) -> Result<()> {
    let respelled = match expr {
        Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. } => equals_any(left, right),
        Expr::AllOp { left, compare_op: BinaryOperator::NotEq, right } => {
            items_of(right).map(|list| in_list(left, list, true))
        }
        Expr::AnyOp { left, compare_op, right, .. } => {
            compared(left, compare_op, right, BinaryOperator::Or)
        }
        Expr::AllOp { left, compare_op, right } => {
            compared(left, compare_op, right, BinaryOperator::And)
        }
        Expr::Like { any, pattern, escape_char, .. }
        | Expr::ILike { any, pattern, escape_char, .. } => {
            if let Some(escape) = escape_char {
                **pattern = escaped(pattern, escape)?;
                *escape_char = None;
            }
            match (*any, all_items_of(pattern)) {
                (true, _) => {
                    let patterns = items_of(pattern).ok_or_else(unsupported_patterns)?;
                    chain(expr, patterns, BinaryOperator::Or)
                }
                (false, Some(all)) => {
                    let patterns = items_of(all).ok_or_else(unsupported_patterns)?;
                    chain(expr, patterns, BinaryOperator::And)
                }
                (false, None) => None,
            }
        }
        _ => None,
    };
    if let Some(respelled) = respelled {
        *expr = respelled;
    }
    Ok(())
}

fn unsupported_patterns() -> Error {
    Error::unsupported("LIKE ANY and LIKE ALL with anything but an array of patterns")
}

/// True if one item equals, else NULL if one item is NULL, else false.
fn equals_any(left: &Expr, right: &Expr) -> Option<Expr> {
    if matches!(right, Expr::Subquery(_)) {
        return None;
    }
    if let Some(list) = items_of(right) {
        return Some(in_list(left, list, false));
    }
    let has = call("array_has", vec![right.clone(), left.clone()]);
    let unknown = call("array_has_unknown", vec![right.clone()]);
    Some(Expr::Nested(Box::new(binary(has, BinaryOperator::Or, unknown))))
}

/// The comparison with each item of an array that is written out.
fn compared(
    left: &Expr,
    operator: &BinaryOperator,
    right: &Expr,
    between: BinaryOperator,
) -> Option<Expr> {
    let items = items_of(right).filter(|items| items.len() <= COMPARED_MAX)?;
    let nested = |expr: &Expr| Expr::Nested(Box::new(expr.clone()));
    let each = items.iter().map(|item| binary(nested(left), operator.clone(), nested(item)));
    let all = each.reduce(|first, second| binary(first, between.clone(), second))?;
    Some(Expr::Nested(Box::new(all)))
}

fn in_list(tested: &Expr, list: Vec<Expr>, negated: bool) -> Expr {
    Expr::InList { expr: Box::new(tested.clone()), list, negated }
}

/// The items of `ARRAY[…]` or `'{…}'`, if there are any.
fn items_of(expr: &Expr) -> Option<Vec<Expr>> {
    match expr {
        Expr::Nested(inner) => items_of(inner),
        Expr::Array(array) => Some(array.elem.clone()).filter(|items| {
            !items.is_empty() && !items.iter().any(|item| matches!(item, Expr::Array(_)))
        }),
        literal => {
            let items = split_array(literal_text(literal)?, false)?;
            let literal = |item: Option<String>| match item {
                Some(item) => text(item),
                None => Expr::value(Value::Null),
            };
            (!items.is_empty()).then(|| items.into_iter().map(literal).collect())
        }
    }
}

/// The array of `ALL (array)`, which is parsed as a call.
fn all_items_of(pattern: &Expr) -> Option<&Expr> {
    let Expr::Function(function) = pattern else { return None };
    let name = function.name.0.last()?.as_ident()?;
    let is_all = name.quote_style.is_none() && normalized(name) == "all";
    match arguments_of(function)?.as_slice() {
        [array] if is_all => Some(*array),
        _ => None,
    }
}

/// The comparison with each pattern.
fn chain(like: &Expr, patterns: Vec<Expr>, operator: BinaryOperator) -> Option<Expr> {
    let one = |new: Expr| {
        let mut one = like.clone();
        if let Expr::Like { any, pattern, .. } | Expr::ILike { any, pattern, .. } = &mut one {
            *any = false;
            **pattern = new;
        }
        one
    };
    let chained = patterns
        .into_iter()
        .map(one)
        .reduce(|left, right| binary(left, operator.clone(), right))?;
    Some(Expr::Nested(Box::new(chained)))
}

/// The pattern with backslashes in place of another escape character.
fn escaped(pattern: &Expr, escape: &ValueWithSpan) -> Result<Expr> {
    let (Some(pattern), Value::SingleQuotedString(escape)) = (literal_text(pattern), &escape.value)
    else {
        return Err(Error::unsupported("LIKE … ESCAPE with anything but literals"));
    };
    let mut escapes = escape.chars();
    let escape = escapes.next();
    if escapes.next().is_some() {
        return Err(Error::new(SqlState::INVALID_ESCAPE_SEQUENCE, "invalid escape string")
            .with_hint("Escape string must be empty or one character."));
    }
    let mut plain = String::with_capacity(pattern.len() + 4);
    let mut characters = pattern.chars();
    while let Some(c) = characters.next() {
        let literal = match Some(c) == escape {
            true => Some(characters.next().ok_or_else(|| {
                Error::new(
                    SqlState::INVALID_ESCAPE_SEQUENCE,
                    "LIKE pattern must not end with escape character",
                )
            })?),
            false if c == '\\' => Some(c),
            false => None,
        };
        match literal {
            Some(literal) => plain.extend(['\\', literal]),
            None => plain.push(c),
        }
    }
    Ok(text(plain))
}
