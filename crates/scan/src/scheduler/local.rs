//! The scan threads of this process.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use thalweg_env::{Condvar, Threads};
use thalweg_types::{Error, Result};

type Body = Box<dyn Fn(usize) + Send + Sync>;

/// Threads that wait for work. They end when the scheduler is dropped.
pub struct LocalScheduler {
    shared: Arc<Shared>,
    threads: usize,
}

struct Shared {
    queue: Mutex<Queue>,
    arrived: Condvar,
}

#[derive(Default)]
struct Queue {
    rounds: VecDeque<Round>,
    closed: bool,
}

/// Work that is split into fragments; each runs once, on the thread that takes it first.
#[derive(Clone)]
pub struct Round(Arc<Inner>);

struct Inner {
    body: Body,
    fragments: usize,
    /// The next fragment to be taken.
    next: AtomicUsize,
    /// Number of fragments that are not done.
    left: AtomicUsize,
    panicked: AtomicBool,
    waiting: Mutex<Option<Waker>>,
    ended: Condvar,
}

impl LocalScheduler {
    /// Starts the threads. A single thread is not started: callers then run the work themselves.
    ///
    /// # Errors
    /// If the operating system cannot start a thread.
    pub fn start(threads: usize, with: &dyn Threads) -> Result<LocalScheduler> {
        let shared = Arc::new(Shared { queue: Mutex::default(), arrived: Condvar::new() });
        let scheduler = LocalScheduler { shared: Arc::clone(&shared), threads: threads.max(1) };
        for number in 0..if threads > 1 { threads } else { 0 } {
            let shared = Arc::clone(&shared);
            let body = Box::new(move || shared.serve());
            with.spawn(&format!("thalweg-scan-{number}"), body).map_err(|error| {
                Error::internal("the threads of scans could not be started").with_source(error)
            })?;
        }
        Ok(scheduler)
    }

    /// Number of threads, at least 1.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Starts a round: `body` is called once with each number below `fragments`.
    ///
    /// With a single thread the work is done when this returns.
    pub fn scatter(&self, fragments: usize, body: impl Fn(usize) + Send + Sync + 'static) -> Round {
        let round = Round(Arc::new(Inner {
            body: Box::new(body),
            fragments,
            next: AtomicUsize::new(0),
            left: AtomicUsize::new(fragments),
            panicked: AtomicBool::new(false),
            waiting: Mutex::default(),
            ended: Condvar::new(),
        }));
        if self.threads <= 1 {
            round.help();
            return round;
        }
        self.shared.queue.lock().rounds.push_back(round.clone());
        for _ in 0..fragments.min(self.threads) {
            self.shared.arrived.notify_one();
        }
        round
    }
}

impl Drop for LocalScheduler {
    fn drop(&mut self) {
        self.shared.queue.lock().closed = true;
        self.shared.arrived.notify_all();
    }
}

impl Shared {
    /// The main loop of a thread.
    fn serve(&self) {
        let mut queue = self.queue.lock();
        loop {
            while queue.rounds.front().is_some_and(Round::is_given_out) {
                queue.rounds.pop_front();
            }
            // The oldest round comes first.
            if let Some(round) = queue.rounds.front().cloned() {
                drop(queue);
                round.help();
                queue = self.queue.lock();
            } else if queue.closed {
                return;
            } else {
                self.arrived.wait(&mut queue);
            }
        }
    }
}

impl Round {
    fn is_given_out(&self) -> bool {
        self.0.next.load(Ordering::Relaxed) >= self.0.fragments
    }

    /// Runs fragments until all are taken.
    pub fn help(&self) {
        loop {
            let fragment = self.0.next.fetch_add(1, Ordering::Relaxed);
            if fragment >= self.0.fragments {
                return;
            }
            // A panic is reported to the waiting caller and does not end the thread.
            if catch_unwind(AssertUnwindSafe(|| (self.0.body)(fragment))).is_err() {
                self.0.panicked.store(true, Ordering::Relaxed);
            }
            if self.0.left.fetch_sub(1, Ordering::AcqRel) == 1 {
                let waker = self.0.waiting.lock().take();
                self.0.ended.notify_all();
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
        }
    }

    /// Ready if all fragments are done; otherwise the task is woken when they are.
    ///
    /// # Errors
    /// If a fragment panicked.
    pub fn poll(&self, context: &mut Context<'_>) -> Poll<Result<()>> {
        if self.is_done() {
            return Poll::Ready(self.outcome());
        }
        *self.0.waiting.lock() = Some(context.waker().clone());
        // The last fragment may have ended before it could see the waker.
        match self.is_done() {
            true => Poll::Ready(self.outcome()),
            false => Poll::Pending,
        }
    }

    /// Runs fragments, then waits until all are done.
    ///
    /// # Errors
    /// If a fragment panicked.
    pub fn wait(&self) -> Result<()> {
        self.help();
        let mut waiting = self.0.waiting.lock();
        while !self.is_done() {
            self.0.ended.wait(&mut waiting);
        }
        self.outcome()
    }

    fn is_done(&self) -> bool {
        self.0.left.load(Ordering::Acquire) == 0
    }

    fn outcome(&self) -> Result<()> {
        match self.0.panicked.load(Ordering::Relaxed) {
            true => Err(Error::internal("the statement broke down")),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use thalweg_env::RealThreads;

    use super::*;

    fn counts(scheduler: &LocalScheduler, fragments: usize) -> Vec<usize> {
        let counts: Arc<Vec<AtomicUsize>> =
            Arc::new((0..fragments).map(|_| AtomicUsize::new(0)).collect());
        let seen = Arc::clone(&counts);
        let round = scheduler.scatter(fragments, move |fragment| {
            seen[fragment].fetch_add(1, Ordering::Relaxed);
        });
        round.wait().unwrap();
        counts.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }

    #[test]
    fn every_fragment_is_done_once() {
        for threads in [1, 2, 4] {
            let scheduler = LocalScheduler::start(threads, &RealThreads).unwrap();
            for fragments in [0, 1, 2, 7, 1_000] {
                assert_eq!(counts(&scheduler, fragments), vec![1; fragments]);
            }
        }
    }

    #[test]
    fn a_fragment_that_breaks_down_is_told_and_costs_no_thread() {
        let scheduler = LocalScheduler::start(2, &RealThreads).unwrap();
        for _ in 0..8 {
            let round = scheduler.scatter(2, |fragment| {
                if fragment == 1 {
                    std::panic::resume_unwind(Box::new("on purpose"));
                }
            });
            assert!(round.wait().is_err());
        }
        assert_eq!(counts(&scheduler, 100), vec![1; 100]);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test of several threads")]
    fn many_rounds_at_once_all_end() {
        let scheduler = Arc::new(LocalScheduler::start(2, &RealThreads).unwrap());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for fragments in 1..200 {
                        assert_eq!(counts(&scheduler, fragments % 5), vec![1; fragments % 5]);
                    }
                });
            }
        });
    }
}
