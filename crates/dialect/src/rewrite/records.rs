//! Rows as JSON: `row_to_json(t)`, `json_agg(t)` and `to_jsonb(t)` of a relation of the query.
//!
//! There are no values that are rows of tables. Where such a function is given one, it is given an
//! object of the row's columns.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Query, Select,
    VisitMut, VisitorMut,
};

use super::build::{arguments_of, call, column_of, text};
use super::names::normalized;
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
    let mut rows = Rows { scopes: Option::unwrap_or_default(scopes), depth: 0 };
    let _ = VisitMut::visit(&mut select.projection, &mut rows);
    let _ = VisitMut::visit(&mut select.having, &mut rows);
}

struct Rows {
    scopes: Vec<Scope>,
    depth: usize,
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
}

fn numbered<'e>(values: impl Iterator<Item = &'e Expr>) -> Vec<(String, Expr)> {
    values.enumerate().map(|(place, value)| (format!("f{}", place + 1), value.clone())).collect()
}

impl VisitorMut for Rows {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
        let Some(name) = named(function).filter(|_| self.depth == 0) else {
            return ControlFlow::Continue(());
        };
        let value =
            arguments_of(function).and_then(|arguments| arguments.first().copied().cloned());
        let Some(members) = value.and_then(|value| self.members(&value)) else {
            return ControlFlow::Continue(());
        };
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
        ControlFlow::Continue(())
    }
}
