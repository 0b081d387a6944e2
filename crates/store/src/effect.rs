//! Changes that were applied to a table and are not visible yet.

use std::sync::Arc;

use thalweg_types::RowId;

use crate::state::Slot;
use crate::table::Opened;
use crate::{ClosedChunk, TableState};

/// The changes of one group to one table, in their order.
///
/// The writer's half has them already. They are either published, in the order in which groups
/// commit, or undone, newest group first.
#[derive(Default)]
pub struct Effect {
    pub(crate) changes: Vec<Change>,
    /// The removal counter of the table's indexes after the last change.
    pub(crate) removals: u64,
}

/// One change, with the state that undoing it needs.
pub(crate) enum Change {
    /// An open chunk received rows.
    Extended {
        slot: Slot,
        from: u32,
        /// The closed chunk that held the earlier rows, if it was reopened.
        closed: Option<Slot>,
    },
    /// A closed chunk was added.
    Added { slot: Slot },
    /// Rows died.
    Killed { rows: Arc<Vec<RowId>> },
    /// A closed chunk replaced an open one with the same rows.
    Swapped { number: u32, chunk: Arc<ClosedChunk>, opened: Opened },
    /// A chunk with the live rows of others replaced them.
    Compacted { sources: Vec<Slot>, added: Option<Slot>, opened: Vec<Opened> },
    /// All rows were removed, or all chunks changed their columns.
    Replaced { after: Box<TableState>, before: Box<TableState>, opened: Vec<Opened> },
}

impl Effect {
    /// An effect without changes.
    #[must_use]
    pub fn new() -> Effect {
        Effect::default()
    }

    /// True if there are no changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Makes the changes visible to snapshots that are taken of `state` from now on.
    ///
    /// Never fails, since applying the changes checked them. Replaced chunks stay in the effect and
    /// are dropped with it.
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
