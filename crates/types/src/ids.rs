//! Numbers that name things. Each is a type of its own, so that none is taken for another.

use serde::{Deserialize, Serialize};

/// Log sequence number: the position of a group in the order in which groups commit.
///
/// The first group has number 1; 0 stands for "before any group".
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Lsn(pub u64);

impl Lsn {
    /// The number of the group after this one.
    #[must_use]
    pub const fn next(self) -> Lsn {
        Lsn(self.0 + 1)
    }
}

impl std::fmt::Display for Lsn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Names a table for as long as the database lives; never used again after `DROP TABLE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TableId(pub u32);

impl TableId {
    /// Temporary tables and sequences are numbered from here. Greater numbers would not fit into
    /// the range of numbers by which clients know tables.
    pub const FIRST_TEMPORARY: TableId = TableId(0x0200_0000);

    /// True for a table or sequence of one session, which no log and no other node knows.
    #[must_use]
    pub fn is_temporary(self) -> bool {
        self >= TableId::FIRST_TEMPORARY
    }
}

/// Names a column within its table; never used again after `DROP COLUMN`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ColumnId(pub u32);

/// Where a row lies: the number of its chunk and its place in that chunk.
///
/// A chunk never holds more than [`RowId::CHUNK_ROWS`] rows, so that the two parts are the upper
/// and the lower bits of one number. Compaction gives a moved row a new `RowId`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowId(pub u64);

impl RowId {
    /// The most rows that one chunk holds.
    pub const CHUNK_ROWS: usize = 1 << 16;

    /// The id of row `row` of a chunk; `row` must be below [`RowId::CHUNK_ROWS`].
    #[must_use]
    pub const fn new(chunk: u32, row: u32) -> RowId {
        debug_assert!((row as usize) < Self::CHUNK_ROWS);
        RowId(((chunk as u64) << 16) | row as u64)
    }

    /// The number of the chunk.
    #[must_use]
    pub const fn chunk(self) -> u32 {
        (self.0 >> 16) as u32
    }

    /// The offset of the row in its chunk.
    #[must_use]
    pub const fn row(self) -> u32 {
        (self.0 & 0xFFFF) as u32
    }

    /// Offset added to the row ids of a node, so that rows gathered from many nodes have distinct
    /// ids. Nodes are numbered from 0.
    #[must_use]
    pub const fn base_of_node(node: u16) -> u64 {
        (node as u64 + 1) << 48
    }

    /// The node that has the row, and its id there; `None` where it is a row of this one.
    #[must_use]
    pub const fn elsewhere(self) -> Option<(usize, RowId)> {
        match self.0 >> 48 {
            0 => None,
            node => Some((node as usize - 1, RowId(self.0 & ((1 << 48) - 1)))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_id_keeps_both_parts() {
        let id = RowId::new(u32::MAX, 65_535);
        assert_eq!((id.chunk(), id.row()), (u32::MAX, 65_535));
        assert!(RowId::new(1, 0) > RowId::new(0, 65_535));
    }
}
