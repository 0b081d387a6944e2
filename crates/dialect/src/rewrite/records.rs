//! Whole rows: `t` as a value, where `t` is a relation of the query, and rows as JSON.
//!
//! A row is spelled as `ROW` of its columns. A function that makes JSON gets an object of the row's
//! columns instead. Rows of a relation compare as values do, with NULLs being equal; rows that
//! `ROW` makes are compared in `rewrite/rows`.

use std::cell::RefCell;

use datafusion::sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, Distinct, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, GroupByExpr, Ident, ObjectName, OrderByExpr, Select, TableFactor,
    TableWithJoins,
};
use thalweg_types::{Error, Result};

use super::build::{arguments_of, call, column_of, text};
use super::figure::change_output;
use super::hypothetical;
use super::names::normalized;
use super::operators::binary;
use super::own_expressions;
use super::relations::{Relations, label};
use super::using::{Scope, may_lack_rows};

const FUNCTIONS: [&str; 5] = ["row_to_json", "to_json", "to_jsonb", "json_agg", "jsonb_agg"];

/// The function that makes the same as `json_row`, for a list with each row on a line of its own.
pub(super) const ROW_OF_LIST: &str = "json_row_of_list";

/// True if a call may take a row.
pub(super) fn takes_record(expr: &Expr) -> bool {
    let Expr::Function(function) = expr else { return false };
    let takes_json = named(function).is_some()
        && matches!(arguments_of(function).as_deref(), Some([Expr::Identifier(_), ..]));
    takes_json || arguments(function).iter().any(|argument| all_columns(argument).is_some())
}

fn arguments(function: &Function) -> &[FunctionArg] {
    match &function.args {
        FunctionArguments::List(list) => &list.args,
        _ => &[],
    }
}

/// The relation of an argument `t.*`.
fn all_columns(argument: &FunctionArg) -> Option<&Ident> {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(ObjectName(parts))) => {
            match parts.as_slice() {
                [part] => part.as_ident(),
                _ => None,
            }
        }
        _ => None,
    }
}

fn named(function: &Function) -> Option<&'static str> {
    let name = normalized(function.name.0.last()?.as_ident()?);
    FUNCTIONS.into_iter().find(|known| *known == name)
}

fn is_row(function: &Function) -> bool {
    function.name.to_string().eq_ignore_ascii_case("row")
}

/// The name of a relation whose rows may stand as values.
pub(super) fn label_of_rows(factor: &TableFactor) -> Option<Ident> {
    match factor {
        TableFactor::Table { args: None, .. }
        | TableFactor::Derived { .. }
        | TableFactor::NestedJoin { .. } => label(factor),
        _ => None,
    }
}

/// Spells out the rows of one SELECT, those in its ORDER BY, and those that it makes with `ROW` for
/// JSON.
pub(super) fn name_rows(
    select: &mut Select,
    orders: &mut [OrderByExpr],
    relations: &Relations<'_>,
) -> Result<()> {
    let rows = Rows::of(select, relations);
    let output = rows.name_output(select);
    let keys = std::mem::replace(&mut select.group_by, GroupByExpr::Expressions(vec![], vec![]));
    let mut distinct = select.distinct.take();
    own_expressions::change(select, |expr| {
        rows.spell_out(expr);
    });
    select.group_by = rows.name_keys(keys, &output);
    if let Some(Distinct::On(keys)) = &mut distinct {
        rows.spell_keys(keys, &output);
    }
    select.distinct = distinct;
    for order in orders {
        // A name alone means the output column, where there is one.
        if !is_output(&order.expr, &output) {
            own_expressions::change(&mut order.expr, |expr| {
                rows.spell_out(expr);
            });
        }
    }
    match rows.refused.into_inner() {
        Some(name) => Err(Error::unsupported(format!(
            "the row of \"{name}\", which an outer join may leave out, as a value"
        ))),
        None => Ok(()),
    }
}

fn is_output(expr: &Expr, output: &[String]) -> bool {
    matches!(expr, Expr::Identifier(name) if output.contains(&normalized(name)))
}

struct Rows {
    scopes: Vec<Scope>,
    /// The relations that have a row in each row of the query.
    present: Vec<String>,
    /// The relations that may have no row, because of an outer join.
    lacking: Vec<String>,
    /// Names that are columns of an outer query, which take precedence.
    hidden: Vec<String>,
    /// A relation in `lacking` whose row is used.
    refused: RefCell<Option<String>>,
}

impl Rows {
    fn of(select: &Select, relations: &Relations<'_>) -> Rows {
        let scopes = select.from.iter().map(|from| Scope::of(from, relations)).collect();
        let scopes: Vec<Scope> = Option::unwrap_or_default(scopes);
        let names = scopes.iter().flat_map(Scope::relations);
        let names = names.map(|relation| normalized(&relation.name));
        let hidden = names.filter(|name| relations.has_column_around(name)).collect();
        let present = select.from.iter().flat_map(present_in).collect();
        let mut lacking = Vec::new();
        for from in &select.from {
            add_lacking(from, false, &mut lacking);
        }
        Rows { scopes, present, lacking, hidden, refused: RefCell::new(None) }
    }

