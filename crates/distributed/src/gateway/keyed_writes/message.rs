//! Combines parts of groups into the groups of one message to their worker.
//!
//! Consecutive parts become one group if they make the same kind of change and their rows may fail
//! independently. The worker then has fewer groups, with more rows each.

use std::sync::Arc;

use thalweg_formats::plain::{self, Picked};
use thalweg_protocol::cluster as wire;
use thalweg_protocol::cluster::row_group::Failing;
use thalweg_protocol::cluster::write::Durability;
use thalweg_query::{KeyedChange, KeyedRows, RowFailure};
use thalweg_types::{Error, Result, SqlState};

use crate::keyed;

/// Rows with one kind of change, which several workers may share.
pub(super) struct Run {
    pub rows: KeyedRows,
    pub fingerprint: u64,
}

/// The rows of a run that one worker owns.
pub(super) struct Share {
    pub run: Arc<Run>,
    /// Indexes of these rows in the run; `None` for all.
    pub which: Option<Vec<u32>>,
}

/// The rows of a group that one worker owns.
pub(super) struct Part {
    /// The group's number.
    pub number: u64,
    pub failing: Failing,
    pub durability: Durability,
    pub shares: Vec<Share>,
}

impl Share {
    fn count(&self) -> usize {
        self.which.as_ref().map_or(self.run.rows.places.len(), Vec::len)
    }

    /// Picks the values of these rows from `values`, which has one for each row of the run.
    fn of<T: Copy>(&self, values: &[T]) -> Vec<T> {
        match &self.which {
            None => values.to_vec(),
            Some(which) => which.iter().map(|row| values[*row as usize]).collect(),
        }
    }

    fn picked(&self) -> Picked<'_> {
        Picked { batch: &self.run.rows.rows, rows: self.which.as_deref() }
    }

    /// Estimated size of its rows, in bytes.
    fn bytes(&self) -> usize {
        let (batch, count) = (&self.run.rows.rows, self.count());
        let share = batch.get_array_memory_size().saturating_mul(count) / batch.num_rows().max(1);
        share.max(count)
    }

    /// True if the rows of another share can follow these in one batch.
    fn goes_on_with(&self, other: &Share) -> bool {
        let (one, other) = (&*self.run, &*other.run);
        let alike = match (&one.rows.change, &other.rows.change) {
            (KeyedChange::Put(one), KeyedChange::Put(other)) => one == other,
            (KeyedChange::Remove, KeyedChange::Remove) => true,
            (KeyedChange::Patch(one), KeyedChange::Patch(other))
            | (KeyedChange::Merge(one), KeyedChange::Merge(other)) => one.columns == other.columns,
            _ => false,
        };
        alike
            && one.rows.table == other.rows.table
            && one.fingerprint == other.fingerprint
            && one.rows.expected.is_some() == other.rows.expected.is_some()
    }
}

impl Part {
    pub(super) fn bytes(&self) -> usize {
        self.shares.iter().map(Share::bytes).sum()
    }

    /// True if its rows and those of the next part can form one group: the rows of both may fail
    /// independently.
    fn goes_on_with(&self, next: &Part) -> bool {
        let each_for_itself = |part: &Part| part.failing == Failing::LeaveOut;
        each_for_itself(self)
            && each_for_itself(next)
            && self.durability == next.durability
            && matches!(
                (&self.shares[..], &next.shares[..]),
                ([one], [other]) if one.goes_on_with(other)
            )
    }
}

/// The parts that an answer to a group of a message covers.
pub(super) struct Asked {
    /// The numbers of the parts, and the offsets of their rows in their groups.
    parts: Vec<(u64, Vec<u32>)>,
    /// True if the answer names rows by their offsets in the message's group, not in their own
    /// groups.
    counted: bool,
}

/// The groups of a message with these parts, each with the parts that its answer covers.
pub(super) fn groups(parts: &[Part]) -> Vec<(Result<wire::RowGroup>, Asked)> {
    let together = parts.chunk_by(|one, next| one.goes_on_with(next));
    together.map(|parts| (group(parts), asked(parts))).collect()
}

