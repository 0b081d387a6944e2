//! The threads that plan statements. They are separate from the threads that serve connections: a
//! statement of a few hundred bytes may spend seconds in one optimizer pass, and all clients of its
//! thread would wait meanwhile.
//!
//! A statement's work is a future which moves here with everything that it needs. Its caller may
//! stop waiting at any time, because of a cancel, a timeout or a lost client. Work that is
//! suspended is dropped then. Work in the middle of a pass is *abandoned*: its thread continues
//! with the lowest priority until a check of [`cancellable_rules`](crate::cancellable_rules) ends
//! the pass; then it drops the work and ends. Another thread replaces it. All abandoned passes
//! share one core.
//!
//! `docs/decisions/0006-planning-threads.md` describes the alternatives.

mod job;
pub mod limits;

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use parking_lot::Mutex;
use thalweg_env::{Condvar, ThreadNumber, Threads};
use thalweg_txn::RoleId;
use thalweg_types::{Error, Result, SqlState};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use self::job::Job;
use crate::panics::caught;
use crate::stack::PLANNING_STACK_BYTES;

/// Threads beyond the permanent ones end after this time without work.
const IDLE: Duration = Duration::from_secs(10);

/// Maximum number of threads for each permanent one, not counting abandoned work. The system shares
/// the cores among them, so that short statements do not wait for long ones.
const THREADS_PER_CORE: usize = 8;

/// Maximum number of abandoned passes at a time. Each ends within about a second.
const ABANDONED_MAX: usize = 64;

/// Maximum number of abandoned passes of one role, so that no role gets the statements of others
/// refused.
const ABANDONED_OF_ROLE_MAX: usize = 24;

/// Texts from this length on, in bytes, are parsed on a planning thread. Parsing a shorter text
/// takes about as long as switching threads.
const LONG_BYTES: usize = 1 << 10;

/// Metrics of the planning threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlanningMetrics {
    /// Threads that work on a statement, abandoned ones included.
    pub busy: usize,
    /// Statements that wait for a thread.
    pub waiting: usize,
    /// Threads in a pass whose statement was canceled.
    pub abandoned: usize,
}

/// The pool of threads that plan statements.
pub struct PlanningThreads(Arc<Pool>);

struct Pool {
    queue: Mutex<Queue>,
    arrived: Condvar,
    /// Number of threads that stay without work.
    lasting: usize,
    starter: Arc<dyn Threads>,
    /// The runtime for work that was started outside of any runtime.
    runtime: Handle,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Arc<Job>>,
    threads: usize,
    /// Threads that wait for a job.
    idle: usize,
    abandoned: usize,
    /// Abandoned passes of each role that has any.
    abandoned_by: HashMap<RoleId, usize>,
    is_closed: bool,
}

impl Queue {
    /// Checks that a role may start more work.
    ///
    /// # Errors
    /// 53300 if too many abandoned passes still run.
    fn check_abandoned(&self, role: RoleId) -> Result<()> {
        let of_role = self.abandoned_by.get(&role).copied().unwrap_or(0);
        match self.abandoned >= ABANDONED_MAX || of_role >= ABANDONED_OF_ROLE_MAX {
            true => Err(too_many_abandoned()),
            false => Ok(()),
        }
    }

    fn begin_abandoned(&mut self, role: RoleId) {
        self.abandoned += 1;
        *self.abandoned_by.entry(role).or_default() += 1;
    }

    fn end_abandoned(&mut self, role: RoleId) {
        self.abandoned -= 1;
        if let Some(of_role) = self.abandoned_by.get_mut(&role) {
            *of_role -= 1;
            if *of_role == 0 {
                self.abandoned_by.remove(&role);
            }
        }
    }
}

impl PlanningThreads {
    /// Starts with no threads: they are started when there is work.
    pub fn new(cores: usize, starter: Arc<dyn Threads>, runtime: Handle) -> PlanningThreads {
        let (queue, arrived) = (Mutex::default(), Condvar::new());
        let lasting = cores.max(2);
        PlanningThreads(Arc::new(Pool { queue, arrived, lasting, starter, runtime }))
    }

