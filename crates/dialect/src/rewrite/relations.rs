//! The columns of a statement's relations.
//!
//! Only some spellings need them. The columns of tables are looked up before planning only if
//! [`tables_of`] finds such a spelling. The columns of derived tables and `WITH` are read off the
//! statement. If columns are not known, the spelling stays as it is.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use crate::walk;
use arrow::datatypes::{FieldRef, Schema};
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Join, JoinConstraint, ObjectName, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, Statement, TableAlias, TableAliasColumnDef,
    TableFactor, TableWithJoins, Visitor,
};
use thalweg_types::{Error, Result};
use thalweg_values::types::{from_field, sql_type};

use super::build::column_of;
use super::figure::column_name;
use super::names::normalized;
use super::using::{Scope, constraint_of};
use super::{grouped_aliases, grouped_keys, items, populate, records};

/// The name of a column without a name.
const UNNAMED: &str = "?column?";

/// The columns of tables and views, and the primary keys of tables, by the names that a statement
/// calls them.
#[derive(Default)]
pub struct Tables(HashMap<String, Columns>, HashMap<String, Vec<String>>);

/// The names and types of a table's columns; `None` for a type that SQL cannot name.
type Columns = Vec<(String, Option<String>)>;

impl Tables {
    /// Adds the columns of a primary key. `name` is as in [`add`](Tables::add).
    pub fn add_key(&mut self, name: &ObjectName, columns: Vec<String>) {
        self.1.extend(key_of(name).map(|key| (key, columns)));
    }

    /// `name` is the name in the statement, as [`tables_of`] gives it.
    pub fn add(&mut self, name: &ObjectName, schema: &Schema) {
        let column = |field: &FieldRef| {
            let data_type = from_field(field).ok().map(|data_type| data_type.to_string());
            (field.name().clone(), data_type)
        };
        let columns = schema.fields().iter().map(column).collect();
        self.0.extend(key_of(name).map(|key| (key, columns)));
    }
}

fn key_of(name: &ObjectName) -> Option<String> {
    let parts = name.0.iter().map(|part| part.as_ident().map(normalized));
    parts.collect::<Option<Vec<_>>>().map(|parts| parts.join("."))
}

/// The tables whose columns have to be known to understand a statement; mostly none.
#[must_use]
pub fn tables_of(statement: &Statement) -> Vec<ObjectName> {
    /// The names of relations, and the names that stand alone.
    #[derive(Default)]
    struct Needs {
        found: bool,
        labels: HashSet<String>,
        names: HashSet<String>,
        /// The tables whose columns a function gives.
        row_types: Vec<ObjectName>,
    }
    impl Visitor for Needs {
        type Break = ();
        fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
            self.found |= matches!(factor, TableFactor::Table { alias: Some(alias), args: None, .. }
                if !alias.columns.is_empty());
            let label = records::label_of_rows(factor);
            self.labels.extend(label.map(|label| normalized(&label)));
            self.row_types.extend(populate::table_of(factor).cloned());
            ControlFlow::Continue(())
        }
        fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
            if let SetExpr::Select(select) = query.body.as_ref() {
                self.found |= grouped_keys::may_follow(select, &grouped_keys::order_of(query));
            }
            ControlFlow::Continue(())
        }
        fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
            self.found |= needs_columns(select);
            ControlFlow::Continue(())
        }
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            if let Expr::Identifier(name) = expr {
                self.names.insert(normalized(name));
            }
            self.found |= records::takes_record(expr);
            ControlFlow::Continue(())
        }
    }
    #[derive(Default)]
    struct Named(Vec<ObjectName>);
    impl Visitor for Named {
        type Break = ();
        fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<()> {
            if !self.0.contains(name) {
                self.0.push(name.clone());
            }
            ControlFlow::Continue(())
        }
    }
    let (mut named, mut needs) = (Named::default(), Needs::default());
    let _ = walk::visit(statement, &mut needs);
    if needs.found || !needs.labels.is_disjoint(&needs.names) {
        let _ = walk::visit(statement, &mut named);
    }
    named.0.extend(needs.row_types);
    named.0
}

fn needs_columns(select: &Select) -> bool {
    let merges = |join: &Join| {
        let constraint = constraint_of(&join.join_operator);
        matches!(constraint, Some(JoinConstraint::Using(_) | JoinConstraint::Natural))
    };
    let items = &select.projection;
    let shows_all = |item: &SelectItem| {
        matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..))
    };
    // An item beside `*` must not have the name of a column that the star shows.
    let stands_beside = items.len() > 1 && items.iter().any(shows_all);
    stands_beside
        || items::may_be_named(select)
        || grouped_aliases::may_repeat(select)
        || grouped_keys::may_follow(select, &[])
        || select.from.iter().any(|from| {
            // Joins in parentheses are not searched: they are rare.
            from.joins.iter().any(merges) || matches!(from.relation, TableFactor::NestedJoin { .. })
        })
}

