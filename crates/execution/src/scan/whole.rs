//! Chunks that a plan passes on unchanged: closed ones, with all their rows, in no order.
//!
//! A closed chunk never changes, so results computed from it can be cached under the chunk's
//! [`ChunkIdentity`].

use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::{Arc, Weak};

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use thalweg_store::{Chunk, ChunkView, ClosedChunk};

use super::{BATCH_ROWS, Chunks, ShardScan, WantedRows};
use crate::operator::RECOMPUTED;

/// Some columns of a closed chunk without dead rows.
pub struct WholeChunk {
    chunk: Arc<ClosedChunk>,
    columns: Arc<[usize]>,
    schema: SchemaRef,
}

/// Identifies columns of a chunk. Unlike an address, it is never reused for a later chunk.
#[derive(Clone)]
pub struct ChunkIdentity {
    /// As long as this exists, no other chunk gets the same address.
    chunk: Weak<ClosedChunk>,
    columns: Arc<[usize]>,
}

impl ChunkIdentity {
    /// True if the chunk no longer exists.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.chunk.strong_count() == 0
    }
}

impl PartialEq for ChunkIdentity {
    fn eq(&self, other: &ChunkIdentity) -> bool {
        Weak::ptr_eq(&self.chunk, &other.chunk) && self.columns == other.columns
    }
}

impl Eq for ChunkIdentity {}

impl Hash for ChunkIdentity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.chunk.as_ptr().hash(state);
        self.columns.hash(state);
    }
}

impl WholeChunk {
    /// Key of caches of this chunk with this projection. It does not keep the chunk alive.
    #[must_use]
    pub fn identity(&self) -> ChunkIdentity {
        ChunkIdentity { chunk: Arc::downgrade(&self.chunk), columns: Arc::clone(&self.columns) }
    }

    /// Its rows, as the plan passes them on.
    pub fn batches(self) -> impl Iterator<Item = Result<RecordBatch>> + Send {
        let rows = self.chunk.rows();
        let starts = (0..rows).step_by(BATCH_ROWS);
        starts.map(move |start| self.batch(start..rows.min(start + BATCH_ROWS)))
    }

    fn batch(&self, rows: Range<usize>) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        let columns = self.chunk.columns(&self.columns, rows);
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}

/// Takes the unchanged chunks out of a plan that only scans all rows, and returns them with a plan
/// for the others.
///
/// # Errors
/// Planning errors.
pub fn whole_chunks(
    plan: Arc<dyn ExecutionPlan>,
) -> Result<(Vec<WholeChunk>, Arc<dyn ExecutionPlan>)> {
    if let Some(scan) = plan.downcast_ref::<ShardScan>() {
        return Ok(match scan.split() {
            None => (Vec::new(), plan),
            Some((whole, others)) => (whole, Arc::new(others)),
        });
    }
    match plan.downcast_ref::<CoalescePartitionsExec>() {
        Some(gather) if gather.fetch().is_none() => {
            let (whole, others) = whole_chunks(Arc::clone(gather.input()))?;
            Ok((whole, plan.replace_children(vec![others], RECOMPUTED)?))
        }
        _ => Ok((Vec::new(), plan)),
    }
}

impl ShardScan {
    /// The scan's unchanged chunks, and a scan of the others; `None` if it does not pass on all
    /// rows.
    fn split(&self) -> Option<(Vec<WholeChunk>, ShardScan)> {
        let WantedRows { filter, first, limit, among, threshold } = &self.wanted;
        let is_all = filter.is_none()
            && limit.is_none()
            && first.is_none()
            && threshold.is_none()
            && among.is_nothing()
            && !self.reads_row_ids();
        if !is_all {
            return None;
        }
        let columns: Arc<[usize]> = self.columns.projection.as_slice().into();
        let whole = |chunk: &ChunkView| match chunk.chunk() {
            Chunk::Closed(closed) if closed.rows() == chunk.live_rows() => Some(WholeChunk {
                chunk: Arc::clone(closed),
                columns: Arc::clone(&columns),
                schema: Arc::clone(self.output()),
            }),
            _ => None,
        };
        let (mut taken, mut others) = (Vec::new(), Vec::new());
        for chunk in self.chunks.read.iter() {
            match whole(chunk) {
                Some(chunk) => taken.push(chunk),
                None => others.push(chunk.clone()),
            }
        }
        let read = Arc::new(others);
        let chunks = Chunks { unpruned: Arc::clone(&read), read, ..self.chunks.clone() };
        let mut others = ShardScan { chunks, ..self.clone() };
        others.current.next = Arc::default();
        Some((taken, others))
    }
}
