//! A view's query as SQL text with the names that its relations and columns have now.
//!
//! A query as it was written is shown as it was written. If `*` stands in it, or something that it
//! names was renamed, the text is made anew. In a plain `SELECT` from tables and views, each name
//! becomes the present one. Other queries read renamed relations through a subquery that gives the
//! columns the names of the query.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use datafusion::sql::parser::Statement as Tree;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Join, JoinConstraint, JoinOperator, ObjectName, OrderByKind, Query, Select,
    SelectItem, SelectItemQualifiedWildcardKind, SetExpr, Statement, TableFactor, Visitor,
    VisitorMut,
};
use thalweg_dialect::parse::parse_single;
use thalweg_dialect::walk;
use thalweg_txn::{BoundRelation, BoundSource, Catalog, DEFAULT_NAMESPACE, View, ViewBinding};

use super::definitions::quoted;
use crate::statement::{QualifiedName, folded};

/// The query of a view, ended with a semicolon as in PostgreSQL.
pub(super) fn definition(view: &View, catalog: &Catalog) -> String {
    let text = current_text(view, catalog);
    let text = text.as_deref().unwrap_or(&view.query);
    format!(" {};", text.trim_end().trim_end_matches(';'))
}

/// The query in present names; `None` if the stored text has them.
fn current_text(view: &View, catalog: &Catalog) -> Option<String> {
    let names = Names { binding: view.binding.as_deref()?, catalog };
    let Tree::Statement(mut statement) = parse_single(&view.query).ok()?.statement else {
        return None;
    };
    let is_current = names.binding.relations.iter().all(|relation| names.is_current(relation));
    let mut queries = Queries::default();
    let _ = walk::visit(&statement, &mut queries);
    if is_current && !queries.wildcards && names_match(&statement, &view.columns) {
        return None;
    }
    if let Statement::Query(query) = statement.as_ref()
        && let Some(text) = plain(query.as_ref().clone(), &queries, &names, &view.columns)
    {
        return Some(text);
    }
    let _ = walk::visit_mut(&mut statement, &mut Substitute { names: &names, queries: &queries });
    Some(statement.to_string())
}

struct Names<'a> {
    binding: &'a ViewBinding,
    catalog: &'a Catalog,
}

impl<'a> Names<'a> {
    /// The relation of a name in the query. Unqualified names were looked up on the initial search
    /// path, whatever the path of the reader is.
    fn relation(&self, name: &ObjectName) -> Option<&'a BoundRelation> {
        let qualified = QualifiedName::of(name).ok()?;
        let namespace = match name.0.as_slice() {
            [_] => DEFAULT_NAMESPACE,
            _ => &qualified.namespace,
        };
        self.binding.relation(namespace, &qualified.name)
    }

    /// Present namespace and name of a relation.
    fn name(&self, relation: &'a BoundRelation) -> Option<(&'a str, &'a str)> {
        match &relation.source {
            BoundSource::Table(id) => {
                let schema = &self.catalog.table(*id)?.schema;
                Some((&schema.namespace, &schema.name))
            }
            BoundSource::Sequence(id) => {
                self.catalog.sequence(*id).map(|(namespace, name, _)| (namespace, name))
            }
            BoundSource::Named { namespace, name } => Some((namespace, name)),
        }
    }

    /// The columns that still exist: their names in the query, and their present names.
    fn columns(&self, relation: &'a BoundRelation) -> Vec<(&'a str, &'a str)> {
        let table = match &relation.source {
            BoundSource::Table(id) => self.catalog.table(*id).map(|entry| &entry.schema),
            BoundSource::Sequence(_) | BoundSource::Named { .. } => None,
        };
        let columns = relation.columns.iter().filter_map(|column| {
            let name = column.name.as_str();
            match (table, column.id) {
                (Some(table), Some(id)) => {
                    Some((name, table.columns[table.position(id)?].name.as_str()))
                }
                _ => Some((name, name)),
            }
        });
        columns.collect()
    }

    fn is_current(&self, relation: &'a BoundRelation) -> bool {
        let written = (relation.namespace.as_str(), relation.name.as_str());
        self.name(relation) == Some(written)
            && self.columns(relation).iter().all(|(written, now)| written == now)
    }
}

/// Facts about the queries of a statement.
#[derive(Default)]
struct Queries {
    count: usize,
    wildcards: bool,
    /// Names of the queries of `WITH`.
    named: BTreeSet<String>,
}

impl Visitor for Queries {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.count += 1;
        let tables = query.with.iter().flat_map(|with| &with.cte_tables);
        self.named.extend(tables.map(|table| folded(&table.alias.name)));
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        self.wildcards |= select.projection.iter().any(|item| {
            matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..))
        });
        ControlFlow::Continue(())
    }
}

