//! Changes to all chunks at once: truncation and new schemas.

use std::sync::{Arc, OnceLock};

use arrow::array::ArrayRef;
use thalweg_types::{ColumnId, Error, Result, RowId, SqlState, TableSchema};

use super::Table;
use super::append::key_text;
use crate::effect::Change;
use crate::state::{Slot, StateKey};
use crate::widen::Widener;
use crate::{Chunk, ClosedChunk, Effect, ForkJoin, TableState};

impl Table {
    /// Removes all rows. The table starts new indexes.
    pub fn truncate(&mut self, effect: &mut Effect) {
        let before = self.applied.clone();
        self.applied.clear();
        self.replaced(before, effect);
    }

    /// Changes the schema: columns added, dropped, renamed or moved, keys added or dropped. `added`
    /// has the value of existing rows for each added column, as an array of length 1; without one
    /// they are NULL.
    ///
    /// Existing columns are shared, not copied. If rows collide in an added key, nothing changes
    /// (`23505`).
    pub fn alter(
        &mut self,
        schema: Arc<TableSchema>,
        added: &[(ColumnId, ArrayRef)],
        threads: &dyn ForkJoin,
        effect: &mut Effect,
    ) -> Result<()> {
        let widener = Widener::new(self.schema(), &schema, added)?;
        let before = self.applied.clone();
        for (number, chunk) in self.widened(&widener, threads) {
            self.applied.replace_chunk(number, Chunk::Closed(chunk));
        }
        self.applied.set_schema(schema);
        if let Err(error) = self.index_new_keys(&before, threads) {
            self.applied = before;
            return Err(error);
        }
        for slot in self.slots() {
            if let Chunk::Closed(chunk) = &slot.chunk {
                chunk.runs().retain(&self.schema().indexes);
            }
        }
        self.replaced(before, effect);
        Ok(())
    }

    /// All chunks with their numbers, with the columns of the new schema.
    fn widened(&self, widener: &Widener, threads: &dyn ForkJoin) -> Vec<(u32, Arc<ClosedChunk>)> {
        let slots = self.slots();
        let widened: Vec<OnceLock<Arc<ClosedChunk>>> =
            slots.iter().map(|_| OnceLock::new()).collect();
        threads.run(slots.len(), &|place| {
            widened[place].get_or_init(|| widener.widen(&self.closed(&slots[place])));
        });
        let chunk = |chunk: OnceLock<_>| chunk.into_inner().expect("the threads did each piece");
        slots.iter().map(|slot| slot.number).zip(widened.into_iter().map(chunk)).collect()
    }

    /// Inserts all live rows into the indexes that the state before did not have.
    fn index_new_keys(&self, before: &TableState, threads: &dyn ForkJoin) -> Result<()> {
        let is_new =
            |key: &&StateKey| !before.keys().iter().any(|old| Arc::ptr_eq(&old.index, &key.index));
        for key in self.applied.keys().iter().filter(is_new) {
            let indexed = self.index_slots(key, self.slots(), threads);
            indexed.map_err(|row| not_unique(&self.applied, key, row))?;
        }
        Ok(())
    }

    fn replaced(&mut self, before: TableState, effect: &mut Effect) {
        let opened = std::mem::take(&mut self.opened);
        self.open = None;
        let after = Box::new(self.applied.clone());
        effect.changes.push(Change::Replaced { after, before: Box::new(before), opened });
        self.note(effect);
    }

    /// A slot's chunk; an open one is copied into a closed one.
    fn closed(&self, slot: &Slot) -> Arc<ClosedChunk> {
        match &slot.chunk {
            Chunk::Closed(chunk) => Arc::clone(chunk),
            Chunk::Open(_) => {
                let opened = self.opened(slot.number).expect("an open chunk has a writer");
                let columns = opened.appender.copy(0..opened.appender.rows());
                Arc::new(ClosedChunk::from_arrays(&columns, opened.appender.rows()))
            }
        }
    }
}

/// The error of PostgreSQL for rows that collide in a new key.
fn not_unique(state: &TableState, key: &StateKey, row: RowId) -> Error {
    let schema = state.schema();
    let known = state.keys().iter().zip(schema.keys());
    let mut known = known.filter(|(known, _)| Arc::ptr_eq(&known.index, &key.index));
    let name = known.next().map_or("", |(_, key)| key.name.as_str());
    let slot = state.slot(row.chunk()).expect("the row is one of the state's");
    let columns = slot.columns(&key.positions);
    let detail = key_text(schema, &key.positions, &columns, row.row() as usize);
    Error::new(SqlState::UNIQUE_VIOLATION, format!("could not create unique index \"{name}\""))
        .with_detail(format!("Key {detail} is duplicated."))
        .with_constraint(schema, name)
}
