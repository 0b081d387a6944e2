//! A transaction: a snapshot with its own changes laid over it.
//!
//! It reads through the same table states as everybody else; its own rows lie in private chunks of
//! a private copy of the state. Nothing is shared until its write set goes to the engine.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::BooleanArray;
use arrow::compute::{concat_batches, filter_record_batch};
use arrow::record_batch::RecordBatch;
use thalweg_store::{ClosedChunk, TableState, arrow_schema};
use thalweg_types::{Error, Lsn, Result, RowId, TableId};

use crate::apply::added_values;
use crate::catalog::{Catalog, CatalogChange, table_is_gone};
use crate::published::Snapshot;
use crate::staging::Staged;
use crate::write_set::{NewRows, TableChanges, WriteSet};

/// Batches of at least this many rows become chunks of their own.
const BULK_ROWS: usize = 16_384;

#[derive(Clone)]
pub struct Transaction {
    snapshot: Snapshot,
    changes: Changes,
}

/// What a transaction had changed at some point.
pub struct Savepoint(Changes);

#[derive(Clone)]
struct Changes {
    catalog: Arc<Catalog>,
    catalog_changes: Vec<CatalogChange>,
    /// Tables that this transaction created or altered.
    own: BTreeSet<TableId>,
    tables: BTreeMap<TableId, Overlay>,
}

#[derive(Clone)]
struct Overlay {
    version: Option<Lsn>,
    state: Arc<TableState>,
    truncated: bool,
    /// Rows of the snapshot that are dead here.
    kill: Vec<RowId>,
    /// New rows by the number of the private chunk that holds them.
    chunks: Vec<(u32, NewChunk)>,
    /// New rows that nobody has looked at yet.
    unseen: Vec<RecordBatch>,
}

#[derive(Clone)]
enum NewChunk {
    Rows(RecordBatch),
    Chunk(Arc<ClosedChunk>),
    Staged(Arc<Staged>),
}

impl Transaction {
    #[must_use]
    pub fn new(snapshot: Snapshot) -> Transaction {
        let changes = Changes {
            catalog: Arc::clone(snapshot.catalog()),
            catalog_changes: Vec::new(),
            own: BTreeSet::new(),
            tables: BTreeMap::new(),
        };
        Transaction { snapshot, changes }
    }

    #[must_use]
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// The catalog with this transaction's changes.
    #[must_use]
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.changes.catalog
    }

    /// Whether there is anything to commit.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changes.catalog_changes.is_empty() && self.changes.tables.is_empty()
    }

    /// A table's rows as this transaction sees them.
    ///
    /// # Errors
    /// Where there is no such table.
    pub fn state(&mut self, id: TableId) -> Result<Arc<TableState>> {
        if let Some(overlay) = self.changes.tables.get_mut(&id) {
            overlay.look_at_unseen()?;
            return Ok(Arc::clone(&overlay.state));
        }
        self.snapshot.table(id).cloned().ok_or_else(table_is_gone)
    }

    /// Adds rows. Keys are checked when the transaction commits.
    ///
    /// # Errors
    /// Where there is no such table.
    pub fn append(&mut self, id: TableId, rows: RecordBatch) -> Result<()> {
        if rows.num_rows() > 0 {
            self.overlay(id)?.unseen.push(rows);
        }
        Ok(())
    }

    /// Adds a chunk that a loader built, already on its way to the log.
    ///
    /// # Errors
    /// Where there is no such table.
    pub fn append_staged(&mut self, id: TableId, staged: Arc<Staged>) -> Result<()> {
        let overlay = self.overlay(id)?;
        let state = Arc::make_mut(&mut overlay.state);
        let number = state.add_private_chunk(Arc::clone(staged.chunk()));
        overlay.chunks.push((number, NewChunk::Staged(staged)));
        Ok(())
    }

    /// Removes rows that this transaction sees.
    ///
    /// # Errors
    /// Where there is no such table.
    pub fn kill(&mut self, id: TableId, rows: &[RowId]) -> Result<()> {
        let overlay = self.overlay(id)?;
        overlay.look_at_unseen()?;
        Arc::make_mut(&mut overlay.state).kill_private(rows);
        overlay.kill.extend(rows.iter().filter(|row| !TableState::is_private(row.chunk())));
        Ok(())
    }

    /// Removes all rows of a table.
    ///
    /// # Errors
    /// Where there is no such table.
    pub fn truncate(&mut self, id: TableId) -> Result<()> {
        let overlay = self.overlay(id)?;
        overlay.state = Arc::new(overlay.state.truncated());
        overlay.truncated = true;
        overlay.kill.clear();
        overlay.chunks.clear();
        overlay.unseen.clear();
        Ok(())
    }

    /// Changes the catalog.
    ///
    /// # Errors
    /// Where the change does not fit, or alters a table that this transaction has written to.
    pub fn change_catalog(&mut self, mut change: CatalogChange) -> Result<()> {
        let before = Arc::clone(&self.changes.catalog);
        if let CatalogChange::AlterTable { schema, expected, .. } = &mut change {
            let own = self.changes.own.contains(&schema.id);
            *expected = if own { None } else { before.table(schema.id).map(|entry| entry.version) };
        }
        let after = Arc::new(before.after(&change, self.snapshot.lsn().next())?);
        match &change {
            CatalogChange::CreateTable { schema } => {
                let state = Arc::new(TableState::empty(Arc::new(schema.clone())));
                self.changes.own.insert(schema.id);
                self.changes.tables.insert(schema.id, Overlay::new(state, None));
            }
            CatalogChange::AlterTable { schema, added, .. } => {
                let values = added_values(&before, schema, added.as_deref())?;
                let overlay = self.overlay(schema.id)?;
                if overlay.has_rows() {
                    return Err(Error::unsupported(
                        "altering a table that the same transaction has written to",
                    )
                    .with_hint("Commit first, then alter the table."));
                }
                let state = overlay.state.altered(Arc::new(schema.clone()), &values)?;
                *overlay = Overlay::new(Arc::new(state), None);
                self.changes.own.insert(schema.id);
            }
            CatalogChange::DropTable { id } => {
                self.changes.tables.remove(id);
            }
            _ => {}
        }
        self.changes.catalog = after;
        self.changes.catalog_changes.push(change);
        Ok(())
    }

    #[must_use]
    pub fn savepoint(&self) -> Savepoint {
        Savepoint(self.changes.clone())
    }

    pub fn roll_back_to(&mut self, savepoint: &Savepoint) {
        self.changes = savepoint.0.clone();
    }

    /// All changes, encoded for the log.
    ///
    /// # Errors
    /// Only for mistakes: rows that do not fit their table.
    pub fn into_write_set(self) -> Result<WriteSet> {
        let mut tables = Vec::with_capacity(self.changes.tables.len());
        for (id, overlay) in self.changes.tables {
            if overlay.has_rows() {
                tables.push(overlay.into_changes(id)?);
            }
        }
        Ok(WriteSet { catalog: self.changes.catalog_changes, tables })
    }

    fn overlay(&mut self, id: TableId) -> Result<&mut Overlay> {
        if !self.changes.tables.contains_key(&id) {
            let version = self.changes.catalog.table(id).ok_or_else(table_is_gone)?.version;
            let state = self.snapshot.table(id).cloned().ok_or_else(table_is_gone)?;
            self.changes.tables.insert(id, Overlay::new(state, Some(version)));
        }
        Ok(self.changes.tables.get_mut(&id).expect("it was inserted just now"))
    }
}

