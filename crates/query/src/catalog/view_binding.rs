//! Binds a view's query to the relations and columns that its names stand for when the view is
//! created.
//!
//! The query is planned once over recorded relations. The plan tells which of their columns it
//! uses. Later the query is planned over the same relations, found by their ids, each with the
//! columns and names that it had: so `*` does not grow, and renames change nothing.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, TableReference};
use datafusion::datasource::{ViewTable, provider_as_source, source_as_provider};
use datafusion::error::Result;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{
    Distinct, Expr, JoinType, LogicalPlan, LogicalPlanBuilder, TableProviderFilterPushDown,
    TableType,
};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::sql::parser::Statement as Tree;
use datafusion::sql::sqlparser::ast::{Query, Visitor};
use parking_lot::Mutex;
use thalweg_dialect::parse::parse_single;
use thalweg_dialect::walk;
use thalweg_txn::{BoundColumn, BoundRelation, BoundSource, Catalog, Object, RoleId, ViewBinding};
use thalweg_types::{ColumnId, TableSchema};
use thalweg_values::errors::external;

use super::view::{Around, Names, plan_around};
use crate::statement::folded;

/// A query's binding, and the names of its columns.
pub(crate) struct Bound {
    pub(crate) binding: ViewBinding,
    pub(crate) names: Vec<String>,
}

/// Binds a query to the current meaning of its names.
///
/// # Errors
/// If the query cannot be planned with the rights of `owner`.
pub(crate) async fn bind(
    state: &SessionState,
    name: &str,
    query: &str,
    owner: RoleId,
    number: u64,
) -> Result<Bound> {
    let recorder = Arc::<Recorder>::default();
    let names = Names::Recorded(Arc::clone(&recorder));
    let around = Around { name: name.to_owned(), query: query.to_owned(), owner, names };
    let planned = plan_around(state, around).await?;
    let mut used = Used::default();
    collect(&planned.plan, &[], &mut used)?;
    for column in 0..planned.plan.schema().fields().len() {
        used.mark(&planned.plan, column);
    }
    let named = named_queries(query)?;
    let mut relations = Vec::new();
    for (place, mut relation) in recorder.relations.lock().drain(..).enumerate() {
        match used.columns.get(&place) {
            Some(columns) => {
                let columns = columns.iter().copied();
                columns.for_each(|column| relation.columns[column].used = true);
            }
            // A query of WITH has the name of an object, which is not read.
            None if named.contains(&relation.name) && !used.scanned.contains(&place) => continue,
            // The plan leaves out unused queries of WITH, and takes types from tables.
            None if !used.scanned.contains(&place) => {
                relation.columns.iter_mut().for_each(|column| column.used = true);
            }
            None => {}
        }
        relations.push(relation);
    }
    Ok(Bound { binding: ViewBinding { number, relations }, names: planned.names })
}

/// The names of the queries of `WITH`.
fn named_queries(query: &str) -> Result<BTreeSet<String>> {
    struct Names(BTreeSet<String>);
    impl Visitor for Names {
        type Break = ();
        fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
            let tables = query.with.iter().flat_map(|with| &with.cte_tables);
            self.0.extend(tables.map(|table| folded(&table.alias.name)));
            ControlFlow::Continue(())
        }
    }
    let mut names = Names(BTreeSet::new());
    if let Tree::Statement(statement) = parse_single(query).map_err(external)?.statement {
        let _ = walk::visit(&statement, &mut names);
    }
    Ok(names.0)
}

/// Records the relations that a query names.
#[derive(Default)]
pub(super) struct Recorder {
    relations: Mutex<Vec<BoundRelation>>,
}

