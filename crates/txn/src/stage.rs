//! A stage: a state that one thread at a time works on, and a queue of requests.
//!
//! A stage has a thread of its own. While that thread is idle, a caller with a small request
//! processes it in the thread's place, which saves two thread switches. If a client waits for each
//! of its writes, these switches take longer than the write.
//!
//! Guarantees: requests of one caller are processed in the order in which it sent them, on
//! whichever thread. A stage that panicked on any thread has ended.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::stage_queues::{AtomicUsize, Mutex, Receiver, Sender, channel};

/// Entry of a stage's queue.
pub(crate) struct Inlet<R> {
    queue: Sender<R>,
    /// Number of requests that were sent and are not done.
    open: AtomicUsize,
}

/// A stage's state and queue, without its thread.
pub(crate) struct Stage<S, R> {
    inlet: Arc<Inlet<R>>,
    /// `None` once the stage has ended; poisoned if it panicked.
    state: Mutex<Option<S>>,
}

/// Creates a stage's queue: the entry and the receiving end.
pub(crate) fn inlet<R>() -> (Arc<Inlet<R>>, Receiver<R>) {
    let (queue, requests) = channel();
    (Arc::new(Inlet { queue, open: AtomicUsize::new(0) }), requests)
}

impl<R> Inlet<R> {
    /// # Errors
    /// Returns the request if the stage has ended.
    pub(crate) fn send(&self, request: R) -> Result<(), R> {
        self.open.fetch_add(1, Ordering::Relaxed);
        self.queue.send(request).map_err(|refused| refused.0)
    }
}

impl<S, R> Stage<S, R> {
    pub(crate) fn new(inlet: Arc<Inlet<R>>, state: S) -> Stage<S, R> {
        Stage { inlet, state: Mutex::new(Some(state)) }
    }

    pub(crate) fn send(&self, request: R) -> Result<(), R> {
        self.inlet.send(request)
    }

    /// Processes a request on the calling thread if the stage is idle and the request `is_quick`.
    ///
    /// # Errors
    /// Returns the request if it must go through the queue.
    pub(crate) fn do_here(
        &self,
        request: R,
        is_quick: impl FnOnce(&S, &R) -> bool,
        work: impl FnOnce(&mut S, R),
    ) -> Result<(), R> {
        let open = &self.inlet.open;
        if open.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return Err(request);
        }
        let mut state = self.state.try_lock().ok();
        let done = match state.as_deref_mut() {
            Some(Some(state)) if is_quick(state, &request) => {
                work(state, request);
                Ok(())
            }
            _ => Err(request),
        };
        drop(state);
        open.fetch_sub(1, Ordering::Release);
        done
    }

    /// Runs `work` on the stage's own thread. It returns the number of requests processed; `None`
    /// ends the stage, as does a panic.
    pub(crate) fn work(&self, work: impl FnOnce(&mut S) -> Option<usize>) -> Option<()> {
        let mut state = self.state.lock().ok()?;
        let Some(done) = work(state.as_mut()?) else {
            *state = None;
            return None;
        };
        drop(state);
        self.inlet.open.fetch_sub(done, Ordering::Release);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    type Numbers = Stage<Vec<u32>, u32>;

    fn numbers() -> (Numbers, Receiver<u32>) {
        let (inlet, inbox) = inlet();
        (Stage::new(inlet, Vec::new()), inbox)
    }

    fn do_here(stage: &Numbers, number: u32) -> Result<(), u32> {
        stage.do_here(number, |_, number| *number < 10, |state, number| state.push(number))
    }

    /// Processes the next request as the stage's thread would.
    fn take(stage: &Numbers, inbox: &Receiver<u32>) {
        let number = inbox.recv().unwrap();
        let done = stage.work(|state| {
            state.push(number);
            Some(1)
        });
        assert_eq!(done, Some(()));
    }

    #[test]
    fn only_what_is_quick_is_done_here_and_only_where_nothing_waits() {
        let (stage, inbox) = numbers();
        assert_eq!(do_here(&stage, 1), Ok(()));
        assert_eq!(do_here(&stage, 10), Err(10));
        stage.send(10).unwrap();
        assert_eq!(do_here(&stage, 2), Err(2), "it would overtake what was sent");
        stage.send(2).unwrap();
        take(&stage, &inbox);
        assert_eq!(do_here(&stage, 3), Err(3));
        take(&stage, &inbox);
        assert_eq!(do_here(&stage, 3), Ok(()));
        stage.work(|state| {
            assert_eq!(*state, [1, 10, 2, 3]);
            Some(0)
        });
    }

    #[test]
    fn nothing_is_done_while_the_stage_works() {
        let (stage, _inbox) = numbers();
        stage.work(|_| {
            assert_eq!(do_here(&stage, 1), Err(1));
            Some(0)
        });
        assert_eq!(do_here(&stage, 1), Ok(()));
    }

    #[test]
    fn a_stage_that_ended_or_panicked_does_nothing_any_more() {
        let (stage, inbox) = numbers();
        assert_eq!(stage.work(|_| None), None);
        assert_eq!(do_here(&stage, 1), Err(1));
        assert_eq!(stage.work(|_| Some(0)), None);
        drop(inbox);
        assert_eq!(stage.send(1), Err(1));

        let (stage, _inbox) = numbers();
        let broken = || stage.do_here(1, |_, _| true, |_, _| panic!("as a test wants it"));
        assert!(catch_unwind(AssertUnwindSafe(broken)).is_err());
        assert_eq!(do_here(&stage, 1), Err(1));
        assert_eq!(stage.work(|_| Some(0)), None);
    }
}
