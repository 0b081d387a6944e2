//! Searches ranges of an index.

use std::cmp::Ordering;
use std::ops::{Bound, Range};

use arrow::array::{Array, ArrayRef};
use thalweg_types::{Index, ValueOrder};

use super::{Rows, Run, compare};
use crate::cell::{Cell, cell};
use crate::{Chunk, ChunkView};

/// Most rows of an open chunk that may be missing from its run.
const TAIL_MAX: usize = 1_024;

/// Most rows that may be missing from a run for [`ChunkView::find_soon`] to extend it.
const SOON_MADE_ROWS: usize = 4_096;

/// Rows with given values in the first columns of an index and a value within bounds in the next
/// one. Values are arrays of one row, of their column's type.
#[derive(Clone, Debug)]
pub struct KeyRange {
    /// Values of the first columns. NULL here matches rows with NULL.
    pub equal: Vec<ArrayRef>,
    /// If either of the two is bounded, rows with NULL are not in the range.
    pub from: Bound<ArrayRef>,
    pub to: Bound<ArrayRef>,
}

/// The rows of a chunk within a range, including dead rows and those that a snapshot does not show
/// yet.
pub struct Hits {
    pub(super) run: Run,
    pub(super) within: Range<usize>,
    /// Rows that the run lacks, in the order of the index.
    pub(super) tail: Vec<u16>,
}

impl Hits {
    /// Upper bound of the number of rows.
    #[must_use]
    pub fn count(&self) -> usize {
        self.within.len() + self.tail.len()
    }
}

impl ChunkView {
    /// Finds the rows within a range of an index. `positions` are those of its columns in the
    /// table.
    #[must_use]
    pub fn find(&self, index: &Index, positions: &[usize], range: &KeyRange) -> Hits {
        if self.is_apart(positions, range) {
            return Hits { run: Run::default(), within: 0..0, tail: Vec::new() };
        }
        let slot = self.slot();
        let length = slot.length as usize;
        let run = run(&slot.chunk, length, index, positions);
        let rows = Rows::of(&slot.chunk, run.len().max(length), positions, &index.orders);
        let sought = Sought::new(range, &index.orders);
        let start = run.partition_point(|place| sought.is_before(&rows, *place));
        let end = start + run[start..].partition_point(|place| !sought.is_behind(&rows, *place));
        let behind = (run.len()..length).map(|place| place as u16);
        let tail = behind.filter(|place| sought.has(&rows, *place));
        let tail = rows.sorted(tail);
        Hits { run, within: start..end, tail }
    }

    /// Like [`find`](Self::find), for callers that must not wait long; `None` if many of the
    /// chunk's rows would have to be sorted first.
    #[must_use]
    pub fn find_soon(&self, index: &Index, positions: &[usize], range: &KeyRange) -> Option<Hits> {
        let slot = self.slot();
        let is_soon = self.is_apart(positions, range)
            || is_soon_made(&slot.chunk, slot.length as usize, index);
        is_soon.then(|| self.find(index, positions, range))
    }

    /// True if the zone of a closed chunk proves that none of its rows is within a range.
    fn is_apart(&self, positions: &[usize], range: &KeyRange) -> bool {
        let zone = positions.first().and_then(|column| self.zone(*column));
        let Some((least, greatest)) = zone.and_then(|zone| zone.range.as_ref()) else {
            return false;
        };
        // Zones order floats differently.
        if least.data_type().is_floating() {
            return false;
        }
        let compared = |value: &ArrayRef, end: &ArrayRef| match (cell(value, 0), cell(end, 0)) {
            (Cell::Null, _) | (_, Cell::Null) => None,
            (value, end) => Some(value.compare(&end)),
        };
        if let Some(value) = range.equal.first() {
            return compared(value, least).is_some_and(Ordering::is_lt)
                || compared(value, greatest).is_some_and(Ordering::is_gt);
        }
        let begins_behind = match &range.from {
            Bound::Included(value) => compared(value, greatest).is_some_and(Ordering::is_gt),
            Bound::Excluded(value) => compared(value, greatest).is_some_and(Ordering::is_ge),
            Bound::Unbounded => false,
        };
        let ends_before = match &range.to {
            Bound::Included(value) => compared(value, least).is_some_and(Ordering::is_lt),
            Bound::Excluded(value) => compared(value, least).is_some_and(Ordering::is_le),
            Bound::Unbounded => false,
        };
        begins_behind || ends_before
    }

