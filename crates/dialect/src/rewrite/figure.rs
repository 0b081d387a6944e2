//! PostgreSQL's names for columns without an alias.

use datafusion::sql::sqlparser::ast::{
    AccessExpr, ArrayElemTypeDef, DataType, Expr, Ident, ObjectName, Query, Select, SelectItem,
    SetExpr, Subscript, TimezoneInfo, TrimWhereField,
};

use super::names::normalized;

/// Changes the output expressions of a query by `change`, which returns true if it changed one. A
/// changed column keeps the name that it has as written. Returns the names of all output columns
/// that have one.
pub(super) fn change_output(
    select: &mut Select,
    mut change: impl FnMut(&mut Expr) -> bool,
) -> Vec<String> {
    let mut output = Vec::new();
    for item in &mut select.projection {
        match item {
            SelectItem::UnnamedExpr(expr) => {
                let name = column_name(expr);
                output.extend(name.clone());
                let changed = change(expr);
                if let Some(name) = name.filter(|_| changed) {
                    let (expr, alias) = (expr.clone(), quoted(name));
                    *item = SelectItem::ExprWithAlias { expr, alias };
                }
            }
            SelectItem::ExprWithAlias { alias, .. } => output.push(normalized(alias)),
            _ => {}
        }
    }
    output
}

/// The name, or `None` if PostgreSQL calls it `?column?`.
pub(super) fn column_name(expr: &Expr) -> Option<String> {
    figure(expr).map(|figured| figured.name)
}

struct Figured {
    name: String,
    /// The name comes from a type or from CASE: a name from within takes precedence.
    is_weak: bool,
}

fn strong(name: impl Into<String>) -> Option<Figured> {
    Some(Figured { name: name.into(), is_weak: false })
}

fn figure(expr: &Expr) -> Option<Figured> {
    match expr {
        Expr::Identifier(identifier) => strong(normalized(identifier)),
        Expr::CompoundIdentifier(parts) => strong(normalized(parts.last()?)),
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => figure(inner),
        Expr::Function(function) => strong(last_part(&function.name)?),
        Expr::Cast { expr, data_type, .. } => figure(expr)
            .filter(|figured| !figured.is_weak)
            .or_else(|| Some(Figured { name: type_name(data_type), is_weak: true })),
        Expr::TypedString(typed) => {
            Some(Figured { name: type_name(&typed.data_type), is_weak: true })
        }
        Expr::Interval(_) => Some(Figured { name: "interval".to_owned(), is_weak: true }),
        Expr::Case { else_result, .. } => else_result
            .as_deref()
            .and_then(figure)
            .filter(|figured| !figured.is_weak)
            .or_else(|| Some(Figured { name: "case".to_owned(), is_weak: true })),
        Expr::CompoundFieldAccess { root, access_chain } => figure_access(root, access_chain),
        Expr::Subquery(query) => figure_subquery(query),
        Expr::Exists { negated: false, .. } => strong("exists"),
        Expr::Array(_) => strong("array"),
        Expr::Tuple(_) => strong("row"),
        Expr::Extract { .. } => strong("extract"),
        Expr::IsNormalized { negated: false, .. } => strong("is_normalized"),
        Expr::Ceil { .. } => strong("ceil"),
        Expr::Floor { .. } => strong("floor"),
        Expr::Position { .. } => strong("position"),
        Expr::Substring { shorthand: true, .. } => strong("substr"),
        Expr::Substring { .. } => strong("substring"),
        Expr::Overlay { .. } => strong("overlay"),
        Expr::AtTimeZone { .. } => strong("timezone"),
        Expr::Trim { trim_where, .. } => strong(match trim_where {
            Some(TrimWhereField::Leading) => "ltrim",
            Some(TrimWhereField::Trailing) => "rtrim",
            _ => "btrim",
        }),
        _ => None,
    }
}

/// `row.field` is called `field`; `items[1]` is called `items`.
fn figure_access(root: &Expr, chain: &[AccessExpr]) -> Option<Figured> {
    for access in chain.iter().rev() {
        match access {
            AccessExpr::Dot(field) => return figure(field),
            AccessExpr::Subscript(Subscript::Index { .. } | Subscript::Slice { .. }) => {}
        }
    }
    figure(root)
}

/// A scalar subquery has the name of its own column.
fn figure_subquery(query: &Query) -> Option<Figured> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    match select.projection.first()? {
        SelectItem::UnnamedExpr(expr) => strong(figure(expr)?.name),
        SelectItem::ExprWithAlias { alias, .. } => strong(normalized(alias)),
        _ => None,
    }
}

fn last_part(name: &ObjectName) -> Option<String> {
    name.0.last()?.as_ident().map(normalized)
}

/// PostgreSQL's internal name of a type: `int4` for `integer`.
fn type_name(data_type: &DataType) -> String {
    let name = match data_type {
        DataType::Int(_) | DataType::Integer(_) | DataType::Int4(_) => "int4",
        DataType::SmallInt(_) | DataType::Int2(_) => "int2",
        DataType::BigInt(_) | DataType::Int8(_) => "int8",
        DataType::Real | DataType::Float4 => "float4",
        DataType::Double(_) | DataType::DoublePrecision | DataType::Float8 | DataType::Float(_) => {
            "float8"
        }
        DataType::Numeric(_) | DataType::Decimal(_) | DataType::Dec(_) => "numeric",
        DataType::Boolean | DataType::Bool => "bool",
        DataType::Varchar(_) | DataType::CharacterVarying(_) | DataType::CharVarying(_) => {
            "varchar"
        }
        DataType::Char(_) | DataType::Character(_) => "bpchar",
        DataType::Text => "text",
        DataType::Bytea => "bytea",
        DataType::Date => "date",
        DataType::Time(_, zone) => return zoned("time", zone),
        DataType::Timestamp(_, zone) => return zoned("timestamp", zone),
        DataType::Interval { .. } => "interval",
        DataType::Uuid => "uuid",
        DataType::JSON => "json",
        DataType::JSONB => "jsonb",
        DataType::Array(item) => return array_name(item),
        DataType::Custom(name, _) => {
            return last_part(name).unwrap_or_else(|| data_type.to_string().to_lowercase());
        }
        other => return other.to_string().to_lowercase(),
    };
    name.to_owned()
}

fn zoned(name: &str, zone: &TimezoneInfo) -> String {
    let has_zone = matches!(zone, TimezoneInfo::Tz | TimezoneInfo::WithTimeZone);
    let suffix = if has_zone { "tz" } else { "" };
    format!("{name}{suffix}")
}

/// A cast to an array is called by the type of its items.
fn array_name(item: &ArrayElemTypeDef) -> String {
    match item {
        ArrayElemTypeDef::SquareBracket(item, _)
        | ArrayElemTypeDef::AngleBracket(item)
        | ArrayElemTypeDef::Parenthesis(item) => type_name(item),
        ArrayElemTypeDef::None => "array".to_owned(),
    }
}

/// The identifier of a name that is folded already.
pub(super) fn quoted(name: impl Into<String>) -> Ident {
    Ident::with_quote('"', name)
}
