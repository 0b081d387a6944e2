//! `SELECT`, `VALUES`, `EXPLAIN`: statements that return rows and change nothing; and `WITH` before
//! a statement that changes rows.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch, StringArray};
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement as Tree;
use datafusion::sql::sqlparser::ast::{Insert, Query, SetExpr, Statement, With};
use futures::StreamExt;
use thalweg_dialect::parse::Parsed;
use thalweg_types::{Error, Result};
use thalweg_values::column_marks::without_marks;

use super::{Execution, create, data_modifying_with, delete, insert, locking, update};
use crate::locks;
use crate::outcome::{BatchStream, Outcome, Tag};
use crate::plan;

pub(super) async fn run(execution: &Execution<'_>, parsed: &Parsed) -> Result<Outcome> {
    let statement = parsed.statement.clone();
    let planned = execution.translate(plan::statement(&execution.state, statement).await)?;
    let explains = matches!(planned.plan, LogicalPlan::Explain(_) | LogicalPlan::Analyze(_));
    let physical = execution.translate(plan::physical(&execution.state, &planned.plan).await)?;
    let schema = plan::renamed(&physical.schema(), &planned);
    let scans = &execution.database.shared.cluster().scans;
    if let Some(rows) = scans.encoded(&physical, &schema, &execution.form)? {
        return Ok(Outcome::encoded(schema, rows, Tag::Select));
    }
    let rows = plan::start(&execution.state, physical, &schema, execution.sql);
    let rows = match explains {
        true => Box::pin(rows.map(|batch| Ok(with_plain_names(&batch?)))) as BatchStream,
        false => rows,
    };
    Ok(Outcome::rows(schema, rows, Tag::Select))
}

/// The lines of a plan with the column names that users know.
fn with_plain_names(batch: &RecordBatch) -> RecordBatch {
    let columns = batch.columns().iter().map(|column| match column.as_string_opt::<i32>() {
        Some(lines) => {
            let lines = lines.iter().map(|line| line.map(without_marks));
            Arc::new(lines.collect::<StringArray>()) as ArrayRef
        }
        None => Arc::clone(column),
    });
    let plain = RecordBatch::try_new(batch.schema(), columns.collect());
    plain.expect("the columns are of the types and the length that they were of")
}

/// True if a statement is a query that changes and locks nothing.
pub(crate) fn only_reads(tree: &Tree) -> bool {
    let Tree::Statement(statement) = tree else { return false };
    let Statement::Query(query) = statement.as_ref() else { return false };
    let reads = match query.body.as_ref() {
        SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) => false,
        SetExpr::Select(select) => select.into.is_none() && !locks::are_calls(&select.projection),
        _ => true,
    };
    reads && query.locks.is_empty() && !data_modifying_with::changes(query)
}

/// A query, or `WITH … INSERT`, `UPDATE` or `DELETE`, which the parser represents as queries.
pub(super) async fn run_or_change(
    execution: &mut Execution<'_>,
    query: &Query,
    parsed: &Parsed,
) -> Result<Outcome> {
    if data_modifying_with::changes(query) {
        return data_modifying_with::run(execution, query).await;
    }
    match query.body.as_ref() {
        SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) => {
            change(execution, query).await
        }
        SetExpr::Select(select) if select.into.is_some() => {
            let create = create::of_select_into(query)?;
            create::table(execution, &create).await
        }
        _ if !query.locks.is_empty() => locking::run(execution, query).await,
        _ => run(execution, parsed).await,
    }
}

/// `INSERT`, `UPDATE` or `DELETE`, with the names of the `WITH` before it.
pub(super) async fn change(execution: &mut Execution<'_>, query: &Query) -> Result<Outcome> {
    match (query.body.as_ref(), query.with.as_ref()) {
        (SetExpr::Insert(Statement::Insert(change)), with) => {
            insert::run(execution, &insert_with(change, with)).await
        }
        (SetExpr::Update(Statement::Update(change)), with) => {
            update::run(execution, change, with).await
        }
        (SetExpr::Delete(Statement::Delete(change)), with) => {
            delete::run(execution, change, with).await
        }
        _ => Err(Error::internal("a query was taken for a change of rows")),
    }
}

/// Moves the names of a `WITH` into the query that provides the rows, before that query's own
/// names.
fn insert_with(insert: &Insert, with: Option<&With>) -> Insert {
    let mut insert = insert.clone();
    if let (Some(source), Some(with)) = (&mut insert.source, with) {
        let mut with = with.clone();
        if let Some(own) = source.with.take() {
            with.recursive |= own.recursive;
            with.cte_tables.extend(own.cte_tables);
        }
        source.with = Some(with);
    }
    insert
}