    /// The offsets of the found rows that this snapshot shows alive, ascending.
    #[must_use]
    pub fn places(&self, hits: &[Hits]) -> Vec<u16> {
        let found =
            hits.iter().flat_map(|hits| hits.run[hits.within.clone()].iter().chain(&hits.tail));
        let mut places: Vec<u16> =
            found.copied().filter(|place| self.slot().is_live(*place)).collect();
        places.sort_unstable();
        places.dedup();
        places
    }
}

/// The run of a chunk, extended to as many of its first `length` rows as necessary.
pub(super) fn run(chunk: &Chunk, length: usize, index: &Index, positions: &[usize]) -> Run {
    let grow = |run: &[u16]| Rows::of(chunk, length, positions, &index.orders).grow(run, length);
    match chunk {
        Chunk::Closed(chunk) => chunk.runs().get(index, length, grow),
        Chunk::Open(chunk) => chunk.runs().get(index, length.saturating_sub(TAIL_MAX), grow),
    }
}

/// True if few rows of a chunk are missing from its run.
fn is_soon_made(chunk: &Chunk, length: usize, index: &Index) -> bool {
    let (runs, least) = match chunk {
        Chunk::Closed(chunk) => (chunk.runs(), length),
        Chunk::Open(chunk) => (chunk.runs(), length.saturating_sub(TAIL_MAX)),
    };
    least.saturating_sub(runs.made(index)) <= SOON_MADE_ROWS
}

/// A range in the direction of the index: with a descending column, the upper bound comes first.
struct Sought<'a> {
    equal: &'a [ArrayRef],
    start: Bound<&'a ArrayRef>,
    end: Bound<&'a ArrayRef>,
    /// True if the column after the equal ones must not be NULL.
    bounded: bool,
    orders: &'a [ValueOrder],
}

impl<'a> Sought<'a> {
    fn new(range: &'a KeyRange, orders: &'a [ValueOrder]) -> Sought<'a> {
        let (from, to) = (range.from.as_ref(), range.to.as_ref());
        let bounded = !matches!((from, to), (Bound::Unbounded, Bound::Unbounded));
        let descending = bounded && orders[range.equal.len()].descending;
        let (start, end) = if descending { (to, from) } else { (from, to) };
        Sought { equal: &range.equal, start, end, bounded, orders }
    }

    fn is_before(&self, rows: &Rows<'_>, place: u16) -> bool {
        match self.compare_equal(rows, place) {
            Ordering::Equal => self.bounded && self.is_before_start(rows, place),
            order => order.is_lt(),
        }
    }

    fn is_behind(&self, rows: &Rows<'_>, place: u16) -> bool {
        match self.compare_equal(rows, place) {
            Ordering::Equal => self.bounded && self.is_behind_end(rows, place),
            order => order.is_gt(),
        }
    }

    fn has(&self, rows: &Rows<'_>, place: u16) -> bool {
        !self.is_before(rows, place) && !self.is_behind(rows, place)
    }

    fn compare_equal(&self, rows: &Rows<'_>, place: u16) -> Ordering {
        for (column, value) in self.equal.iter().enumerate() {
            let order = compare(&rows.cell(column, place), &cell(value, 0), self.orders[column]);
            if order.is_ne() {
                return order;
            }
        }
        Ordering::Equal
    }

    fn is_before_start(&self, rows: &Rows<'_>, place: u16) -> bool {
        match self.start {
            Bound::Included(value) => self.compare_next(rows, place, value).is_lt(),
            Bound::Excluded(value) => self.compare_next(rows, place, value).is_le(),
            Bound::Unbounded => self.order().nulls_first && self.is_null(rows, place),
        }
    }

    fn is_behind_end(&self, rows: &Rows<'_>, place: u16) -> bool {
        match self.end {
            Bound::Included(value) => self.compare_next(rows, place, value).is_gt(),
            Bound::Excluded(value) => self.compare_next(rows, place, value).is_ge(),
            Bound::Unbounded => !self.order().nulls_first && self.is_null(rows, place),
        }
    }

    fn compare_next(&self, rows: &Rows<'_>, place: u16, value: &ArrayRef) -> Ordering {
        compare(&rows.cell(self.equal.len(), place), &cell(value, 0), self.order())
    }

    fn is_null(&self, rows: &Rows<'_>, place: u16) -> bool {
        matches!(rows.cell(self.equal.len(), place), Cell::Null)
    }

    fn order(&self) -> ValueOrder {
        self.orders[self.equal.len()]
    }
}
