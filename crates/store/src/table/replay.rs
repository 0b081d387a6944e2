//! Replay of logged changes at explicit positions.

use std::sync::Arc;

use arrow::array::RecordBatch;
use thalweg_types::{Error, Result};

use super::{Placed, Table};
use crate::state::{PRIVATE_CHUNKS, Slot};
use crate::{Bitmap, Chunk, ClosedChunk, Effect, ForkJoin};

/// A chunk that is restored under its former number.
pub struct Arrival {
    pub number: u32,
    pub chunk: Arc<ClosedChunk>,
    /// The rows that were dead.
    pub dead: Option<Bitmap>,
}

impl Table {
    /// Appends rows at the position in the log: to chunk `number`, from row `row` on.
    pub fn append_at(
        &mut self,
        number: u32,
        row: u32,
        rows: &RecordBatch,
        effect: &mut Effect,
    ) -> Result<()> {
        self.check_number(number)?;
        self.check_rows(rows)?;
        let closed = self.open_at(number, row)?;
        let opened = self.opened(number).expect("the chunk was just opened");
        let length = rows.num_rows();
        if opened.appender.rows() != row as usize || length > opened.appender.room() {
            return Err(impossible(number, row));
        }
        self.raise_next_chunk(number + 1);
        let mark = effect.changes.len();
        self.extend(number, rows, closed, effect);
        let placed = [Placed { chunk: number, row, offset: 0, length }];
        self.index_appended(rows.columns(), &placed, mark, effect)
    }

    /// Opens a chunk unless it is open. Returns the closed one that was reopened.
    fn open_at(&mut self, number: u32, row: u32) -> Result<Option<Slot>> {
        let Some(slot) = self.applied.slot(number).cloned() else {
            if row != 0 {
                return Err(impossible(number, row));
            }
            self.start_chunk(number);
            return Ok(None);
        };
        let Chunk::Closed(chunk) = &slot.chunk else { return Ok(None) };
        if slot.length != row {
            return Err(impossible(number, row));
        }
        self.start_chunk(number);
        let rows = chunk.batch(self.applied.arrow_schema());
        let opened = self.opened_mut(number).expect("the chunk was just opened");
        opened.appender.append(&rows);
        Ok(Some(slot))
    }

    /// Adds chunks under their logged numbers, which must ascend.
    pub fn append_chunks_at(
        &mut self,
        chunks: Vec<Arrival>,
        threads: &dyn ForkJoin,
        effect: &mut Effect,
    ) -> Result<()> {
        let mut slots: Vec<Slot> = Vec::with_capacity(chunks.len());
        for Arrival { number, chunk, dead } in chunks {
            self.check_number(number)?;
            let ascending = slots.last().is_none_or(|last| last.number < number);
            if !ascending || self.applied.slot(number).is_some() {
                return Err(impossible(number, 0));
            }
            let mut slot = Slot::closed(number, chunk);
            if let Some(dead) = dead.filter(|dead| !dead.is_empty()) {
                if dead.iter().last().is_some_and(|last| last >= slot.length) {
                    return Err(impossible(number, slot.length));
                }
                slot.dead = Some(Arc::new(dead));
            }
            slots.push(slot);
        }
        let Some(last) = slots.last() else { return Ok(()) };
        self.raise_next_chunk(last.number + 1);
        self.add_slots(&slots, threads, effect)
    }

    fn check_number(&self, number: u32) -> Result<()> {
        if number < PRIVATE_CHUNKS { Ok(()) } else { Err(impossible(number, 0)) }
    }
}

pub(super) fn impossible(number: u32, row: u32) -> Error {
    Error::corrupt(format!("the log puts rows at place {row} of chunk {number}, which can't be"))
}