/// True if a query without `*` gives its columns these names.
fn names_match(statement: &Statement, names: &[String]) -> bool {
    let Statement::Query(query) = statement else { return true };
    let SetExpr::Select(select) = query.body.as_ref() else { return true };
    // The names of other expressions follow from the text.
    let matches = |(item, name): (&SelectItem, &String)| {
        natural_name(item).is_none_or(|natural| natural == *name)
    };
    select.projection.iter().zip(names).all(matches)
}

/// A relation of a plain `SELECT`.
struct Source<'a> {
    /// Name that qualifies columns in the stored query.
    label: String,
    /// Name that qualifies them in the new text.
    shown_label: Ident,
    columns: Vec<(&'a str, &'a str)>,
}

/// Writes a plain `SELECT` in present names: one query over tables and views, without merged
/// columns. `None` for other queries.
fn plain(
    mut query: Query,
    queries: &Queries,
    names: &Names<'_>,
    output: &[String],
) -> Option<String> {
    if queries.count != 1 || !queries.named.is_empty() {
        return None;
    }
    let order_by = query.order_by.take();
    let SetExpr::Select(select) = query.body.as_mut() else { return None };
    let mut scope = Scope { sources: sources(select, names)?, is_plain: true };
    select.projection = scope.expanded(std::mem::take(&mut select.projection))?;
    if select.projection.len() != output.len() {
        return None;
    }
    let written: Vec<_> = select.projection.iter().map(natural_name).collect();
    let _ = walk::visit_mut(&mut query, &mut scope);
    let SetExpr::Select(select) = query.body.as_mut() else { return None };
    for (item, name) in select.projection.iter_mut().zip(output) {
        name_item(item, name);
    }
    query.order_by = order_by;
    if let Some(order_by) = &mut query.order_by
        && let OrderByKind::Expressions(expressions) = &mut order_by.kind
    {
        for order in expressions {
            // A name alone means the output column, where there is one.
            let is_output = matches!(&order.expr, Expr::Identifier(name)
                if written.contains(&Some(folded(name))));
            if !is_output {
                let _ = walk::visit_mut(&mut order.expr, &mut scope);
            }
        }
    }
    scope.is_plain.then(|| query.to_string())
}

/// The relations of FROM, which get their present names.
fn sources<'a>(select: &mut Select, names: &Names<'a>) -> Option<Vec<Source<'a>>> {
    let mut sources = Vec::new();
    for from in &mut select.from {
        if from.joins.iter().any(merges_columns) {
            return None;
        }
        let joined = from.joins.iter_mut().map(|join| &mut join.relation);
        for factor in std::iter::once(&mut from.relation).chain(joined) {
            let TableFactor::Table { name, alias, args: None, .. } = factor else { return None };
            let relation = names.relation(name)?;
            if alias.as_ref().is_some_and(|alias| !alias.columns.is_empty()) {
                return None;
            }
            let (namespace, now) = names.name(relation)?;
            let label = alias.as_ref().map(|alias| alias.name.clone());
            sources.push(Source {
                label: label.as_ref().map_or_else(|| relation.name.clone(), folded),
                shown_label: label.unwrap_or_else(|| ident(now)),
                columns: names.columns(relation),
            });
            *name = object_name(namespace, now);
        }
    }
    let labels: BTreeSet<String> =
        sources.iter().map(|source| folded(&source.shown_label)).collect();
    (labels.len() == sources.len()).then_some(sources)
}

fn merges_columns(join: &Join) -> bool {
    match constraint_of(&join.join_operator) {
        Some(JoinConstraint::On(_) | JoinConstraint::None) => false,
        Some(JoinConstraint::Using(_) | JoinConstraint::Natural) | None => true,
    }
}

fn constraint_of(operator: &JoinOperator) -> Option<&JoinConstraint> {
    match operator {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint)
        | JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::FullOuter(constraint)
        | JoinOperator::CrossJoin(constraint) => Some(constraint),
        _ => None,
    }
}

/// The names that expressions of a plain `SELECT` may use.
struct Scope<'a> {
    sources: Vec<Source<'a>>,
    /// False once an expression was met whose names cannot be replaced one by one.
    is_plain: bool,
}

