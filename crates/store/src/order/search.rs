//! Ranges of an index.

use std::cmp::Ordering;
use std::ops::{Bound, Range};

use arrow::array::{Array, ArrayRef};
use thalweg_types::{Index, ValueOrder};

use super::{Rows, Run, compare};
use crate::cell::{Cell, cell};
use crate::{Chunk, ChunkView};

/// How many rows of an open chunk may lie behind its run.
const TAIL_MAX: usize = 1_024;

/// A run is soon made of so many rows more.
const SOON_MADE_ROWS: usize = 4_096;

/// The rows that have certain values in the first columns of an index and, in the next one, a value
/// between two others. Values are arrays of one row, of their column's type.
#[derive(Clone, Debug)]
pub struct KeyRange {
    /// Also NULL, which the rows then have.
    pub equal: Vec<ArrayRef>,
    /// Where one of the two is bounded, rows with NULL are not in the range.
    pub from: Bound<ArrayRef>,
    pub to: Bound<ArrayRef>,
}

/// What a chunk has within a range: dead rows, too, and those that a snapshot does not show yet.
pub struct Hits {
    pub(super) run: Run,
    pub(super) within: Range<usize>,
    /// Rows behind the run, in the order of the index.
    pub(super) tail: Vec<u16>,
}

impl Hits {
    /// How many rows there are at most.
    #[must_use]
    pub fn count(&self) -> usize {
        self.within.len() + self.tail.len()
    }
}

impl ChunkView {
    /// The rows within a range of an index. `positions` are those of its columns in the table.
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

    /// The same for who can't wait long; `None` where many of the chunk's rows would have to be put
    /// in order first.
    #[must_use]
    pub fn find_soon(&self, index: &Index, positions: &[usize], range: &KeyRange) -> Option<Hits> {
        let slot = self.slot();
        let is_soon = self.is_apart(positions, range)
            || is_soon_made(&slot.chunk, slot.length as usize, index);
        is_soon.then(|| self.find(index, positions, range))
    }

    /// Whether the zone of a closed chunk tells that none of its rows is within a range.
    fn is_apart(&self, positions: &[usize], range: &KeyRange) -> bool {
        let zone = positions.first().and_then(|column| self.zone(*column));
        let Some((least, greatest)) = zone.and_then(|zone| zone.range.as_ref()) else {
            return false;
        };
        // Zones have an order of their own for floats.
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

    /// The places of those rows that this snapshot shows alive, ascending.
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

/// The run of a chunk, with as many of its first `length` rows as it must have.
pub(super) fn run(chunk: &Chunk, length: usize, index: &Index, positions: &[usize]) -> Run {
    let grow = |run: &[u16]| Rows::of(chunk, length, positions, &index.orders).grow(run, length);
    match chunk {
        Chunk::Closed(chunk) => chunk.runs().get(index, length, grow),
        Chunk::Open(chunk) => chunk.runs().get(index, length.saturating_sub(TAIL_MAX), grow),
    }
}

/// Whether few rows of a chunk are missing from its run.
fn is_soon_made(chunk: &Chunk, length: usize, index: &Index) -> bool {
    let (runs, least) = match chunk {
        Chunk::Closed(chunk) => (chunk.runs(), length),
        Chunk::Open(chunk) => (chunk.runs(), length.saturating_sub(TAIL_MAX)),
    };
    least.saturating_sub(runs.made(index)) <= SOON_MADE_ROWS
}

/// A range as it lies in an index, where what comes first may be the greatest value.
struct Sought<'a> {
    equal: &'a [ArrayRef],
    start: Bound<&'a ArrayRef>,
    end: Bound<&'a ArrayRef>,
    /// Whether the column behind the equal ones may not be NULL.
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
