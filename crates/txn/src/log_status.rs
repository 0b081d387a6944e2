//! State of the log and its checkpoints, for operators of the database.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::Mutex;
use thalweg_types::{Error, Lsn};

/// Number of checkpoints that are remembered; the oldest is dropped first.
const REMEMBERED_MAX: usize = 64;

/// The log as it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogStatus {
    /// The last group whose changes are visible.
    pub position: Lsn,
    /// Size of the log on disk, in bytes; 0 for a database in memory.
    pub bytes: u64,
    /// A checkpoint is written when it would free so much of the log; `None` in memory.
    pub checkpoint_due_bytes: Option<u64>,
}

/// The position up to which a log is durable. It never decreases for one directory, so a lower one
/// shows an older copy of the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DurablePosition {
    /// The random number that all files of the database carry.
    pub database_id: u64,
    /// The last group that is durable.
    pub lsn: Lsn,
}

/// A checkpoint that was written, or that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointRun {
    /// The last group that it holds.
    pub position: Lsn,
    /// Number of bytes written; after a failure, until then. The size of all files of the one that
    /// the database was opened from.
    pub bytes: u64,
    /// When it began, in microseconds since 1970; `None` for the one that the database was opened
    /// from.
    pub began_micros: Option<i64>,
    pub took: Option<Duration>,
    /// Why it failed.
    pub failure: Option<String>,
}

/// The newest checkpoints, in the order in which they ended.
#[derive(Default)]
pub(crate) struct CheckpointRuns(Mutex<VecDeque<CheckpointRun>>);

impl CheckpointRuns {
    pub(crate) fn add(&self, run: CheckpointRun) {
        let mut runs = self.0.lock();
        if runs.len() == REMEMBERED_MAX {
            runs.pop_front();
        }
        runs.push_back(run);
    }

    pub(crate) fn all(&self) -> Vec<CheckpointRun> {
        self.0.lock().iter().cloned().collect()
    }
}

/// An error in one line.
pub(crate) fn error_line(error: &Error) -> String {
    match error.detail() {
        Some(detail) => format!("{}: {detail}", error.message()),
        None => error.message().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_checkpoint_is_forgotten_first() {
        let runs = CheckpointRuns::default();
        for position in 0..=REMEMBERED_MAX as u64 {
            let (bytes, began_micros, took, failure) = (0, None, None, None);
            runs.add(CheckpointRun { position: Lsn(position), bytes, began_micros, took, failure });
        }
        let positions: Vec<u64> = runs.all().iter().map(|run| run.position.0).collect();
        assert!(positions.into_iter().eq(1..=REMEMBERED_MAX as u64));
    }
}
