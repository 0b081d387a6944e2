//! Work of a statement: its cancellation, and its memory.
//!
//! Operators yield between their batches. A function or an aggregate of millions of values computes
//! in one go, without yielding its thread. It calls [`check_cancelled`] now and then, and ends
//! early if its statement was canceled.

mod memory;

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::error::DataFusionError;
use thalweg_env::thread_net_bytes;
use thalweg_formats::text::style::{self, SessionStyle};
use thalweg_types::{Error, Result, SqlState};

use crate::errors::from_datafusion;

pub use memory::{Exhausted, StatementMemory, StatementsMemory};

/// A constant value that is larger is not computed ahead of the statement: plans hold their
/// constants, and every pass of the planner copies them.
const FOLDED_BYTES_MAX: usize = 64 << 10;

/// Checks also count the work's memory for the statement's other threads, once that has changed by
/// so much.
const UNSETTLED_BYTES: i64 = 256 << 10;

thread_local! {
    /// The stop of the work that this thread runs.
    static CURRENT: RefCell<Option<Arc<StatementControl>>> = const { RefCell::new(None) };
    /// The thread's count of allocated bytes up to which its work was charged.
    static SETTLED: Cell<i64> = const { Cell::new(0) };
    /// True while this thread computes constants of a plan.
    static FOLDING: Cell<bool> = const { Cell::new(false) };
}

/// Stops work of several threads.
#[derive(Debug, Default)]
pub struct StatementControl {
    is_wanted: AtomicBool,
    memory: StatementMemory,
    /// The work that this is a part of: stopping it stops this one as well.
    outer: Option<Arc<StatementControl>>,
    /// The style in which the statement's session reads and writes values; `None` for the default.
    style: Option<Arc<SessionStyle>>,
}

impl StatementControl {
    /// For work in this thread's style of values.
    #[must_use]
    pub fn in_current_style() -> StatementControl {
        StatementControl { style: style::current(), ..StatementControl::default() }
    }

    /// For work in this thread's style of values, with a limit of memory.
    #[must_use]
    pub fn with_memory(memory: StatementMemory) -> StatementControl {
        StatementControl { memory, ..StatementControl::in_current_style() }
    }

    /// For a part of the work that this thread is at, with memory of its own.
    #[must_use]
    pub fn within_current(memory: StatementMemory) -> StatementControl {
        StatementControl {
            memory,
            outer: CURRENT.with_borrow(Option::clone),
            ..StatementControl::in_current_style()
        }
    }

    /// The memory that the work has.
    #[must_use]
    pub fn memory(&self) -> &StatementMemory {
        &self.memory
    }

    /// Requests cancellation; the statement ends at its next check.
    pub fn stop(&self) {
        self.is_wanted.store(true, Ordering::Relaxed);
    }

    /// True if this work or the work around it was told to stop.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::Relaxed)
            || self.outer.as_ref().is_some_and(|outer| outer.is_wanted())
    }

    /// # Errors
    /// If the work was told to stop. No client reads this error.
    pub fn check_cancelled(&self) -> Result<()> {
        match self.is_wanted() {
            false => Ok(()),
            true => Err(Error::new(SqlState::QUERY_CANCELED, "nobody wants what is computed here")),
        }
    }

    /// Takes bytes off the work's count that belong to another owner from now on.
    pub fn hand_over(&self, bytes: usize) {
        self.memory.hand_over(i64::try_from(bytes).unwrap_or(i64::MAX));
    }
}

/// Runs work on this thread, in the statement's style of values. [`check_cancelled`] fails inside
/// it once `stop` is set, and its memory is counted.
pub fn within<T>(stop: &Arc<StatementControl>, work: impl FnOnce() -> T) -> T {
    settle();
    let _style = style::enter(stop.style.clone());
    let _before = Before(CURRENT.replace(Some(Arc::clone(stop))));
    work()
}

