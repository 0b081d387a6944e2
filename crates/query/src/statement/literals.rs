//! Rows of VALUES whose literals have different kinds: `'5'` in one row and `5` in the next.
//!
//! DataFusion types the columns of VALUES without the target's columns. If the literals of a column
//! differ, or depend on the time, as `'today'` does, those that depend on the target get its type
//! here. Such literals in the select list of a query are treated alike.

use datafusion::sql::sqlparser::ast::{
    CastKind, DataType as SqlType, Expr, SelectItem, UnaryOperator, Value, Values,
};
use thalweg_dialect::depends_on_clock;
use thalweg_types::{DataType, Error, Result, TableSchema};
use thalweg_values::sql_parts::parse_type;

/// The kind of a literal.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Number,
    Array,
    /// A call, a cast or another expression with a type of its own.
    Typed,
}

fn kind_of(expr: &Expr) -> Option<Kind> {
    match expr {
        Expr::Nested(inner) => kind_of(inner),
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } => kind_of(expr),
        Expr::Array(_) => Some(Kind::Array),
        Expr::Value(value) => match &value.value {
            Value::Null => None,
            Value::Number(..) => Some(Kind::Number),
            Value::SingleQuotedString(_)
            | Value::EscapedStringLiteral(_)
            | Value::DollarQuotedString(_) => Some(Kind::Text),
            _ => Some(Kind::Typed),
        },
        _ => Some(Kind::Typed),
    }
}

/// Makes the literals of each column agree. `columns` are the targets, in the order of the values.
pub(super) fn unify_literals(
    values: &mut Values,
    columns: &[usize],
    table: &TableSchema,
) -> Result<()> {
    for (place, column) in columns.iter().enumerate() {
        let given = || values.rows.iter().filter_map(move |row| row.content.get(place));
        let mut kinds = given().filter_map(kind_of);
        let Some(first) = kinds.next() else { continue };
        let target = &table.columns[*column].data_type;
        let by_clock = is_temporal(target) && given().any(is_by_clock);
        if !by_clock && kinds.all(|kind| kind == first) {
            continue;
        }
        for row in &mut values.rows {
            if let Some(value) = row.content.get_mut(place)
                && let Some(data_type) = kind_of(value).and_then(|kind| wanted(kind, target))
            {
                *value = cast(value.clone(), sql_type(&data_type)?);
            }
        }
    }
    Ok(())
}

/// The value of an assignment. A literal that depends on the time gets the column's type.
pub(super) fn typed_literal(value: Expr, target: &DataType) -> Result<Expr> {
    match is_temporal(target) && is_by_clock(&value) {
        true => Ok(cast(value, sql_type(target)?)),
        false => Ok(value),
    }
}

/// Like [`typed_literal`], for the select list of a query whose rows go into `columns`.
pub(super) fn told_items(
    items: &mut [SelectItem],
    columns: &[usize],
    table: &TableSchema,
) -> Result<()> {
    for (item, column) in items.iter_mut().zip(columns) {
        match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
                let target = &table.columns[*column].data_type;
                if is_temporal(target) && is_by_clock(expr) {
                    *expr = cast(expr.clone(), sql_type(target)?);
                }
            }
            // The number of columns of a wildcard is not known here.
            _ => return Ok(()),
        }
    }
    Ok(())
}

fn is_temporal(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Date | DataType::Time | DataType::Timestamp | DataType::Timestamptz
    )
}

fn is_by_clock(value: &Expr) -> bool {
    let value = match value {
        Expr::Nested(inner) => return is_by_clock(inner),
        Expr::Value(value) => value,
        _ => return false,
    };
    match &value.value {
        Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => {
            depends_on_clock(text)
        }
        Value::DollarQuotedString(quoted) => depends_on_clock(&quoted.value),
        _ => false,
    }
}

/// The type that a literal must get. The assignment checks the length of texts.
fn wanted(kind: Kind, target: &DataType) -> Option<DataType> {
    match (kind, target) {
        (Kind::Number | Kind::Array, DataType::Text { .. }) => {
            Some(DataType::Text { max_chars: None })
        }
        (Kind::Text, DataType::Text { .. }) => None,
        (Kind::Text | Kind::Number, target) => Some(target.clone()),
        _ => None,
    }
}

fn sql_type(data_type: &DataType) -> Result<SqlType> {
    let text = data_type.to_string();
    parse_type(&text)
        .map_err(|error| Error::internal(format!("cannot read the type {text}")).with_source(error))
}

fn cast(expr: Expr, data_type: SqlType) -> Expr {
    Expr::Cast { kind: CastKind::Cast, expr: Box::new(expr), data_type, array: false, format: None }
}
