//! Parts of unfinished writes.
//!
//! A gateway that dies leaves parts behind, which look like those of a slow write. They are dropped
//! if others need their room and no message came for a minute. Loads hold many rows while their
//! statements run. Their gateways send heartbeats, and a load is dropped after a minute without
//! one. After the check stage a load is treated like other writes, since another worker may have
//! committed its part. Each message of a write has the number of messages before it, so that
//! missing parts are always noticed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use thalweg_env::Clock;
use thalweg_query::RowChanges;
use thalweg_types::{Error, Result, SqlState};

/// Limit of unfinished writes.
const KEPT_MAX: usize = 1_024;
/// Time for which an unfinished write keeps its room.
const KEPT_FOR: Duration = Duration::from_secs(60);

pub(super) struct PreparedWrites {
    clock: Arc<dyn Clock>,
    /// Unfinished writes by number.
    writes: Mutex<HashMap<u64, PreparedWrite>>,
}

struct PreparedWrite {
    changes: Vec<RowChanges>,
    /// Number of messages received, and the time of the last one.
    messages: u32,
    since: Duration,
    /// True if the load's statement still runs.
    is_load: bool,
}

impl PreparedWrites {
    pub(super) fn new(clock: &Arc<dyn Clock>) -> PreparedWrites {
        PreparedWrites { clock: Arc::clone(clock), writes: Mutex::default() }
    }

    /// Removes and returns the changes of a write, of which `before` messages must have arrived.
    /// The first message of a write starts without changes, even if an earlier write had its
    /// number.
    ///
    /// # Errors
    /// If parts of the write are missing.
    pub(super) fn take(&self, number: u64, before: u32) -> Result<Vec<RowChanges>> {
        let prepared = self.writes.lock().remove(&number);
        match prepared.filter(|prepared| prepared.messages == before) {
            _ if before == 0 => Ok(Vec::new()),
            Some(prepared) => Ok(prepared.changes),
            None => Err(gone()),
        }
    }

    /// Stores the changes of a write after so many messages.
    ///
    /// # Errors
    /// If too many writes are unfinished and none of them is old.
    pub(super) fn keep(
        &self,
        number: u64,
        messages: u32,
        is_load: bool,
        changes: Vec<RowChanges>,
    ) -> Result<()> {
        let since = self.clock.monotonic();
        let mut writes = self.writes.lock();
        if writes.len() >= KEPT_MAX {
            writes.retain(|_, prepared| since.saturating_sub(prepared.since) < KEPT_FOR);
        }
        if writes.len() >= KEPT_MAX {
            let message = "too many writes of gateways wait for their end";
            return Err(Error::new(SqlState::CONFIGURATION_LIMIT_EXCEEDED, message)
                .with_hint("Run the statement again when others have ended."));
        }
        writes.insert(number, PreparedWrite { changes, messages, since, is_load });
        Ok(())
    }

    pub(super) fn forget(&self, number: u64) {
        self.writes.lock().remove(&number);
    }

    /// Drops the loads whose gateways sent no heartbeat for a minute.
    pub(super) fn forget_silent(&self) {
        let now = self.clock.monotonic();
        let is_heard = |prepared: &PreparedWrite| now.saturating_sub(prepared.since) < KEPT_FOR;
        self.writes.lock().retain(|_, prepared| !prepared.is_load || is_heard(prepared));
    }
}

/// The error of a missing part. A restarted worker has lost its parts, too.
fn gone() -> Error {
    let message = "a worker does not have the first parts of this write any more";
    Error::new(SqlState::SERIALIZATION_FAILURE, message).with_hint("Run the statement again.")
}

#[cfg(test)]
mod tests {
    use thalweg_env::SimulatedClock;
    use thalweg_types::TableId;

    use super::*;

    fn prepared() -> (PreparedWrites, SimulatedClock) {
        let clock = SimulatedClock::new();
        let shared: Arc<dyn Clock> = Arc::new(clock.clone());
        (PreparedWrites::new(&shared), clock)
    }

