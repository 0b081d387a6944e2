//! The health of the storage: its faults at the moment, and the times at which they began.
//!
//! The disk stage reports faults of the log. The maintenance thread reports those of checkpoints,
//! heads and the data directory. Readers, such as health checks and metrics, see the faults that
//! are there now. A listener is called once when a fault begins and once when it ends.
//!
//! Invariant: a part of the storage has at most one fault, so one cause is reported once.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use thalweg_env::Clock;
use thalweg_types::{Error, SqlState};

use crate::log_status::error_line;

/// Why the storage is not healthy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StorageReason {
    /// The log has no space.
    DiskFull,
    /// The log must not be written to.
    ReadOnly,
    /// A write or a sync of the log failed.
    LogFailed,
    /// The data directory was removed, replaced or unmounted.
    DirectoryGone,
    /// The last checkpoint failed.
    CheckpointFailed,
    /// The file of heads cannot be synced.
    HeadsFailed,
}

impl StorageReason {
    pub const ALL: [StorageReason; 6] = [
        StorageReason::DiskFull,
        StorageReason::ReadOnly,
        StorageReason::LogFailed,
        StorageReason::DirectoryGone,
        StorageReason::CheckpointFailed,
        StorageReason::HeadsFailed,
    ];

    /// The name in metrics and in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            StorageReason::DiskFull => "disk_full",
            StorageReason::ReadOnly => "read_only",
            StorageReason::LogFailed => "log_failed",
            StorageReason::DirectoryGone => "directory_gone",
            StorageReason::CheckpointFailed => "checkpoint_failed",
            StorageReason::HeadsFailed => "heads_failed",
        }
    }

    /// One sentence that names no path, so that anybody may read it.
    #[must_use]
    pub fn summary(self) -> &'static str {
        match self {
            StorageReason::DiskFull => "the disk is full: writes are refused",
            StorageReason::ReadOnly => "the disk is read-only: writes are refused",
            StorageReason::LogFailed => "the log failed: writes are refused",
            StorageReason::DirectoryGone => "the data directory is gone: writes are refused",
            StorageReason::CheckpointFailed => "the last checkpoint failed: the log grows",
            StorageReason::HeadsFailed => {
                "the file of heads cannot be synced: the log is less protected against damage"
            }
        }
    }

    /// True if writes are refused for this reason.
    #[must_use]
    pub fn refuses_writes(self) -> bool {
        match self {
            StorageReason::DiskFull
            | StorageReason::ReadOnly
            | StorageReason::LogFailed
            | StorageReason::DirectoryGone => true,
            StorageReason::CheckpointFailed | StorageReason::HeadsFailed => false,
        }
    }

    /// The reason for a failure of the log.
    pub(crate) fn of_log(error: &Error) -> StorageReason {
        match error.state() {
            SqlState::DISK_FULL => StorageReason::DiskFull,
            SqlState::INSUFFICIENT_PRIVILEGE => StorageReason::ReadOnly,
            _ => StorageReason::LogFailed,
        }
    }

    /// The part of the storage that fails. A part has at most one fault at a time.
    fn part(self) -> Part {
        match self {
            StorageReason::DiskFull | StorageReason::ReadOnly | StorageReason::LogFailed => {
                Part::Log
            }
            StorageReason::DirectoryGone => Part::Directory,
            StorageReason::CheckpointFailed => Part::Checkpoint,
            StorageReason::HeadsFailed => Part::Heads,
        }
    }
}

/// A part of the storage that works or fails by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Log,
    Directory,
    Checkpoint,
    Heads,
}

/// Something that fails at the moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageFault {
    pub reason: StorageReason,
    /// The error, with the file and the cause.
    pub message: String,
    /// When it began, in microseconds since 1970.
    pub since_micros: i64,
    /// True if only a restart of the database ends it.
    pub until_restart: bool,
}

/// A change that a listener hears of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StorageChange {
    Began(StorageFault),
    Ended(StorageFault),
}

/// Called from the engine's threads, which it must not hold up.
pub type StorageListener = Arc<dyn Fn(&StorageChange) + Send + Sync>;

