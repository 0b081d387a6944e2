//! Parts of writes whose rest is to come.
//!
//! A gateway that dies leaves some behind. Nobody can tell these from such that only take long:
//! they go when others need their place and nothing came of them for a minute. Loads, whose
//! statements are still under way, are many rows: of these gateways give signs of life, and they go
//! after a minute without one. Once it is asked whether a load can be written it is a write like
//! others, since some worker may have done its part. Each message of a write says how many were
//! before it, so that what is not here any more is never taken for nothing.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use thalweg_env::Clock;
use thalweg_query::RowChanges;
use thalweg_types::{Error, Result, SqlState};

/// How many writes may be waiting for their end.
const KEPT_MAX: usize = 1_024;
/// How long they wait, whoever else comes.
const KEPT_FOR: Duration = Duration::from_secs(60);

pub(super) struct KeptWrites {
    clock: Arc<dyn Clock>,
    /// By their numbers.
    writes: Mutex<HashMap<u64, Kept>>,
}

struct Kept {
    changes: Vec<RowChanges>,
    /// How many messages they came in, and when the last one did.
    messages: u32,
    since: Duration,
    /// Whether its statement goes on.
    is_load: bool,
}

impl KeptWrites {
    pub(super) fn new(clock: &Arc<dyn Clock>) -> KeptWrites {
        KeptWrites { clock: Arc::clone(clock), writes: Mutex::default() }
    }

    /// Takes out what came with the messages before one, which are so many. A first message takes
    /// nothing, whoever had its number earlier.
    ///
    /// # Errors
    /// Where something of it is not here any more.
    pub(super) fn take(&self, number: u64, before: u32) -> Result<Vec<RowChanges>> {
        let kept = self.writes.lock().remove(&number);
        match kept.filter(|kept| kept.messages == before) {
            _ if before == 0 => Ok(Vec::new()),
            Some(kept) => Ok(kept.changes),
            None => Err(gone()),
        }
    }

    /// Keeps what came with so many messages.
    ///
    /// # Errors
    /// Where too many are kept, and none of them for long.
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
            writes.retain(|_, kept| since.saturating_sub(kept.since) < KEPT_FOR);
        }
        if writes.len() >= KEPT_MAX {
            let message = "too many writes of gateways wait for their end";
            return Err(Error::new(SqlState::CONFIGURATION_LIMIT_EXCEEDED, message)
                .with_hint("Run the statement again when others have ended."));
        }
        writes.insert(number, Kept { changes, messages, since, is_load });
        Ok(())
    }

    pub(super) fn forget(&self, number: u64) {
        self.writes.lock().remove(&number);
    }

    /// Forgets the loads whose gateways gave no sign of life for a minute.
    pub(super) fn forget_silent(&self) {
        let now = self.clock.monotonic();
        let is_heard = |kept: &Kept| now.saturating_sub(kept.since) < KEPT_FOR;
        self.writes.lock().retain(|_, kept| !kept.is_load || is_heard(kept));
    }
}

/// A worker that was started anew knows nothing of what it kept, either.
fn gone() -> Error {
    let message = "a worker does not have the first parts of this write any more";
    Error::new(SqlState::SERIALIZATION_FAILURE, message).with_hint("Run the statement again.")
}

#[cfg(test)]
mod tests {
    use thalweg_env::SimulatedClock;
    use thalweg_types::TableId;

    use super::*;

    fn kept() -> (KeptWrites, SimulatedClock) {
        let clock = SimulatedClock::new();
        let shared: Arc<dyn Clock> = Arc::new(clock.clone());
        (KeptWrites::new(&shared), clock)
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

    /// How many tables' changes are taken out.
    fn taken(kept: &KeptWrites, number: u64, before: u32) -> Result<usize, SqlState> {
        kept.take(number, before).map(|changes| changes.len()).map_err(|error| error.state())
    }

    #[test]
    fn what_is_left_behind_makes_room_after_a_minute() {
        let (kept, clock) = kept();
        for number in 0..KEPT_MAX as u64 - 1 {
            kept.keep(number, 1, false, changes(1)).unwrap();
        }
        clock.advance(Duration::from_secs(40));
        kept.keep(9_000, 1, false, changes(1)).unwrap();
        let refused = kept.keep(9_001, 1, false, changes(1)).unwrap_err();
        assert_eq!(refused.state(), SqlState::CONFIGURATION_LIMIT_EXCEEDED);
        clock.advance(Duration::from_secs(20));
        kept.keep(9_001, 1, false, changes(2)).unwrap();
        // What came within the minute is there, and the rest is known to be gone.
        assert_eq!(taken(&kept, 9_000, 1), Ok(1));
        assert_eq!(taken(&kept, 9_001, 1), Ok(2));
        assert_eq!(taken(&kept, 5, 1), Err(SqlState::SERIALIZATION_FAILURE));
    }

    #[test]
    fn what_waits_stays_while_there_is_room() {
        let (kept, clock) = kept();
        kept.keep(1, 3, false, changes(1)).unwrap();
        clock.advance(Duration::from_secs(3_600));
        kept.keep(2, 1, false, changes(1)).unwrap();
        assert_eq!(taken(&kept, 1, 3), Ok(1));
    }

    #[test]
    fn parts_of_another_write_are_not_taken() {
        let (kept, _) = kept();
        assert_eq!(taken(&kept, 1, 0), Ok(0));
        assert_eq!(taken(&kept, 1, 2), Err(SqlState::SERIALIZATION_FAILURE));
        // Another run of a gateway may come upon the same number: its first message begins anew.
        kept.keep(1, 1, false, changes(5)).unwrap();
        assert_eq!(taken(&kept, 1, 0), Ok(0));
        kept.keep(1, 1, false, changes(2)).unwrap();
        assert_eq!(taken(&kept, 1, 2), Err(SqlState::SERIALIZATION_FAILURE));
        kept.keep(1, 1, false, changes(2)).unwrap();
        kept.forget(1);
        assert_eq!(taken(&kept, 1, 1), Err(SqlState::SERIALIZATION_FAILURE));
    }

    #[test]
    fn loads_go_after_a_minute_without_a_sign_of_life() {
        let (kept, clock) = kept();
        kept.keep(1, 1, true, changes(1)).unwrap();
        kept.keep(2, 1, true, changes(2)).unwrap();
        kept.keep(3, 1, false, changes(3)).unwrap();
        clock.advance(KEPT_FOR / 2);
        kept.forget_silent();
        // A sign of life is a message with nothing in it.
        let rows = kept.take(1, 1).unwrap();
        kept.keep(1, 2, true, rows).unwrap();
        clock.advance(KEPT_FOR / 2);
        kept.forget_silent();
        assert_eq!(taken(&kept, 2, 1), Err(SqlState::SERIALIZATION_FAILURE));
        assert_eq!(taken(&kept, 3, 1), Ok(3));
        // Asked whether it can be written, it stays.
        let rows = kept.take(1, 2).unwrap();
        kept.keep(1, 3, false, rows).unwrap();
        clock.advance(KEPT_FOR * 2);
        kept.forget_silent();
        assert_eq!(taken(&kept, 1, 3), Ok(1));
    }
}
