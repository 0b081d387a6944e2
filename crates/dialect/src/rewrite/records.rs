//! Rows as JSON: `row_to_json(t)`, `json_agg(t)` and `to_jsonb(t)` of a relation of the query.
//!
//! There are no values that are rows of tables. Where such a function is given one, it is given an
//! object of the row's columns.

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Select,
};

use super::build::{arguments_of, call, column_of, text};
use super::names::normalized;
use super::own;
use super::relations::Relations;
use super::using::Scope;

const FUNCTIONS: [&str; 5] = ["row_to_json", "to_json", "to_jsonb", "json_agg", "jsonb_agg"];

/// Makes what `json_row` makes, for a list in which rows stand in lines of their own.
pub(super) const ROW_OF_LIST: &str = "json_row_of_list";

/// Whether a call may be one that takes a row.
pub(super) fn takes_record(expr: &Expr) -> bool {
    let Expr::Function(function) = expr else { return false };
    named(function).is_some()
        && matches!(arguments_of(function).as_deref(), Some([Expr::Identifier(_), ..]))
}

fn named(function: &Function) -> Option<&'static str> {
    let name = normalized(function.name.0.last()?.as_ident()?);
    FUNCTIONS.into_iter().find(|known| *known == name)
}

/// Spells out the rows of one SELECT, and those that it makes with `ROW`.
pub(super) fn spell_out(select: &mut Select, relations: &Relations) {
    let scopes = select.from.iter().map(|from| Scope::of(from, relations)).collect();
    let rows = Rows { scopes: Option::unwrap_or_default(scopes) };
    own::change(&mut select.projection, |expr| rows.spell_out(expr));
    own::change(&mut select.having, |expr| rows.spell_out(expr));
}

struct Rows {
    scopes: Vec<Scope>,
}

impl Rows {
    /// The names and values of a row.
    fn members(&self, value: &Expr) -> Option<Vec<(String, Expr)>> {
        match value {
            Expr::Nested(inner) => self.members(inner),
            Expr::Tuple(values) => Some(numbered(values.iter())),
            Expr::Function(function) if function.name.to_string().eq_ignore_ascii_case("row") => {
                Some(numbered(arguments_of(function)?.into_iter()))
            }
            Expr::Identifier(name) => self.columns_of(name),
            _ => None,
        }
    }

    /// The columns of a relation, unless the name is that of a column.
    fn columns_of(&self, name: &Ident) -> Option<Vec<(String, Expr)>> {
        let name = normalized(name);
        let mut found = None;
        for relation in self.scopes.iter().flat_map(Scope::relations) {
            let columns = relation.columns.as_ref()?;
            if columns.contains(&name) {
                return None;
            }
            if normalized(&relation.name) == name {
                found = Some(relation);
            }
        }
        let found = found?;
        let columns = found.columns.iter().flatten();
        Some(columns.map(|column| (column.clone(), column_of(&found.name, column))).collect())
    }

    /// Gives an object of a row's columns to a function that is given the row.
    fn spell_out(&self, expr: &mut Expr) {
        let Expr::Function(function) = expr else { return };
        let Some(name) = named(function) else { return };
        let value =
            arguments_of(function).and_then(|arguments| arguments.first().copied().cloned());
        let Some(members) = value.and_then(|value| self.members(&value)) else { return };
        let members = members.into_iter().flat_map(|(name, value)| [text(name), value]).collect();
        let object =
            call(if name.contains("jsonb") { "jsonb_build_object" } else { "json_row" }, members);
        match name {
            "row_to_json" => *expr = object,
            _ => {
                if let FunctionArguments::List(list) = &mut function.args {
                    list.args[0] = FunctionArg::Unnamed(FunctionArgExpr::Expr(object));
                }
            }
        }
    }
}

fn numbered<'e>(values: impl Iterator<Item = &'e Expr>) -> Vec<(String, Expr)> {
    values.enumerate().map(|(place, value)| (format!("f{}", place + 1), value.clone())).collect()
}
