//! Writes and removes many rows by primary key. Rows are independent: one that is refused is
//! skipped and reported, and the others go on.

mod keys;

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use arrow::datatypes::{DataType as ArrowType, Int32Type, Int64Type};
use thalweg_types::{Error, Result, RowId};

use super::Table;
use crate::Effect;
use crate::cell::{KeyHashes, same_key};
use crate::effect::Change;
use crate::index::{FETCHED_TOGETHER, IndexInner, Likely};
use crate::state::StateKey;
use keys::{Cells, Integers, NewKeys};

/// The condition under which a row is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// No live row may have its key.
    Create,
    /// A live row must have its key; the new row replaces it.
    Update,
    /// The row replaces a live one with its key, if there is one.
    Upsert,
}

/// The reason why a row was skipped. It is `Missing` if no live row has the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A live row has the key; `key` is its position among the table's keys.
    Exists {
        key: usize,
    },
    Missing,
    /// The live row with the key is not the expected one.
    Changed,
}

/// The position of a skipped row in the batch, and the reason.
pub type Refused = (usize, Refusal);

/// Conditions for all rows of a batch.
#[derive(Clone, Copy, Default)]
pub struct Demands<'a> {
    /// For each row the id that the live row with its key must have; 0 means that none may exist.
    pub expected: Option<&'a [u64]>,
    /// If true, the first skipped row ends the batch.
    pub stop: bool,
}

/// Rows that were appended together; pieces are in the order of their changes.
pub struct Piece {
    /// The replaced rows, ascending.
    pub killed: Arc<Vec<RowId>>,
    pub chunk: u32,
    pub row: u32,
    pub rows: RecordBatch,
}

/// A batch to write.
struct PutRequest<'a> {
    rows: &'a RecordBatch,
    put: Put,
    demands: Demands<'a>,
    key: &'a StateKey,
    /// The hash of each row's key.
    hashes: Vec<u32>,
}

/// The part of a batch that fits into the open chunk.
struct Part<'a, K> {
    asked: &'a PutRequest<'a>,
    keys: &'a K,
    /// The id of the part's first row.
    base: RowId,
    /// The batch's row for each id from `base` on.
    surviving_rows: Vec<u32>,
    /// Replaced rows. They are marked dead once all rows have ids.
    killed: Vec<RowId>,
    refused: &'a mut Vec<Refused>,
}

impl<K> Part<'_, K> {
    /// The position of a row in `surviving_rows`, if it belongs to this part.
    #[inline]
    fn place_of(&self, row: RowId) -> Option<usize> {
        let here = row.chunk() == self.base.chunk() && row.row() >= self.base.row();
        here.then(|| (row.row() - self.base.row()) as usize)
    }
}

/// The result of a prefetched lookup: the row that holds the key's entry.
#[derive(Clone, Copy)]
struct Known {
    likely: Likely,
    is_dead: bool,
}

impl Table {
    /// Writes rows by their primary key. If several have the same key, the last one wins.
    ///
    /// # Errors
    /// If the rows do not match the table's schema; then nothing has changed.
    pub fn put(
        &mut self,
        rows: &RecordBatch,
        put: Put,
        demands: Demands<'_>,
        effect: &mut Effect,
    ) -> Result<(Vec<Piece>, Vec<Refused>)> {
        self.check_rows(rows)?;
        let keys = Arc::clone(self.applied.keys());
        let key = self.primary_key(&keys)?;
        if keys.len() > 1 {
            return self.put_singly(rows, put, demands, effect);
        }
        let columns = key_columns(key, rows.columns());
        let hashes = KeyHashes::new(&columns).hashes;
        let asked = PutRequest { rows, put, demands, key, hashes };
        let (column, position) = (&columns[0], key.positions[0]);
        let fields = self.applied.arrow_schema().fields();
        let is_alone = columns.len() == 1 && !fields[position].is_nullable();
        Ok(match column.data_type() {
            ArrowType::Int32 if is_alone => {
                self.put_asked(&asked, &Integers::<Int32Type>::new(column, position), effect)
            }
            ArrowType::Int64 if is_alone => {
                self.put_asked(&asked, &Integers::<Int64Type>::new(column, position), effect)
            }
            _ => {
                let cells = Cells { columns: &columns, positions: &key.positions };
                self.put_asked(&asked, &cells, effect)
            }
        })
    }