impl Recorder {
    /// Replaces an object's provider by one that plans recognize. Other relations are returned
    /// unchanged.
    pub(super) fn record(
        &self,
        catalog: &Catalog,
        namespace: &str,
        name: &str,
        provider: Arc<dyn TableProvider>,
    ) -> Arc<dyn TableProvider> {
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        let (source, table) = match catalog.object(&namespace, &name) {
            None => return provider,
            Some(Object::Table(entry)) => {
                (BoundSource::Table(entry.schema.id), Some(&entry.schema))
            }
            Some(Object::Sequence(sequence)) => (BoundSource::Sequence(sequence.id), None),
            Some(Object::View(_) | Object::External(_)) => {
                (BoundSource::Named { namespace: namespace.clone(), name: name.clone() }, None)
            }
        };
        let schema = provider.schema();
        let mut relations = self.relations.lock();
        let known =
            relations.iter().position(|known| known.namespace == namespace && known.name == name);
        let place = known.unwrap_or(relations.len());
        if known.is_none() {
            let columns = schema.fields().iter().map(|field| BoundColumn {
                name: field.name().clone(),
                id: table.and_then(|table| Some(table.column_named(field.name())?.1.id)),
                used: false,
            });
            let columns = columns.collect();
            relations.push(BoundRelation { namespace, name, source, columns });
        }
        let key = table.and_then(|table| table.primary_key_names());
        Arc::new(Recorded { place, schema, key })
    }
}

/// A relation that is planned only to see which of its columns are used.
#[derive(Debug)]
struct Recorded {
    /// Place in the recorder.
    place: usize,
    schema: SchemaRef,
    key: Option<Vec<String>>,
}

#[async_trait]
impl TableProvider for Recorded {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = match projection {
            Some(columns) => Arc::new(self.schema.project(columns)?),
            None => Arc::clone(&self.schema),
        };
        Ok(Arc::new(EmptyExec::new(schema)))
    }
}

/// The columns of recorded relations that a plan uses.
#[derive(Default)]
struct Used {
    /// Columns by the relation's place in the recorder.
    columns: BTreeMap<usize, BTreeSet<usize>>,
    scanned: BTreeSet<usize>,
}

impl Used {
    /// Marks the column of a recorded relation that an output column of a plan shows. Projections
    /// and aggregates are no way down: all columns of their expressions are marked anyhow.
    fn mark(&mut self, plan: &LogicalPlan, column: usize) {
        let (mut plan, mut column) = (plan, column);
        loop {
            plan = match plan {
                LogicalPlan::TableScan(scan) => {
                    let Some(place) = recorded(&scan.source) else { return };
                    let projected = scan.projection.as_ref();
                    let column = projected.map_or(column, |columns| columns[column]);
                    self.columns.entry(place).or_default().insert(column);
                    return;
                }
                LogicalPlan::Join(join) => {
                    let left = join.left.schema().fields().len();
                    match join.join_type {
                        JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => {
                            &join.right
                        }
                        _ if column < left => &join.left,
                        _ => {
                            column -= left;
                            &join.right
                        }
                    }
                }
                LogicalPlan::Union(union) => {
                    for input in &union.inputs {
                        self.mark(input, column);
                    }
                    return;
                }
                LogicalPlan::RecursiveQuery(query) => {
                    self.mark(&query.static_term, column);
                    &query.recursive_term
                }
                LogicalPlan::SubqueryAlias(alias) => &alias.input,
                LogicalPlan::Subquery(subquery) => &subquery.subquery,
                LogicalPlan::Filter(filter) => &filter.input,
                LogicalPlan::Sort(sort) => &sort.input,
                LogicalPlan::Limit(limit) => &limit.input,
                LogicalPlan::Repartition(repartition) => &repartition.input,
                LogicalPlan::Distinct(Distinct::All(input)) => input,
                LogicalPlan::Window(window) => &window.input,
                _ => return,
            };
            if column >= plan.schema().fields().len() {
                return;
            }
        }
    }

    /// Marks a column that an expression over the rows of a plan's inputs names.
    fn mark_named(&mut self, plan: &LogicalPlan, column: &Column) -> bool {
        for input in plan.inputs() {
            if let Some(place) = input.schema().maybe_index_of_column(column) {
                self.mark(input, place);
                return true;
            }
        }
        false
    }
}

fn recorded(source: &Arc<dyn datafusion::logical_expr::TableSource>) -> Option<usize> {
    let provider = source_as_provider(source).ok()?;
    Some(provider.downcast_ref::<Recorded>()?.place)
}