/// The faults at the moment. The engine's stages share it.
pub struct StorageHealth {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    faults: Vec<StorageFault>,
    listener: Option<StorageListener>,
}

impl fmt::Debug for StorageHealth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.faults()).finish()
    }
}

impl StorageHealth {
    pub(crate) fn new(clock: &Arc<dyn Clock>) -> StorageHealth {
        StorageHealth { clock: Arc::clone(clock), state: Mutex::default() }
    }

    /// The faults at the moment, in the order in which they began.
    #[must_use]
    pub fn faults(&self) -> Vec<StorageFault> {
        self.state.lock().faults.clone()
    }

    /// Sets the listener, which replaces an earlier one. It is called at once for the faults that
    /// are there, and then whenever a fault begins or ends.
    pub fn listen(&self, listener: StorageListener) {
        let faults = {
            let mut state = self.state.lock();
            state.listener = Some(Arc::clone(&listener));
            state.faults.clone()
        };
        faults.into_iter().for_each(|fault| listener(&StorageChange::Began(fault)));
    }

    /// A part failed. A fault that is known for the same reason stays as it is.
    pub(crate) fn failed(&self, reason: StorageReason, error: &Error, until_restart: bool) {
        let since_micros = self.clock.now_micros();
        let fault =
            StorageFault { reason, message: error_line(error), since_micros, until_restart };
        let listener = {
            let mut state = self.state.lock();
            let known = state.faults.iter_mut().find(|known| known.reason.part() == reason.part());
            match known {
                Some(known) if (known.reason, known.until_restart) == (reason, until_restart) => {
                    return;
                }
                Some(known) => *known = fault.clone(),
                None => state.faults.push(fault.clone()),
            }
            state.listener.clone()
        };
        if let Some(listener) = listener {
            listener(&StorageChange::Began(fault));
        }
    }

    /// A part works again, where it failed before.
    pub(crate) fn works(&self, part: Part) {
        let (ended, listener) = {
            let mut state = self.state.lock();
            let Some(place) = state.faults.iter().position(|fault| fault.reason.part() == part)
            else {
                return;
            };
            (state.faults.remove(place), state.listener.clone())
        };
        if let Some(listener) = listener {
            listener(&StorageChange::Ended(ended));
        }
    }

    /// True if the log refuses writes, and may take them again without a restart.
    pub(crate) fn may_log_recover(&self) -> bool {
        let state = self.state.lock();
        state.faults.iter().any(|fault| fault.reason.part() == Part::Log && !fault.until_restart)
    }
}

#[cfg(test)]
mod tests {
    use thalweg_env::SimulatedClock;

    use super::*;

    fn full() -> Error {
        Error::new(SqlState::DISK_FULL, "no space")
    }

    #[test]
    fn each_fault_is_heard_of_once_when_it_begins_and_once_when_it_ends() {
        let clock: Arc<dyn Clock> = Arc::new(SimulatedClock::new());
        let health = StorageHealth::new(&clock);
        health.failed(StorageReason::CheckpointFailed, &full(), false);
        let heard = Arc::new(Mutex::new(Vec::new()));
        let hears = Arc::clone(&heard);
        health.listen(Arc::new(move |change| {
            hears.lock().push(match change {
                StorageChange::Began(fault) => (fault.reason, true),
                StorageChange::Ended(fault) => (fault.reason, false),
            });
        }));
        for _ in 0..3 {
            health.failed(StorageReason::of_log(&full()), &full(), false);
            health.failed(StorageReason::CheckpointFailed, &full(), false);
        }
        assert!(health.may_log_recover());
        // The log has one fault at a time.
        health.failed(StorageReason::LogFailed, &full(), true);
        assert!(!health.may_log_recover());
        assert_eq!(health.faults().len(), 2);
        for _ in 0..2 {
            health.works(Part::Checkpoint);
            health.works(Part::Log);
            health.works(Part::Heads);
        }
        assert_eq!(health.faults(), []);
        let expected = [
            (StorageReason::CheckpointFailed, true),
            (StorageReason::DiskFull, true),
            (StorageReason::LogFailed, true),
            (StorageReason::CheckpointFailed, false),
            (StorageReason::LogFailed, false),
        ];
        assert_eq!(*heard.lock(), expected);
    }
}
