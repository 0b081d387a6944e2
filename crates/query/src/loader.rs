//! Loads rows into a table. Full chunks go to the log before the commit. On a gateway, rows may go
//! to their workers before the commit.

use std::sync::Arc;

use arrow::compute::concat_batches;
use arrow::record_batch::RecordBatch;
use thalweg_runtime::spawn_blocking;
use thalweg_store::{ClosedChunk, arrow_schema};
use thalweg_txn::{Engine, Staged, Transaction};
use thalweg_types::{Error, Result, RowId, TableId, TableSchema};

use crate::database::Database;
use crate::statement::{Target, reject_loaded};
use crate::workers::Load;

/// Rows that a gateway gathers before it sends them to the workers, in bytes of memory.
const GATHERED_BYTES_MAX: usize = 64 << 20;

/// Gathers whole rows of one table. No row is visible before [`Loader::finish`] and a commit.
pub(crate) struct Loader {
    database: Database,
    table: Arc<TableSchema>,
    waiting: Vec<RecordBatch>,
    waiting_rows: usize,
    /// Memory of the rows that wait to be sent to workers.
    waiting_bytes: usize,
    staged: Vec<Arc<Staged>>,
    rows: u64,
    goes_ahead: bool,
    ahead: Option<Box<dyn Load>>,
}

/// Everything that was loaded.
pub(crate) struct Loaded {
    pub(crate) staged: Vec<Arc<Staged>>,
    /// Rows too few for a chunk of their own.
    pub(crate) rest: Vec<RecordBatch>,
    pub(crate) rows: u64,
    /// Rows that were sent to workers. The commit takes this out and finishes it.
    pub(crate) ahead: Option<Box<dyn Load>>,
}

impl Loaded {
    /// A second list of these rows, for another try. They must not have been sent to workers.
    pub(crate) fn share(&self) -> Loaded {
        let (staged, rest) = (self.staged.clone(), self.rest.clone());
        Loaded { staged, rest, rows: self.rows, ahead: None }
    }
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

    /// The engine that holds the table's rows, if they are on this node.
    fn engine(&self) -> &Engine {
        self.database.shared.engine_of(self.table.id)
    }

    /// Allows pushed rows to go to workers before the commit. Only for a statement that is a
    /// transaction of its own and that finishes the load when it commits.
    pub(crate) fn going_ahead(self) -> Loader {
        Loader { goes_ahead: self.database.shared.cluster().holds(&self.table), ..self }
    }

    /// Takes rows in. Encodes and stages whole chunks on the calling thread. The thread waits if
    /// the disk is far behind, or while workers take rows.
    ///
    /// # Errors
    /// If the rows do not fit a chunk, the database is closed, or a worker could not take rows.
    pub(crate) fn push(&mut self, rows: RecordBatch) -> Result<()> {
        if self.goes_ahead && self.gathers_too_much(&rows) {
            self.send_waiting()?;
        }
        if self.fills_chunk(&rows) {
            self.engine().wait_for_staging_room()?;
        }
        self.take_in(rows)
    }

    /// Like [`Loader::push`], for a thread that must not block.
    ///
    /// # Errors
    /// As [`Loader::push`].
    pub(crate) async fn push_later(&mut self, rows: RecordBatch) -> Result<()> {
        if self.goes_ahead && self.gathers_too_much(&rows) {
            self.send_waiting_later().await?;
        }
        if self.fills_chunk(&rows) {
            self.engine().staging_room().await?;
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

    /// Sends the waiting rows to their workers. Some rows always come after them; these belong to
    /// the transaction.
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

    /// The waiting rows and the load that takes them. The caller puts the load back after it has
    /// sent the rows. After an error the load can only be dropped.
    fn take_waiting(&mut self) -> Option<(Box<dyn Load>, Vec<RecordBatch>)> {
        let begin = || self.database.shared.cluster().writes.load(Arc::clone(&self.table));
        let ahead = self.ahead.take().or_else(begin)?;
        self.waiting_bytes = 0;
        Some((ahead, std::mem::take(&mut self.waiting)))
    }

    fn take_in(&mut self, rows: RecordBatch) -> Result<()> {
        self.rows += rows.num_rows() as u64;
        if self.database.shared.cluster().holds(&self.table) {
            // Workers write these rows to their own logs.
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
        self.staged.push(self.engine().stage(chunk)?);
        Ok(())
    }

    pub(crate) fn finish(mut self) -> Loaded {
        self.take()
    }

    /// All rows that came since the last call.
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
    /// Adds the rows to a transaction. Returns their number, including the rows that went to
    /// workers.
    ///
    /// # Errors
    /// If the table no longer exists.
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

    /// Like [`append_to`](Loaded::append_to), in a transaction block. There a duplicate key is
    /// reported by the statement, not when the block ends.
    ///
    /// # Errors
    /// As [`append_to`](Loaded::append_to), and if a row has the key of another one.
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
    /// If rows that went to workers were not taken out: they would be missing.
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
