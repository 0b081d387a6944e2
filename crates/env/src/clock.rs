//! Time: wall-clock time for dates, and a monotonic clock for intervals.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

/// A source of time, and a way to wait.
pub trait Clock: Send + Sync {
    /// Microseconds since 1970-01-01 00:00 UTC. May jump when the machine's clock is set.
    fn now_micros(&self) -> i64;

    /// Time since an arbitrary fixed moment. Never goes back.
    fn monotonic(&self) -> Duration;

    fn sleep(&self, duration: Duration);
}

/// The machine's clock.
pub struct RealClock {
    start: Instant,
}

impl RealClock {
    /// A clock whose monotonic time starts now.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the real clock")]
    pub fn new() -> RealClock {
        RealClock { start: Instant::now() }
    }
}

impl Default for RealClock {
    fn default() -> RealClock {
        RealClock::new()
    }
}

impl Clock for RealClock {
    #[expect(clippy::disallowed_methods, reason = "this is the real clock")]
    fn now_micros(&self) -> i64 {
        let micros = |duration: Duration| i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(after) => micros(after),
            Err(before) => -micros(before.duration()),
        }
    }

    #[expect(clippy::disallowed_methods, reason = "this is the real clock")]
    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }

    #[expect(clippy::disallowed_methods, reason = "this is the real clock")]
    fn sleep(&self, duration: Duration) {
        std::thread::sleep(duration);
    }
}

/// A clock that moves only by [`SimulatedClock::advance`] and `sleep`.
#[derive(Clone)]
pub struct SimulatedClock {
    elapsed: Arc<Mutex<Duration>>,
}

impl SimulatedClock {
    /// 2026-01-01 00:00 UTC, the start of simulated time.
    const START_MICROS: i64 = 1_767_225_600_000_000;

    /// A clock at the start of simulated time.
    #[must_use]
    pub fn new() -> SimulatedClock {
        SimulatedClock { elapsed: Arc::new(Mutex::new(Duration::ZERO)) }
    }

    /// The date after so much simulated time, in microseconds since 1970-01-01 00:00 UTC.
    pub(crate) fn micros_at(elapsed: Duration) -> i64 {
        let elapsed = i64::try_from(elapsed.as_micros()).unwrap_or(i64::MAX);
        Self::START_MICROS.saturating_add(elapsed)
    }

    pub fn advance(&self, duration: Duration) {
        *self.elapsed.lock() += duration;
    }
}

impl Default for SimulatedClock {
    fn default() -> SimulatedClock {
        SimulatedClock::new()
    }
}

impl Clock for SimulatedClock {
    fn now_micros(&self) -> i64 {
        Self::micros_at(self.monotonic())
    }

    fn monotonic(&self) -> Duration {
        *self.elapsed.lock()
    }

    /// Advances the clock and returns at once.
    fn sleep(&self, duration: Duration) {
        self.advance(duration);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simulated_time_moves_only_when_told() {
        let clock = SimulatedClock::new();
        let start = clock.now_micros();
        assert_eq!(clock.now_micros(), start);
        clock.sleep(Duration::from_secs(3600));
        clock.clone().advance(Duration::from_micros(7));
        assert_eq!(clock.now_micros() - start, 3_600_000_007);
    }

    #[test]
    fn real_time_is_after_this_was_written() {
        let clock = RealClock::new();
        assert!(clock.now_micros() > 1_700_000_000_000_000);
        assert!(clock.monotonic() <= clock.monotonic());
    }
}
