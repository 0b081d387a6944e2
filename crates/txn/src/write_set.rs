//! What a transaction hands to the pipeline: all its changes, to be made at once or not at all.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use thalweg_store::{ClosedChunk, codec};
use thalweg_types::{Lsn, RowId, TableId};

use crate::catalog::CatalogChange;
use crate::staging::Staged;

/// The changes of one transaction. Catalog changes come first, then each table's rows.
#[derive(Default)]
pub struct WriteSet {
    /// The last group that the transaction saw.
    pub snapshot: Lsn,
    /// Tables whose rows no later group may have changed.
    pub relied_on: Vec<TableId>,
    pub catalog: Vec<CatalogChange>,
    pub tables: Vec<TableChanges>,
}

impl WriteSet {
    /// Whether it asks for nothing; what was relied on alone is nothing to be kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.catalog.is_empty() && self.tables.is_empty()
    }

    /// Whether it is for the sake of rows. Definitions go on where there is no memory for rows:
    /// some of them make room.
    pub(crate) fn adds_rows_alone(&self) -> bool {
        self.catalog.is_empty() && self.tables.iter().any(|changes| !changes.append.is_empty())
    }
}

/// Changes to one table's rows, in the order: hold, truncate, kill, append.
pub struct TableChanges {
    pub table: TableId,
    /// The table's version that the rows were made for; `None` where this very write set made it.
    pub version: Option<Lsn>,
    /// Rows that must be alive, and stay so.
    pub hold: Vec<RowId>,
    pub truncate: bool,
    pub kill: Vec<RowId>,
    pub append: Vec<NewRows>,
}

impl TableChanges {
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
    /// That of the schema for which they were made.
    pub fingerprint: u64,
    pub truncate: bool,
    /// With the nodes that have the rows.
    pub kill: Vec<RowId>,
    pub append: Vec<RecordBatch>,
}

/// Rows in the form in which they enter a table, already encoded for the log on the session's
/// thread.
pub enum NewRows {
    /// Goes to the end of the open chunk.
    Batch { rows: RecordBatch, encoded: Vec<u8> },
    /// Becomes a chunk as it is.
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

    #[must_use]
    pub fn batch(rows: RecordBatch) -> NewRows {
        let encoded = codec::encode_batch(&rows);
        NewRows::Batch { rows, encoded }
    }

    #[must_use]
    pub fn chunk(chunk: Arc<ClosedChunk>) -> NewRows {
        let encoded = codec::encode_chunk(&chunk);
        NewRows::Chunk { chunk, encoded }
    }
}