    fn put_asked(
        &mut self,
        asked: &PutRequest<'_>,
        keys: &impl NewKeys,
        effect: &mut Effect,
    ) -> (Vec<Piece>, Vec<Refused>) {
        let (mut pieces, mut refused) = (Vec::with_capacity(1), Vec::new());
        let (mut next, rows) = (0, asked.rows.num_rows());
        while next < rows {
            let number = self.open_number();
            let opened = self.opened(number).expect("the open chunk has a writer");
            let (room, length) = (opened.appender.room(), opened.appender.rows() as u32);
            let mut part = Part {
                asked,
                keys,
                base: RowId::new(number, length),
                surviving_rows: Vec::with_capacity(room.min(rows - next)),
                killed: Vec::new(),
                refused: &mut refused,
            };
            next = self.index_new_rows(&mut part, next, room);
            let Part { surviving_rows, mut killed, .. } = part;
            killed.sort_unstable();
            self.applied.kill_all(&killed);
            pieces.extend(self.append_kept(
                asked.rows,
                surviving_rows,
                killed,
                (number, length),
                effect,
            ));
            if asked.demands.stop && !refused.is_empty() {
                break;
            }
        }
        (pieces, refused)
    }

    /// Assigns ids in the index to rows from `next` on; returns the first row that did not fit.
    fn index_new_rows(&self, part: &mut Part<'_, impl NewKeys>, next: usize, room: usize) -> usize {
        let asked = part.asked;
        let mut index = asked.key.index.write();
        let rows = asked.hashes.len();
        let mut known = [None; FETCHED_TOGETHER];
        for row in next..rows {
            if part.surviving_rows.len() == room {
                return row;
            }
            let turn = (row - next) % FETCHED_TOGETHER;
            if turn == 0 {
                known = self.look_ahead(&index, part, row);
            }
            if let Err(refusal) = self.place_row(&mut index, part, row, known[turn]) {
                part.refused.push((row, refusal));
                if asked.demands.stop {
                    break;
                }
            }
        }
        rows
    }

    /// Looks up the keys of rows from `next` on among rows from before the batch.
    fn look_ahead(
        &self,
        index: &IndexInner,
        part: &Part<'_, impl NewKeys>,
        next: usize,
    ) -> [Option<Known>; FETCHED_TOGETHER] {
        let end = part.asked.hashes.len().min(next + FETCHED_TOGETHER);
        let hashes = &part.asked.hashes[next..end];
        index.prefetch(hashes);
        let mut known = [None; FETCHED_TOGETHER];
        for ((known, hash), row) in known.iter_mut().zip(hashes).zip(next..) {
            let Some(likely) = index.likely(*hash) else { continue };
            let stored = likely.row;
            if part.place_of(stored).is_some() {
                continue;
            }
            let slot = self.slot_of(stored);
            if part.keys.has(self, slot, stored, row) {
                *known = Some(Known { likely, is_dead: slot.is_dead(stored.row()) });
            }
        }
        known
    }

