//! A transaction's changes to one table.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray};
use arrow::compute::{concat_batches, filter_record_batch};
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use thalweg_store::{ClosedChunk, TableState, arrow_schema};
use thalweg_types::{ColumnId, Error, Lsn, Result, RowId, SqlState, TableId, TableSchema};

use super::RowLock;
use super::segments::Segments;
use crate::catalog::fingerprint;
use crate::staging::Staged;
use crate::write_set::{NewRows, RowChanges, TableChanges};

/// Batches of at least this many rows become chunks of their own.
const BULK_ROWS: usize = 16_384;

#[derive(Clone)]
pub(super) struct Overlay {
    /// The table's version that the changes are made for; `None` if this transaction created or
    /// altered it.
    pub(super) version: Option<Lsn>,
    pub state: Arc<TableState>,
    /// The snapshot's state, without the transaction's changes.
    pub(super) base: Arc<TableState>,
    truncated: bool,
    /// Rows of the snapshot that the transaction deleted.
    pub(super) kill: Segments<RowId>,
    /// Rows of the snapshot that must still exist at commit.
    pub(super) locked: Segments<(RowId, RowLock)>,
    /// New rows by the number of the private chunk that holds them.
    pub(super) chunks: Segments<(u32, NewChunk)>,
    /// New rows that were not read yet.
    unseen: Segments<RecordBatch>,
}

#[derive(Clone)]
pub(super) enum NewChunk {
    Rows(RecordBatch),
    Chunk(Arc<ClosedChunk>),
    Staged(Arc<Staged>),
}

impl Overlay {
    /// No changes yet to `state`, at the table's `version`.
    pub fn new(state: Arc<TableState>, version: Option<Lsn>) -> Overlay {
        Overlay {
            version,
            base: Arc::clone(&state),
            state,
            truncated: false,
            kill: Segments::default(),
            locked: Segments::default(),
            chunks: Segments::default(),
            unseen: Segments::default(),
        }
    }

    /// A copy whose cost does not depend on the number of changes.
    pub fn share(&mut self) -> Overlay {
        Overlay {
            version: self.version,
            state: Arc::clone(&self.state),
            base: Arc::clone(&self.base),
            truncated: self.truncated,
            kill: self.kill.share(),
            locked: self.locked.share(),
            chunks: self.chunks.share(),
            unseen: self.unseen.share(),
        }
    }

    /// True if there is anything to commit, locks included.
    pub fn has_changes(&self) -> bool {
        self.truncated
            || !self.kill.is_empty()
            || !self.locked.is_empty()
            || !self.chunks.is_empty()
            || !self.unseen.is_empty()
    }

    /// True if some rows were staged in the log.
    pub fn has_staged(&self) -> bool {
        self.chunks.iter().any(|(_, new)| matches!(new, NewChunk::Staged(_)))
    }

    /// Continues under another schema, to which this transaction alters the table. Its earlier
    /// changes must fit that schema.
    pub fn alter(&mut self, schema: &TableSchema, added: &[(ColumnId, ArrayRef)]) -> Result<()> {
        self.state = Arc::new(self.state.altered(Arc::new(schema.clone()), added)?);
        self.version = None;
        Ok(())
    }

    /// True if there are changes that take long to encode.
    pub fn has_bulks(&self) -> bool {
        let rows: usize = self.unseen.iter().map(RecordBatch::num_rows).sum();
        let is_bulk = |new: &NewChunk| matches!(new, NewChunk::Chunk(_));
        rows >= BULK_ROWS
            || self.kill.len() >= BULK_ROWS
            || self.chunks.iter().any(|(_, new)| is_bulk(new))
    }

    /// Adds rows, which become readable chunks when the table is read next.
    pub fn append(&mut self, rows: RecordBatch) {
        self.unseen.push(rows);
    }

    /// Adds a staged chunk as a private chunk.
    pub fn append_staged(&mut self, staged: Arc<Staged>) {
        let state = Arc::make_mut(&mut self.state);
        let number = state.add_private_chunk(Arc::clone(staged.chunk()));
        self.chunks.push((number, NewChunk::Staged(staged)));
    }

    /// Deletes rows from the private state at once, and from the table at commit.
    pub fn kill(&mut self, rows: &[RowId]) -> Result<()> {
        self.look_at_unseen()?;
        let here: Vec<RowId> =
            rows.iter().copied().filter(|row| row.elsewhere().is_none()).collect();
        Arc::make_mut(&mut self.state).kill_private(&here);
        self.kill.extend(of_the_snapshot(rows));
        Ok(())
    }

