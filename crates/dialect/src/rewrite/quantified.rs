//! Comparisons with all items of an array, and patterns with escapes of their own.
//!
//! `x = ANY (ARRAY[…])` is `x IN (…)`, which handles NULL, and which scans can use. `LIKE ANY` and
//! `LIKE ALL` are chains of comparisons, and so are others with an array that is written out.
//! `x < ANY (array)` is `NOT (x >= ALL (array))`: DataFusion's `ANY` ignores nulls, and its `ALL`
//! does not. No upstream issue found.

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Value, ValueWithSpan};
use thalweg_types::{Error, Result, SqlState};
use thalweg_values::cast::split_array;

use super::build::{arguments_of, call, negate_if, text};
use super::copies::check_repeated;
use super::names::normalized;
use super::operators::{binary, literal_text};
use crate::parse::SYMMETRIC_BOUNDS;

/// Longer arrays are not expanded into comparisons with each item.
const COMPARED_MAX: usize = 100;

/// `x BETWEEN SYMMETRIC a AND b` is `x BETWEEN a AND b OR x BETWEEN b AND a`.
fn symmetric(between: &Expr) -> Result<Option<Expr>> {
    let Expr::Between { expr, negated, low, .. } = between else { return Ok(None) };
    let Expr::Function(bounds) = low.as_ref() else { return Ok(None) };
    let is_mark = bounds.name.0.first().and_then(|part| part.as_ident());
    if is_mark.is_none_or(|name| name.value != SYMMETRIC_BOUNDS) {
        return Ok(None);
    }
    let Some(bounds) = arguments_of(bounds) else { return Ok(None) };
    let &[one, other] = bounds.as_slice() else { return Ok(None) };
    [expr.as_ref(), one, other].into_iter().try_for_each(check_repeated)?;
    let ordered = |low: &Expr, high: &Expr| Expr::Between {
        expr: expr.clone(),
        negated: *negated,
        low: Box::new(low.clone()),
        high: Box::new(high.clone()),
    };
    let op = if *negated { BinaryOperator::And } else { BinaryOperator::Or };
    Ok(Some(Expr::Nested(Box::new(binary(ordered(one, other), op, ordered(other, one))))))
}

/// Rewrites `expr` itself; the expressions inside are rewritten separately.
pub(super) fn respell(expr: &mut Expr) -> Result<()> {
    let respelled = match expr {
        Expr::Between { .. } => symmetric(expr)?,
        Expr::AnyOp { left, right, .. } if is_empty_literal(right) => {
            Some(of_no_items(left, BinaryOperator::And, false))
        }
        Expr::AllOp { left, right, .. } if is_empty_literal(right) => {
            Some(of_no_items(left, BinaryOperator::Or, true))
        }
        Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. } => equals_any(left, right)?,
        Expr::AllOp { left, compare_op: BinaryOperator::NotEq, right } => {
            items_of(right).map(|list| in_list(left, list, true))
        }
        Expr::AnyOp { left, compare_op, right, .. } => {
            match compared(left, compare_op, right, BinaryOperator::Or)? {
                None => not_all(left, compare_op, right)?,
                each => each,
            }
        }
        Expr::AllOp { left, compare_op, right } => {
            compared(left, compare_op, right, BinaryOperator::And)?
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
                    chain(expr, patterns, BinaryOperator::Or)?
                }
                (false, Some(all)) => {
                    let patterns = items_of(all).ok_or_else(unsupported_patterns)?;
                    chain(expr, patterns, BinaryOperator::And)?
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

/// True for `'{}'`.
fn is_empty_literal(array: &Expr) -> bool {
    match array {
        Expr::Nested(inner) => is_empty_literal(inner),
        literal => literal_text(literal)
            .and_then(|text| split_array(text, false))
            .is_some_and(|items| items.is_empty()),
    }
}

/// The result of a comparison with no items, which still names the columns of its left side.
fn of_no_items(left: &Expr, operator: BinaryOperator, result: bool) -> Expr {
    let is_null = Expr::IsNull(Box::new(Expr::Nested(Box::new(left.clone()))));
    let result = Expr::value(Value::Boolean(result));
    Expr::Nested(Box::new(binary(is_null, operator, result)))
}

/// `x op ANY (array)` as `NOT (x opposite ALL (array))`.
fn not_all(left: &Expr, operator: &BinaryOperator, right: &Expr) -> Result<Option<Expr>> {
    let compare_op = match operator {
        BinaryOperator::Lt => BinaryOperator::GtEq,
        BinaryOperator::LtEq => BinaryOperator::Gt,
        BinaryOperator::Gt => BinaryOperator::LtEq,
        BinaryOperator::GtEq => BinaryOperator::Lt,
        BinaryOperator::NotEq => BinaryOperator::Eq,
        _ => return Ok(None),
    };
    if matches!(right, Expr::Subquery(_)) {
        return Ok(None);
    }
    [left, right].into_iter().try_for_each(check_repeated)?;
    let (left, right) = (Box::new(left.clone()), Box::new(right.clone()));
    let all = Expr::Nested(Box::new(Expr::AllOp { left, compare_op, right }));
    Ok(Some(Expr::Nested(Box::new(negate_if(true, all)))))
}

/// True if one item equals, else NULL if one item is NULL, else false. False if there are no items,
/// even for NULL.
fn equals_any(left: &Expr, right: &Expr) -> Result<Option<Expr>> {
    if matches!(right, Expr::Subquery(_)) {
        return Ok(None);
    }
    if let Some(list) = items_of(right) {
        return Ok(Some(in_list(left, list, false)));
    }
    check_repeated(right)?;
    let has = call("array_has", vec![right.clone(), left.clone()]);
    let unknown = call("array_has_unknown", vec![right.clone()]);
    let among = Expr::Nested(Box::new(binary(has, BinaryOperator::Or, unknown)));
    let has_items = call("array_has_items", vec![right.clone()]);
    Ok(Some(Expr::Nested(Box::new(binary(has_items, BinaryOperator::And, among)))))
}

/// The comparison with each item of an array that is written out.
fn compared(
    left: &Expr,
    operator: &BinaryOperator,
    right: &Expr,
    between: BinaryOperator,
) -> Result<Option<Expr>> {
    let items = items_of(right).filter(|items| items.len() <= COMPARED_MAX);
    let Some(items) = items else { return Ok(None) };
    if items.len() > 1 {
        check_repeated(left)?;
    }
    let nested = |expr: &Expr| Expr::Nested(Box::new(expr.clone()));
    let each = items.iter().map(|item| binary(nested(left), operator.clone(), nested(item)));
    let all = each.reduce(|first, second| binary(first, between.clone(), second));
    Ok(all.map(|all| Expr::Nested(Box::new(all))))
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
fn chain(like: &Expr, patterns: Vec<Expr>, operator: BinaryOperator) -> Result<Option<Expr>> {
    if let Expr::Like { expr, .. } | Expr::ILike { expr, .. } = like
        && patterns.len() > 1
    {
        check_repeated(expr)?;
    }
    let one = |new: Expr| {
        let mut one = like.clone();
        if let Expr::Like { any, pattern, .. } | Expr::ILike { any, pattern, .. } = &mut one {
            *any = false;
            **pattern = new;
        }
        one
    };
    let chained =
        patterns.into_iter().map(one).reduce(|left, right| binary(left, operator.clone(), right));
    Ok(chained.map(|chained| Expr::Nested(Box::new(chained))))
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
