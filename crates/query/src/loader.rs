//! Rows on their way into a table: many of them go ahead to the log, chunk by chunk. On a gateway
//! they may go ahead to their workers.

use std::sync::Arc;

use arrow::compute::concat_batches;
use arrow::record_batch::RecordBatch;
use thalweg_store::{ClosedChunk, arrow_schema};
use thalweg_txn::{Staged, Transaction};
use thalweg_types::{Error, Result, RowId, TableId, TableSchema};
use tokio::task::spawn_blocking;

use crate::database::Database;
use crate::statement::{Target, reject_loaded};
use crate::workers::Load;

/// What a gateway gathers of a load before it goes ahead, in bytes as they lie in memory.
const GATHERED_BYTES_MAX: usize = 64 << 20;

/// Gathers whole rows of one table. Nothing is visible before [`Loader::finish`] and a commit.
pub(crate) struct Loader {
    database: Database,
    table: Arc<TableSchema>,
    waiting: Vec<RecordBatch>,
    waiting_rows: usize,
    /// Of rows that wait for workers.
    waiting_bytes: usize,
    staged: Vec<Arc<Staged>>,
    rows: u64,
    goes_ahead: bool,
    ahead: Option<Box<dyn Load>>,
}

/// Everything that was loaded.
pub(crate) struct Loaded {
    pub(crate) staged: Vec<Arc<Staged>>,
    /// Too few to be a chunk of their own.
    pub(crate) rest: Vec<RecordBatch>,
    pub(crate) rows: u64,
    /// What workers have of it. Whoever commits takes it out, and finishes it.
    pub(crate) ahead: Option<Box<dyn Load>>,
}

impl Loader {
    pub(crate) fn new(database: Database, table: Arc<TableSchema>) -> Loader {
        Loader {
            database,
            table,
            waiting: Vec::new(),
            waiting_rows: 0,
            waiting_bytes: 0,
            staged: Vec::new(),
            rows: 0,
            goes_ahead: false,
            ahead: None,
        }
    }

    pub(crate) fn database(&self) -> &Database {
        &self.database
    }

    /// Rows that are pushed may go ahead to workers, for a statement that is a transaction of its
    /// own and finishes what is ahead of its commit.
    pub(crate) fn going_ahead(self) -> Loader {
        Loader { goes_ahead: true, ..self }
    }

    /// Takes rows in. Encodes and stages whole chunks on the calling thread, which waits where the
    /// disk is far behind, or where workers take rows that go ahead.
    ///
    /// # Errors
    /// Where the rows do not fit a chunk, the database is closed, or a worker could not take rows.
    pub(crate) fn push(&mut self, rows: RecordBatch) -> Result<()> {
        if self.goes_ahead && self.gathers_too_much(&rows) {
            self.send_waiting()?;
        }
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
        if self.goes_ahead && self.gathers_too_much(&rows) {
            self.send_waiting_later().await?;
        }
        if self.fills_chunk(&rows) {
            self.database.shared.engine.staging_room().await?;
        }
        self.take_in(rows)
    }

    fn fills_chunk(&self, rows: &RecordBatch) -> bool {
        self.waiting_rows + rows.num_rows() >= RowId::CHUNK_ROWS
    }

    fn gathers_too_much(&self, more: &RecordBatch) -> bool {
        !self.waiting.is_empty()
            && more.num_rows() > 0
            && self.waiting_bytes + more.get_array_memory_size() > GATHERED_BYTES_MAX
    }

    /// Sends what waits to its workers. Some rows always come behind it, and are the transaction's.
    fn send_waiting(&mut self) -> Result<()> {
        if let Some((mut ahead, waiting)) = self.take_waiting() {
            ahead.send(waiting)?;
            self.ahead = Some(ahead);
        }
        Ok(())
    }

    async fn send_waiting_later(&mut self) -> Result<()> {
        if let Some((mut ahead, waiting)) = self.take_waiting() {
            let sending = spawn_blocking(move || ahead.send(waiting).map(|()| ahead));
            let sent = sending.await.map_err(|_| Error::internal("a thread that sends rows died"));
            self.ahead = Some(sent??);
        }
        Ok(())
    }

    /// What waits, and the load that takes it. It is put back once it has taken it: after an error
    /// there is nothing to do but to drop it.
    fn take_waiting(&mut self) -> Option<(Box<dyn Load>, Vec<RecordBatch>)> {
        let workers = self.database.shared.workers.get()?;
        let ahead = self.ahead.take().unwrap_or_else(|| workers.load(Arc::clone(&self.table)));
        self.waiting_bytes = 0;
        Some((ahead, std::mem::take(&mut self.waiting)))
    }

    fn take_in(&mut self, rows: RecordBatch) -> Result<()> {
        self.rows += rows.num_rows() as u64;
        if self.database.shared.workers.get().is_some() {
            // Workers write them to logs of their own.
            let bytes = rows.get_array_memory_size();
            self.database.shared.engine.make_room(bytes)?;
            self.waiting_bytes += bytes;
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

    pub(crate) fn finish(mut self) -> Loaded {
        self.take()
    }

    /// All that came since the last time.
    pub(crate) fn take(&mut self) -> Loaded {
        (self.waiting_rows, self.waiting_bytes) = (0, 0);
        Loaded {
            staged: std::mem::take(&mut self.staged),
            rest: std::mem::take(&mut self.waiting),
            rows: std::mem::take(&mut self.rows),
            ahead: self.ahead.take(),
        }
    }
}

impl Loaded {
    /// Adds the rows to a transaction; returns how many there are, with those that went ahead.
    ///
    /// # Errors
    /// Where there is no such table any more.
    pub(crate) fn append_to(self, transaction: &mut Transaction, table: TableId) -> Result<u64> {
        self.is_all_here()?;
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
        self.is_all_here()?;
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

    /// # Errors
    /// Where nobody took out what went ahead: it would be missing.
    fn is_all_here(&self) -> Result<()> {
        match self.ahead {
            None => Ok(()),
            Some(_) => Err(Error::internal("rows that went ahead are nobody's")),
        }
    }
}

fn misfit(error: arrow::error::ArrowError) -> Error {
    Error::internal("rows do not fit their table").with_source(error)
}
