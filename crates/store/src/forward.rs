//! Forwarding addresses: where compaction moved rows.

use std::collections::{HashMap, HashSet};
use std::sync::Weak;

use thalweg_types::RowId;

use crate::Bitmap;
use crate::state::SlotToken;

/// Number of compacted chunks whose forwards are kept although no snapshot shows the chunks any
/// more. Transactions of other nodes know rows by their ids and hold no snapshot here. A forward
/// takes at most 8 KiB.
const REMEMBERED_MAX: usize = 512;

/// Maps compacted chunks to the chunks that have their rows now.
#[derive(Default)]
pub(crate) struct Forwards {
    chunks: HashMap<u32, Forward>,
}

/// Where the rows of one chunk went.
pub(crate) struct Forward {
    /// Alive while a snapshot shows the chunk.
    pub token: Weak<SlotToken>,
    /// Number of the chunk that received the rows; always greater than the source's.
    pub target: u32,
    /// Offset in the target of the first row that was moved.
    pub start: u32,
    pub taken: Bitmap,
}

impl Forwards {
    /// Records the forwards of compacted chunks, and drops the oldest ones beyond the limit.
    pub fn extend(&mut self, moved: Vec<(u32, Forward)>) {
        self.prune();
        // A chunk without live rows needs no forward.
        self.chunks.extend(moved.into_iter().filter(|(_, forward)| !forward.taken.is_empty()));
    }

    /// Drops the forward of a chunk, as when its compaction is undone.
    pub fn remove(&mut self, source: u32) {
        self.chunks.remove(&source);
    }

    /// Follows a row to the first chunk that exists, over several compactions if need be. `None` if
    /// the row was dead when its chunk was compacted, or a forward was dropped.
    pub fn follow(&self, mut row: RowId, is_there: impl Fn(u32) -> bool) -> Option<RowId> {
        while !is_there(row.chunk()) {
            let forward = self.chunks.get(&row.chunk())?;
            let rank = forward.taken.rank(row.row())?;
            row = RowId::new(forward.target, forward.start + rank);
        }
        Some(row)
    }

    /// The old and the new id of each row that was moved out of a chunk.
    pub fn moves(&self, source: u32) -> Vec<(RowId, RowId)> {
        let Some(forward) = self.chunks.get(&source) else { return Vec::new() };
        let places = forward.taken.iter().zip(forward.start..);
        places
            .map(|(from, to)| (RowId::new(source, from), RowId::new(forward.target, to)))
            .collect()
    }

    /// Bytes of all forwards.
    pub fn memory_bytes(&self) -> usize {
        let bytes = |forward: &Forward| size_of::<Forward>() + forward.taken.memory_bytes();
        self.chunks.values().map(bytes).sum()
    }

    /// Drops the oldest forwards beyond the limit, except those that rows of a snapshot may need:
    /// the forward of a chunk that is still shown and all later ones on its path.
    fn prune(&mut self) {
        let mut superfluous = self.chunks.len().saturating_sub(REMEMBERED_MAX);
        if superfluous == 0 {
            return;
        }
        let ways = self.chunks.iter().map(|(source, forward)| (forward.target, *source));
        let mut oldest_first: Vec<(u32, u32)> = ways.collect();
        oldest_first.sort_unstable();
        let mut led_to = HashSet::new();
        for (target, source) in oldest_first {
            let is_shown = |forward: &Forward| forward.token.strong_count() > 0;
            if led_to.contains(&source) || self.chunks.get(&source).is_some_and(is_shown) {
                led_to.insert(target);
            } else if superfluous > 0 {
                self.chunks.remove(&source);
                superfluous -= 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// The way of a chunk's odd places to the start of the next chunk.
    fn to_next(source: u32, token: Weak<SlotToken>) -> (u32, Forward) {
        let mut taken = Bitmap::new();
        for place in [1, 3, 5] {
            taken.insert(place);
        }
        (source, Forward { token, target: source + 1, start: 1, taken })
    }

    #[test]
    fn rows_are_led_on_to_the_first_chunk_that_is_there() {
        let mut forwards = Forwards::default();
        forwards.extend(vec![to_next(7, Weak::new()), to_next(8, Weak::new())]);
        let row = RowId::new(7, 5);
        assert_eq!(forwards.follow(row, |chunk| chunk >= 7), Some(row));
        assert_eq!(forwards.follow(row, |chunk| chunk >= 8), Some(RowId::new(8, 3)));
        assert_eq!(forwards.follow(row, |chunk| chunk >= 9), Some(RowId::new(9, 2)));
        assert_eq!(forwards.follow(row, |chunk| chunk >= 10), None, "no way leads on");
        assert_eq!(forwards.follow(RowId::new(7, 4), |chunk| chunk >= 8), None, "it was dead");
        assert_eq!(forwards.follow(RowId::new(7, 3), |chunk| chunk >= 9), None, "it died later");
    }

    #[test]
    fn the_oldest_ways_are_forgotten_but_those_of_snapshots() {
        let snapshot = Arc::new(SlotToken);
        let mut forwards = Forwards::default();
        let first = [to_next(0, Weak::new()), to_next(1, Arc::downgrade(&snapshot))];
        forwards.extend(first.into());
        // Whoever holds a row of chunk 1 needs what comes behind it as well.
        for source in 2..1 + REMEMBERED_MAX as u32 {
            forwards.extend(vec![to_next(source, Weak::new())]);
        }
        assert!(forwards.chunks.contains_key(&0));
        forwards.extend(Vec::new());
        assert!(!forwards.chunks.contains_key(&0), "one too many, and the oldest");
        forwards.extend((2_000..4_000).map(|source| to_next(source * 2, Weak::new())).collect());
        forwards.extend(Vec::new());
        let snapshots = 1..1 + REMEMBERED_MAX as u32;
        assert!(snapshots.clone().all(|source| forwards.chunks.contains_key(&source)));
        assert_eq!(forwards.chunks.len(), snapshots.len());
        drop(snapshot);
        forwards.extend(vec![to_next(9_000, Weak::new())]);
        forwards.extend(Vec::new());
        assert_eq!(forwards.chunks.len(), REMEMBERED_MAX);
        assert!(forwards.chunks.contains_key(&9_000) && !forwards.chunks.contains_key(&1));
    }

    #[test]
    fn of_chunks_without_live_rows_nothing_is_remembered() {
        let mut forwards = Forwards::default();
        let (source, way) = to_next(1, Weak::new());
        forwards.extend(vec![(source, Forward { taken: Bitmap::new(), ..way })]);
        assert!(forwards.chunks.is_empty() && forwards.memory_bytes() == 0);
    }
}
