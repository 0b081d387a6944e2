//! What was applied to a table and is not visible yet.

use std::sync::Arc;

use thalweg_types::RowId;

use crate::state::Slot;
use crate::table::Opened;
use crate::{ClosedChunk, TableState};

/// The changes of one group to one table, in their order.
///
/// They are applied to the writer's half already. Either they are published, in the order in which
/// groups commit, or undone, the newest group first.
#[derive(Default)]
pub struct Effect {
    pub(crate) changes: Vec<Change>,
    /// The removal counter of the table's indexes after the last change.
    pub(crate) removals: u64,
}

/// One change, with what it takes to undo it.
pub(crate) enum Change {
    /// An open chunk got more rows.
    Extended {
        slot: Slot,
        from: u32,
        /// The closed chunk that the rows so far were in, if it was opened again.
        closed: Option<Slot>,
    },
    /// A closed chunk came in.
    Added { slot: Slot },
    /// Rows died.
    Killed { rows: Arc<Vec<RowId>> },
    /// A closed chunk took the place of an open one with the same rows.
    Swapped { number: u32, chunk: Arc<ClosedChunk>, opened: Opened },
    /// A chunk took the place of others, which it has the live rows of.
    Compacted { sources: Vec<Slot>, added: Option<Slot>, opened: Vec<Opened> },
    /// All rows went, or all chunks changed their columns.
    Replaced { after: Box<TableState>, before: Box<TableState>, opened: Vec<Opened> },
}

impl Effect {
    #[must_use]
    pub fn new() -> Effect {
        Effect::default()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Makes the changes visible to snapshots that are taken of `state` from now on.
    ///
    /// Never fails: everything that can be wrong was checked when the changes were applied.
    /// What it replaced stays in the effect, to be dropped with it.
    pub fn publish(&self, state: &mut Arc<TableState>) {
        if self.changes.is_empty() {
            return;
        }
        let state = Arc::make_mut(state);
        for change in &self.changes {
            if let Change::Extended { slot, .. } = change {
                slot.publish();
            }
            state.apply(change);
        }
        state.set_removals_seen(self.removals);
    }
}