fn asked(parts: &[Part]) -> Asked {
    let places = |part: &Part| {
        part.shares.iter().flat_map(|share| share.of(&share.run.rows.places)).collect()
    };
    let counted = parts.iter().all(|part| part.shares.len() == 1);
    Asked { parts: parts.iter().map(|part| (part.number, places(part))).collect(), counted }
}

/// One group of the message. `parts` is not empty and its parts can follow each other.
fn group(parts: &[Part]) -> Result<wire::RowGroup> {
    let first = parts.first().ok_or_else(|| Error::internal("a group has parts"))?;
    let rows = match first.shares.as_slice() {
        [_] => vec![rows(&parts.iter().flat_map(|part| &part.shares).collect::<Vec<_>>(), true)?],
        // Only parts with one share each are combined.
        shares => shares.iter().map(|share| rows(&[share], false)).collect::<Result<_>>()?,
    };
    Ok(wire::RowGroup { failing: first.failing as i32, durability: first.durability as i32, rows })
}

fn rows(shares: &[&Share], counted: bool) -> Result<wire::KeyedRows> {
    let first = shares.first().ok_or_else(|| Error::internal("a group has rows"))?;
    let (change, columns) = keyed::change_to_wire(&first.run.rows.change);
    let picked: Vec<Picked<'_>> = shares.iter().map(|share| share.picked()).collect();
    let places = |share: &&Share| share.of(&share.run.rows.places);
    let expected =
        |share: &&Share| share.run.rows.expected.as_ref().map(|expected| share.of(expected));
    Ok(wire::KeyedRows {
        table: first.run.rows.table.0,
        fingerprint: first.run.fingerprint,
        change: change as i32,
        columns,
        rows: plain::encode(&picked)?.into(),
        places: if counted { Vec::new() } else { shares.iter().flat_map(places).collect() },
        expected: shares.iter().filter_map(expected).flatten().collect(),
    })
}

impl Asked {
    /// The outcome of each part: its number, the number of written rows, and the failed rows by
    /// their offsets in the part's group.
    pub(super) fn outcomes(
        self,
        written: Result<(u64, Vec<RowFailure>)>,
    ) -> Vec<(u64, u64, Vec<RowFailure>)> {
        let (rows, failures) = match written {
            Ok(written) => written,
            Err(error) => return self.failed(&error),
        };
        let [(number, places)] = self.parts.as_slice() else { return self.dealt(failures) };
        if !self.counted {
            return vec![(*number, rows, failures)];
        }
        let failed = |RowFailure { place, error }| {
            Some(RowFailure { place: *places.get(place as usize)?, error })
        };
        match failures.into_iter().map(failed).collect() {
            Some(failures) => vec![(*number, rows, failures)],
            None => self.failed(&no_such_row()),
        }
    }

    /// The outcome if no row was written.
    fn failed(self, error: &Error) -> Vec<(u64, u64, Vec<RowFailure>)> {
        let failure = |place| RowFailure { place, error: error.clone() };
        let parts = self.parts.into_iter();
        parts
            .map(|(number, places)| (number, 0, places.into_iter().map(failure).collect()))
            .collect()
    }

    /// Splits the failures by part. All other rows of the parts were written.
    fn dealt(self, mut failures: Vec<RowFailure>) -> Vec<(u64, u64, Vec<RowFailure>)> {
        failures.sort_by_key(|failure| failure.place);
        let mut failures = failures.into_iter().peekable();
        let (mut outcomes, mut start) = (Vec::with_capacity(self.parts.len()), 0);
        for (number, places) in &self.parts {
            let end = start + places.len();
            let mut failed = Vec::new();
            while let Some(RowFailure { place, error }) =
                failures.next_if(|failure| (failure.place as usize) < end)
            {
                failed.push(RowFailure { place: places[place as usize - start], error });
            }
            outcomes.push((*number, (places.len() - failed.len()) as u64, failed));
            start = end;
        }
        match failures.next() {
            None => outcomes,
            Some(_) => self.failed(&no_such_row()),
        }
    }
}

fn no_such_row() -> Error {
    Error::new(SqlState::PROTOCOL_VIOLATION, "a worker told of a row that it was not sent")
}

#[cfg(test)]
mod tests;
