//! Sorted access to the rows of chunks, in the order of an index.
//!
//! An index has no structure of its own. For each chunk it has a *run*: the offsets of the chunk's
//! rows, in the index's order, two bytes a row. A closed chunk never changes, so its run stays
//! valid for every snapshot that shows the chunk and follows from the chunk alone. No write updates
//! it, no undo reverts it, and it is not logged. A range is found by binary search in each chunk,
//! an order over many chunks by merging their runs.
//!
//! The run of an open chunk covers its first rows, which are published and therefore stay. The
//! others are scanned one by one, and merged into the run when there are many.
//!
//! Invariants: a search returns exactly the rows of a snapshot within a range, compared as
//! PostgreSQL does (-0 equals 0, NaN equals NaN and is greater than all numbers). The first search
//! that needs a run builds it; [`ClosedChunk::prepare`](crate::ClosedChunk::prepare) builds it
//! ahead of time.

mod merge;
mod run;
mod search;

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::ArrayRef;
use thalweg_types::{DataType, Index, TableSchema, ValueOrder};

use crate::cell::{self, Cell};
use crate::{Chunk, ClosedChunk, ForkJoin, TableState};
pub use merge::InOrder;
pub(crate) use run::Runs;
pub use search::{Hits, KeyRange};

/// True if an index can sort values of the type.
#[must_use]
pub fn is_ordered(data_type: &DataType) -> bool {
    !matches!(data_type, DataType::Array(_) | DataType::Interval | DataType::Json)
}

/// The columns of an index in some chunk.
enum Values<'a> {
    Closed(&'a ClosedChunk, &'a [usize]),
    Open(Vec<ArrayRef>),
}

/// The rows of a chunk, as an index sees them.
struct Rows<'a> {
    values: Values<'a>,
    orders: &'a [ValueOrder],
}

impl<'a> Rows<'a> {
    /// The first `length` rows, which some snapshot shows. `positions` are those of the index's
    /// columns in the table.
    fn of(
        chunk: &'a Chunk,
        length: usize,
        positions: &'a [usize],
        orders: &'a [ValueOrder],
    ) -> Rows<'a> {
        let values = match chunk {
            Chunk::Closed(chunk) => Values::Closed(chunk, positions),
            Chunk::Open(chunk) => Values::Open(chunk.columns(positions, 0..length)),
        };
        Rows { values, orders }
    }

    /// The value of a row in a column of the index, given by its number there.
    #[inline]
    fn cell(&self, column: usize, place: u16) -> Cell<'_> {
        match &self.values {
            Values::Closed(chunk, positions) => chunk.cell(positions[column], place.into()),
            Values::Open(arrays) => cell::cell(&arrays[column], place.into()),
        }
    }

    /// Compares a row of this chunk with one of another or the same chunk.
    fn compare(&self, place: u16, other: &Rows<'_>, other_place: u16) -> Ordering {
        let columns = self.orders.iter().enumerate();
        let compared = columns.map(|(column, order)| {
            compare(&self.cell(column, place), &other.cell(column, other_place), *order)
        });
        compared.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }
}

/// Builds runs ahead of the searches that need them.
impl TableState {
    /// Builds the missing runs of an index, which the table need not have yet.
    pub fn prepare(&self, index: &Index, threads: &dyn ForkJoin) {
        let positions = self.schema().key_positions(&index.key);
        let slots = self.slots();
        threads.run(slots.len(), &|slot| {
            search::run(&slots[slot].chunk, slots[slot].length as usize, index, &positions);
        });
    }
}

impl ClosedChunk {
    /// Builds the runs of a table's indexes. Takes some milliseconds each; any thread may do it.
    pub fn prepare(self: &Arc<Self>, schema: &TableSchema) {
        let chunk = Chunk::Closed(Arc::clone(self));
        for index in &schema.indexes {
            search::run(&chunk, self.rows(), index, &schema.key_positions(&index.key));
        }
    }
}

/// Compares two values of an index column that is sorted by `order`.
#[inline]
fn compare(left: &Cell<'_>, right: &Cell<'_>, order: ValueOrder) -> Ordering {
    let ascending = match (left, right) {
        (Cell::Null, Cell::Null) => return Ordering::Equal,
        (Cell::Null, _) if order.nulls_first => return Ordering::Less,
        (Cell::Null, _) => return Ordering::Greater,
        (_, Cell::Null) if order.nulls_first => return Ordering::Greater,
        (_, Cell::Null) => return Ordering::Less,
        (left, right) => left.compare(right),
    };
    if order.descending { ascending.reverse() } else { ascending }
}

/// Offsets of rows, in the order of an index.
pub(crate) type Run = Arc<[u16]>;

#[cfg(test)]
mod tests;
