//! Counters of the stages since the engine was opened, for monitoring.
//!
//! They are updated once for each group or round of a stage, never for each row.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the histogram of sync times, in microseconds.
pub const SYNC_MICROS: [u64; 12] =
    [50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 1_000_000];

/// Counters of one stage's queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageTotals {
    /// Groups that were handed to it.
    pub queued: u64,
    /// Groups that it took.
    pub taken: u64,
    /// Number of rounds, each of which takes all groups that are ready.
    pub rounds: u64,
}

impl StageTotals {
    /// Groups that are waiting in its queue.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        self.queued.saturating_sub(self.taken)
    }
}

/// The stages' figures at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PipelineTotals {
    pub transactions: StageTotals,
    pub disk: StageTotals,
    pub log_writes: u64,
    pub log_bytes_written: u64,
    pub syncs: u64,
    pub sync_micros: u64,
    /// Histogram of sync times: one class for each bound in [`SYNC_MICROS`], then one for longer
    /// syncs.
    pub sync_classes: [u64; SYNC_MICROS.len() + 1],
}

impl PipelineTotals {
    /// The figures of two engines together.
    #[must_use]
    pub fn plus(self, other: PipelineTotals) -> PipelineTotals {
        let stages = |own: StageTotals, its: StageTotals| StageTotals {
            queued: own.queued + its.queued,
            taken: own.taken + its.taken,
            rounds: own.rounds + its.rounds,
        };
        PipelineTotals {
            transactions: stages(self.transactions, other.transactions),
            disk: stages(self.disk, other.disk),
            log_writes: self.log_writes + other.log_writes,
            log_bytes_written: self.log_bytes_written + other.log_bytes_written,
            syncs: self.syncs + other.syncs,
            sync_micros: self.sync_micros + other.sync_micros,
            sync_classes: std::array::from_fn(|class| {
                self.sync_classes[class] + other.sync_classes[class]
            }),
        }
    }
}

#[derive(Default)]
pub(crate) struct StageCounters {
    queued: AtomicU64,
    taken: AtomicU64,
    rounds: AtomicU64,
}

impl StageCounters {
    pub(crate) fn queued(&self) {
        self.queued.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a round that took so many groups.
    pub(crate) fn took(&self, groups: usize) {
        self.taken.fetch_add(groups as u64, Ordering::Relaxed);
        self.rounds.fetch_add(1, Ordering::Relaxed);
    }

    fn read(&self) -> StageTotals {
        // Read `taken` before `queued`, so that it is never the greater of the two.
        let taken = self.taken.load(Ordering::Acquire);
        let rounds = self.rounds.load(Ordering::Relaxed);
        StageTotals { queued: self.queued.load(Ordering::Relaxed), taken, rounds }
    }
}

/// The stages' live counters.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) transactions: StageCounters,
    pub(crate) disk: StageCounters,
    log_writes: AtomicU64,
    log_bytes_written: AtomicU64,
    sync_micros: AtomicU64,
    sync_classes: [AtomicU64; SYNC_MICROS.len() + 1],
}

impl Counters {
    pub(crate) fn wrote(&self, bytes: usize) {
        self.log_writes.fetch_add(1, Ordering::Relaxed);
        self.log_bytes_written.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn synced(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.sync_micros.fetch_add(micros, Ordering::Relaxed);
        let class = SYNC_MICROS.partition_point(|bound| *bound < micros);
        self.sync_classes[class].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> PipelineTotals {
        let sync_classes =
            std::array::from_fn(|class| self.sync_classes[class].load(Ordering::Relaxed));
        PipelineTotals {
            transactions: self.transactions.read(),
            disk: self.disk.read(),
            log_writes: self.log_writes.load(Ordering::Relaxed),
            log_bytes_written: self.log_bytes_written.load(Ordering::Relaxed),
            syncs: sync_classes.iter().sum(),
            sync_micros: self.sync_micros.load(Ordering::Relaxed),
            sync_classes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syncs_are_counted_by_how_long_they_took() {
        let counters = Counters::default();
        for micros in [50, 51, 1_000_000, 1_000_001] {
            counters.synced(Duration::from_micros(micros));
        }
        let figures = counters.read();
        assert_eq!((figures.syncs, figures.sync_micros), (4, 2_000_102));
        assert_eq!(figures.sync_classes[..2], [1, 1]);
        assert_eq!(figures.sync_classes[SYNC_MICROS.len() - 1..], [1, 1]);
    }
}