    /// True if all rows of the snapshot were deleted by `TRUNCATE`.
    pub fn is_truncated(&self) -> bool {
        self.truncated
    }

    /// Rows of other nodes that the transaction deleted.
    pub fn killed_elsewhere(&self) -> Arc<[RowId]> {
        self.kill.iter().copied().filter(|row| row.elsewhere().is_some()).collect()
    }

    /// Locks rows of the snapshot. Private rows need no lock.
    pub fn lock(&mut self, rows: &[RowId], lock: RowLock) {
        self.locked.extend(of_the_snapshot(rows).map(|row| (row, lock)));
    }

    /// Deletes all rows and drops all other changes.
    pub fn truncate(&mut self) {
        let state = Arc::new(self.state.truncated());
        let base = Arc::clone(&self.base);
        *self = Overlay { truncated: true, base, ..Overlay::new(state, self.version) };
    }

    /// The live new rows behind the first `from` private chunks.
    ///
    /// # Errors
    /// Only for internal errors: rows that do not fit their table.
    pub fn new_rows_from(&mut self, from: usize) -> Result<Vec<RecordBatch>> {
        self.look_at_unseen()?;
        let schema = arrow_schema(self.state.schema());
        let all: Vec<usize> = (0..schema.fields().len()).collect();
        let mut new = Vec::new();
        for (number, _) in self.chunks.iter_from(from) {
            let view = self.state.chunk(*number).expect("a private chunk stays in its state");
            let columns = view.columns(&all);
            let rows = RecordBatch::try_new(Arc::clone(&schema), columns).map_err(misfit)?;
            new.push(match view.live_mask() {
                None => rows,
                Some(live) => {
                    filter_record_batch(&rows, &BooleanArray::new(live, None)).map_err(misfit)?
                }
            });
        }
        Ok(new)
    }

    /// Number of private chunks, without those of rows that were not read yet.
    pub fn chunk_count(&self) -> usize {
        self.chunks.len()
    }

