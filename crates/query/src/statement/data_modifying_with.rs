//! `WITH moved AS (DELETE … RETURNING …) SELECT …`: changes of rows, as relations of a statement.
//!
//! As in PostgreSQL, the query sees the rows from before the statement: it is planned before
//! anything changes, over tables that the changes fill. The changes run one after the other. A
//! change that reads a table which another one changes would see the wrong rows, so it is refused.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::datasource::{MemTable, TableType};
use datafusion::error::Result as PlanResult;
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::sql::sqlparser::ast::{
    Cte, Insert, ObjectName, Query, SetExpr, Statement, TableFactor, TableObject, Visitor, With,
};
use futures::TryStreamExt;
use thalweg_dialect::walk;
use thalweg_types::{Error, Result};
use thalweg_values::errors::external;

use super::delete::target_table;
use super::describe::returned;
use super::{Execution, ast_tools, folded, query};
use crate::catalog::TEMPORARY;
use crate::outcome::{Outcome, Tag};
use crate::plan;

/// True if a query's `WITH` changes rows.
pub(super) fn changes(query: &Query) -> bool {
    query.with.iter().flat_map(|with| &with.cte_tables).any(|table| change_of(table).is_some())
}

fn change_of(table: &Cte) -> Option<&Statement> {
    change_in(&table.query)
}

fn change_in(query: &Query) -> Option<&Statement> {
    match query.body.as_ref() {
        SetExpr::Insert(change) | SetExpr::Update(change) | SetExpr::Delete(change) => Some(change),
        _ => None,
    }
}

/// One change, with the names that `WITH` defines before it.
struct Part {
    change: Query,
    /// Receives the rows that the change returns, if it returns any.
    returned: Option<Arc<OnceLock<Vec<RecordBatch>>>>,
}

/// A statement without the changes in its `WITH`.
pub(super) struct Parted {
    /// The query. It reads the rows that the changes return from temporary relations.
    pub(super) query: Query,
    parts: Vec<Part>,
}

/// Separates the changes from a statement, and registers relations for the rows that they return.
pub(super) async fn separate_changes(execution: &Execution<'_>, query: &Query) -> Result<Parted> {
    let mut query = query.clone();
    let mut parts = Vec::new();
    let Some(with) = &mut query.with else { return Ok(Parted { query, parts }) };
    let mut before: Vec<Cte> = Vec::new();
    for (place, table) in std::mem::take(&mut with.cte_tables).into_iter().enumerate() {
        let Some(change) = change_of(&table) else {
            before.push(table);
            continue;
        };
        let schema = Box::pin(returned(execution, change)).await?;
        let mut change = table.query.as_ref().clone();
        let mut names = before.clone();
        if let Some(own) = change.with.take() {
            names.extend(own.cte_tables);
        }
        if !names.is_empty() {
            change.with = Some(With { cte_tables: names, ..with.clone() });
        }
        let returned = schema.map(|schema| {
            let name = format!("returned_{place}");
            let rows: Arc<OnceLock<Vec<RecordBatch>>> = Arc::default();
            let temporary_tables = Returned { schema, rows: Arc::clone(&rows) };
            execution.names.register_temporary(&name, Arc::new(temporary_tables));
            (name, rows)
        });
        let (name, rows) = returned.unzip();
        if let Some(name) = name {
            let text = format!("SELECT * FROM {TEMPORARY}.{TEMPORARY}.{name}");
            before.push(Cte { query: Box::new(ast_tools::query(&text)?), ..table });
        }
        parts.push(Part { change, returned: rows });
    }
    with.cte_tables = before;
    if with.cte_tables.is_empty() {
        query.with = None;
    }
    Ok(Parted { query, parts })
}