    /// Gives the output columns the names that they have as written, and returns these.
    fn name_output(&self, select: &mut Select) -> Vec<String> {
        change_output(select, |expr| {
            let mut changed = false;
            own_expressions::change(expr, |expr| changed |= self.spell_out(expr));
            changed
        })
    }

    /// Spells out rows in the keys of groups, except where a key is the name of an output column.
    fn name_keys(&self, keys: GroupByExpr, output: &[String]) -> GroupByExpr {
        let (mut keys, modifiers) = match keys {
            GroupByExpr::Expressions(keys, modifiers) => (keys, modifiers),
            all => return all,
        };
        self.spell_keys(&mut keys, output);
        GroupByExpr::Expressions(keys, modifiers)
    }

    fn spell_keys(&self, keys: &mut [Expr], output: &[String]) {
        for key in keys.iter_mut().filter(|key| !is_output(key, output)) {
            own_expressions::change(key, |expr| {
                self.spell_out(expr);
            });
        }
    }

    /// The names and values of a row.
    fn members(&self, value: &Expr) -> Option<Vec<(String, Expr)>> {
        match value {
            Expr::Nested(inner) => self.members(inner),
            Expr::Tuple(values) => Some(numbered(values.iter())),
            Expr::Function(function) if is_row(function) => {
                Some(numbered(arguments_of(function)?.into_iter()))
            }
            Expr::Identifier(name) => self.columns_of(name),
            _ => None,
        }
    }

    /// The columns of a relation, unless the name is that of a column.
    fn columns_of(&self, name: &Ident) -> Option<Vec<(String, Expr)>> {
        let name = normalized(name);
        if self.hidden.contains(&name) {
            return None;
        }
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

    /// The columns of a relation whose row is a value.
    fn row_of(&self, name: &Ident) -> Option<Vec<(String, Expr)>> {
        if !self.present.contains(&normalized(name)) {
            return None;
        }
        self.columns_of(name).filter(|columns| !columns.is_empty())
    }

    /// True if a name is that of a relation that may have no row.
    fn may_lack_row(&self, name: &Ident) -> bool {
        self.lacking.contains(&normalized(name)) && self.columns_of(name).is_some()
    }

    /// The relation whose row the value is, if that row may be missing.
    fn lacking_in<'e>(&self, value: &'e Expr) -> Option<&'e Ident> {
        match value {
            Expr::Nested(inner) => self.lacking_in(inner),
            Expr::Identifier(name) => self.may_lack_row(name).then_some(name),
            _ => None,
        }
    }

    /// The columns of a relation whose row is a value; its name may be in parentheses.
    fn row_in(&self, expr: &Expr) -> Option<Vec<(String, Expr)>> {
        match expr {
            Expr::Nested(inner) => self.row_in(inner),
            Expr::Identifier(name) => self.row_of(name),
            _ => None,
        }
    }

    /// Spells out `expr` itself, and returns true if it changed; the expressions inside follow
    /// later.
    fn spell_out(&self, expr: &mut Expr) -> bool {
        if let Expr::Identifier(name) = &*expr
            && self.may_lack_row(name)
        {
            *self.refused.borrow_mut() = Some(normalized(name));
            return false;
        }
        if let Expr::Function(function) = expr {
            self.spell_all_columns(function);
        }
        let spelled = match &*expr {
            Expr::Function(function) => self.as_json(function),
            Expr::Identifier(name) => self.row_of(name).map(|columns| call("row", values(columns))),
            Expr::CompoundFieldAccess { root, access_chain } => self.field(root, access_chain),
            Expr::BinaryOp { left, op, right } => self.compared(left, op, right),
            _ => None,
        };
        let changed = spelled.is_some();
        if let Some(spelled) = spelled {
            *expr = spelled;
        }
        changed
    }

    /// `f(t.*)` is `f(t)`, and `ROW(t.*)` has the columns of `t` each.
    fn spell_all_columns(&self, function: &mut Function) {
        let is_row = is_row(function);
        let FunctionArguments::List(list) = &mut function.args else { return };
        if !list.args.iter().any(|argument| all_columns(argument).is_some()) {
            return;
        }
        let unnamed = |expr| FunctionArg::Unnamed(FunctionArgExpr::Expr(expr));
        for argument in std::mem::take(&mut list.args) {
            let columns = all_columns(&argument).and_then(|name| {
                // The columns of a missing row are NULL.
                let columns = match self.lacking.contains(&normalized(name)) {
                    true => self.columns_of(name)?,
                    false => self.row_of(name)?,
                };
                Some((name, columns))
            });
            match columns {
                Some((_, columns)) if is_row => {
                    list.args.extend(values(columns).into_iter().map(unnamed));
                }
                Some((name, _)) => list.args.push(unnamed(Expr::Identifier(name.clone()))),
                None => list.args.push(argument),
            }
        }
    }

    /// Passes an object of a row's columns to a function that takes the row.
    fn as_json(&self, function: &Function) -> Option<Expr> {
        let name = named(function)?;
        let arguments = arguments_of(function)?;
        let value = *arguments.first()?;
        if let Some(relation) = self.lacking_in(value)
            && !finds_row(function.filter.as_deref(), relation)
        {
            return None;
        }
        let members = self.members(value)?;
        let members = members.into_iter().flat_map(|(name, value)| [text(name), value]).collect();
        let object = match name {
            "to_jsonb" | "jsonb_agg" => "jsonb_build_object",
            "json_agg" => ROW_OF_LIST,
            _ => "json_row",
        };
        let object = call(object, members);
        if name == "row_to_json" {
            return Some(object);
        }
        let mut function = function.clone();
        if let FunctionArguments::List(list) = &mut function.args {
            list.args[0] = FunctionArg::Unnamed(FunctionArgExpr::Expr(object));
        }
        Some(Expr::Function(function))
    }

    /// `(t).a`, and further subscripts behind it.
    fn field(&self, root: &Expr, chain: &[AccessExpr]) -> Option<Expr> {
        let [AccessExpr::Dot(Expr::Identifier(field)), others @ ..] = chain else { return None };
        let field = normalized(field);
        let mut columns = self.row_in(root)?.into_iter();
        let (_, column) = columns.find(|(name, _)| *name == field)?;
        Some(match others {
            [] => column,
            others => {
                Expr::CompoundFieldAccess { root: Box::new(column), access_chain: others.to_vec() }
            }
        })
    }

    /// A comparison of two rows, at least one of which is a relation's.
    fn compared(&self, left: &Expr, op: &BinaryOperator, right: &Expr) -> Option<Expr> {
        use BinaryOperator::{And, Eq, Gt, GtEq, Lt, LtEq, NotEq, Or};
        if self.row_in(left).is_none() && self.row_in(right).is_none() {
            return None;
        }
        if self.lacking_in(left).is_some() || self.lacking_in(right).is_some() {
            return None;
        }
        let (left, right) = (values(self.members(left)?), values(self.members(right)?));
        if left.len() != right.len() {
            return None;
        }
        let pairs = || left.iter().cloned().map(Box::new).zip(right.iter().cloned().map(Box::new));
        let is = |test: Expr, holds: bool| match holds {
            true => Expr::IsTrue(Box::new(test)),
            false => Expr::IsNotTrue(Box::new(test)),
        };
        let compared = match op {
            Eq => pairs()
                .map(|(left, right)| Expr::IsNotDistinctFrom(left, right))
                .reduce(|first, next| binary(first, And, next))?,
            NotEq => pairs()
                .map(|(left, right)| Expr::IsDistinctFrom(left, right))
                .reduce(|first, next| binary(first, Or, next))?,
            Lt => is(hypothetical::row_before(&left, &right), true),
            Gt => is(hypothetical::row_before(&right, &left), true),
            LtEq => is(hypothetical::row_before(&right, &left), false),
            GtEq => is(hypothetical::row_before(&left, &right), false),
            _ => return None,
        };
        Some(Expr::Nested(Box::new(compared)))
    }
}

