//! Write sets: all changes of a transaction, which the pipeline applies atomically.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use thalweg_store::{ClosedChunk, codec};
use thalweg_types::{Lsn, RowId, TableId};

use crate::catalog::CatalogChange;
use crate::foreign_keys::KeptKeys;
use crate::row_locks::LockOwner;
use crate::staging::Staged;

/// The changes of one transaction. Catalog changes come first, then each table's rows.
#[derive(Default)]
pub struct WriteSet {
    /// The last group in the transaction's snapshot.
    pub snapshot: Lsn,
    /// Tables whose rows no group after the given one may have changed.
    pub relied_on: Vec<(TableId, Lsn)>,
    /// The owner whose row locks do not exclude these changes.
    pub owner: Option<LockOwner>,
    /// Keys of replaced rows that stay, under constraints that are NOT VALID.
    pub kept_keys: Option<Arc<Vec<KeptKeys>>>,
    pub catalog: Vec<CatalogChange>,
    pub tables: Vec<TableChanges>,
    /// True if [`Engine::check`](crate::Engine::check) has accepted the write set, and no other
    /// one could change its tables since. Then memory is not checked again.
    pub is_checked: bool,
}

impl WriteSet {
    /// True if there is nothing to apply. `relied_on` alone is not a change.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.catalog.is_empty() && self.tables.is_empty()
    }

    /// True if it adds rows and changes no definitions. Changes of definitions are accepted even if
    /// there is no memory for rows, since some of them free memory.
    pub(crate) fn adds_rows_alone(&self) -> bool {
        self.catalog.is_empty() && self.tables.iter().any(|changes| !changes.append.is_empty())
    }
}

/// Changes to one table's rows, in the order: hold, truncate, kill, append.
pub struct TableChanges {
    pub table: TableId,
    /// The table's version that the rows were made for; `None` if this write set creates or alters
    /// it.
    pub version: Option<Lsn>,
    /// Rows that must still be alive.
    pub hold: Vec<RowId>,
    pub truncate: bool,
    pub kill: Vec<RowId>,
    pub append: Vec<NewRows>,
}

impl TableChanges {
    /// No changes yet to `table`.
    #[must_use]
    pub fn new(table: TableId, version: Option<Lsn>) -> TableChanges {
        TableChanges {
            table,
            version,
            hold: Vec::new(),
            truncate: false,
            kill: Vec::new(),
            append: Vec::new(),
        }
    }
}

/// Changes to the rows of a table that lie on other nodes, in the order: truncate, kill, append.
pub struct RowChanges {
    pub table: TableId,
    /// Fingerprint of the schema that the rows were made for.
    pub fingerprint: u64,
    pub truncate: bool,
    /// Row ids with the nodes that hold the rows.
    pub kill: Vec<RowId>,
    pub append: Vec<RecordBatch>,
}

/// Rows in the form in which they enter a table, already encoded for the log on the session's
/// thread.
pub enum NewRows {
    /// Appended to the open chunk.
    Batch { rows: RecordBatch, encoded: Vec<u8> },
    /// Becomes a chunk of its own.
    Chunk { chunk: Arc<ClosedChunk>, encoded: Vec<u8> },
    /// A chunk whose bytes are in the log already.
    Staged(Arc<Staged>),
}

impl NewRows {
    pub(crate) fn staged(&self) -> Option<Arc<Staged>> {
        match self {
            NewRows::Staged(staged) => Some(Arc::clone(staged)),
            NewRows::Batch { .. } | NewRows::Chunk { .. } => None,
        }
    }

    /// Encodes rows for the log, to be appended to the open chunk.
    #[must_use]
    pub fn batch(rows: RecordBatch) -> NewRows {
        let encoded = codec::encode_batch(&rows);
        NewRows::Batch { rows, encoded }
    }

    /// Encodes a whole chunk for the log.
    #[must_use]
    pub fn chunk(chunk: Arc<ClosedChunk>) -> NewRows {
        let encoded = codec::encode_chunk(&chunk);
        NewRows::Chunk { chunk, encoded }
    }
}