    #[inline]
    fn place_row(
        &self,
        index: &mut IndexInner,
        part: &mut Part<'_, impl NewKeys>,
        row: usize,
        known: Option<Known>,
    ) -> Result<(), Refusal> {
        let (asked, keys, surviving_rows, base) =
            (part.asked, part.keys, &part.surviving_rows, part.base);
        let same = |stored: RowId| match part.place_of(stored) {
            Some(place) => keys.are_same(row, surviving_rows[place] as usize),
            None => keys.has(self, self.slot_of(stored), stored, row),
        };
        let slotted = index.find_slot(asked.hashes[row], known.map(|known| known.likely), same);
        let id = RowId(base.0 + surviving_rows.len() as u64);
        let holder = slotted.row();
        let here = holder.and_then(|holder| part.place_of(holder));
        let living = holder.filter(|holder| match known {
            Some(known) if known.likely.row == *holder => !known.is_dead,
            _ => here.is_some() || !self.applied.is_dead(*holder),
        });
        if let Some(expected) = asked.demands.expected {
            self.expect(expected[row], living)?;
        }
        match (asked.put, living) {
            (Put::Create, Some(_)) => return Err(Refusal::Exists { key: 0 }),
            (Put::Update, None) => return Err(Refusal::Missing),
            _ => {}
        }
        if let Some(place) = here {
            part.surviving_rows[place] = row as u32;
            return Ok(());
        }
        slotted.fill(id);
        // The key's entry now names the new row, so the old one is not found again before it is
        // marked dead.
        part.killed.extend(living);
        part.surviving_rows.push(row as u32);
        Ok(())
    }

    /// Fails unless the live row with a key is the expected one.
    fn expect(&self, expected: u64, living: Option<RowId>) -> Result<(), Refusal> {
        let expected = match expected {
            0 => None,
            id => Some(self.locate(RowId(id)).ok_or(Refusal::Changed)?),
        };
        if expected == living { Ok(()) } else { Err(Refusal::Changed) }
    }

    /// Appends the rows that received ids, and records the changes.
    fn append_kept(
        &mut self,
        rows: &RecordBatch,
        surviving_rows: Vec<u32>,
        killed: Vec<RowId>,
        (chunk, row): (u32, u32),
        effect: &mut Effect,
    ) -> Option<Piece> {
        let first = *surviving_rows.first()?;
        let in_order =
            surviving_rows.iter().zip(first..).all(|(surviving_rows, row)| *surviving_rows == row);
        let rows = if in_order {
            rows.slice(first as usize, surviving_rows.len())
        } else {
            take_record_batch(rows, &UInt32Array::from(surviving_rows))
                .expect("places of the batch")
        };
        let killed = Arc::new(killed);
        if !killed.is_empty() {
            effect.changes.push(Change::Killed { rows: Arc::clone(&killed) });
        }
        self.extend(chunk, &rows, None, effect);
        Some(Piece { killed, chunk, row, rows })
    }

    /// Writes rows to a table with further keys one by one, since each must satisfy all keys.
    fn put_singly(
        &mut self,
        rows: &RecordBatch,
        put: Put,
        demands: Demands<'_>,
        effect: &mut Effect,
    ) -> Result<(Vec<Piece>, Vec<Refused>)> {
        let (mut pieces, mut refused) = (Vec::new(), Vec::new());
        for row in 0..rows.num_rows() {
            let one = rows.slice(row, 1);
            let expected = demands.expected.map(|expected| expected[row]);
            match self.put_one(&one, put, expected, effect)? {
                Ok(piece) => pieces.push(piece),
                Err(refusal) => refused.push((row, refusal)),
            }
            if demands.stop && !refused.is_empty() {
                break;
            }
        }
        Ok((pieces, refused))
    }

