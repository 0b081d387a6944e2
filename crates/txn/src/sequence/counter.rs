//! The counter of a sequence, shared by all sessions.

use std::fmt;

use parking_lot::Mutex;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::SequenceOptions;

/// Numbers that a log record reserves beyond those that are asked for, as in PostgreSQL.
const AHEAD: u64 = 32;

/// The state of a sequence that its relation shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    pub last: i64,
    /// False if `last` is the next number.
    pub is_called: bool,
}

/// The counter of a sequence.
pub struct SequenceCounter {
    state: Mutex<State>,
}

#[derive(Clone, Copy)]
struct State {
    position: Position,
    /// The position in the last log record.
    logged: Position,
    /// Numbers that were taken since the counter was made.
    taken: u64,
    /// The count of `taken` up to which records reserve numbers; some may be on their way.
    reserved: u64,
    /// Like `reserved`, for records that are durable.
    durable: u64,
    /// Counts the changes of the position that are no steps. Reservations made before such a change
    /// do not count after it.
    epoch: u64,
    /// True until the record of the definition is written, which holds the position.
    is_private: bool,
}

/// A request for a log record that reserves numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reservation {
    /// The count of taken numbers up to which it reserves.
    until: u64,
    epoch: u64,
}

/// The state of a counter before a group, for undoing the group.
pub(crate) struct Before {
    logged: Position,
    /// Where the group set the position.
    position: Option<Position>,
}

impl SequenceCounter {
    /// The counter of a new sequence, which no log record holds yet.
    #[must_use]
    pub fn new(position: Position) -> SequenceCounter {
        SequenceCounter::of(position, true)
    }

    fn of(position: Position, is_private: bool) -> SequenceCounter {
        let state = State {
            position,
            logged: position,
            taken: 0,
            reserved: 0,
            durable: 0,
            epoch: 0,
            is_private,
        };
        SequenceCounter { state: Mutex::new(state) }
    }

    /// The present position.
    #[must_use]
    pub fn position(&self) -> Position {
        self.state.lock().position
    }

    /// The present position, and how many numbers can be taken without a log record.
    #[must_use]
    pub fn observed(&self) -> (Position, u64) {
        let state = self.state.lock();
        (state.position, state.reserved.saturating_sub(state.taken))
    }

    /// Takes up to `count` numbers that durable records reserve, or of which no record is needed,
    /// and appends them to `numbers`. Returns the reservation that the others need; `None` if all
    /// were taken, or the sequence ends.
    pub(crate) fn take_durable(
        &self,
        options: &SequenceOptions,
        count: usize,
        numbers: &mut Vec<i64>,
    ) -> Option<Reservation> {
        let mut state = self.state.lock();
        let limit = state.durable;
        let missing = state.take(options, count, limit, numbers);
        if missing == 0 || options.step(state.position).is_none() {
            return None;
        }
        Some(state.reservation(missing))
    }

    /// Takes `count` numbers, fewer only where the sequence ends, for rows whose commit follows in
    /// the log. `request` queues a reservation, and returns what is to be dropped once the counter
    /// is unlocked.
    pub(crate) fn take_ahead<R>(
        &self,
        options: &SequenceOptions,
        count: usize,
        numbers: &mut Vec<i64>,
        request: impl FnOnce(Reservation) -> R,
    ) -> Option<R> {
        let mut state = self.state.lock();
        let limit = state.reserved;
        let missing = state.take(options, count, limit, numbers);
        if missing == 0 || options.step(state.position).is_none() {
            return None;
        }
        let reservation = state.reservation(missing);
        state.reserved = reservation.until;
        state.take(options, missing, reservation.until, numbers);
        // Queued while the counter is locked: a session that relies on this record queues its own
        // commit behind it.
        Some(request(reservation))
    }

