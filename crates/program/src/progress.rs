//! Shows the progress of long work: loads, checkpoints, recovery.
//!
//! A bar appears only after a delay, only on a terminal, and only while nothing else is written to
//! it: a checkpoint in the background must not overwrite the line that is being edited.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use thalweg::{Progress, Unit};

/// Work that ends sooner is not shown.
const DELAY: Duration = Duration::from_millis(500);

/// The progress bars of the process. They are hidden while other output is written.
pub struct ProgressBars {
    /// The work under way, the newest last. Only the newest is shown.
    bars: Mutex<Vec<ProgressBar>>,
    may_show: AtomicBool,
}

impl ProgressBars {
    /// No work under way; bars may be shown.
    pub fn new() -> ProgressBars {
        ProgressBars { bars: Mutex::default(), may_show: AtomicBool::new(true) }
    }

    /// Sets whether the terminal is free for bars.
    pub fn allow(&self, allowed: bool) {
        self.may_show.store(allowed, Ordering::Relaxed);
        if !allowed {
            for bar in self.bars().iter() {
                bar.set_draw_target(ProgressDrawTarget::hidden());
            }
        }
    }

    fn bars(&self) -> MutexGuard<'_, Vec<ProgressBar>> {
        // The list is consistent at every moment, even after a thread has panicked.
        self.bars.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Progress for ProgressBars {
    fn begin(&self, what: &str, total: Option<u64>, unit: Unit) {
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::hidden());
        bar.set_style(style(total.is_some(), unit));
        bar.set_message(what.to_owned());
        self.bars().push(bar);
    }

    fn advance(&self, done: u64) {
        let bars = self.bars();
        let Some(bar) = bars.last() else { return };
        let is_due = bar.elapsed() >= DELAY && self.may_show.load(Ordering::Relaxed);
        if is_due && bar.is_hidden() {
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        // Overlapping pieces of work report through one callback: a value that does not fit this
        // bar belongs to another piece.
        if done > bar.position() && bar.length().is_none_or(|total| done <= total) {
            bar.set_position(done);
        }
    }

    fn end(&self) {
        if let Some(bar) = self.bars().pop() {
            bar.finish_and_clear();
        }
    }
}

fn style(has_total: bool, unit: Unit) -> ProgressStyle {
    let (done, total) = match unit {
        Unit::Rows => ("{human_pos}", "{human_len} rows"),
        Unit::Bytes => ("{bytes}", "{total_bytes}"),
    };
    let template = if has_total {
        format!("{{msg}} {{bar:30}} {done}/{total} ({{eta}})")
    } else {
        format!("{{msg}} {{spinner}} {done} ({{elapsed}})")
    };
    ProgressStyle::with_template(&template).expect("the template is well-formed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_work_may_overlap() {
        let bars = ProgressBars::new();
        bars.begin("load", Some(10), Unit::Rows);
        bars.begin("checkpoint", None, Unit::Bytes);
        bars.advance(50);
        bars.end();
        bars.advance(4);
        bars.advance(7);
        bars.advance(60);
        assert_eq!(bars.bars().iter().map(ProgressBar::position).collect::<Vec<_>>(), [7]);
        bars.allow(false);
        bars.end();
        bars.end();
        bars.advance(1);
    }
}
