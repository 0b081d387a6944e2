//! Chooses chunks whose dead rows are worth dropping, and rewrites them.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray};
use arrow::compute::{concat, filter};
use thalweg_types::{RowId, TableSchema};

use crate::state::{PRIVATE_CHUNKS, Slot};
use crate::{Bitmap, Chunk, ClosedChunk, TableState};

/// Chunks with fewer live rows are merged when there are enough of them.
const SMALL_ROWS: usize = RowId::CHUNK_ROWS / 4;

/// Most rows, dead ones included, that are rewritten at once. The writer visits the index entry of
/// each, so this bounds how long a compaction blocks it.
const SOURCE_ROWS_MAX: usize = 4 * RowId::CHUNK_ROWS;

/// Minimum number of small chunks for a merge.
const SMALL_CHUNKS_MIN: usize = 8;

/// The share of dead rows above which a chunk is rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompactionPolicy {
    /// More than half: rewriting costs no more than the writes that made it necessary.
    Busy,
    /// More than an eighth: worth it when the writer is idle.
    Idle,
}

impl CompactionPolicy {
    fn is_mostly_dead(self, slot: &Slot) -> bool {
        let share = match self {
            CompactionPolicy::Busy => 2,
            CompactionPolicy::Idle => 8,
        };
        u64::from(slot.dead_rows()) * share > u64::from(slot.length)
    }
}

/// Chunks of a snapshot that one new chunk is to replace.
pub struct CompactionPlan {
    schema: Arc<TableSchema>,
    sources: Vec<Slot>,
}

/// A chunk with the live rows of others, ready to replace them.
pub struct Built {
    pub chunk: Arc<ClosedChunk>,
    /// The replaced chunks in the order of their rows, and which of their rows the new chunk has.
    pub sources: Vec<(u32, Bitmap)>,
    pub(crate) schema: Arc<TableSchema>,
}

/// Finds chunks that are worth rewriting, as many as fill one new chunk. `None` if there are none.
#[must_use]
pub fn plan_compaction(state: &TableState, policy: CompactionPolicy) -> Option<CompactionPlan> {
    let mut sources: Vec<Slot> = Vec::new();
    let (mut live, mut length, mut dead_enough, mut largest) = (0, 0, false, 0);
    for slot in state.slots().iter().filter(|slot| is_settled(slot)) {
        let mostly_dead = policy.is_mostly_dead(slot);
        let rows = slot.live_rows() as usize;
        if !mostly_dead && rows >= SMALL_ROWS {
            continue;
        }
        length += slot.length as usize;
        if live + rows > RowId::CHUNK_ROWS || length > SOURCE_ROWS_MAX {
            break;
        }
        live += rows;
        largest = largest.max(rows);
        dead_enough |= mostly_dead;
        sources.push(slot.clone());
    }
    let many_small = sources.len() >= SMALL_CHUNKS_MIN && live >= 2 * largest;
    let worthwhile = !sources.is_empty() && (dead_enough || many_small);
    worthwhile.then(|| CompactionPlan { schema: Arc::clone(state.schema()), sources })
}

/// True if a chunk gets no more rows and does not belong to a single transaction.
fn is_settled(slot: &Slot) -> bool {
    let full = slot.length as usize == RowId::CHUNK_ROWS;
    slot.number < PRIVATE_CHUNKS && (full || matches!(slot.chunk, Chunk::Closed(_)))
}

impl CompactionPlan {
    /// The numbers of the chunks that will be replaced.
    pub fn sources(&self) -> impl ExactSizeIterator<Item = u32> + '_ {
        self.sources.iter().map(|slot| slot.number)
    }

    /// Writes the new chunk. Any thread may do it.
    #[must_use]
    pub fn build(&self) -> Built {
        let sources: Vec<(u32, Bitmap)> = self
            .sources
            .iter()
            .map(|slot| {
                let none = Bitmap::new();
                let dead = slot.dead.as_deref().unwrap_or(&none);
                (slot.number, dead.complement(slot.length))
            })
            .collect();
        let taken: Vec<(&Slot, &Bitmap)> =
            self.sources.iter().zip(sources.iter().map(|(_, taken)| taken)).collect();
        let chunk = Arc::new(gather(self.schema.columns.len(), &taken));
        chunk.prepare(&self.schema);
        Built { chunk, sources, schema: Arc::clone(&self.schema) }
    }
}

/// Builds a chunk from the selected rows of others, in their order.
pub(crate) fn gather(columns: usize, sources: &[(&Slot, &Bitmap)]) -> ClosedChunk {
    let rows = sources.iter().map(|(_, taken)| taken.len() as usize).sum();
    let arrays: Vec<ArrayRef> = (0..columns).map(|column| gather_column(column, sources)).collect();
    ClosedChunk::from_arrays(&arrays, rows)
}

fn gather_column(column: usize, sources: &[(&Slot, &Bitmap)]) -> ArrayRef {
    let parts: Vec<ArrayRef> = sources
        .iter()
        .map(|(slot, taken)| {
            let array = slot.columns(&[column]).remove(0);
            if taken.len() == slot.length {
                return array;
            }
            let mask = BooleanArray::new(taken.mask(slot.length), None);
            filter(&array, &mask).expect("a bit for each row")
        })
        .collect();
    let parts: Vec<&dyn arrow::array::Array> = parts.iter().map(AsRef::as_ref).collect();
    concat(&parts).expect("parts of one column have one type")
}
