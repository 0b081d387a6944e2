//! Finds rows that are known by their ids from an older version of the table.

use thalweg_types::{Error, Result, RowId, SqlState};

use super::TableState;

impl TableState {
    /// The current id of a row of an older version, dead or alive; `None` if it is gone.
    pub(crate) fn follow(&self, row: RowId) -> Option<RowId> {
        let is_there = |chunk: u32| self.slot(chunk).is_some();
        if is_there(row.chunk()) {
            return Some(row);
        }
        self.forwards.read().follow(row, is_there)
    }

    /// Marks rows of an older version dead in this clone alone, wherever compaction moved them
    /// since: changes of an uncommitted transaction on another node.
    ///
    /// # Errors
    /// If a row is not alive any more, or compaction moved it so long ago that the forward was
    /// dropped (`40001`). Some of the rows are dead then.
    pub fn hide(&mut self, rows: &[RowId]) -> Result<()> {
        for rows in rows.chunk_by(|left, right| left.chunk() == right.chunk()) {
            for row in self.followed(rows) {
                if !row.is_some_and(|row| self.kill(row)) {
                    return Err(concurrent_update());
                }
            }
        }
        Ok(())
    }

    /// The current ids of the rows of one chunk. Compaction waits meanwhile.
    fn followed(&self, rows: &[RowId]) -> Vec<Option<RowId>> {
        let is_there = |chunk: u32| self.slot(chunk).is_some();
        if rows.first().is_none_or(|row| is_there(row.chunk())) {
            return rows.iter().copied().map(Some).collect();
        }
        let forwards = self.forwards.read();
        rows.iter().map(|row| forwards.follow(*row, is_there)).collect()
    }
}

pub(crate) fn concurrent_update() -> Error {
    Error::new(
        SqlState::SERIALIZATION_FAILURE,
        "could not serialize access due to concurrent update",
    )
    .with_hint("Run the transaction again.")
}
