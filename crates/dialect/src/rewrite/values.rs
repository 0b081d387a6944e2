//! VALUES whose literals differ from row to row: `(1), ('2')`.
//!
//! DataFusion refuses a column that has numbers in one row and quotes in the next. Here quoted
//! literals get the type of the column's other rows. NULLs beside a named type get it too;
//! DataFusion would not take them for values of that type. Numbers beside a floating point number
//! become one; DataFusion would make them a `numeric`.

use datafusion::sql::sqlparser::ast::{DataType, Expr, UnaryOperator, Value, Values};
use thalweg_types::DataType as ColumnType;
use thalweg_values::types::column_type;

use super::build::{call, cast};
use super::names::normalized;
use super::operators::literal_text;

/// The type of a column's values, as far as the values show it.
enum Shown {
    Integer,
    Bigint,
    Numeric,
    Named(DataType),
    /// A type of floating point.
    Float(DataType),
}

/// Functions that give `double precision`, whatever they are given.
const DOUBLE_FUNCTIONS: [&str; 4] = ["sqrt", "random", "pi", "cbrt"];

/// Gives quoted literals the type of the other values in their column.
pub(super) fn agree(values: &mut Values) {
    let width = values.rows.first().map_or(0, |row| row.content.len());
    for place in 0..width {
        let column = || values.rows.iter().filter_map(move |row| row.content.get(place));
        let Some(common) = column().filter_map(shown).reduce(wider) else { continue };
        let is_named = matches!(common, Shown::Named(_) | Shown::Float(_));
        let is_float = matches!(common, Shown::Float(_));
        for row in &mut values.rows {
            if let Some(value) = row.content.get_mut(place)
                && (literal_text(value).is_some()
                    || (is_named && is_null(value))
                    || (is_float && shown(value).is_some_and(|shown| rank(&shown) < rank(&common))))
            {
                *value = typed(value.clone(), &common);
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
        Expr::Cast { data_type, .. } => Some(named(data_type)),
        Expr::TypedString(typed) => Some(named(&typed.data_type)),
        Expr::Function(function) => {
            let name = normalized(function.name.0.last()?.as_ident()?);
            let is_double = DOUBLE_FUNCTIONS.contains(&name.as_str());
            is_double.then_some(Shown::Float(DataType::DoublePrecision))
        }
        Expr::Interval(_) => {
            Some(Shown::Named(DataType::Interval { fields: None, precision: None }))
        }
        _ => None,
    }
}

fn named(data_type: &DataType) -> Shown {
    match column_type(data_type) {
        Ok(ColumnType::Float4 | ColumnType::Float8) => Shown::Float(data_type.clone()),
        _ => Shown::Named(data_type.clone()),
    }
}

/// The number type that holds the other one; a named type wins over any number.
fn wider(left: Shown, right: Shown) -> Shown {
    if rank(&right) > rank(&left) { right } else { left }
}

fn rank(shown: &Shown) -> u8 {
    match shown {
        Shown::Integer => 0,
        Shown::Bigint => 1,
        Shown::Numeric => 2,
        Shown::Named(_) => 3,
        Shown::Float(data_type) if is_real(data_type) => 4,
        Shown::Float(_) => 5,
    }
}

fn typed(literal: Expr, shown: &Shown) -> Expr {
    match shown {
        Shown::Integer => cast(literal, DataType::Integer(None)),
        Shown::Bigint => cast(literal, DataType::BigInt(None)),
        Shown::Numeric => call("numeric", vec![literal]),
        // A literal keeps its own digits.
        Shown::Named(data_type) if is_numeric(data_type) && literal_text(&literal).is_some() => {
            call("numeric", vec![literal])
        }
        Shown::Named(data_type) | Shown::Float(data_type) => cast(literal, data_type.clone()),
    }
}

fn is_numeric(data_type: &DataType) -> bool {
    matches!(column_type(data_type), Ok(ColumnType::Decimal { .. }))
}

fn is_real(data_type: &DataType) -> bool {
    matches!(column_type(data_type), Ok(ColumnType::Float4))
}
