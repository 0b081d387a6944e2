//! VALUES whose literals differ from row to row: `(1), ('2')`.
//!
//! DataFusion refuses a column that has numbers in one row and quotes in the next. The quoted
//! literals get the type that the column's other rows show; so do NULLs beside a type that is
//! named, which DataFusion would take for values of no such type.

use datafusion::sql::sqlparser::ast::{DataType, Expr, UnaryOperator, Value, Values};

use super::build::{call, cast};
use super::operators::literal_text;

/// What the values of a column are, as far as it can be read off them.
enum Shown {
    Integer,
    Bigint,
    Numeric,
    Named(DataType),
}

/// Gives quoted literals the type of what is above or below them.
pub(super) fn agree(values: &mut Values) {
    let width = values.rows.first().map_or(0, |row| row.content.len());
    for place in 0..width {
        let column = || values.rows.iter().filter_map(move |row| row.content.get(place));
        if !column().any(|value| literal_text(value).is_some() || is_null(value)) {
            continue;
        }
        let Some(shown) = column().filter_map(shown).reduce(wider) else { continue };
        let is_named = matches!(shown, Shown::Named(_));
        for row in &mut values.rows {
            if let Some(value) = row.content.get_mut(place)
                && (literal_text(value).is_some() || (is_named && is_null(value)))
            {
                *value = typed(value.clone(), &shown);
            }
        }
    }
}

fn is_null(value: &Expr) -> bool {
    matches!(value, Expr::Value(value) if value.value == Value::Null)
}

fn shown(value: &Expr) -> Option<Shown> {
    match value {
        Expr::Nested(inner) => shown(inner),
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } => shown(expr),
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => {
                let digits = digits.to_string();
                Some(match (digits.parse::<i32>(), digits.parse::<i64>()) {
                    (Ok(_), _) => Shown::Integer,
                    (_, Ok(_)) => Shown::Bigint,
                    _ => Shown::Numeric,
                })
            }
            Value::Boolean(_) => Some(Shown::Named(DataType::Boolean)),
            _ => None,
        },
        Expr::Cast { data_type, .. } => Some(Shown::Named(data_type.clone())),
        Expr::TypedString(typed) => Some(Shown::Named(typed.data_type.clone())),
        Expr::Interval(_) => {
            Some(Shown::Named(DataType::Interval { fields: None, precision: None }))
        }
        _ => None,
    }
}

/// Among numbers the one that holds the others; a type with a name before any number.
fn wider(left: Shown, right: Shown) -> Shown {
    let rank = |shown: &Shown| match shown {
        Shown::Integer => 0,
        Shown::Bigint => 1,
        Shown::Numeric => 2,
        Shown::Named(_) => 3,
    };
    if rank(&right) > rank(&left) { right } else { left }
}

fn typed(literal: Expr, shown: &Shown) -> Expr {
    match shown {
        Shown::Integer => cast(literal, DataType::Integer(None)),
        Shown::Bigint => cast(literal, DataType::BigInt(None)),
        Shown::Numeric => call("numeric", vec![literal]),
        Shown::Named(data_type) => cast(literal, data_type.clone()),
    }
}
