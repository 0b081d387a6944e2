//! Making runs, and keeping them with their chunk.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use thalweg_types::{ColumnId, Index, ValueOrder};

use super::{Rows, Run};
use crate::cell::Cell;

/// The runs that were made of one chunk, whatever its columns are called in whichever schema.
#[derive(Default)]
pub(crate) struct Runs {
    kept: Mutex<Vec<Kept>>,
}

struct Kept {
    by: Vec<(ColumnId, ValueOrder)>,
    /// Locked while it is made, so that others wait for it rather than make it again.
    run: Arc<Mutex<Run>>,
}

impl fmt::Debug for Runs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Runs({})", self.kept.lock().len())
    }
}

impl Runs {
    /// The run of an index with at least `least` rows; one with fewer is grown.
    pub fn get(&self, index: &Index, least: usize, grow: impl FnOnce(&[u16]) -> Run) -> Run {
        let run = self.of(index);
        let mut run = run.lock();
        if run.len() < least {
            *run = grow(&run);
        }
        Arc::clone(&run)
    }

    /// How many rows the run of an index has.
    pub fn made(&self, index: &Index) -> usize {
        self.of(index).lock().len()
    }

    fn of(&self, index: &Index) -> Arc<Mutex<Run>> {
        let by = || index.key.columns.iter().copied().zip(index.orders.iter().copied());
        let mut kept = self.kept.lock();
        if let Some(known) = kept.iter().find(|known| known.by.iter().copied().eq(by())) {
            return Arc::clone(&known.run);
        }
        let run: Arc<Mutex<Run>> = Arc::new(Mutex::new(Arc::default()));
        kept.push(Kept { by: by().collect(), run: Arc::clone(&run) });
        run
    }

    /// Forgets the runs of indexes that are gone.
    pub fn retain(&self, indexes: &[Index]) {
        self.kept.lock().retain(|kept| {
            indexes.iter().any(|index| {
                let by = index.key.columns.iter().copied().zip(index.orders.iter().copied());
                kept.by.iter().copied().eq(by)
            })
        });
    }

    pub fn memory_bytes(&self) -> usize {
        self.kept.lock().iter().map(|kept| size_of_val(&**kept.run.lock())).sum()
    }
}

impl Rows<'_> {
    /// The run of the first `length` rows, of which `run` has the first ones.
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

    /// Some rows in the index's order.
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

/// A number that is not greater than another value's where the value stands before the other one.
/// Most comparisons need to look no further.
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

/// The first bytes as a number.
fn leading(bytes: &[u8]) -> u64 {
    let mut first = [0; 8];
    let length = bytes.len().min(8);
    first[..length].copy_from_slice(&bytes[..length]);
    u64::from_be_bytes(first)
}