/// Runs a statement whose `WITH` changes rows.
pub(super) async fn run(execution: &mut Execution<'_>, query: &Query) -> Result<Outcome> {
    let parted = separate_changes(execution, query).await?;
    let mut targets = HashSet::new();
    for change in parted.parts.iter().map(|part| &part.change).chain([&parted.query]) {
        let Some(statement) = change_in(change) else { continue };
        let looks_at = tables_looked_at(change, statement);
        if let Some(shared) = looks_at.iter().find(|name| targets.contains(*name)) {
            let what = format!("a statement that changes the table {shared} and looks at it, too,");
            return Err(Error::unsupported(what));
        }
        targets.extend(target_of(statement));
    }
    if change_in(&parted.query).is_some() {
        make(execution, parted.parts).await?;
        return Box::pin(query::change(execution, &parted.query)).await;
    }
    let planned = execution.translate(plan::query(&execution.state, parted.query).await)?;
    make(execution, parted.parts).await?;
    if execution.names.cluster().is_present() {
        // Workers have no snapshot for it: if they were asked after the commit, their answers would
        // include the changes.
        let (schema, rows) = plan::collect(&execution.state, planned, execution.sql).await?;
        return Ok(Outcome::batches(schema, rows, Tag::Select));
    }
    let (schema, rows) = plan::stream(&execution.state, planned, execution.sql).await?;
    Ok(Outcome::rows(schema, rows, Tag::Select))
}

async fn make(execution: &mut Execution<'_>, parts: Vec<Part>) -> Result<()> {
    // All parts share one transaction, so no part may send its rows before the commit.
    execution.goes_ahead = false;
    for part in parts {
        let outcome = Box::pin(query::change(execution, &part.change)).await?;
        if outcome.ahead.is_some() {
            return Err(Error::internal("rows of a part of a statement went ahead"));
        }
        let (Some(rows), Some(returned)) = (outcome.rows, part.returned) else { continue };
        let batches: Vec<RecordBatch> = rows.try_collect().await?;
        let filled = returned.set(batches);
        debug_assert!(filled.is_ok(), "each change is made once");
    }
    Ok(())
}

/// The names of the tables whose rows a change may read.
fn tables_looked_at(query: &Query, change: &Statement) -> HashSet<String> {
    struct Named(HashSet<String>);
    impl Visitor for Named {
        type Break = ();
        fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<()> {
            self.0.extend(key_of(name));
            ControlFlow::Continue(())
        }
    }
    let mut named = Named(HashSet::new());
    let _ = match change {
        // Adding rows to a table does not read it.
        Statement::Insert(Insert { on: None, source, returning, .. }) => {
            let visited = walk::visit(&query.with, &mut named);
            visited.is_break()
                || walk::visit(source, &mut named).is_break()
                || walk::visit(returning, &mut named).is_break()
        }
        _ => walk::visit(query, &mut named).is_break(),
    };
    named.0
}

fn target_of(change: &Statement) -> Option<String> {
    let relation = match change {
        Statement::Insert(Insert { table: TableObject::TableName(name), .. }) => {
            return key_of(name);
        }
        Statement::Update(update) => &update.table.relation,
        Statement::Delete(delete) => &target_table(delete).ok()?.relation,
        _ => return None,
    };
    match relation {
        TableFactor::Table { name, .. } => key_of(name),
        _ => None,
    }
}

/// The last part of a name: tables of the same name in two schemas are treated as one.
fn key_of(name: &ObjectName) -> Option<String> {
    name.0.last().and_then(|part| part.as_ident()).map(folded)
}

/// The rows that a change returns, once it has run.
#[derive(Debug)]
struct Returned {
    schema: SchemaRef,
    rows: Arc<OnceLock<Vec<RecordBatch>>>,
}

#[async_trait]
impl TableProvider for Returned {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> PlanResult<Arc<dyn ExecutionPlan>> {
        let rows = self.rows.get().cloned().unwrap_or_default();
        let rows = rows.into_iter().map(|batch| batch.with_schema(Arc::clone(&self.schema)));
        let rows = rows.collect::<Result<Vec<_>, _>>().map_err(|error| {
            external(Error::internal("changed rows cannot be shown").with_source(error))
        })?;
        let table = MemTable::try_new(Arc::clone(&self.schema), vec![rows])?;
        table.scan(state, projection, filters, limit).await
    }
}