    /// Turns new rows into private chunks, so that they can be read.
    pub fn look_at_unseen(&mut self) -> Result<()> {
        for rows in Bulks::of(self.state.arrow_schema(), self.unseen.take()) {
            let rows = rows?;
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

    /// The changes, encoded for the log chunk by chunk, while `is_wanted` returns true.
    pub fn into_changes(
        mut self,
        table: TableId,
        is_wanted: &dyn Fn() -> bool,
    ) -> Result<TableChanges> {
        let mut changes = TableChanges::new(table, self.version);
        changes.truncate = self.truncated;
        changes.kill = self.kill.take();
        // Sorted rows are faster to apply and to encode.
        changes.kill.sort_unstable();
        self.write_locked_anew(&mut changes)?;
        for (number, new) in self.chunks.take() {
            go_on(is_wanted)?;
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
        for rows in Bulks::of(self.state.arrow_schema(), self.unseen.take()) {
            go_on(is_wanted)?;
            changes.append.extend(new_rows(&self.state, rows?)?);
        }
        Ok(changes)
    }

    /// The changes without encoding, for a table whose rows lie on other nodes.
    pub fn into_rows(mut self, table: TableId) -> Result<RowChanges> {
        let mut append = Vec::new();
        let schema = arrow_schema(self.state.schema());
        let all: Vec<usize> = (0..schema.fields().len()).collect();
        for (number, _) in self.chunks.take() {
            let view = self.state.chunk(number).expect("a private chunk stays in its state");
            let rows = RecordBatch::try_new(Arc::clone(&schema), view.columns(&all));
            let rows = rows.map_err(misfit)?;
            append.push(match view.live_mask() {
                None => rows,
                Some(live) => {
                    filter_record_batch(&rows, &BooleanArray::new(live, None)).map_err(misfit)?
                }
            });
        }
        append.extend(self.unseen.take());
        append.retain(|rows| rows.num_rows() > 0);
        let fingerprint = fingerprint(self.state.schema());
        let (truncate, kill) = (self.truncated, self.kill.take());
        Ok(RowChanges { table, fingerprint, truncate, kill, append })
    }

    /// Replaces each row with an exclusive lock by one with the same values. Such a write conflicts
    /// with any other change of the row, and with any other lock on it.
    fn write_locked_anew(&mut self, changes: &mut TableChanges) -> Result<()> {
        let locked = self.locked.take();
        if locked.is_empty() {
            return Ok(());
        }
        let mut gone: HashSet<RowId> = changes.kill.iter().copied().collect();
        let alone = locked.iter().filter(|(_, lock)| *lock == RowLock::Update);
        let alone: Vec<RowId> =
            alone.map(|(row, _)| *row).filter(|row| gone.insert(*row)).collect();
        for some in alone.chunks(RowId::CHUNK_ROWS) {
            changes.append.extend(new_rows(&self.state, self.state.rows_at(some)?)?);
        }
        changes.kill.extend(alone);
        // Deleted rows are checked when the deletion is applied.
        let shared = locked.into_iter().map(|(row, _)| row).filter(|row| gone.insert(*row));
        changes.hold = shared.collect();
        Ok(())
    }
}

/// Leaves out the transaction's own rows, with which nothing can conflict.
fn of_the_snapshot(rows: &[RowId]) -> impl Iterator<Item = RowId> {
    rows.iter().copied().filter(|row| !TableState::is_private(row.chunk()))
}

fn new_rows(state: &TableState, rows: RecordBatch) -> Result<Option<NewRows>> {
    Ok(match rows.num_rows() {
        0 => None,
        count if count < BULK_ROWS => Some(NewRows::batch(rows)),
        _ => Some(NewRows::chunk(Arc::new(ClosedChunk::build(state.schema(), &rows)))),
    })
}

fn go_on(is_wanted: &dyn Fn() -> bool) -> Result<()> {
    match is_wanted() {
        true => Ok(()),
        false => Err(Error::new(SqlState::QUERY_CANCELED, "the changes are not wanted any more")),
    }
}

/// Joins small batches and splits large ones, so that each result fits one chunk.
struct Bulks {
    schema: SchemaRef,
    batches: std::vec::IntoIter<RecordBatch>,
    /// Remainder of the last batch.
    rest: Option<RecordBatch>,
}

impl Bulks {
    fn of(schema: &SchemaRef, batches: Vec<RecordBatch>) -> Bulks {
        Bulks { schema: Arc::clone(schema), batches: batches.into_iter(), rest: None }
    }
}

impl Iterator for Bulks {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        let (mut parts, mut missing) = (Vec::new(), RowId::CHUNK_ROWS);
        while missing > 0
            && let Some(batch) = self.rest.take().or_else(|| self.batches.next())
        {
            let (rows, taken) = (batch.num_rows(), missing.min(batch.num_rows()));
            missing -= taken;
            if taken < rows {
                self.rest = Some(batch.slice(taken, rows - taken));
                parts.push(batch.slice(0, taken));
            } else if rows > 0 {
                parts.push(batch);
            }
        }
        match parts.len() {
            0 | 1 => parts.pop().map(Ok),
            _ => Some(concat_batches(&self.schema, &parts).map_err(misfit)),
        }
    }
}

fn misfit(error: arrow::error::ArrowError) -> Error {
    Error::internal("rows do not fit their table").with_source(error)
}

#[cfg(test)]
mod tests {
    use arrow::array::{AsArray, UInt64Array};
    use arrow::datatypes::UInt64Type;

    use super::*;

    fn rows(first: usize, count: usize) -> RecordBatch {
        let numbers = UInt64Array::from_iter_values((first..first + count).map(|n| n as u64));
        RecordBatch::try_from_iter([("n", Arc::new(numbers) as ArrayRef)]).unwrap()
    }

    /// The sizes of the bulks of batches with these many rows, which have to keep their order.
    fn bulks(sizes: &[usize]) -> Vec<usize> {
        let mut first = 0;
        let batches: Vec<RecordBatch> = sizes
            .iter()
            .map(|count| {
                first += count;
                rows(first - count, *count)
            })
            .collect();
        let schema = rows(0, 0).schema();
        let bulks: Vec<RecordBatch> = Bulks::of(&schema, batches).map(Result::unwrap).collect();
        let numbers: Vec<u64> = bulks
            .iter()
            .flat_map(|bulk| bulk.column(0).as_primitive::<UInt64Type>().values().to_vec())
            .collect();
        assert!(numbers.into_iter().eq(0..first as u64));
        bulks.iter().map(RecordBatch::num_rows).collect()
    }

    #[test]
    fn bulks_fill_chunks() {
        let full = RowId::CHUNK_ROWS;
        assert_eq!(bulks(&[]), [0; 0]);
        assert_eq!(bulks(&[0, 0]), [0; 0]);
        assert_eq!(bulks(&[1, 0, 2]), [3]);
        assert_eq!(bulks(&[full, 1]), [full, 1]);
        assert_eq!(bulks(&[full - 1, 2, full]), [full, full, 1]);
        assert_eq!(bulks(&[3 * full + 5]), [full, full, full, 5]);
    }
}
