//! Ctrl-C: ends the statement, not the program.

use std::process;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::exit::Exit;

/// This many presses during one statement end the program, in case the statement does not stop.
const PRESSES_TO_LEAVE: u32 = 3;

type Cancel = Box<dyn Fn() + Send>;

/// Handles Ctrl-C. Clones share the running statement.
#[derive(Clone, Default)]
pub struct Interrupt(Arc<State>);

#[derive(Default)]
struct State {
    /// Ends the running statement, when one runs.
    cancel: Mutex<Option<Cancel>>,
    presses: AtomicU32,
    /// True while a pager has the terminal, which knows Ctrl-C itself.
    is_paging: AtomicBool,
}

/// Guard of a running statement: the statement runs as long as this exists.
pub struct Running<'a>(&'a Interrupt);

impl Interrupt {
    /// Listens on the current runtime. When no statement runs, Ctrl-C ends the program, unless it
    /// is interactive: there the line editor deals with it.
    pub fn listen(is_interactive: bool) -> Interrupt {
        let interrupt = Interrupt::default();
        let listener = interrupt.clone();
        tokio::spawn(async move {
            while tokio::signal::ctrl_c().await.is_ok() {
                let is_running = listener.press();
                if listener.0.is_paging.load(Ordering::Relaxed) {
                    continue;
                }
                let presses = listener.0.presses.load(Ordering::Relaxed);
                if presses >= PRESSES_TO_LEAVE || !is_running && !is_interactive {
                    process::exit(i32::from(Exit::Interrupted.code()));
                }
                if presses == PRESSES_TO_LEAVE - 1 {
                    eprintln!("\nStill cancelling; once more leaves at once.");
                }
            }
        });
        interrupt
    }

    /// Sets how to cancel the statement that begins now.
    pub fn running(&self, cancel: impl Fn() + Send + 'static) -> Running<'_> {
        self.0.presses.store(0, Ordering::Relaxed);
        self.set(Some(Box::new(cancel)));
        Running(self)
    }

    /// True if Ctrl-C was pressed since the last statement began.
    pub fn was_pressed(&self) -> bool {
        self.0.presses.load(Ordering::Relaxed) > 0
    }

    /// Sets if a pager has the terminal. Ctrl-C then ends the statement, but never the program.
    pub fn set_paging(&self, is_paging: bool) {
        self.0.is_paging.store(is_paging, Ordering::Relaxed);
    }

    /// Forgets earlier presses.
    pub fn reset(&self) {
        self.0.presses.store(0, Ordering::Relaxed);
    }

    fn press(&self) -> bool {
        self.0.presses.fetch_add(1, Ordering::Relaxed);
        let cancel = self.0.cancel.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cancel) = cancel.as_ref() {
            cancel();
        }
        cancel.is_some()
    }

    fn set(&self, cancel: Option<Cancel>) {
        *self.0.cancel.lock().unwrap_or_else(PoisonError::into_inner) = cancel;
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.set(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_press_cancels_only_what_runs() {
        let interrupt = Interrupt::default();
        let cancelled = Arc::new(AtomicU32::new(0));
        assert!(!interrupt.press());
        {
            let cancelled = Arc::clone(&cancelled);
            let _running = interrupt.running(move || {
                cancelled.fetch_add(1, Ordering::Relaxed);
            });
            assert!(!interrupt.was_pressed(), "an earlier press was for something else");
            assert!(interrupt.press());
            assert!(interrupt.was_pressed());
        }
        assert!(!interrupt.press());
        assert_eq!(cancelled.load(Ordering::Relaxed), 1);
    }
}