impl Overlay {
    fn new(state: Arc<TableState>, version: Option<Lsn>) -> Overlay {
        Overlay {
            version,
            state,
            truncated: false,
            kill: Vec::new(),
            chunks: Vec::new(),
            unseen: Vec::new(),
        }
    }

    fn has_rows(&self) -> bool {
        self.truncated
            || !self.kill.is_empty()
            || !self.chunks.is_empty()
            || !self.unseen.is_empty()
    }

    /// Turns new rows into private chunks, so that they can be read.
    fn look_at_unseen(&mut self) -> Result<()> {
        let unseen = std::mem::take(&mut self.unseen);
        for rows in into_bulks(self.state.schema(), unseen)? {
            let chunk = Arc::new(ClosedChunk::build(self.state.schema(), &rows));
            let number = Arc::make_mut(&mut self.state).add_private_chunk(Arc::clone(&chunk));
            let new = if rows.num_rows() >= BULK_ROWS {
                NewChunk::Chunk(chunk)
            } else {
                NewChunk::Rows(rows)
            };
            self.chunks.push((number, new));
        }
        Ok(())
    }

    fn into_changes(self, table: TableId) -> Result<TableChanges> {
        let mut changes = TableChanges::new(table, self.version);
        changes.truncate = self.truncated;
        changes.kill = self.kill;
        for (number, new) in self.chunks {
            let view = self.state.chunk(number).expect("a private chunk stays in its state");
            match (view.live_mask(), new) {
                (None, NewChunk::Rows(rows)) => changes.append.push(NewRows::batch(rows)),
                (None, NewChunk::Chunk(chunk)) => changes.append.push(NewRows::chunk(chunk)),
                (None, NewChunk::Staged(staged)) => changes.append.push(NewRows::Staged(staged)),
                (Some(live), _) => {
                    let schema = arrow_schema(self.state.schema());
                    let all: Vec<usize> = (0..schema.fields().len()).collect();
                    let rows = RecordBatch::try_new(schema, view.columns(&all)).map_err(misfit)?;
                    let live = BooleanArray::new(live, None);
                    let rows = filter_record_batch(&rows, &live).map_err(misfit)?;
                    changes.append.extend(new_rows(&self.state, rows)?);
                }
            }
        }
        for rows in into_bulks(self.state.schema(), self.unseen)? {
            changes.append.extend(new_rows(&self.state, rows)?);
        }
        Ok(changes)
    }
}

fn new_rows(state: &TableState, rows: RecordBatch) -> Result<Option<NewRows>> {
    Ok(match rows.num_rows() {
        0 => None,
        count if count < BULK_ROWS => Some(NewRows::batch(rows)),
        _ => Some(NewRows::chunk(Arc::new(ClosedChunk::build(state.schema(), &rows)))),
    })
}

/// Joins small batches and splits large ones, so that each result fits one chunk.
fn into_bulks(
    schema: &thalweg_types::TableSchema,
    batches: Vec<RecordBatch>,
) -> Result<Vec<RecordBatch>> {
    let total: usize = batches.iter().map(RecordBatch::num_rows).sum();
    if total == 0 {
        return Ok(Vec::new());
    }
    let all = match <[RecordBatch; 1]>::try_from(batches) {
        Ok([one]) => one,
        Err(many) => concat_batches(&arrow_schema(schema), &many).map_err(misfit)?,
    };
    let step = RowId::CHUNK_ROWS;
    Ok((0..total).step_by(step).map(|from| all.slice(from, step.min(total - from))).collect())
}

fn misfit(error: arrow::error::ArrowError) -> Error {
    Error::internal("rows do not fit their table").with_source(error)
}
