//! The writer's half of a table.

mod add_chunks;
mod alter;
mod append;
mod by_key;
mod compact;
mod kill;
mod partial_rows;
mod replay;
mod seal;
mod undo;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::ArrowPrimitiveType;
use thalweg_types::{RowId, TableSchema};

use crate::cell::{Cell, hash_cells};
use crate::open::Appender;
use crate::state::{PRIVATE_CHUNKS, Slot, StateKey};
use crate::{Chunk, Effect, Identities, TableState};
pub use append::{Placed, key_text};
pub use by_key::{Demands, Piece, Put, Refusal, Refused};
pub use replay::Arrival;
pub use seal::FullChunk;

/// The writer's half of a table, owned by the transaction thread.
///
/// It is ahead of what readers see: each change is applied here first and recorded in an
/// [`Effect`], which is published once the change is durable, or undone.
pub struct Table {
    applied: TableState,
    /// The writers of open chunks, and of full ones that no closed chunk has replaced yet.
    opened: Vec<Opened>,
    /// The open chunk that receives the next rows.
    open: Option<u32>,
}

/// The writer of an open chunk, and the chunk's number.
pub(crate) struct Opened {
    pub number: u32,
    pub appender: Appender,
    /// True if [`Table::take_full`] has handed the chunk out to be closed.
    pub given: bool,
}

impl Table {
    /// An empty table, and the first state for its readers.
    #[must_use]
    pub fn new(schema: Arc<TableSchema>) -> (Table, Arc<TableState>) {
        let applied = TableState::new(schema);
        let published = Arc::new(applied.clone());
        let table = Table { applied, opened: Vec::new(), open: None };
        (table, published)
    }

    /// The state with all changes, published or not.
    #[must_use]
    pub fn applied(&self) -> &TableState {
        &self.applied
    }

    /// The schema with all changes, published or not.
    #[must_use]
    pub fn schema(&self) -> &Arc<TableSchema> {
        self.applied.schema()
    }

    /// The counters of auto-numbered columns.
    #[must_use]
    pub fn identities(&self) -> &Arc<Identities> {
        self.applied.identities()
    }

    /// The number of the next new chunk.
    #[must_use]
    pub fn next_chunk(&self) -> u32 {
        self.applied.next_chunk()
    }

    /// Ensures that new chunks have numbers from `next` on.
    pub fn raise_next_chunk(&mut self, next: u32) {
        self.applied.chunk_numbers().fetch_max(next, Ordering::AcqRel);
    }

    fn take_number(&mut self) -> u32 {
        let number = self.applied.chunk_numbers().fetch_add(1, Ordering::AcqRel);
        assert!(number < PRIVATE_CHUNKS, "a table has less than 2^31 chunks in its life");
        number
    }

    fn note(&self, effect: &mut Effect) {
        effect.removals = self.applied.removals().load(Ordering::Acquire);
    }

    fn opened(&self, number: u32) -> Option<&Opened> {
        self.opened.iter().rev().find(|opened| opened.number == number)
    }

    fn opened_mut(&mut self, number: u32) -> Option<&mut Opened> {
        self.opened.iter_mut().rev().find(|opened| opened.number == number)
    }

    fn take_opened(&mut self, number: u32) -> Option<Opened> {
        if self.open == Some(number) {
            self.open = None;
        }
        let place = self.opened.iter().position(|opened| opened.number == number)?;
        Some(self.opened.remove(place))
    }

    /// One value of a row that has been applied, published or not.
    #[inline]
    fn cell(&self, row: RowId, column: usize) -> Cell<'_> {
        self.cell_in(self.slot_of(row), row, column)
    }

    /// Like [`cell`](Self::cell), for a row whose slot is known.
    #[inline]
    fn cell_in<'a>(&'a self, slot: &'a Slot, row: RowId, column: usize) -> Cell<'a> {
        match &slot.chunk {
            Chunk::Closed(chunk) => chunk.cell(column, row.row() as usize),
            Chunk::Open(_) => self.appender(row).cell(column, row.row() as usize),
        }
    }

    /// One value of a column of integers without NULLs, for a row that has been applied.
    #[inline]
    fn integer_in<T: ArrowPrimitiveType<Native: Into<i64>>>(
        &self,
        slot: &Slot,
        row: RowId,
        column: usize,
    ) -> i64 {
        match &slot.chunk {
            Chunk::Closed(chunk) => chunk.integer::<T>(column, row.row() as usize),
            Chunk::Open(_) => self.appender(row).integer(column, row.row() as usize),
        }
    }

    #[inline]
    fn slot_of(&self, row: RowId) -> &Slot {
        self.applied.slot(row.chunk()).expect("rows in indexes are in chunks")
    }

    #[inline]
    fn appender(&self, row: RowId) -> &Appender {
        &self.opened(row.chunk()).expect("an open chunk has a writer").appender
    }

    /// The hash of a row's key; `None` if the key contains a NULL.
    fn key_hash(&self, key: &StateKey, row: RowId) -> Option<u32> {
        hash_cells(key.positions.iter().map(|position| self.cell(row, *position)))
    }

    fn is_same_key(&self, key: &StateKey, left: RowId, right: RowId) -> bool {
        key.positions
            .iter()
            .all(|position| self.cell(left, *position) == self.cell(right, *position))
    }

    /// The slots of the applied state.
    fn slots(&self) -> &[Slot] {
        self.applied.slots()
    }
}

#[cfg(test)]
mod tests;
