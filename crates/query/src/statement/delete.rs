//! `DELETE` and `TRUNCATE`.

use datafusion::sql::sqlparser::ast::{
    CascadeOption, Delete, FromTable, TableWithJoins, Truncate, TruncateIdentityOption, With,
};
use thalweg_execution::scan::ROW_ID;
use thalweg_txn::{Catalog, Privilege};
use thalweg_types::{Error, Result, SqlState};

use super::found_rows::{Found, concat, give_way};
use super::returning::returning;
use super::update::{Finding, target_of, with_row_ids};
use super::{Execution, Target, ast_tools, identity};
use crate::outcome::{Outcome, Tag};
use crate::plan;
use crate::privileges;

/// The table that a statement deletes from.
pub(super) fn target_table(delete: &Delete) -> Result<&TableWithJoins> {
    let (FromTable::WithFromKeyword(tables) | FromTable::WithoutKeyword(tables)) = &delete.from;
    match tables.as_slice() {
        [table] => Ok(table),
        _ => Err(Error::unsupported("DELETE from several tables")),
    }
}

pub(super) async fn run(
    execution: &mut Execution<'_>,
    delete: &Delete,
    with: Option<&With>,
) -> Result<Outcome> {
    let Finding { target, alias, mut query } = found(execution, delete)?;
    query.with = with.cloned();
    let planned = execution.translate(plan::query(&execution.state, query).await)?;
    let (_, batches) = plan::collect(&execution.state, planned, execution.sql).await?;
    let (mut found, mut deleted) = (Found::default(), Vec::new());
    for (place, batch) in batches.into_iter().enumerate() {
        give_way(place).await;
        let batch = found.take_in(&batch)?;
        if delete.returning.is_some() {
            deleted.push(batch);
        }
    }
    found.kill(execution, &target).await?;
    let tag = Tag::Delete(found.ids.len() as u64);
    let Some(items) = &delete.returning else { return Ok(Outcome::done(tag)) };
    let values: Vec<usize> = (1..=target.schema().columns.len()).collect();
    let mut rows = Vec::with_capacity(deleted.len());
    for batch in deleted {
        rows.push(
            batch.project(&values).map_err(|error| {
                Error::internal("deleted rows cannot be shown").with_source(error)
            })?,
        );
    }
    let rows = concat(target.schema(), &rows)?;
    returning(execution, &target, Some(&alias), rows, items, tag).await
}

/// The rows that a `DELETE` deletes: their row ids, and their columns if they are returned.
pub(super) fn found(execution: &Execution<'_>, delete: &Delete) -> Result<Finding> {
    if delete.limit.is_some() || !delete.order_by.is_empty() {
        return Err(Error::unsupported("DELETE with ORDER BY or LIMIT"));
    }
    let table = target_table(delete)?;
    let catalog = execution.names.catalog();
    let (target, alias) = target_of(&catalog, table)?;
    target.require(execution, privileges::to_delete(delete, &alias))?;
    let mut from = vec![with_row_ids(&target, &alias)];
    from.extend(delete.using.iter().flatten().cloned());
    let mut projection = vec![ast_tools::named(ast_tools::column(&alias, ROW_ID), ROW_ID)];
    if delete.returning.is_some() {
        let columns = target.schema().columns.iter();
        projection.extend(
            columns.map(|column| {
                ast_tools::named(ast_tools::column(&alias, &column.name), &column.name)
            }),
        );
    }
    let query = ast_tools::select(projection, from, delete.selection.clone());
    Ok(Finding { target, alias, query })
}

pub(super) fn truncate(execution: &mut Execution<'_>, truncate: &Truncate) -> Result<Outcome> {
    let restarts = truncate.identity == Some(TruncateIdentityOption::Restart);
    let catalog = execution.names.catalog();
    let mut targets = Vec::with_capacity(truncate.table_names.len());
    for table in &truncate.table_names {
        let target = match Target::find(&catalog, &table.name) {
            Err(_) if truncate.if_exists => continue,
            found => found?,
        };
        targets.push(target);
    }
    let cascade = truncate.cascade == Some(CascadeOption::Cascade);
    let notices = add_referring(&catalog, &mut targets, cascade)?;
    for target in targets {
        target.require(execution, Privilege::Truncate)?;
        execution.names.with(|t| {
            // In a block, the user does not mean rows that others add between this statement and
            // the commit. A single statement takes effect at its commit.
            if execution.in_block {
                t.rely_on(target.id());
            }
            t.truncate(target.id())
        })?;
        if restarts {
            identity::restart(execution, target.schema())?;
        }
    }
    let outcome = Outcome::command("TRUNCATE TABLE");
    Ok(notices.into_iter().fold(outcome, Outcome::with_notice))
}

/// With `cascade`, adds the tables whose foreign keys refer to those that are truncated, and
/// returns notices.
///
/// # Errors
/// Without `cascade`, if another table has a foreign key to one of the tables.
fn add_referring(
    catalog: &Catalog,
    targets: &mut Vec<Target>,
    cascade: bool,
) -> Result<Vec<String>> {
    let (mut notices, mut at) = (Vec::new(), 0);
    while let Some(parent) = targets.get(at) {
        at += 1;
        let (id, parent) = (parent.id(), parent.schema().name.clone());
        for (child, _) in catalog.references_to(id) {
            if targets.iter().any(|target| target.id() == child.schema.id) {
                continue;
            }
            let name = &child.schema.name;
            if !cascade {
                let message = "cannot truncate a table referenced in a foreign key constraint";
                let hint = format!(
                    "Truncate table \"{name}\" at the same time, or use TRUNCATE ... CASCADE."
                );
                return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message)
                    .with_detail(format!("Table \"{name}\" references \"{parent}\"."))
                    .with_hint(hint));
            }
            notices.push(format!("truncate cascades to table \"{name}\""));
            targets.push(Target { entry: child.clone() });
        }
    }
    Ok(notices)
}