    fn changes(tables: u32) -> Vec<RowChanges> {
        let of = |table| RowChanges {
            table: TableId(table),
            fingerprint: 5,
            truncate: true,
            kill: Vec::new(),
            append: Vec::new(),
        };
        (0..tables).map(of).collect()
    }

    /// Number of tables whose changes are returned.
    fn taken(prepared: &PreparedWrites, number: u64, before: u32) -> Result<usize, SqlState> {
        prepared.take(number, before).map(|changes| changes.len()).map_err(|error| error.state())
    }

    #[test]
    fn what_is_left_behind_makes_room_after_a_minute() {
        let (prepared, clock) = prepared();
        for number in 0..KEPT_MAX as u64 - 1 {
            prepared.keep(number, 1, false, changes(1)).unwrap();
        }
        clock.advance(Duration::from_secs(40));
        prepared.keep(9_000, 1, false, changes(1)).unwrap();
        let refused = prepared.keep(9_001, 1, false, changes(1)).unwrap_err();
        assert_eq!(refused.state(), SqlState::CONFIGURATION_LIMIT_EXCEEDED);
        clock.advance(Duration::from_secs(20));
        prepared.keep(9_001, 1, false, changes(2)).unwrap();
        // Parts of the last minute exist, and the others are known to be missing.
        assert_eq!(taken(&prepared, 9_000, 1), Ok(1));
        assert_eq!(taken(&prepared, 9_001, 1), Ok(2));
        assert_eq!(taken(&prepared, 5, 1), Err(SqlState::SERIALIZATION_FAILURE));
    }

    #[test]
    fn what_waits_stays_while_there_is_room() {
        let (prepared, clock) = prepared();
        prepared.keep(1, 3, false, changes(1)).unwrap();
        clock.advance(Duration::from_secs(3_600));
        prepared.keep(2, 1, false, changes(1)).unwrap();
        assert_eq!(taken(&prepared, 1, 3), Ok(1));
    }

    #[test]
    fn parts_of_another_write_are_not_taken() {
        let (prepared, _) = prepared();
        assert_eq!(taken(&prepared, 1, 0), Ok(0));
        assert_eq!(taken(&prepared, 1, 2), Err(SqlState::SERIALIZATION_FAILURE));
        // A restarted gateway may use the same number: its first message starts a new write.
        prepared.keep(1, 1, false, changes(5)).unwrap();
        assert_eq!(taken(&prepared, 1, 0), Ok(0));
        prepared.keep(1, 1, false, changes(2)).unwrap();
        assert_eq!(taken(&prepared, 1, 2), Err(SqlState::SERIALIZATION_FAILURE));
        prepared.keep(1, 1, false, changes(2)).unwrap();
        prepared.forget(1);
        assert_eq!(taken(&prepared, 1, 1), Err(SqlState::SERIALIZATION_FAILURE));
    }

    #[test]
    fn loads_go_after_a_minute_without_a_sign_of_life() {
        let (prepared, clock) = prepared();
        prepared.keep(1, 1, true, changes(1)).unwrap();
        prepared.keep(2, 1, true, changes(2)).unwrap();
        prepared.keep(3, 1, false, changes(3)).unwrap();
        clock.advance(KEPT_FOR / 2);
        prepared.forget_silent();
        // A heartbeat is a message without rows.
        let rows = prepared.take(1, 1).unwrap();
        prepared.keep(1, 2, true, rows).unwrap();
        clock.advance(KEPT_FOR / 2);
        prepared.forget_silent();
        assert_eq!(taken(&prepared, 2, 1), Err(SqlState::SERIALIZATION_FAILURE));
        assert_eq!(taken(&prepared, 3, 1), Ok(3));
        // After the check, it stays.
        let rows = prepared.take(1, 2).unwrap();
        prepared.keep(1, 3, false, rows).unwrap();
        clock.advance(KEPT_FOR * 2);
        prepared.forget_silent();
        assert_eq!(taken(&prepared, 1, 3), Ok(1));
    }
}
