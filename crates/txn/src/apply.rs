//! Applies a write set to the tables' writing halves, and encodes its log record.

use thalweg_store::{Effect, Placed, Table, arrow_schema, codec};
use thalweg_types::{Error, Lsn, Result, SqlState, TableId, TableSchema};

use crate::catalog::{
    Catalog, CatalogChange, Object, altered_meanwhile, changed_meanwhile, table_is_gone,
};
use crate::foreign_keys::Check;
use crate::parallel::Threads;
use crate::published::{GroupEffects, Step};
use crate::record::{GroupEncoder, Placement};
use crate::transaction_stage::{TransactionStage, Writer};
use crate::write_set::{NewRows, TableChanges, WriteSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Applies a write set as group `lsn`.
///
/// # Errors
/// If a change does not fit. `effects` then holds the changes so far, for the caller to undo.
pub(crate) fn apply(
    stage: &mut TransactionStage,
    write_set: WriteSet,
    lsn: Lsn,
    effects: &mut GroupEffects,
    encoder: &mut GroupEncoder,
) -> Result<()> {
    check_relied_on(stage, &write_set)?;
    for change in &write_set.catalog {
        apply_catalog(stage, change, lsn, effects)?;
        encoder.catalog(change);
    }
    let foreign_keys = Check::prepare(stage, &write_set)?;
    for changes in write_set.tables {
        apply_rows(stage, changes, effects, encoder)?;
    }
    match foreign_keys {
        None => Ok(()),
        Some(check) => check.verify(stage, lsn),
    }
}

/// Checks that the tables that the transaction relies on still have the rows that it saw.
fn check_relied_on(stage: &TransactionStage, write_set: &WriteSet) -> Result<()> {
    for (id, seen) in &write_set.relied_on {
        // A missing table is reported when its changes are applied.
        let Some(writer) = stage.tables.get(id) else { continue };
        if writer.changed > *seen {
            return Err(changed_meanwhile(&writer.table.schema().name));
        }
    }
    Ok(())
}

fn apply_catalog(
    stage: &mut TransactionStage,
    change: &CatalogChange,
    lsn: Lsn,
    effects: &mut GroupEffects,
) -> Result<()> {
    let before = Arc::clone(&stage.catalog);
    let after = Arc::new(before.after(change, lsn)?);
    match change {
        CatalogChange::CreateTable { schema } => {
            let (table, state) = Table::new(Arc::new(schema.clone()));
            stage.tables.insert(schema.id, Writer { table, changed: lsn });
            effects.steps.push(Step::Created(schema.id, state));
        }
        CatalogChange::AlterTable { schema, added, .. } => {
            let values = added_values(&before, schema, added.as_deref())?;
            let threads = stage.threads;
            let table = &mut stage.tables.get_mut(&schema.id).ok_or_else(table_is_gone)?.table;
            let mut effect = Effect::default();
            let altered = table.alter(Arc::new(schema.clone()), &values, &threads, &mut effect);
            effects.steps.push(Step::Changed(schema.id, effect));
            altered?;
        }
        CatalogChange::DropTable { id } => {
            let writer = stage.tables.remove(id).ok_or_else(table_is_gone)?;
            effects.steps.push(Step::Dropped(*id, Box::new(writer)));
        }
        CatalogChange::Define { object: Object::Sequence(sequence), .. } => {
            let undo = sequence.counter.define();
            effects.steps.push(Step::Counted(Arc::clone(&sequence.counter), undo));
        }
        CatalogChange::CreateNamespace { .. }
        | CatalogChange::DropNamespace { .. }
        | CatalogChange::Define { .. }
        | CatalogChange::Undefine { .. }
        | CatalogChange::Role(_)
        | CatalogChange::Access(_)
        | CatalogChange::Comment(_)
        | CatalogChange::SettingDefault(_) => {}
    }
    stage.catalog = Arc::clone(&after);
    let first = effects.catalog.take().map_or(before, |(first, _)| first);
    effects.catalog = Some((first, after));
    Ok(())
}

/// The values of existing rows in the columns that an altered schema adds.
pub(crate) fn added_values(
    before: &Catalog,
    after: &TableSchema,
    encoded: Option<&[u8]>,
) -> Result<Vec<(thalweg_types::ColumnId, arrow::array::ArrayRef)>> {
    let Some(encoded) = encoded else { return Ok(Vec::new()) };
    let old = &before.table(after.id).ok_or_else(table_is_gone)?.schema;
    let mut added = after.clone();
    added.columns.retain(|column| old.position(column.id).is_none());
    // If no row is alive, or each gets a value of its own, the common value is NULL even for
    // columns that are NOT NULL.
    added.columns.iter_mut().for_each(|column| column.nullable = true);
    let row = codec::decode_batch(&arrow_schema(&added), encoded)?;
    Ok(added.columns.iter().map(|column| column.id).zip(row.columns().iter().cloned()).collect())
}

fn apply_rows(
    stage: &mut TransactionStage,
    changes: TableChanges,
    effects: &mut GroupEffects,
    encoder: &mut GroupEncoder,
) -> Result<()> {
    let id = changes.table;
    effects.staged.extend(changes.append.iter().filter_map(NewRows::staged));
    let entry = stage.catalog.table(id).ok_or_else(table_is_gone)?;
    if changes.version.is_some_and(|version| version != entry.version) {
        return Err(altered_meanwhile(&entry.schema.name));
    }
    let schema = Arc::clone(&entry.schema);
    let table = &mut stage.tables.get_mut(&id).ok_or_else(table_is_gone)?.table;
    let mut effect = Effect::default();
    let applied = change_rows(table, &schema, changes, stage.threads, &mut effect, encoder);
    effects.steps.push(Step::Changed(id, effect));
    applied
}

fn change_rows(
    table: &mut Table,
    schema: &TableSchema,
    changes: TableChanges,
    threads: Threads,
    effect: &mut Effect,
    encoder: &mut GroupEncoder,
) -> Result<()> {
    let id = changes.table;
    if changes.hold.iter().any(|row| table.locate(*row).is_none()) {
        return Err(changed_meanwhile(&schema.name));
    }
    if changes.truncate {
        table.truncate(effect);
        encoder.truncate(id);
    }
    if !changes.kill.is_empty() {
        let killed = table.kill(&changes.kill, effect)?;
        encoder.kill(id, &killed);
    }
    if changes.append.is_empty() {
        return Ok(());
    }
    append(table, id, changes.append, threads, effect, encoder)?;
    for column in schema.columns.iter().filter(|column| column.has_own_counter()) {
        if let Some(next) = table.identities().next(column.id) {
            encoder.identity(id, column.id, next);
        }
    }
    Ok(())
}

/// Appends rows in their order. Consecutive chunks are added together.
fn append(
    table: &mut Table,
    id: TableId,
    rows: Vec<NewRows>,
    threads: Threads,
    effect: &mut Effect,
    encoder: &mut GroupEncoder,
) -> Result<()> {
    let mut rest = rows.into_iter().peekable();
    while let Some(rows) = rest.next() {
        if let NewRows::Batch { rows, encoded } = rows {
            let placed = table.append(&rows, effect)?;
            encoder.append(id, &placements(&placed), &encoded);
            continue;
        }
        let mut chunks = vec![rows];
        while let Some(chunk) = rest.next_if(|next| !matches!(next, NewRows::Batch { .. })) {
            chunks.push(chunk);
        }
        append_chunks(table, id, chunks, threads, effect, encoder)?;
    }
    Ok(())
}

fn append_chunks(
    table: &mut Table,
    id: TableId,
    bulk: Vec<NewRows>,
    threads: Threads,
    effect: &mut Effect,
    encoder: &mut GroupEncoder,
) -> Result<()> {
    let mut chunks = Vec::with_capacity(bulk.len());
    for rows in &bulk {
        chunks.push(match rows {
            NewRows::Batch { .. } => unreachable!("batches go to the open chunk"),
            NewRows::Chunk { chunk, .. } => Arc::clone(chunk),
            NewRows::Staged(staged) if staged.lost.load(Ordering::Acquire) => {
                return Err(staged_chunk_is_lost());
            }
            NewRows::Staged(staged) => Arc::clone(&staged.chunk),
        });
    }
    let numbers = table.append_chunks(chunks, &threads, effect)?;
    for (number, rows) in numbers.into_iter().zip(bulk) {
        match rows {
            NewRows::Batch { .. } => unreachable!("looked at above"),
            NewRows::Chunk { encoded, .. } => encoder.chunk(id, number, encoded),
            NewRows::Staged(staged) => encoder.staged_chunk(id, number, staged.id),
        }
    }
    Ok(())
}

fn placements(placed: &[Placed]) -> Vec<Placement> {
    let placement = |place: &Placed| Placement {
        chunk: place.chunk,
        row: place.row,
        length: place.length as u32,
    };
    placed.iter().map(placement).collect()
}

fn staged_chunk_is_lost() -> Error {
    Error::new(SqlState::DISK_FULL, "rows of this transaction could not be written to the log")
        .with_hint("Free space on the disk and run the transaction again.")
}