impl Scope<'_> {
    /// The items of a `SELECT`, with those that `*` stands for.
    fn expanded(&self, items: Vec<SelectItem>) -> Option<Vec<SelectItem>> {
        let mut expanded = Vec::new();
        for item in items {
            let wanted = match &item {
                SelectItem::Wildcard(options) if options.opt_exclude.is_none() => None,
                SelectItem::QualifiedWildcard(
                    SelectItemQualifiedWildcardKind::ObjectName(name),
                    _,
                ) => Some(folded(name.0.last()?.as_ident()?)),
                SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..) => return None,
                _ => {
                    expanded.push(item);
                    continue;
                }
            };
            let is_wanted =
                |source: &&Source<'_>| wanted.as_ref().is_none_or(|name| *name == source.label);
            for source in self.sources.iter().filter(is_wanted) {
                let items = source.columns.iter().map(|(column, _)| {
                    let parts = vec![ident_as_written(&source.label), ident_as_written(column)];
                    SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts))
                });
                expanded.extend(items);
            }
        }
        Some(expanded)
    }

    /// The present name of a column; `None` if the name means no single column.
    fn column(&self, label: Option<&str>, column: &str) -> Option<Expr> {
        let is_wanted = |source: &&Source<'_>| label.is_none_or(|label| label == source.label);
        let mut found = self.sources.iter().filter(is_wanted).filter_map(|source| {
            let (_, now) = source.columns.iter().find(|(name, _)| *name == column)?;
            Some(vec![source.shown_label.clone(), ident(now)])
        });
        let first = found.next()?;
        found.next().is_none().then_some(Expr::CompoundIdentifier(first))
    }
}

impl VisitorMut for Scope<'_> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let replacement = match &*expr {
            Expr::Identifier(name) => {
                let name = folded(name);
                // A relation's name alone stands for its rows.
                self.is_plain &= self.sources.iter().all(|source| source.label != name);
                self.column(None, &name)
            }
            Expr::CompoundIdentifier(parts) => {
                let mut parts = parts.iter().rev().map(folded);
                let (column, label) = (parts.next(), parts.next());
                let found = column.and_then(|column| self.column(label.as_deref(), &column));
                self.is_plain &= found.is_some();
                found
            }
            _ => None,
        };
        if let Some(replacement) = replacement {
            *expr = replacement;
        }
        ControlFlow::Continue(())
    }
}

/// The name that an item gives its column; `None` if it follows from an expression.
fn natural_name(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(folded(alias)),
        SelectItem::UnnamedExpr(Expr::Identifier(column)) => Some(folded(column)),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => parts.last().map(folded),
        _ => None,
    }
}

/// Gives an item its column's name where it has another.
fn name_item(item: &mut SelectItem, name: &str) {
    if natural_name(item).as_deref() == Some(name) {
        return;
    }
    let expr = match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => expr.clone(),
        _ => return,
    };
    *item = SelectItem::ExprWithAlias { expr, alias: ident(name) };
}

/// Replaces relations that were renamed, or whose columns were, by subqueries with the names of the
/// query.
struct Substitute<'a> {
    names: &'a Names<'a>,
    queries: &'a Queries,
}

impl VisitorMut for Substitute<'_> {
    type Break = ();

    // Afterwards, so that names in the subquery are not replaced.
    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let Some(replacement) = self.replacement(factor) {
            *factor = replacement;
        }
        ControlFlow::Continue(())
    }
}

impl Substitute<'_> {
    fn replacement(&self, factor: &TableFactor) -> Option<TableFactor> {
        let TableFactor::Table { name, alias, args: None, .. } = factor else { return None };
        let relation = self.names.relation(name)?;
        let is_named_query = name.0.len() == 1 && self.queries.named.contains(&relation.name);
        if is_named_query || self.names.is_current(relation) {
            return None;
        }
        let (namespace, now) = self.names.name(relation)?;
        let columns = self.names.columns(relation).into_iter().map(|(name, now)| {
            if name == now { quoted(name) } else { format!("{} AS {}", quoted(now), quoted(name)) }
        });
        let columns: Vec<String> = columns.collect();
        let (columns, from) = (columns.join(", "), object_name(namespace, now));
        let label = quoted(&relation.name);
        let text = format!("SELECT 1 FROM (SELECT {columns} FROM {from}) AS {label}");
        let Tree::Statement(statement) = parse_single(&text).ok()?.statement else { return None };
        let Statement::Query(query) = *statement else { return None };
        let SetExpr::Select(mut select) = *query.body else { return None };
        let mut factor = select.from.pop()?.relation;
        if let (TableFactor::Derived { alias: shown, .. }, Some(alias)) = (&mut factor, alias) {
            *shown = Some(alias.clone());
        }
        Some(factor)
    }
}

fn ident(name: &str) -> Ident {
    if quoted(name) == name { Ident::new(name) } else { Ident::with_quote('"', name) }
}

fn ident_as_written(name: &str) -> Ident {
    Ident::with_quote('"', name)
}

fn object_name(namespace: &str, name: &str) -> ObjectName {
    let parts = match namespace {
        DEFAULT_NAMESPACE => vec![ident(name)],
        _ => vec![ident(namespace), ident(name)],
    };
    ObjectName::from(parts)
}
