//! Rows on their way into a table: many of them go ahead to the log, chunk by chunk.

use std::sync::Arc;

use arrow::compute::concat_batches;
use arrow::record_batch::RecordBatch;
use thalweg_store::{ClosedChunk, arrow_schema};
use thalweg_txn::{Staged, Transaction};
use thalweg_types::{Error, Result, RowId, TableId, TableSchema};

use crate::database::Database;
use crate::statement::{Target, reject_loaded};

/// Gathers whole rows of one table. Nothing is visible before [`Loader::finish`] and a commit.
pub(crate) struct Loader {
    database: Database,
    table: Arc<TableSchema>,
    waiting: Vec<RecordBatch>,
    waiting_rows: usize,
    staged: Vec<Arc<Staged>>,
    rows: u64,
}

/// Everything that was loaded.
pub(crate) struct Loaded {
    pub(crate) staged: Vec<Arc<Staged>>,
    /// Too few to be a chunk of their own.
    pub(crate) rest: Vec<RecordBatch>,
    pub(crate) rows: u64,
}

impl Loader {
    pub(crate) fn new(database: Database, table: Arc<TableSchema>) -> Loader {
        Loader {
            database,
            table,
            waiting: Vec::new(),
            waiting_rows: 0,
            staged: Vec::new(),
            rows: 0,
        }
    }

    /// Takes rows in. Encodes and stages whole chunks on the calling thread, which waits where the
    /// disk is far behind.
    ///
    /// # Errors
    /// Where the rows do not fit a chunk, or the database is closed.
    pub(crate) fn push(&mut self, rows: RecordBatch) -> Result<()> {
        if self.fills_chunk(&rows) {
            self.database.shared.engine.wait_for_staging_room()?;
        }
        self.take_in(rows)
    }

    /// The same on a thread that must not wait.
    ///
    /// # Errors
    /// As [`Loader::push`].
    pub(crate) async fn push_later(&mut self, rows: RecordBatch) -> Result<()> {
        if self.fills_chunk(&rows) {
            self.database.shared.engine.staging_room().await?;
        }
        self.take_in(rows)
    }

    fn fills_chunk(&self, rows: &RecordBatch) -> bool {
        self.waiting_rows + rows.num_rows() >= RowId::CHUNK_ROWS
    }

    fn take_in(&mut self, rows: RecordBatch) -> Result<()> {
        self.rows += rows.num_rows() as u64;
        if self.database.shared.workers.get().is_some() {
            // Workers write them to logs of their own.
            self.database.shared.engine.make_room(rows.get_array_memory_size())?;
            self.waiting.push(rows);
            return Ok(());
        }
        let mut rest = rows;
        while self.waiting_rows + rest.num_rows() >= RowId::CHUNK_ROWS {
            let taken = RowId::CHUNK_ROWS - self.waiting_rows;
            self.waiting.push(rest.slice(0, taken));
            rest = rest.slice(taken, rest.num_rows() - taken);
            self.stage_waiting()?;
        }
        if rest.num_rows() > 0 {
            self.waiting_rows += rest.num_rows();
            self.waiting.push(rest);
        }
        Ok(())
    }

    fn stage_waiting(&mut self) -> Result<()> {
        let waiting = std::mem::take(&mut self.waiting);
        self.waiting_rows = 0;
        let rows = match <[RecordBatch; 1]>::try_from(waiting) {
            Ok([one]) => one,
            Err(many) => concat_batches(&arrow_schema(&self.table), &many).map_err(misfit)?,
        };
        let chunk = Arc::new(ClosedChunk::build(&self.table, &rows));
        self.staged.push(self.database.shared.engine.stage(chunk)?);
        Ok(())
    }

    pub(crate) fn finish(self) -> Loaded {
        Loaded { staged: self.staged, rest: self.waiting, rows: self.rows }
    }
}

impl Loaded {
    /// Adds the rows to a transaction; returns how many there are.
    ///
    /// # Errors
    /// Where there is no such table any more.
    pub(crate) fn append_to(self, transaction: &mut Transaction, table: TableId) -> Result<u64> {
        for staged in self.staged {
            transaction.append_staged(table, staged)?;
        }
        for rows in self.rest {
            transaction.append(table, rows)?;
        }
        Ok(self.rows)
    }

    /// The same in a transaction block, where a key that is taken is told at once, and not when the
    /// block ends.
    ///
    /// # Errors
    /// As [`append_to`](Loaded::append_to), and where a row has the key of another one.
    pub(crate) fn append_in_block(
        self,
        transaction: &mut Transaction,
        target: &Target,
    ) -> Result<u64> {
        let table = target.id();
        let row = arrow_schema(target.schema());
        for staged in self.staged {
            let rows = staged.chunk().batch(&row);
            reject_loaded(transaction.state(table)?.as_ref(), target, &rows)?;
            transaction.append_staged(table, staged)?;
        }
        for rows in self.rest {
            reject_loaded(transaction.state(table)?.as_ref(), target, &rows)?;
            transaction.append(table, rows)?;
        }
        Ok(self.rows)
    }
}

fn misfit(error: arrow::error::ArrowError) -> Error {
    Error::internal("rows do not fit their table").with_source(error)
}