/// The relations of an item of FROM that no outer join leaves without a row.
fn present_in(from: &TableWithJoins) -> Vec<String> {
    let joined = from.joins.iter().map(|join| &join.relation);
    std::iter::once(&from.relation)
        .chain(joined)
        .enumerate()
        .filter(|(place, _)| !may_lack_rows(from, *place))
        .filter_map(|(_, factor)| label_of_rows(factor))
        .map(|name| normalized(&name))
        .collect()
}

/// The relations of an item of FROM that an outer join may leave without a row: `all`, if one
/// around it may.
fn add_lacking(from: &TableWithJoins, all: bool, found: &mut Vec<String>) {
    let joined = from.joins.iter().map(|join| &join.relation);
    for (place, factor) in std::iter::once(&from.relation).chain(joined).enumerate() {
        let lacks = all || may_lack_rows(from, place);
        match factor {
            TableFactor::NestedJoin { table_with_joins, alias: None } => {
                add_lacking(table_with_joins, lacks, found);
            }
            factor if lacks => found.extend(label(factor).map(|name| normalized(&name))),
            _ => {}
        }
    }
}

/// True if a filter only passes rows in which a relation has a row.
fn finds_row(filter: Option<&Expr>, relation: &Ident) -> bool {
    match filter {
        Some(Expr::Nested(inner)) => finds_row(Some(inner), relation),
        Some(Expr::BinaryOp { left, op: BinaryOperator::And, right }) => {
            finds_row(Some(left), relation) || finds_row(Some(right), relation)
        }
        Some(Expr::IsNotNull(tested)) => matches!(tested.as_ref(),
            Expr::CompoundIdentifier(parts)
                if parts.len() == 2 && normalized(&parts[0]) == normalized(relation)),
        _ => false,
    }
}

fn values(columns: Vec<(String, Expr)>) -> Vec<Expr> {
    columns.into_iter().map(|(_, value)| value).collect()
}

fn numbered<'e>(values: impl Iterator<Item = &'e Expr>) -> Vec<(String, Expr)> {
    values.enumerate().map(|(place, value)| (format!("f{}", place + 1), value.clone())).collect()
}