/// Collects the columns that the expressions of a plan name. `around` are the plans that the plan
/// is a part of, the innermost last.
fn collect(plan: &LogicalPlan, around: &[&LogicalPlan], used: &mut Used) -> Result<()> {
    if let LogicalPlan::TableScan(scan) = plan {
        used.scanned.extend(recorded(&scan.source));
    }
    plan.apply_expressions(|expression| {
        expression.apply(|part| {
            match part {
                Expr::Column(column) => {
                    used.mark_named(plan, column);
                }
                Expr::OuterReferenceColumn(_, column) => {
                    let mut outer = around.iter().rev();
                    outer.any(|outer| used.mark_named(outer, column));
                }
                _ => {}
            }
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    let inside = [around, &[plan]].concat();
    plan.apply_subqueries(|subquery| {
        collect(subquery, &inside, used)?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    for input in plan.inputs() {
        collect(input, &inside, used)?;
    }
    Ok(())
}

/// A relation with the columns and names that it had when a view was bound to it. `table` is its
/// present schema if it is a table.
pub(super) fn with_columns(
    provider: Arc<dyn TableProvider>,
    relation: &BoundRelation,
    table: Option<&Arc<TableSchema>>,
) -> Result<Arc<dyn TableProvider>> {
    let schema = provider.schema();
    let place = |column: &BoundColumn| match (table, column.id) {
        (Some(table), Some(id)) => table.position(id),
        _ => schema.index_of(&column.name).ok(),
    };
    let mut shown: Vec<(usize, &str)> = relation
        .columns
        .iter()
        .filter_map(|column| Some((place(column)?, column.name.as_str())))
        .collect();
    let now = schema.fields().iter().map(|field| field.name().as_str()).enumerate();
    if shown.iter().copied().eq(now) {
        return Ok(provider);
    }
    // Rows without columns cannot be counted.
    if shown.is_empty() {
        shown.extend(schema.fields().first().map(|field| (0, field.name().as_str())));
    }
    let name = TableReference::bare(relation.name.as_str());
    let scan = LogicalPlanBuilder::scan(name, provider_as_source(provider), None)?;
    let columns = scan.schema().columns();
    let shown =
        shown.into_iter().map(|(place, name)| Expr::Column(columns[place].clone()).alias(name));
    let plan = scan.project(shown.collect::<Vec<_>>())?.build()?;
    let view = ViewTable::new(plan, None);
    match table.and_then(|table| bound_key(relation, table)) {
        Some(key) => Ok(Arc::new(KeyedTable { view, key })),
        None => Ok(Arc::new(view)),
    }
}

/// The columns of a table's primary key under the names that a view knows them by.
fn bound_key(relation: &BoundRelation, table: &TableSchema) -> Option<Vec<String>> {
    let name = |id: &ColumnId| {
        let mut columns = relation.columns.iter();
        columns.find(|column| column.id == Some(*id)).map(|column| column.name.clone())
    };
    table.primary_key.as_ref()?.columns.iter().map(name).collect()
}

/// The primary key of a table as a view was bound to it.
pub(super) fn primary_key(provider: &dyn TableProvider) -> Option<Vec<String>> {
    if let Some(recorded) = provider.downcast_ref::<Recorded>() {
        return recorded.key.clone();
    }
    provider.downcast_ref::<KeyedTable>().map(|table| table.key.clone())
}

/// A table with the columns and names that it had when a view was bound to it.
#[derive(Debug)]
struct KeyedTable {
    view: ViewTable,
    key: Vec<String>,
}

#[async_trait]
impl TableProvider for KeyedTable {
    fn schema(&self) -> SchemaRef {
        self.view.schema()
    }

    fn table_type(&self) -> TableType {
        self.view.table_type()
    }

    fn get_logical_plan(&self) -> Option<Cow<'_, LogicalPlan>> {
        self.view.get_logical_plan()
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.view.scan(session, projection, filters, limit).await
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        self.view.supports_filters_pushdown(filters)
    }
}
