//! Where compaction moved rows to.

use std::collections::HashMap;
use std::sync::Weak;

use thalweg_types::RowId;

use crate::Bitmap;
use crate::state::SlotToken;

/// The ways from chunks that are gone to those that have their rows now.
#[derive(Default)]
pub(crate) struct Forwards {
    chunks: HashMap<u32, Forward>,
}

/// Where the rows of one chunk went.
pub(crate) struct Forward {
    /// Alive as long as somebody may hold ids of the chunk.
    pub token: Weak<SlotToken>,
    pub target: u32,
    /// The place of the first row that was taken.
    pub start: u32,
    pub taken: Bitmap,
}

impl Forwards {
    pub fn insert(&mut self, source: u32, forward: Forward) {
        self.chunks.insert(source, forward);
    }

    pub fn remove(&mut self, source: u32) {
        self.chunks.remove(&source);
    }

    /// Follows a row, over several compactions if need be. The chunk that it ends in need not
    /// exist any more.
    pub fn follow(&self, mut row: RowId) -> Option<RowId> {
        let mut moved = false;
        while let Some(forward) = self.chunks.get(&row.chunk()) {
            let rank = forward.taken.rank(row.row())?;
            row = RowId::new(forward.target, forward.start + rank);
            moved = true;
        }
        moved.then_some(row)
    }

    /// The old and the new id of each row that was taken from a chunk.
    pub fn moves(&self, source: u32) -> Vec<(RowId, RowId)> {
        let Some(forward) = self.chunks.get(&source) else { return Vec::new() };
        let places = forward.taken.iter().zip(forward.start..);
        places
            .map(|(from, to)| (RowId::new(source, from), RowId::new(forward.target, to)))
            .collect()
    }

    /// Forgets chunks that nobody can name any more.
    pub fn prune(&mut self) {
        self.chunks.retain(|_, forward| forward.token.strong_count() > 0);
    }
}