    fn put_one(
        &mut self,
        row: &RecordBatch,
        put: Put,
        expected: Option<u64>,
        effect: &mut Effect,
    ) -> Result<Result<Piece, Refusal>> {
        let keys = Arc::clone(self.applied.keys());
        let mut holders = keys.iter().map(|key| self.holder(key, &key_columns(key, row.columns())));
        let living = holders.next().flatten();
        let taken = holders.position(|holder| holder.is_some() && holder != living);
        let wanted = match expected {
            Some(expected) => self.expect(expected, living),
            None => Ok(()),
        };
        let refusal = match (wanted, put, living, taken) {
            (Err(refusal), ..) => Some(refusal),
            (_, Put::Create, Some(_), _) => Some(Refusal::Exists { key: 0 }),
            (_, Put::Update, None, _) => Some(Refusal::Missing),
            (.., Some(other)) => Some(Refusal::Exists { key: other + 1 }),
            _ => None,
        };
        if let Some(refusal) = refusal {
            return Ok(Err(refusal));
        }
        let killed: Vec<RowId> = living.into_iter().collect();
        let killed = Arc::new(self.kill(&killed, effect)?);
        let placed = self.append(row, effect)?;
        let place = placed.first().ok_or_else(|| Error::internal("a row found no place"))?;
        Ok(Ok(Piece { killed, chunk: place.chunk, row: place.row, rows: row.clone() }))
    }

    /// The live row with the key in row 0 of `columns`, published or not.
    fn holder(&self, key: &StateKey, columns: &[ArrayRef]) -> Option<RowId> {
        let hashes = KeyHashes::new(columns);
        if hashes.is_null(0) {
            return None;
        }
        let same =
            |stored: RowId| same_key(columns, 0, |column| self.cell(stored, key.positions[column]));
        let found = key.index.read().find(hashes.hashes[0], same);
        found.filter(|row| !self.applied.is_dead(*row))
    }

    /// Removes the rows with the given primary keys (the key's columns in its order). Returns the
    /// removed rows and the skipped keys.
    ///
    /// # Errors
    /// If the columns do not match the key; then nothing has changed.
    pub fn remove(
        &mut self,
        columns: &[ArrayRef],
        demands: Demands<'_>,
        effect: &mut Effect,
    ) -> Result<(Vec<RowId>, Vec<Refused>)> {
        let keys = Arc::clone(self.applied.keys());
        let primary = self.primary_key(&keys)?;
        self.check_key(primary, columns)?;
        let hashes = KeyHashes::new(columns);
        let (mut killed, mut refused) = (Vec::with_capacity(hashes.hashes.len()), Vec::new());
        let index = primary.index.read();
        for (row, hash) in hashes.hashes.iter().enumerate() {
            index.prefetch_from(&hashes.hashes, row);
            let same = |stored: RowId| {
                same_key(columns, row, |column| self.cell(stored, primary.positions[column]))
            };
            let found = if hashes.is_null(row) { None } else { index.find(*hash, same) };
            let living = found.filter(|found| !self.applied.is_dead(*found));
            let wanted = match demands.expected {
                Some(expected) => self.expect(expected[row], living),
                None => Ok(()),
            };
            match wanted.and_then(|()| living.ok_or(Refusal::Missing)) {
                Ok(living) => {
                    self.applied.kill(living);
                    killed.push(living);
                }
                Err(refusal) => refused.push((row, refusal)),
            }
            if demands.stop && !refused.is_empty() {
                break;
            }
        }
        drop(index);
        if !killed.is_empty() {
            effect.changes.push(Change::Killed { rows: Arc::new(killed.clone()) });
            self.note(effect);
        }
        Ok((killed, refused))
    }

    pub(super) fn primary_key<'k>(&self, keys: &'k [StateKey]) -> Result<&'k StateKey> {
        let there = self.schema().primary_key.is_some();
        let first = keys.first().filter(|_| there);
        first.ok_or_else(|| Error::internal("rows by key for a table without a primary key"))
    }

    pub(super) fn check_key(&self, key: &StateKey, columns: &[ArrayRef]) -> Result<()> {
        let fields = self.applied.arrow_schema().fields();
        let of_key = key.positions.iter().map(|position| fields[*position].data_type());
        if columns.iter().map(|column| column.data_type()).eq(of_key) {
            return Ok(());
        }
        Err(self.wrong_columns())
    }
}

fn key_columns(key: &StateKey, columns: &[ArrayRef]) -> Vec<ArrayRef> {
    key.positions.iter().map(|position| Arc::clone(&columns[*position])).collect()
}
