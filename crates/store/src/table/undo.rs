//! Undo of changes that were applied and never published.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use thalweg_types::RowId;

use super::{Opened, Table};
use crate::effect::Change;
use crate::state::Slot;
use crate::{Chunk, Effect};

impl Table {
    /// Reverts an effect completely.
    ///
    /// It must be the newest of those that are neither published nor undone.
    pub fn undo(&mut self, effect: Effect) {
        // From here on readers do not trust a missing index entry.
        self.applied.removals().fetch_add(1, Ordering::AcqRel);
        for change in effect.changes.into_iter().rev() {
            match &change {
                Change::Extended { slot, from, .. } => {
                    self.withdraw(slot.number, *from, slot.length)
                }
                Change::Added { slot } => self.withdraw(slot.number, 0, slot.length),
                Change::Killed { .. }
                | Change::Swapped { .. }
                | Change::Compacted { .. }
                | Change::Replaced { .. } => {}
            }
            self.undo_rows(change);
        }
    }

    /// Reverts a change, except for the index entries of the rows that it added.
    pub(super) fn undo_rows(&mut self, change: Change) {
        match change {
            Change::Extended { slot, from, closed } => self.undo_extended(&slot, from, closed),
            Change::Added { slot } => {
                self.applied.remove(slot.number);
            }
            Change::Killed { rows } => self.undo_killed(&rows),
            Change::Swapped { number, opened, .. } => {
                let chunk = Chunk::Open(Arc::clone(opened.appender.chunk()));
                self.applied.replace_chunk(number, chunk);
                self.opened.push(opened);
            }
            Change::Compacted { sources, added, opened } => {
                self.undo_compacted(sources, added);
                self.opened.extend(opened);
            }
            Change::Replaced { before, opened, .. } => {
                // A chunk that was started for rows that were then refused has none.
                let is_empty = |opened: &Opened| opened.appender.rows() == 0;
                assert!(self.opened.iter().all(is_empty), "later rows were taken back before");
                self.applied = *before;
                self.opened = opened;
                let room = self.opened.iter().rfind(|opened| opened.appender.room() > 0);
                self.open = room.map(|opened| opened.number);
            }
        }
    }

    fn withdraw(&self, number: u32, from: u32, to: u32) {
        for key in self.applied.keys().iter() {
            self.withdraw_rows(key, number, from, to);
        }
    }

    fn undo_extended(&mut self, slot: &Slot, from: u32, closed: Option<Slot>) {
        if let Some(closed) = closed {
            self.take_opened(slot.number);
            self.applied.remove(slot.number);
            self.applied.insert(closed);
            return;
        }
        self.applied.shorten(slot.number, from);
        if from == 0 {
            self.take_opened(slot.number);
            return;
        }
        let opened = self.opened_mut(slot.number).expect("an open chunk has a writer");
        opened.appender.rewind(from as usize);
        self.open = Some(slot.number);
    }

    fn undo_killed(&mut self, rows: &[RowId]) {
        for &row in rows {
            self.applied.revive(row);
        }
        for key in self.applied.keys().iter() {
            let mut index = key.index.write();
            for &row in rows {
                if let Some(hash) = self.key_hash(key, row) {
                    index.revive(hash, row, |other| self.is_same_key(key, row, other));
                }
            }
        }
    }

    fn undo_compacted(&mut self, sources: Vec<Slot>, added: Option<Slot>) {
        if let Some(added) = added {
            for key in self.applied.keys().iter() {
                let mut index = key.index.write();
                for (from, to) in sources.iter().flat_map(|source| self.moves(source.number)) {
                    if let Some(hash) = self.key_hash(key, to) {
                        index.repoint_back(hash, from, to);
                    }
                }
            }
            self.applied.remove(added.number);
        }
        for source in sources {
            self.applied.forwards().write().remove(source.number);
            self.applied.insert(source);
        }
    }
}
