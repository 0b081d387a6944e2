//! The end of a statement: actions and checks of foreign keys.
//!
//! The transaction records the rows of referenced tables that a statement deletes or replaces
//! ([`Removed`]). The actions of the foreign keys change the rows that refer to them, which may
//! remove further keys. Then constraints without an action are checked. The transaction stage
//! checks each commit again, with the changes of other transactions.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, UInt32Array, UInt64Array, new_null_array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, Schema};
use thalweg_execution::scan::ROW_ID;
use thalweg_store::arrow_schema;
use thalweg_txn::{ConstraintTime, Removed, Savepoint, TableEntry, find_children};
use thalweg_types::{ColumnId, Error, ForeignKey, ReferentialAction, Result, RowId};
use thalweg_values::types::column_field;

use super::found_rows::replace;
use super::{Execution, Shaper, Target};

/// The transaction before a statement.
pub(super) struct Before {
    savepoint: Option<Savepoint>,
    removed: usize,
}

/// Remembers the transaction before a statement; `None` if there are no foreign keys.
///
/// # Errors
/// Only internal errors.
pub(super) fn before(execution: &Execution<'_>) -> Result<Option<Before>> {
    if !execution.names.catalog().has_foreign_keys() {
        return Ok(None);
    }
    execution.names.with(|t| {
        // The commit checks new rows of a statement that is a transaction of its own.
        let savepoint = execution.in_block.then(|| t.savepoint());
        Ok(Some(Before { savepoint, removed: t.removed_count() }))
    })
}

/// Carries out the actions of foreign keys for the changes of a statement, and checks them.
///
/// # Errors
/// A row without its referenced row, or a key that rows still refer to (`23503`); errors of the
/// changes that the actions make.
pub(super) async fn finish(execution: &Execution<'_>, before: &Before) -> Result<()> {
    let (mut next, mut has_replaced) = (before.removed, false);
    loop {
        let removed = execution.names.with(|t| Ok(t.removed_from(next)))?;
        if removed.is_empty() {
            break;
        }
        next += removed.len();
        for removed in &removed {
            // A cancel drops the statement here.
            tokio::task::yield_now().await;
            has_replaced |= act(execution, removed).await?;
        }
    }
    // The actions have checked the constraints that are not deferred. A row that an action changed
    // after the check may refer to a removed key.
    let time = match (execution.in_block, has_replaced) {
        (true, true) => Some(ConstraintTime::Statement),
        (true, false) => None,
        (false, true) => Some(ConstraintTime::Whole),
        (false, false) => Some(ConstraintTime::Deferred),
    };
    let check = || execution.check_cancelled();
    execution.names.with(|t| {
        if let Some(time) = time {
            t.check_removed_keys(before.removed, time, &check)?;
        }
        match &before.savepoint {
            Some(savepoint) => t.check_new_references(Some(savepoint)),
            None => Ok(()),
        }
    })
}

/// Carries out the actions for rows that were removed from one table. Returns whether rows were
/// replaced.
async fn act(execution: &Execution<'_>, removed: &Removed) -> Result<bool> {
    let catalog = execution.names.catalog();
    let check = || execution.check_cancelled();
    let mut has_replaced = false;
    for (child, key) in catalog.references_to(removed.table) {
        let action = removed.action(key);
        match action {
            // Constraints take effect in the order of their creation, as in PostgreSQL: a row that
            // a later one would delete still counts.
            ReferentialAction::NoAction => {
                let child = &child.schema;
                execution.names.with(|t| match t.is_deferred(child.id, key) {
                    true => Ok(()),
                    false => t.check_unreferenced(removed, (child, key), true, &check),
                })?;
                continue;
            }
            ReferentialAction::Restrict => {
                let checked = (&child.schema, key);
                execution.names.with(|t| t.check_unreferenced(removed, checked, false, &check))?;
                continue;
            }
            ReferentialAction::Cascade
            | ReferentialAction::SetNull
            | ReferentialAction::SetDefault => {}
        }
        let Some(keys) = removed.keys(key)? else { continue };
        let id = child.schema.id;
        let state = execution.names.with(|t| t.state(id))?;
        let found = find_children(&state, &key.columns, &keys.old, &check)?;
        if found.is_empty() {
            continue;
        }
        let ids: Vec<RowId> = found.iter().map(|(row, _)| *row).collect();
        let values = match (action, keys.new) {
            (ReferentialAction::Cascade, None) => {
                execution.names.with(|t| t.kill(id, &ids))?;
                continue;
            }
            (ReferentialAction::Cascade, Some(new)) => {
                let picked = UInt32Array::from_iter_values(found.iter().map(|(_, at)| *at as u32));
                let pick = |column: &ArrayRef| take(column, &picked, None).map_err(misfit);
                Values::Given(new.iter().map(pick).collect::<Result<_>>()?)
            }
            (ReferentialAction::SetDefault, _) => Values::Default,
            _ => Values::Null,
        };
        let rows = state.rows_at(&ids)?;
        change(execution, (child, key), &ids, rows, values).await?;
        has_replaced = true;
    }
    Ok(has_replaced)
}

