//! Builds runs and keeps them with their chunk.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use thalweg_types::{ColumnId, Index, ValueOrder};

use super::{Rows, Run};
use crate::cell::Cell;

/// The runs of one chunk, identified by column ids, so that they survive schema changes.
#[derive(Default)]
pub(crate) struct Runs {
    cached: Mutex<Vec<CachedRun>>,
}

struct CachedRun {
    by: Vec<(ColumnId, ValueOrder)>,
    /// Locked while it is built, so that other threads wait for it rather than build it again.
    run: Arc<Mutex<Run>>,
}

impl fmt::Debug for Runs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Runs({})", self.cached.lock().len())
    }
}

impl Runs {
    /// The run of an index with at least `least` rows; `grow` extends a shorter one.
    pub fn get(&self, index: &Index, least: usize, grow: impl FnOnce(&[u16]) -> Run) -> Run {
        let run = self.of(index);
        let mut run = run.lock();
        if run.len() < least {
            *run = grow(&run);
        }
        Arc::clone(&run)
    }

    /// Number of rows in the run of an index.
    pub fn made(&self, index: &Index) -> usize {
        self.of(index).lock().len()
    }

    fn of(&self, index: &Index) -> Arc<Mutex<Run>> {
        let by = || index.key.columns.iter().copied().zip(index.orders.iter().copied());
        let mut cached = self.cached.lock();
        if let Some(known) = cached.iter().find(|known| known.by.iter().copied().eq(by())) {
            return Arc::clone(&known.run);
        }
        let run: Arc<Mutex<Run>> = Arc::new(Mutex::new(Arc::default()));
        cached.push(CachedRun { by: by().collect(), run: Arc::clone(&run) });
        run
    }

    /// Drops the runs of indexes that no longer exist.
    pub fn retain(&self, indexes: &[Index]) {
        self.cached.lock().retain(|cached| {
            indexes.iter().any(|index| {
                let by = index.key.columns.iter().copied().zip(index.orders.iter().copied());
                cached.by.iter().copied().eq(by)
            })
        });
    }

    /// Bytes of all runs. Waits for runs that are being built.
    pub fn memory_bytes(&self) -> usize {
        self.cached.lock().iter().map(|cached| size_of_val(&**cached.run.lock())).sum()
    }
}

impl Rows<'_> {
    /// Extends `run`, which covers the first rows, to the first `length` rows.
    pub(super) fn grow(&self, run: &[u16], length: usize) -> Run {
        let new = self.sorted((run.len()..length).map(|place| place as u16));
        if run.is_empty() {
            return new.into();
        }
        let mut merged = Vec::with_capacity(length);
        let mut new = new.into_iter().peekable();
        for &place in run {
            while let Some(earlier) = new.next_if(|new| self.compare(*new, self, place).is_lt()) {
                merged.push(earlier);
            }
            merged.push(place);
        }
        merged.extend(new);
        merged.into()
    }

    /// Sorts rows by the index's order.
    pub(super) fn sorted(&self, places: impl Iterator<Item = u16>) -> Vec<u16> {
        let order = self.orders[0];
        let abbreviated = |place| (abbreviation(&self.cell(0, place), order), place);
        let mut rows: Vec<(u64, u16)> = places.map(abbreviated).collect();
        rows.sort_unstable_by(|(left, row), (right, other)| {
            left.cmp(right).then_with(|| self.compare(*row, self, *other))
        });
        rows.into_iter().map(|(_, place)| place).collect()
    }
}

/// An order-preserving prefix of a value as a number: if a value sorts before another, its number
/// is not greater. Most comparisons look no further.
fn abbreviation(cell: &Cell<'_>, order: ValueOrder) -> u64 {
    let flip = |number: i64| (number as u64) ^ (1 << 63);
    let ascending = match cell {
        Cell::Null => return if order.nulls_first { 0 } else { u64::MAX },
        Cell::Number(number) => flip(*number),
        Cell::Wide(number) => flip((*number).clamp(i64::MIN.into(), i64::MAX.into()) as i64),
        Cell::Widest(number) => flip((number.to_parts().1 >> 64) as i64),
        Cell::Bytes(bytes) => leading(bytes),
        Cell::Nested(bytes) => leading(bytes),
    };
    if order.descending { !ascending } else { ascending }
}

/// The first eight bytes as a big-endian number, padded with zeros.
fn leading(bytes: &[u8]) -> u64 {
    let mut first = [0; 8];
    let length = bytes.len().min(8);
    first[..length].copy_from_slice(&bytes[..length]);
    u64::from_be_bytes(first)
}