    /// Runs the work of a statement of a role. Dropping the returned future drops the work, or
    /// abandons it if a thread is in the middle of it.
    ///
    /// # Errors
    /// Errors of the work; if it panicked; 53300 if too many abandoned passes still run.
    pub fn run<T: Send + 'static>(
        &self,
        role: RoleId,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Working<T> {
        let (sender, done) = oneshot::channel();
        let checked = self.0.queue.lock().check_abandoned(role);
        if let Err(refused) = checked {
            let _ = sender.send(Err(refused));
            return Working { done, job: None };
        }
        let work = async move {
            // The receiver may have been dropped.
            let _ = sender.send(caught(work).await);
        };
        let runtime = Handle::try_current().unwrap_or_else(|_| self.0.runtime.clone());
        let job = Job::new(role, work.boxed(), runtime, Arc::clone(&self.0));
        self.0.push(Arc::clone(&job));
        Working { done, job: Some(job) }
    }

    /// The present state of the pool.
    #[must_use]
    pub fn figures(&self) -> PlanningMetrics {
        let queue = self.0.queue.lock();
        let Queue { threads, idle, abandoned, .. } = *queue;
        PlanningMetrics { busy: threads - idle, waiting: queue.jobs.len(), abandoned }
    }
}

impl Drop for PlanningThreads {
    fn drop(&mut self) {
        let mut queue = self.0.queue.lock();
        queue.is_closed = true;
        let jobs = std::mem::take(&mut queue.jobs);
        drop(queue);
        self.0.arrived.notify_all();
        jobs.iter().for_each(|job| job.abandon());
    }
}

/// True if parsing a text takes longer than switching threads.
pub fn is_long(sql: &str) -> bool {
    sql.len() >= LONG_BYTES
}

/// The error, 53300, of a statement while too many abandoned passes still run.
#[must_use]
pub fn too_many_abandoned() -> Error {
    let message = "too many canceled statements are still being planned";
    Error::new(SqlState::TOO_MANY_CONNECTIONS, message)
        .with_hint("Try again in a second, when they have ended.")
}

/// Work on a planning thread.
pub struct Working<T> {
    done: oneshot::Receiver<Result<T>>,
    /// `None` after the work has ended.
    job: Option<Arc<Job>>,
}

impl<T> Future for Working<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        let done = std::task::ready!(self.done.poll_unpin(context));
        self.job = None;
        Poll::Ready(done.unwrap_or_else(|_| Err(Error::internal("the statement broke down"))))
    }
}

impl<T> Drop for Working<T> {
    fn drop(&mut self) {
        if let Some(job) = self.job.take() {
            job.abandon();
        }
    }
}

impl Pool {
    fn push(self: &Arc<Pool>, job: Arc<Job>) {
        let mut queue = self.queue.lock();
        if queue.is_closed {
            drop(queue);
            return job.abandon();
        }
        queue.jobs.push_back(job);
        if queue.idle >= queue.jobs.len() {
            drop(queue);
            self.arrived.notify_one();
        } else {
            self.start_threads(&mut queue);
        }
    }

    /// Starts a thread if jobs wait for one. If the system refuses it, the jobs wait for an
    /// existing thread or for the next job.
    fn start_threads(self: &Arc<Pool>, queue: &mut Queue) {
        let most = self.lasting * THREADS_PER_CORE;
        if queue.jobs.len() <= queue.idle || queue.threads - queue.abandoned >= most {
            return;
        }
        let pool = Arc::clone(self);
        let body = Box::new(move || pool.work());
        if self.starter.spawn_with_stack("planning", PLANNING_STACK_BYTES, body).is_ok() {
            queue.threads += 1;
        }
    }

    fn work(self: Arc<Pool>) {
        let thread = ThreadNumber::current();
        while let Some(job) = self.next() {
            let was_abandoned = job.poll(thread);
            let role = job.role();
            drop(job);
            if was_abandoned {
                // The thread's priority was lowered and cannot be raised again.
                let mut queue = self.queue.lock();
                queue.threads -= 1;
                queue.end_abandoned(role);
                self.start_threads(&mut queue);
                return;
            }
        }
    }

    /// The next job; `None` if the thread should end.
    fn next(&self) -> Option<Arc<Job>> {
        let mut queue = self.queue.lock();
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                return Some(job);
            }
            if queue.is_closed {
                queue.threads -= 1;
                return None;
            }
            queue.idle += 1;
            let timed_out = self.arrived.wait_for(&mut queue, IDLE);
            queue.idle -= 1;
            let is_over = timed_out && queue.jobs.is_empty();
            if is_over && queue.threads > self.lasting {
                queue.threads -= 1;
                return None;
            }
        }
    }

    /// Records that a thread works on a job that was abandoned.
    fn abandon(self: &Arc<Pool>, thread: ThreadNumber, role: RoleId) {
        thread.lower_priority();
        let mut queue = self.queue.lock();
        queue.begin_abandoned(role);
        self.start_threads(&mut queue);
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests block on work of planning threads")]
mod tests;
