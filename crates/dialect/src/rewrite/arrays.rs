//! Arrays of several dimensions, as far as the text of a statement shows them: rows of all their
//! items, subscripts, and `array_fill`.

use datafusion::sql::sqlparser::ast::{
    AccessExpr, Array, Expr, Function, Subscript, UnaryOperator, Value,
};
use thalweg_types::{Error, Result, SqlState};
use thalweg_values::cast::{DIMENSIONS_MAX, too_many_dimensions};

use super::build::{arguments_of, call};
use super::names::normalized;
use super::operators::literal_text;
use super::sources::gives_one_dimension;

/// Rewrites `expr` itself; the expressions inside are rewritten separately.
pub(super) fn respell(expr: &mut Expr) -> Result<()> {
    match expr {
        Expr::Function(function) => {
            let respelled = match name_of(function).as_deref() {
                Some("unnest") => rows_of_items(function),
                Some("array_fill") => filled(function)?,
                _ => None,
            };
            if let Some(respelled) = respelled {
                *expr = respelled;
            }
        }
        Expr::CompoundFieldAccess { access_chain, .. } => tell_last_subscript(access_chain),
        Expr::Array(array) => check_dimensions(array)?,
        _ => {}
    }
    Ok(())
}

/// Refuses constructors inside constructors beyond the limit, at the outermost.
fn check_dimensions(array: &Array) -> Result<()> {
    let mut count = 1;
    let mut inner = array.elem.first();
    while let Some(Expr::Array(array)) = inner {
        count += 1;
        inner = array.elem.first();
    }
    if count > DIMENSIONS_MAX {
        return Err(too_many_dimensions(count));
    }
    check_lengths(array)
}

/// Refuses constructors inside one constructor whose written lengths differ.
fn check_lengths(array: &Array) -> Result<()> {
    let inner = |item: &Expr| match item {
        Expr::Array(inner) => Some(inner.elem.len()),
        Expr::Cast { expr, .. } => match expr.as_ref() {
            Expr::Array(inner) => Some(inner.elem.len()),
            _ => None,
        },
        _ => None,
    };
    let mut lengths = array.elem.iter().filter_map(inner);
    let first = lengths.next();
    if lengths.all(|length| Some(length) == first) {
        return Ok(());
    }
    Err(Error::new(
        SqlState::ARRAY_SUBSCRIPT_ERROR,
        "multidimensional arrays must have array expressions with matching dimensions",
    ))
}

fn name_of(function: &Function) -> Option<String> {
    function.name.0.last()?.as_ident().map(normalized)
}

/// `unnest(array)` gives the items of all dimensions.
fn rows_of_items(function: &Function) -> Option<Expr> {
    let arguments = arguments_of(function)?;
    let [array] = arguments.as_slice() else { return None };
    let mut items = (*array).clone();
    flatten(&mut items);
    (items != **array).then(|| call("unnest", vec![items]))
}

/// The items of an array that may have several dimensions.
pub(super) fn flatten(array: &mut Expr) {
    if !has_one_dimension(array) {
        *array = call("array_items", vec![array.clone()]);
    }
}

fn has_one_dimension(array: &Expr) -> bool {
    match array {
        Expr::Nested(inner) => has_one_dimension(inner),
        Expr::Array(Array { elem, .. }) => elem.iter().all(is_plain),
        Expr::Function(function) => name_of(function).is_some_and(|name| {
            name == "array_items" || name == "unnest" || gives_one_dimension(&name)
        }),
        _ => false,
    }
}

/// True if an item is a literal.
fn is_plain(item: &Expr) -> bool {
    match item {
        Expr::Value(_) => true,
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => is_plain(expr),
        _ => false,
    }
}

/// Marks the last subscript: in `array[1][2]` only this one may find that there are more
/// dimensions.
fn tell_last_subscript(chain: &mut [AccessExpr]) {
    if let Some(AccessExpr::Subscript(Subscript::Index { index })) = chain.last_mut()
        && literal_text(index).is_none()
    {
        *index = call("subscript_last", vec![index.clone()]);
    }
}

/// `array_fill(value, ARRAY[2, 3])`: the function of so many dimensions.
fn filled(function: &Function) -> Result<Option<Expr>> {
    let arguments = arguments_of(function).unwrap_or_default();
    let (value, dimensions) = match arguments.as_slice() {
        [value, dimensions] => (value, dimensions),
        [value, dimensions, bounds] if begin_at_one(dimensions, bounds) => (value, dimensions),
        [_, _, _] => return Err(Error::unsupported("array_fill with lower bounds other than 1")),
        _ => return Ok(None),
    };
    let count = match lengths(dimensions) {
        Some(lengths) => lengths.len(),
        None => 1,
    };
    if count > DIMENSIONS_MAX {
        return Err(too_many_dimensions(count));
    }
    let name = match count {
        0 | 1 => "array_fill".to_owned(),
        count => format!("array_fill_{count}"),
    };
    Ok(Some(call(&name, vec![(*value).clone(), (*dimensions).clone()])))
}

/// The lengths that are written out, if they are those of an array with one dimension.
fn lengths(dimensions: &Expr) -> Option<&[Expr]> {
    match dimensions {
        Expr::Nested(inner) => lengths(inner),
        Expr::Cast { expr, .. } => lengths(expr),
        Expr::Array(Array { elem, .. }) => {
            let is_flat = !elem.iter().any(|item| matches!(item, Expr::Array(_)));
            is_flat.then_some(elem.as_slice())
        }
        _ => None,
    }
}

/// True if there is a 1 for each dimension.
fn begin_at_one(dimensions: &Expr, bounds: &Expr) -> bool {
    let is_one = |bound: &Expr| {
        matches!(bound, Expr::Value(value)
            if matches!(&value.value, Value::Number(digits, _) if digits == "1"))
    };
    match (lengths(dimensions), lengths(bounds)) {
        (Some(lengths), Some(bounds)) => lengths.len() == bounds.len() && bounds.iter().all(is_one),
        _ => false,
    }
}
