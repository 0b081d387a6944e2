//! Time measurements of a query that asks several workers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use thalweg_env::Clock;

/// The times of a query's answers, measured from its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Time until the last worker began to answer.
    pub opened: Duration,
    /// Time until the first message; `None` if there was none.
    pub first: Option<Duration>,
    /// Time until the end.
    pub total: Duration,
}

impl Times {
    /// Time from when all workers had begun to answer until the end.
    #[must_use]
    pub fn read(&self) -> Duration {
        self.total.saturating_sub(self.opened)
    }
}

/// Measures the times. Several threads may record events at once.
pub struct Stopwatch {
    clock: Arc<dyn Clock>,
    began: Duration,
    /// Nanoseconds from the start to the last opening.
    opened: AtomicU64,
    /// Nanoseconds from the start to the first message; all ones if there was none.
    first: AtomicU64,
}

impl Stopwatch {
    /// Starts to measure.
    #[must_use]
    pub fn start(clock: Arc<dyn Clock>) -> Stopwatch {
        let began = clock.monotonic();
        Stopwatch { clock, began, opened: AtomicU64::new(0), first: AtomicU64::new(u64::MAX) }
    }

    fn now(&self) -> u64 {
        let passed = self.clock.monotonic().saturating_sub(self.began);
        u64::try_from(passed.as_nanos()).unwrap_or(u64::MAX)
    }

    /// Records that a worker has begun to answer.
    pub fn opened(&self) {
        self.opened.fetch_max(self.now(), Ordering::Relaxed);
    }

    /// Records a message. Only the first one counts.
    pub fn message(&self) {
        if self.first.load(Ordering::Relaxed) == u64::MAX {
            self.first.fetch_min(self.now(), Ordering::Relaxed);
        }
    }

    /// The times until now.
    #[must_use]
    pub fn stop(&self) -> Times {
        let first = self.first.load(Ordering::Relaxed);
        Times {
            opened: Duration::from_nanos(self.opened.load(Ordering::Relaxed)),
            first: (first != u64::MAX).then(|| Duration::from_nanos(first)),
            total: Duration::from_nanos(self.now()),
        }
    }
}
