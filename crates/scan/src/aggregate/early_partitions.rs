//! Early partitioning: divides groups before all rows were read.
//!
//! If nearly every row has a group of its own, looking it up in a large table means waiting for
//! memory, without benefit. So a large table of such rows is divided, and a new one is started that
//! fits the caches; an index of all groups is never built. The merge of a partition combines equal
//! groups of its pieces. From time to time one partition is sampled. If its groups repeat after
//! all, the pieces are merged back into one table, which grows from then on.

use std::mem;

use arrow::array::RecordBatch;
use thalweg_types::Result;

use super::keys::Groups;
use super::memory::{own_bytes, text_bytes};
use super::partial::Partial;
use super::partition::divided;

/// Number of groups at which a table is first checked, and again each time it doubles.
const LOOKED_AT: usize = if cfg!(test) { 1 << 8 } else { 1 << 16 };

/// Number of groups in all pieces at which they are first sampled, and again each time it doubles.
const PIECES_LOOKED_AT: usize = if cfg!(test) { 1 << 11 } else { 1 << 20 };

/// The divided pieces, and when to divide.
pub(super) struct EarlyPartitions {
    partitions: usize,
    /// Pieces, each a batch for each partition.
    pieces: Vec<Vec<RecordBatch>>,
    groups: usize,
    bytes: usize,
    /// Number of groups at which the table is checked next.
    table_limit: usize,
    pieces_limit: usize,
    /// Number of groups of the table at the last check, and number of rows since then.
    groups_before: usize,
    rows_since: usize,
}

impl EarlyPartitions {
    /// No pieces yet, for that many partitions. A single partition is never divided early.
    pub fn new(partitions: usize) -> EarlyPartitions {
        EarlyPartitions {
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

    /// Records the number of rows whose groups were looked up.
    pub fn count(&mut self, rows: usize) {
        self.rows_since += rows;
    }

    /// Number of groups in all pieces; equal groups of several pieces count each time.
    pub fn groups(&self) -> usize {
        self.groups
    }

    /// Bytes of the pieces.
    pub fn memory_bytes(&self) -> usize {
        self.bytes
    }

    /// True if the table is large and few of its rows shared a group.
    fn is_due(&mut self, groups: usize) -> bool {
        if self.partitions == 1 || groups < self.table_limit {
            return false;
        }
        // Fewer than one row in five had a group that existed.
        let is_due = self.rows_since * 4 < (groups - self.groups_before) * 5;
        if !is_due {
            self.table_limit = groups * 2;
            (self.groups_before, self.rows_since) = (groups, 0);
        }
        is_due
    }
}

impl Partial {
    /// Divides the table if it is large and saves little.
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

    /// Turns all groups of the table into a piece.
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

    /// True if a third of the groups of a partition occurred in an earlier piece.
    fn do_pieces_repeat(&self) -> bool {
        let mut merged = Partial::new(&self.aggregation);
        let mut rows = 0;
        for piece in &self.early.pieces {
            merged.absorb(&piece[0]);
            rows += piece[0].num_rows();
        }
        merged.groups.len() * 3 < rows * 2
    }

    /// Merges all pieces back into the table, which is not divided again before it has doubled.
    pub(super) fn take_back(&mut self) {
        if self.early.pieces.is_empty() {
            return;
        }
        let fresh = EarlyPartitions::new(self.early.partitions);
        for piece in mem::replace(&mut self.early, fresh).pieces {
            piece.iter().for_each(|batch| self.absorb(batch));
        }
        self.early.table_limit = self.groups.len() * 2;
        self.early.groups_before = self.groups.len();
    }

    /// Removes and returns the pieces, each a batch for each partition.
    pub fn take_pieces(&mut self) -> Vec<Vec<RecordBatch>> {
        (self.early.groups, self.early.bytes) = (0, 0);
        mem::take(&mut self.early.pieces)
    }
}
