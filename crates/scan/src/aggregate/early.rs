//! Groups that are divided into partitions before all rows were seen.
//!
//! Where nearly every row has a group of its own, finding it in a large table is waiting for
//! memory, and of no use. So a table of such rows is divided once it is large, and begun anew: it
//! stays in the caches, and no index of all groups is ever made. Whoever merges a partition finds
//! what its pieces have in common. From time to time one partition is looked at. Where groups come
//! again and again after all, the pieces are taken back into one table, which grows from then on.

use std::mem;

use arrow::array::RecordBatch;
use thalweg_types::Result;

use super::divide::divided;
use super::keys::Groups;
use super::memory::{own_bytes, text_bytes};
use super::partial::Partial;

/// A table is looked at when it has so many groups, and each time it has doubled.
const LOOKED_AT: usize = if cfg!(test) { 1 << 8 } else { 1 << 16 };

/// The pieces of one partition are looked at when all have so many groups, and each time they have
/// doubled.
const PIECES_LOOKED_AT: usize = if cfg!(test) { 1 << 11 } else { 1 << 20 };

/// What was divided, and when to do so.
pub(super) struct Early {
    partitions: usize,
    /// Pieces, of a batch for each partition.
    pieces: Vec<Vec<RecordBatch>>,
    groups: usize,
    bytes: usize,
    /// When the table is looked at again.
    table_limit: usize,
    pieces_limit: usize,
    /// How many groups the table had when it was looked at, and rows that came since then.
    groups_before: usize,
    rows_since: usize,
}

impl Early {
    pub fn new(partitions: usize) -> Early {
        Early {
            partitions,
            pieces: Vec::new(),
            groups: 0,
            bytes: 0,
            table_limit: LOOKED_AT,
            pieces_limit: PIECES_LOOKED_AT,
            groups_before: 0,
            rows_since: 0,
        }
    }

    /// Tells of rows whose groups were looked up.
    pub fn count(&mut self, rows: usize) {
        self.rows_since += rows;
    }

    pub fn groups(&self) -> usize {
        self.groups
    }

    pub fn memory_bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the table has become large, and few of its rows had a group in common.
    fn is_due(&mut self, groups: usize) -> bool {
        if self.partitions == 1 || groups < self.table_limit {
            return false;
        }
        // Fewer than one row in five had a group that was there.
        let is_due = self.rows_since * 4 < (groups - self.groups_before) * 5;
        if !is_due {
            self.table_limit = groups * 2;
            (self.groups_before, self.rows_since) = (groups, 0);
        }
        is_due
    }
}

impl Partial {
    /// Divides the table, if it is large and of little use.
    pub(super) fn divide_early(&mut self) -> Result<()> {
        if !self.early.is_due(self.groups.len()) {
            return Ok(());
        }
        self.divide_table()?;
        if self.early.groups >= self.early.pieces_limit {
            self.early.pieces_limit = self.early.groups * 2;
            if self.do_pieces_repeat() {
                self.take_back();
            }
        }
        Ok(())
    }

    /// Makes a piece of all groups of the table.
    fn divide_table(&mut self) -> Result<()> {
        let mut next = Groups::new(&self.aggregation.kinds);
        next.make_room(LOOKED_AT);
        let groups = mem::replace(&mut self.groups, next);
        let states = mem::replace(&mut self.states, self.aggregation.states());
        let early = &mut self.early;
        early.groups += groups.len();
        let piece = divided(&self.aggregation, groups, states, early.partitions)?;
        early.bytes += piece.iter().map(own_bytes).sum::<usize>() + text_bytes(&piece);
        early.pieces.push(piece);
        early.table_limit = LOOKED_AT;
        (early.groups_before, early.rows_since) = (0, 0);
        Ok(())
    }

    /// Whether a third of the groups of a partition were in an earlier piece too.
    fn do_pieces_repeat(&self) -> bool {
        let mut merged = Partial::new(&self.aggregation);
        let mut rows = 0;
        for piece in &self.early.pieces {
            merged.absorb(&piece[0]);
            rows += piece[0].num_rows();
        }
        merged.groups.len() * 3 < rows * 2
    }

    /// Makes one table of all groups, which is not divided again before it has doubled.
    pub(super) fn take_back(&mut self) {
        if self.early.pieces.is_empty() {
            return;
        }
        let fresh = Early::new(self.early.partitions);
        for piece in mem::replace(&mut self.early, fresh).pieces {
            piece.iter().for_each(|batch| self.absorb(batch));
        }
        self.early.table_limit = self.groups.len() * 2;
        self.early.groups_before = self.groups.len();
    }

    /// Takes out what was divided early: pieces, of a batch for each partition.
    pub fn take_pieces(&mut self) -> Vec<Vec<RecordBatch>> {
        (self.early.groups, self.early.bytes) = (0, 0);
        mem::take(&mut self.early.pieces)
    }
}