/// # Errors
/// If the work was stopped (no client reads this error), or if it has more memory than its limit.
pub fn check_cancelled() -> Result<()> {
    settle_much();
    CURRENT.with_borrow(|stop| {
        let Some(stop) = stop else { return Ok(()) };
        stop.check_cancelled()?;
        match stop.memory.is_exhausted() {
            true => stop.memory.check_reserving(0).map_err(|exhausted| too_much(&exhausted)),
            false => Ok(()),
        }
    })
}

/// Checks that the work may reserve more memory, given what it has allocated so far.
///
/// # Errors
/// If it has more than its limit.
pub fn check_reserving() -> std::result::Result<(), Exhausted> {
    settle_much();
    CURRENT.with_borrow(|stop| {
        stop.as_ref().map_or(Ok(()), |stop| stop.memory.check_reserving(unsettled()))
    })
}

/// Checks that an operator which can spill, and has reserved so many bytes, may reserve more.
///
/// # Errors
/// If it should spill.
pub fn check_spilling(reserved: usize) -> std::result::Result<(), Exhausted> {
    settle_much();
    CURRENT.with_borrow(|stop| {
        stop.as_ref().map_or(Ok(()), |stop| stop.memory.check_spilling(reserved, unsettled()))
    })
}

/// Checks that the work may make a value of so many bytes, which are not allocated yet, beside
/// other values of the same column.
///
/// # Errors
/// If the work was stopped, if memory is short, or if the value is a constant that is too large for
/// a plan.
pub fn check_value(bytes: usize, beside: usize) -> Result<()> {
    let together = bytes.saturating_add(beside);
    if together > FOLDED_BYTES_MAX && FOLDING.get() {
        return Err(Error::new(SqlState::OUT_OF_MEMORY, "the constant is too large for a plan"));
    }
    settle_much();
    CURRENT.with_borrow(|stop| {
        let Some(stop) = stop else { return Ok(()) };
        stop.check_cancelled()?;
        let checked = stop.memory.check_value(bytes, together, unsettled());
        checked.map_err(|exhausted| too_much(&exhausted))
    })
}

/// Computes constants of a plan. Large constants fail here and are computed when the statement
/// runs: DataFusion keeps the expression of a constant that fails.
pub fn folding<T>(work: impl FnOnce() -> T) -> T {
    struct Folding(bool);
    impl Drop for Folding {
        fn drop(&mut self) {
            FOLDING.set(self.0);
        }
    }
    let _before = Folding(FOLDING.replace(true));
    work()
}

/// The error for a statement that has more memory than it may.
#[must_use]
pub fn too_much(exhausted: &Exhausted) -> Error {
    from_datafusion(DataFusionError::ResourcesExhausted(exhausted.to_string()), "")
}

/// Bytes that the thread has allocated since its work was last charged.
fn unsettled() -> i64 {
    thread_net_bytes().wrapping_sub(SETTLED.get())
}

/// Settles if there is much to settle: threads that allocate beside each other would otherwise
/// exceed a limit together, each within it by its own count.
fn settle_much() {
    if unsettled().abs() >= UNSETTLED_BYTES {
        settle();
    }
}

/// Charges the thread's work with what it has allocated since it was charged last.
fn settle() {
    let now = thread_net_bytes();
    let delta = now.wrapping_sub(SETTLED.replace(now));
    if delta != 0 {
        CURRENT.with_borrow(|stop| {
            if let Some(stop) = stop {
                stop.memory.add(delta);
            }
        });
    }
}

/// Restores the thread's previous work when it is dropped.
struct Before(Option<Arc<StatementControl>>);

impl Drop for Before {
    fn drop(&mut self) {
        settle();
        CURRENT.set(self.0.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_hears_of_its_own_stop() {
        let (outer, inner) =
            (Arc::new(StatementControl::default()), Arc::new(StatementControl::default()));
        inner.stop();
        within(&outer, || {
            assert!(check_cancelled().is_ok());
            assert!(within(&inner, check_cancelled).is_err());
            assert!(check_cancelled().is_ok());
            assert!(check_value(1 << 20, 0).is_ok());
            outer.stop();
            assert!(check_cancelled().is_err());
            assert!(check_value(1 << 20, 0).is_err());
        });
        assert!(check_cancelled().is_ok());
    }
}
