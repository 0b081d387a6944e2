//! `jsonb_populate_record(NULL::t, j)` in FROM: rows with the columns of a table.
//!
//! It is rewritten to `jsonb_to_record` with the table's columns, which gives the same rows.

use datafusion::sql::sqlparser::ast::{
    DataType as SqlType, Expr, FunctionArg, FunctionArgExpr, Ident, ObjectName, TableAlias,
    TableAliasColumnDef, TableFactor, Value,
};
use thalweg_types::{Error, Result, SqlState};

use super::figure::quoted;
use super::names::normalized;
use super::relations::Relations;

/// These functions, and those whose columns are listed.
const FUNCTIONS: [(&str, &str); 4] = [
    ("json_populate_record", "json_to_record"),
    ("json_populate_recordset", "json_to_recordset"),
    ("jsonb_populate_record", "jsonb_to_record"),
    ("jsonb_populate_recordset", "jsonb_to_recordset"),
];

/// The table whose columns the rows of such a function have.
pub(super) fn table_of(factor: &TableFactor) -> Option<&ObjectName> {
    let (name, arguments, alias) = match factor {
        TableFactor::Table { name, alias, args: Some(args), .. } => (name, &args.args, alias),
        TableFactor::Function { name, alias, args, .. } => (name, args, alias),
        _ => return None,
    };
    listing(name)?;
    let renames = alias.as_ref().is_some_and(|alias| !alias.columns.is_empty());
    match arguments.as_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(base)), _] if !renames => row_type(base),
        _ => None,
    }
}

fn listing(name: &ObjectName) -> Option<&'static str> {
    let name = normalized(name.0.last()?.as_ident()?);
    FUNCTIONS.iter().find(|(function, _)| *function == name).map(|(_, listing)| *listing)
}

/// The type that NULL is cast to.
fn row_type(base: &Expr) -> Option<&ObjectName> {
    match base {
        Expr::Nested(inner) => row_type(inner),
        Expr::Cast { expr, data_type: SqlType::Custom(name, modifiers), .. } => {
            let is_null = matches!(expr.as_ref(), Expr::Value(value) if value.value == Value::Null);
            (is_null && modifiers.is_empty()).then_some(name)
        }
        _ => None,
    }
}

/// Lists the columns of such a function.
///
/// # Errors
/// If there is no such table.
pub(super) fn list_columns(factor: &mut TableFactor, relations: &Relations<'_>) -> Result<()> {
    let Some(table) = table_of(factor) else { return Ok(()) };
    let columns = relations.row_of(table)?.ok_or_else(|| {
        let error_text = format!("type \"{table}\" does not exist");
        Error::new(SqlState::UNDEFINED_OBJECT, error_text)
    })?;
    let (name, alias) = match factor {
        TableFactor::Table { name, alias, args: Some(args), .. } => {
            args.args.remove(0);
            (name, alias)
        }
        TableFactor::Function { name, alias, args, .. } => {
            args.remove(0);
            (name, alias)
        }
        _ => return Ok(()),
    };
    let Some(listing) = listing(name) else { return Ok(()) };
    let called = name.0.last().and_then(|part| part.as_ident()).map(normalized);
    let called = alias.take().map(|alias| alias.name).or_else(|| called.map(quoted));
    *alias = called.map(|name| TableAlias { explicit: true, name, columns, at: None });
    *name = ObjectName::from(vec![Ident::new(listing)]);
    Ok(())
}

/// A column of a type that is written as SQL writes it.
pub(super) fn column(name: &str, data_type: SqlType) -> TableAliasColumnDef {
    TableAliasColumnDef { name: quoted(name), data_type: Some(data_type) }
}