    /// Sets the position of a counter that is not in the log yet. Returns false if it is.
    #[must_use]
    pub(crate) fn set_private(&self, position: Position) -> bool {
        let mut state = self.state.lock();
        if state.is_private {
            state.position = position;
        }
        state.is_private
    }

    /// The position that a record of a reservation holds.
    pub(crate) fn reserve(
        &self,
        options: &SequenceOptions,
        reservation: Reservation,
    ) -> (Position, Before) {
        let mut state = self.state.lock();
        let before = Before { logged: state.logged, position: None };
        let mut position = state.position;
        let ahead = reservation.until.max(state.reserved).saturating_sub(state.taken);
        for _ in 0..ahead {
            let Some(next) = options.step(position) else { break };
            position = next;
        }
        state.logged = position;
        (position, before)
    }

    /// Ends a reservation whose record is in the log.
    pub(crate) fn reserved(&self, reservation: Reservation, is_durable: bool) {
        let mut state = self.state.lock();
        if state.epoch == reservation.epoch {
            state.reserved = state.reserved.max(reservation.until);
            if is_durable {
                state.durable = state.durable.max(reservation.until);
            }
        }
    }

    /// Ends a reservation whose record the log refused.
    pub(crate) fn refused(&self, reservation: Reservation) {
        let mut state = self.state.lock();
        if state.epoch == reservation.epoch {
            state.reserved = state.durable.max(state.taken);
        }
    }

    /// Sets the position, as a record that is being written does.
    pub(crate) fn set(&self, position: Position) -> Before {
        let mut state = self.state.lock();
        let before = Before { logged: state.logged, position: Some(state.position) };
        state.jump(position);
        before
    }

    /// The record of a definition holds the present position: earlier reservations are void.
    pub(crate) fn define(&self) -> Before {
        let mut state = self.state.lock();
        let before = Before { logged: state.logged, position: None };
        let position = state.position;
        state.jump(position);
        state.is_private = false;
        before
    }

    /// Restores the position before a group that the log refused.
    pub(crate) fn undo(&self, before: Before) {
        let mut state = self.state.lock();
        if let Some(position) = before.position {
            state.jump(position);
        }
        state.logged = before.logged;
    }

    /// The present position, if it is not the one in the log.
    pub(crate) fn unlogged(&self) -> Option<Position> {
        let state = self.state.lock();
        (!state.is_private && state.position != state.logged).then_some(state.position)
    }

    /// The position in the log, for replay.
    fn logged(&self) -> Position {
        let state = self.state.lock();
        if state.is_private { state.position } else { state.logged }
    }
}

impl State {
    /// Takes numbers while `taken` is below `limit`. Returns how many are missing.
    fn take(
        &mut self,
        options: &SequenceOptions,
        count: usize,
        limit: u64,
        numbers: &mut Vec<i64>,
    ) -> usize {
        let limit = if self.is_private { u64::MAX } else { limit };
        for done in 0..count {
            if self.taken >= limit {
                return count - done;
            }
            let Some(next) = options.step(self.position) else { return count - done };
            self.position = next;
            self.taken += 1;
            numbers.push(next.last);
        }
        0
    }

    fn reservation(&self, missing: usize) -> Reservation {
        Reservation { until: self.taken + missing as u64 + AHEAD, epoch: self.epoch }
    }

    fn jump(&mut self, position: Position) {
        self.position = position;
        self.logged = position;
        self.reserved = self.taken;
        self.durable = self.taken;
        self.epoch += 1;
    }
}

impl fmt::Debug for SequenceCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.position().fmt(f)
    }
}

impl PartialEq for SequenceCounter {
    fn eq(&self, other: &SequenceCounter) -> bool {
        std::ptr::eq(self, other) || self.position() == other.position()
    }
}

impl Serialize for SequenceCounter {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.logged().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for SequenceCounter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SequenceCounter, D::Error> {
        let position = Position::deserialize(deserializer)?;
        Ok(SequenceCounter::of(position, false))
    }
}
