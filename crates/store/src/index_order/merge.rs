//! Merges the runs of many chunks into the order of an index.

use std::ops::Range;

use thalweg_types::{Index, ValueOrder};

use super::{Hits, Rows};
use crate::ChunkView;

/// The live rows of a snapshot in the order of an index, forward or backward.
///
/// An iterator over the position of a chunk in the given list and a row offset in it.
pub struct InOrder<'a> {
    sources: Vec<Source<'a>>,
    backward: bool,
    /// The sources with rows left, as a heap: the first has the next row.
    heap: Vec<usize>,
}

/// A part of a run.
struct Source<'a> {
    chunk: usize,
    view: &'a ChunkView,
    rows: Rows<'a>,
    places: &'a [u16],
    rest: Range<usize>,
}

impl<'a> InOrder<'a> {
    /// `found` has positions in `chunks` with the search's result for each. `positions` are those
    /// of the index's columns in the table.
    #[must_use]
    pub fn new(
        chunks: &'a [ChunkView],
        index: &'a Index,
        positions: &'a [usize],
        found: &'a [(usize, Hits)],
        backward: bool,
    ) -> InOrder<'a> {
        let orders: &'a [ValueOrder] = &index.orders;
        let parts = found.iter().flat_map(|(chunk, hits)| {
            [(*chunk, &hits.run[hits.within.clone()]), (*chunk, hits.tail.as_slice())]
        });
        let sources = parts.filter(|(_, places)| !places.is_empty()).map(|(chunk, places)| {
            let view = &chunks[chunk];
            let slot = view.slot();
            let rows = Rows::of(&slot.chunk, slot.length as usize, positions, orders);
            Source { chunk, view, rows, places, rest: 0..places.len() }
        });
        let mut merged = InOrder { sources: sources.collect(), backward, heap: Vec::new() };
        for source in 0..merged.sources.len() {
            if merged.sources[source].skip_dead(backward) {
                merged.heap.push(source);
            }
        }
        for place in (0..merged.heap.len() / 2).rev() {
            merged.sift_down(place);
        }
        merged
    }

    /// Restores the heap order below a position.
    fn sift_down(&mut self, mut place: usize) {
        loop {
            let children = [2 * place + 1, 2 * place + 2];
            let mut first = place;
            for child in children.into_iter().filter(|child| *child < self.heap.len()) {
                if self.is_first(self.heap[child], self.heap[first]) {
                    first = child;
                }
            }
            if first == place {
                return;
            }
            self.heap.swap(place, first);
            place = first;
        }
    }

    /// True if one source's next row comes before another's.
    fn is_first(&self, left: usize, right: usize) -> bool {
        let (left, right) = (&self.sources[left], &self.sources[right]);
        let order =
            left.rows.compare(left.next(self.backward), &right.rows, right.next(self.backward));
        if self.backward { order.is_gt() } else { order.is_lt() }
    }
}

impl Iterator for InOrder<'_> {
    type Item = (usize, u16);

    fn next(&mut self) -> Option<(usize, u16)> {
        let backward = self.backward;
        let source = &mut self.sources[*self.heap.first()?];
        let found = (source.chunk, source.next(backward));
        source.take(backward);
        if !source.skip_dead(backward) {
            self.heap.swap_remove(0);
        }
        self.sift_down(0);
        Some(found)
    }
}

impl Source<'_> {
    fn next(&self, backward: bool) -> u16 {
        if backward { self.places[self.rest.end - 1] } else { self.places[self.rest.start] }
    }

    fn take(&mut self, backward: bool) {
        if backward {
            self.rest.end -= 1;
        } else {
            self.rest.start += 1;
        }
    }

    /// Advances to a live row; false if none is left.
    fn skip_dead(&mut self, backward: bool) -> bool {
        while !self.rest.is_empty() {
            if self.view.slot().is_live(self.next(backward)) {
                return true;
            }
            self.take(backward);
        }
        false
    }
}