/// The relations that are known at one place of a statement.
#[derive(Default)]
pub(super) struct Relations<'t> {
    tables: Option<&'t Tables>,
    /// The common table expressions of `WITH`, the innermost last.
    named: Vec<(String, Option<Vec<String>>)>,
    /// Number of them in each enclosing query.
    counts: Vec<usize>,
    /// The columns that each enclosing SELECT shows of its relations, the innermost last.
    around: Vec<Shown>,
    /// For each enclosing item of FROM, the part of the innermost SELECT that the item cannot see.
    unseen: Vec<Shown>,
    /// True if the columns of a table that is being changed may be in sight.
    changes_rows: bool,
}

/// Names of relations, each with its columns.
type Shown = Vec<(Option<String>, Vec<String>)>;

impl<'t> Relations<'t> {
    pub(super) fn new(tables: &'t Tables) -> Relations<'t> {
        Relations { tables: Some(tables), ..Relations::default() }
    }

    /// Adds the names of a query's `WITH`; to be followed by [`leave`](Relations::leave).
    pub(super) fn enter(&mut self, query: &Query) {
        let before = self.named.len();
        for table in query.with.iter().flat_map(|with| &with.cte_tables) {
            let columns = self.columns_of_query(&table.query);
            let columns = columns.and_then(|columns| renamed(columns, Some(&table.alias)));
            self.named.push((normalized(&table.alias.name), columns));
        }
        self.counts.push(self.named.len() - before);
    }

    pub(super) fn leave(&mut self) {
        let count = self.counts.pop().unwrap_or(0);
        self.named.truncate(self.named.len() - count);
    }

    pub(super) fn enter_statement(&mut self, statement: &Statement) {
        self.changes_rows |= match statement {
            Statement::Insert(insert) => insert.on.is_some(),
            Statement::Update(_) | Statement::Delete(_) | Statement::Merge(_) => true,
            _ => false,
        };
    }

    /// Makes the columns of a SELECT known to the queries inside it; to be followed by
    /// [`leave_select`](Relations::leave_select).
    pub(super) fn enter_select(&mut self, select: &Select) {
        let mut shown = Shown::new();
        for from in &select.from {
            self.add_shown(from, &mut shown);
        }
        self.around.push(shown);
    }

    pub(super) fn leave_select(&mut self) {
        self.around.pop();
    }

    /// Hides from an item of FROM the relations that it doesn't see: itself, and all others if it
    /// is a query that isn't LATERAL. To be followed by [`leave_source`](Relations::leave_source).
    pub(super) fn enter_source(&mut self, factor: &TableFactor) {
        let Some(shown) = self.around.last_mut() else {
            self.unseen.push(Shown::new());
            return;
        };
        let own = label(factor).map(|name| normalized(&name));
        let sees = |name: &Option<String>| match factor {
            TableFactor::Derived { lateral, .. } => *lateral && *name != own,
            TableFactor::Table { args: Some(_), .. }
            | TableFactor::Function { .. }
            | TableFactor::UNNEST { .. } => *name != own,
            _ => true,
        };
        let (seen, unseen) = std::mem::take(shown).into_iter().partition(|(name, _)| sees(name));
        *shown = seen;
        self.unseen.push(unseen);
    }

    pub(super) fn leave_source(&mut self) {
        let unseen = self.unseen.pop().unwrap_or_default();
        if let Some(shown) = self.around.last_mut() {
            shown.extend(unseen);
        }
    }

    fn add_shown(&self, from: &TableWithJoins, shown: &mut Shown) {
        let joined = from.joins.iter().map(|join| &join.relation);
        for factor in std::iter::once(&from.relation).chain(joined) {
            if let TableFactor::NestedJoin { table_with_joins, alias: None } = factor {
                self.add_shown(table_with_joins, shown);
                continue;
            }
            let columns = self.columns_of(factor).unwrap_or_else(|| columns_of_function(factor));
            shown.push((label(factor).map(|name| normalized(&name)), columns));
        }
    }

    /// True if an outer query has a column of the name in sight.
    pub(super) fn has_column_around(&self, name: &str) -> bool {
        let mut columns = self.around.iter().flatten().flat_map(|(_, columns)| columns);
        columns.any(|column| column == name) || (self.changes_rows && self.have_column(name))
    }

    fn table(&self, name: &ObjectName) -> Option<Vec<String>> {
        if let [part] = name.0.as_slice() {
            let name = normalized(part.as_ident()?);
            if let Some((_, columns)) = self.named.iter().rev().find(|(named, _)| *named == name) {
                return columns.clone();
            }
        }
        let columns = self.tables?.0.get(&key_of(name)?)?;
        Some(columns.iter().map(|(name, _)| name.clone()).collect())
    }

    /// The columns of a table's primary key, under the names that an alias gives them.
    pub(super) fn key_of(&self, factor: &TableFactor) -> Option<Vec<String>> {
        let TableFactor::Table { name, args: None, .. } = factor else { return None };
        if let [part] = name.0.as_slice() {
            let name = normalized(part.as_ident()?);
            if self.named.iter().any(|(named, _)| *named == name) {
                return None;
            }
        }
        let key = self.tables?.1.get(&key_of(name)?)?;
        let (columns, shown) = (self.table(name)?, self.columns_of(factor)?);
        let place = |column: &String| columns.iter().position(|known| known == column);
        key.iter().map(|column| shown.get(place(column)?).cloned()).collect()
    }

    /// True if some known relation of the statement has a column of the name.
    fn have_column(&self, name: &str) -> bool {
        let of_tables = self.tables.iter().flat_map(|tables| tables.0.values().flatten());
        let of_queries = self.named.iter().flat_map(|(_, columns)| columns.iter().flatten());
        of_tables.map(|(column, _)| column).chain(of_queries).any(|column| column == name)
    }

    /// The columns of a table's rows, with their types.
    pub(super) fn row_of(&self, name: &ObjectName) -> Result<Option<Vec<TableAliasColumnDef>>> {
        let tables = self.tables.zip(key_of(name));
        let Some(columns) = tables.and_then(|(tables, key)| tables.0.get(&key)) else {
            return Ok(None);
        };
        let column = |(name, data_type): &(String, Option<String>)| {
            let error_text =
                || Error::unsupported(format!("a row with the type of column \"{name}\""));
            let data_type = data_type.as_deref().and_then(sql_type).ok_or_else(error_text)?;
            Ok(populate::column(name, data_type))
        };
        columns.iter().map(column).collect::<Result<Vec<_>>>().map(Some)
    }

    /// The columns of one item of FROM, in order.
    pub(super) fn columns_of(&self, factor: &TableFactor) -> Option<Vec<String>> {
        match factor {
            TableFactor::Table { name, alias, args: None, .. } => {
                renamed(self.table(name)?, alias.as_ref())
            }
            TableFactor::Derived { subquery, alias, .. } => {
                renamed(self.columns_of_query(subquery)?, alias.as_ref())
            }
            TableFactor::NestedJoin { table_with_joins, alias: Some(alias) } => {
                renamed(Scope::of(table_with_joins, self)?.columns()?, Some(alias))
            }
            TableFactor::Table { alias: Some(alias), with_ordinality: false, .. }
            | TableFactor::Function { alias: Some(alias), with_ordinality: false, .. }
            | TableFactor::UNNEST { alias: Some(alias), with_ordinality: false, .. } => {
                let columns = alias.columns.iter().map(|column| normalized(&column.name));
                (!alias.columns.is_empty()).then(|| columns.collect())
            }
            _ => None,
        }
    }

    /// `t AS x (a)` where `t` has more columns: the others keep their names. DataFusion takes a
    /// list of all names only.
    pub(super) fn complete_names(&self, factor: &mut TableFactor) {
        let (columns, alias) = match factor {
            TableFactor::Table { name, alias: Some(alias), args: None, .. } => {
                (self.table(name), alias)
            }
            TableFactor::Derived { subquery, alias: Some(alias), .. } => {
                (self.columns_of_query(subquery), alias)
            }
            _ => return,
        };
        if alias.columns.is_empty() {
            return;
        }
        let others = columns.into_iter().flatten().skip(alias.columns.len());
        alias.columns.extend(others.map(|name| TableAliasColumnDef {
            name: Ident::with_quote('"', name),
            data_type: None,
        }));
    }

    fn columns_of_query(&self, query: &Query) -> Option<Vec<String>> {
        if query.with.is_some() {
            let mut inside = Relations {
                tables: self.tables,
                named: self.named.clone(),
                ..Relations::default()
            };
            inside.enter(query);
            return inside.columns_of_body(&query.body);
        }
        self.columns_of_body(&query.body)
    }

    fn columns_of_body(&self, body: &SetExpr) -> Option<Vec<String>> {
        match body {
            SetExpr::Select(select) => self.columns_of_select(select),
            SetExpr::Query(query) => self.columns_of_query(query),
            SetExpr::SetOperation { left, .. } => self.columns_of_body(left),
            SetExpr::Values(values) => {
                let width = values.rows.first()?.content.len();
                Some((1..=width).map(|place| format!("column{place}")).collect())
            }
            _ => None,
        }
    }

    /// The names and values of what `*` or `t.*` shows.
    pub(super) fn shown_by(
        &self,
        select: &Select,
        item: &SelectItem,
    ) -> Option<Vec<(String, Expr)>> {
        let scopes = || select.from.iter().map(|from| Scope::of(from, self));
        match item {
            SelectItem::Wildcard(options) if options.opt_exclude.is_none() => {
                let mut shown = Vec::new();
                for scope in scopes() {
                    shown.append(&mut scope?.items()?);
                }
                Some(shown)
            }
            SelectItem::QualifiedWildcard(kind, options) if options.opt_exclude.is_none() => {
                let wanted = qualifier(kind)?;
                let scopes = scopes().collect::<Option<Vec<Scope>>>()?;
                let mut relations = scopes.iter().flat_map(Scope::relations);
                let relation = relations.find(|other| normalized(&other.name) == wanted)?;
                let columns = relation.columns.as_ref()?.iter();
                Some(columns.map(|name| (name.clone(), column_of(&relation.name, name))).collect())
            }
            _ => None,
        }
    }

    fn columns_of_select(&self, select: &Select) -> Option<Vec<String>> {
        let mut columns = Vec::new();
        for item in &select.projection {
            match item {
                SelectItem::UnnamedExpr(expr) => {
                    columns.push(column_name(expr).unwrap_or_else(|| UNNAMED.to_owned()));
                }
                SelectItem::ExprWithAlias { alias, .. } => columns.push(normalized(alias)),
                wildcard => {
                    let shown = self.shown_by(select, wildcard)?;
                    columns.extend(shown.into_iter().map(|(name, _)| name));
                }
            }
        }
        Some(columns)
    }
}

/// The names that a function in FROM may give its columns.
fn columns_of_function(factor: &TableFactor) -> Vec<String> {
    let (name, alias) = match factor {
        TableFactor::Table { name, alias, args: Some(_), .. }
        | TableFactor::Function { name, alias, .. } => (Some(name), alias),
        TableFactor::UNNEST { alias, .. } => (None, alias),
        _ => return Vec::new(),
    };
    let listed = alias.iter().flat_map(|alias| &alias.columns);
    let mut columns: Vec<String> = listed.map(|column| normalized(&column.name)).collect();
    if columns.is_empty() {
        let function = name.and_then(|name| name.0.last()?.as_ident()).map(normalized);
        let function = function.unwrap_or_else(|| "unnest".to_owned());
        if function.contains("_each") || function.contains("_elements") {
            columns.extend(["key", "value"].map(str::to_owned));
        }
        columns.push(alias.as_ref().map_or(function, |alias| normalized(&alias.name)));
    }
    columns
}

/// The columns under the names that an alias lists.
fn renamed(mut columns: Vec<String>, alias: Option<&TableAlias>) -> Option<Vec<String>> {
    let listed = alias.map_or(&[][..], |alias| &alias.columns);
    if listed.len() > columns.len() {
        return None;
    }
    for (column, given) in columns.iter_mut().zip(listed) {
        *column = normalized(&given.name);
    }
    Some(columns)
}

/// The relation of `t.*`.
fn qualifier(kind: &SelectItemQualifiedWildcardKind) -> Option<String> {
    let SelectItemQualifiedWildcardKind::ObjectName(name) = kind else { return None };
    name.0.last()?.as_ident().map(normalized)
}

/// True if `*` or `t.*` shows columns that another one before it has shown.
pub(super) fn repeats(item: &SelectItem, before: &[SelectItem]) -> bool {
    match item {
        SelectItem::Wildcard(_) => before.iter().any(|other| {
            matches!(other, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..))
        }),
        SelectItem::QualifiedWildcard(kind, _) => before.iter().any(|other| match other {
            SelectItem::Wildcard(_) => true,
            SelectItem::QualifiedWildcard(other, _) => qualifier(other) == qualifier(kind),
            _ => false,
        }),
        _ => false,
    }
}

/// The name of a relation in its query.
pub(super) fn label(factor: &TableFactor) -> Option<Ident> {
    match factor {
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. }
        | TableFactor::Function { alias: Some(alias), .. }
        | TableFactor::NestedJoin { alias: Some(alias), .. }
        | TableFactor::UNNEST { alias: Some(alias), .. } => Some(alias.name.clone()),
        TableFactor::Table { name, alias: None, args: None, .. } => {
            name.0.last()?.as_ident().cloned()
        }
        _ => None,
    }
}
