//! Sequences: definitions in the catalog, and the counters that number.
//!
//! A counter belongs to no transaction: all versions of the catalog share it. Its numbers are
//! reserved ahead in the log, as PostgreSQL reserves 32: a record holds a position in front of the
//! counter, and numbers up to it are handed out without another record. After a crash a counter
//! goes on behind the position of its last record, so that no number is handed out twice.

mod counter;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thalweg_types::{ColumnId, DataType, Error, SqlState, TableId};

pub(crate) use counter::{Before, Reservation};
pub use counter::{Position, SequenceCounter};

/// A named sequence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sequence {
    /// Sequences and tables share one range of ids, which survive renames.
    pub id: TableId,
    pub options: SequenceOptions,
    /// The column with which the sequence is dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owned_by: Option<(TableId, ColumnId)>,
    /// Written as the position behind which replay goes on.
    pub counter: Arc<SequenceCounter>,
}

/// The numbers of a sequence, and their order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SequenceOptions {
    pub data_type: DataType,
    pub start: i64,
    /// Negative for a descending sequence, never 0.
    pub increment: i64,
    pub min: i64,
    pub max: i64,
    /// Numbers that a session takes at once.
    pub cache: i64,
    pub cycles: bool,
}

impl SequenceOptions {
    /// The position after one step; `None` at the last number of a sequence that does not cycle.
    #[must_use]
    pub fn step(&self, position: Position) -> Option<Position> {
        if !position.is_called {
            return Some(Position { last: position.last, is_called: true });
        }
        let next = position.last.checked_add(self.increment);
        let next = next.filter(|next| (self.min..=self.max).contains(next));
        let first = if self.increment > 0 { self.min } else { self.max };
        let next = next.or_else(|| self.cycles.then_some(first))?;
        Some(Position { last: next, is_called: true })
    }

    /// How many numbers follow a position; `u64::MAX` in a cycle.
    #[must_use]
    pub fn remaining(&self, position: Position) -> u64 {
        if self.cycles {
            return u64::MAX;
        }
        let end = if self.increment > 0 { self.max } else { self.min };
        let steps = end.abs_diff(position.last) / self.increment.unsigned_abs();
        steps.saturating_add(u64::from(!position.is_called))
    }

    /// The error of a sequence without a next number.
    #[must_use]
    pub fn exhausted(&self, name: &str) -> Error {
        let (end, limit) = match self.increment > 0 {
            true => ("maximum", self.max),
            false => ("minimum", self.min),
        };
        let message = format!("nextval: reached {end} value of sequence \"{name}\" ({limit})");
        Error::new(SqlState::SEQUENCE_LIMIT_EXCEEDED, message)
    }
}

/// A position on its way to the log.
pub(crate) struct SequenceChange {
    pub(crate) id: TableId,
    pub(crate) counter: Arc<SequenceCounter>,
    kind: ChangeKind,
}

enum ChangeKind {
    Reserve(Reservation),
    Set(Position),
}

impl SequenceChange {
    pub(crate) fn reserve(
        id: TableId,
        counter: &Arc<SequenceCounter>,
        reservation: Reservation,
    ) -> SequenceChange {
        let kind = ChangeKind::Reserve(reservation);
        SequenceChange { id, counter: Arc::clone(counter), kind }
    }

    pub(crate) fn set(
        id: TableId,
        counter: &Arc<SequenceCounter>,
        position: Position,
    ) -> SequenceChange {
        SequenceChange { id, counter: Arc::clone(counter), kind: ChangeKind::Set(position) }
    }

    /// Applies the change, and returns the position that the log must hold.
    pub(crate) fn write(&self, options: &SequenceOptions) -> (Position, Before) {
        match self.kind {
            ChangeKind::Reserve(reservation) => self.counter.reserve(options, reservation),
            ChangeKind::Set(position) => (position, self.counter.set(position)),
        }
    }
}