/// New values of a foreign key's columns.
enum Values {
    Given(Vec<ArrayRef>),
    Null,
    Default,
}

/// Replaces rows by rows with other values in the columns of a foreign key.
async fn change(
    execution: &Execution<'_>,
    (child, key): (&TableEntry, &ForeignKey),
    ids: &[RowId],
    rows: RecordBatch,
    values: Values,
) -> Result<()> {
    let target = Target { entry: child.clone() };
    let schema = target.schema();
    let row = arrow_schema(schema);
    let positions: Vec<usize> =
        key.columns.iter().filter_map(|column| schema.position(*column)).collect();
    let rows = match values {
        Values::Default => {
            let given: Vec<usize> =
                (0..schema.columns.len()).filter(|at| !positions.contains(at)).collect();
            let counters =
                execution.names.with(|t| Ok(t.state(target.id())?.identities().clone()))?;
            let shaper = Shaper::new(&execution.state, schema, &given, counters)?;
            shaper.shape(&rows.project(&given).map_err(misfit)?)?
        }
        Values::Null | Values::Given(_) => {
            let mut columns = rows.columns().to_vec();
            let fields =
                row.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
            let mut fields: Vec<Field> = fields.collect();
            let parents = parent_fields(execution, key)?;
            for (place, position) in positions.iter().enumerate() {
                match &values {
                    // The values are assigned like those of an UPDATE, from the parent's type.
                    Values::Given(given) => {
                        columns[*position] = Arc::clone(&given[place]);
                        fields[*position] = parents[place].clone();
                    }
                    _ => {
                        columns[*position] =
                            new_null_array(fields[*position].data_type(), ids.len())
                    }
                }
            }
            RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).map_err(misfit)?
        }
    };
    let mut fields = vec![Arc::new(Field::new(ROW_ID, DataType::UInt64, false))];
    fields.extend(rows.schema().fields().iter().cloned());
    let mut columns: Vec<ArrayRef> =
        vec![Arc::new(UInt64Array::from_iter_values(ids.iter().map(|id| id.0)))];
    columns.extend(rows.columns().iter().cloned());
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).map_err(misfit)?;
    replace(execution, &target, vec![batch]).await.map(drop)
}

/// The columns of the referenced table, in the order of a foreign key's columns.
fn parent_fields(execution: &Execution<'_>, key: &ForeignKey) -> Result<Vec<Field>> {
    let catalog = execution.names.catalog();
    let missing = || Error::internal("a referenced table lacks a column");
    let parent = &catalog.table(key.parent).ok_or_else(missing)?.schema;
    let field = |id: &ColumnId| {
        let column = &parent.columns[parent.position(*id).ok_or_else(missing)?];
        Ok(column_field(column).with_nullable(true))
    };
    key.parent_columns.iter().map(field).collect()
}

fn misfit(error: arrow::error::ArrowError) -> Error {
    Error::internal("rows do not fit their table").with_source(error)
}
