//! Marking rows dead.

use std::sync::Arc;

use thalweg_types::{Result, RowId};

use super::Table;
use crate::Effect;
use crate::effect::Change;
use crate::state::{PRIVATE_CHUNKS, concurrent_update};

impl Table {
    /// Marks rows dead; if one is not alive (`40001`), none is marked.
    ///
    /// Ids from an older snapshot are forwarded to where compaction moved their rows. Returns the
    /// ids of the rows that were marked.
    pub fn kill(&mut self, rows: &[RowId], effect: &mut Effect) -> Result<Vec<RowId>> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let mut killed = Vec::with_capacity(rows.len());
        for &row in rows {
            let row = self.follow(row);
            if row.is_none_or(|row| !self.applied.kill(row)) {
                for row in killed.into_iter().rev() {
                    self.applied.revive(row);
                }
                return Err(concurrent_update());
            }
            killed.extend(row);
        }
        effect.changes.push(Change::Killed { rows: Arc::new(killed.clone()) });
        self.note(effect);
        Ok(killed)
    }

    /// The current id of a row; `None` if it is gone.
    fn follow(&self, row: RowId) -> Option<RowId> {
        debug_assert!(row.chunk() < PRIVATE_CHUNKS, "private rows are nobody else's");
        self.applied.follow(row)
    }

    /// The current id of a row; `None` if it is dead or gone.
    #[must_use]
    pub fn locate(&self, row: RowId) -> Option<RowId> {
        let row = self.follow(row)?;
        (self.applied.shows(row) && !self.applied.is_dead(row)).then_some(row)
    }
}
