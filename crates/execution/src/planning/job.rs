//! The work of one statement: a future that the planning threads poll.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use futures::future::BoxFuture;
use parking_lot::Mutex;
use thalweg_env::ThreadNumber;
use thalweg_txn::RoleId;
use thalweg_values::statement_control::{StatementControl, within};
use tokio::runtime::Handle;

use super::Pool;

pub(super) struct Job {
    /// The role whose statement it is.
    role: RoleId,
    state: Mutex<State>,
    /// The flag that passes and functions check.
    stop: Arc<StatementControl>,
    /// The runtime of the caller.
    runtime: Handle,
    pool: Arc<Pool>,
}

enum State {
    /// Waits to be woken.
    Waiting(BoxFuture<'static, ()>),
    /// Waits for a thread.
    Queued(BoxFuture<'static, ()>),
    Running {
        thread: ThreadNumber,
        is_woken: bool,
        is_abandoned: bool,
    },
    Over,
}

impl Job {
    /// A job that its pool is about to queue.
    pub(super) fn new(
        role: RoleId,
        work: BoxFuture<'static, ()>,
        runtime: Handle,
        pool: Arc<Pool>,
    ) -> Arc<Job> {
        let stop = Arc::new(StatementControl::in_current_style());
        Arc::new(Job { role, state: Mutex::new(State::Queued(work)), stop, runtime, pool })
    }

    pub(super) fn role(&self) -> RoleId {
        self.role
    }

    /// Continues the work until it waits or ends. Returns true if it was abandoned meanwhile.
    pub(super) fn poll(self: &Arc<Job>, thread: ThreadNumber) -> bool {
        let running = State::Running { thread, is_woken: false, is_abandoned: false };
        let mut state = self.state.lock();
        let mut work = match std::mem::replace(&mut *state, running) {
            State::Queued(work) => work,
            // It was dropped while it was in the queue.
            other => {
                *state = other;
                return false;
            }
        };
        drop(state);
        let _inside = self.runtime.enter();
        let waker = Waker::from(Arc::clone(self));
        let mut context = Context::from_waker(&waker);
        let polled = catch_unwind(AssertUnwindSafe(|| {
            within(&self.stop, || work.as_mut().poll(&mut context))
        }));
        let has_ended = !matches!(polled, Ok(Poll::Pending));
        let mut state = self.state.lock();
        let State::Running { is_woken, is_abandoned, .. } = *state else { return false };
        if !has_ended && !is_abandoned {
            match is_woken {
                false => *state = State::Waiting(work),
                true => {
                    *state = State::Queued(work);
                    drop(state);
                    self.pool.push(Arc::clone(self));
                }
            }
            return false;
        }
        *state = State::Over;
        drop(state);
        // Dropping the state of the work may panic, too.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(work)));
        is_abandoned
    }

    /// Records that the caller no longer waits for the work.
    pub(super) fn abandon(&self) {
        self.stop.stop();
        let mut state = self.state.lock();
        match &mut *state {
            State::Running { thread, is_abandoned, .. } => {
                *is_abandoned = true;
                // The thread takes the state's lock before it leaves the pool.
                self.pool.abandon(*thread, self.role);
            }
            _ => {
                let dropped = std::mem::replace(&mut *state, State::Over);
                drop(state);
                drop(dropped);
            }
        }
    }
}

impl Wake for Job {
    fn wake(self: Arc<Job>) {
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, State::Over) {
            State::Waiting(work) => {
                *state = State::Queued(work);
                drop(state);
                let pool = Arc::clone(&self.pool);
                pool.push(self);
            }
            State::Running { thread, is_abandoned, .. } => {
                *state = State::Running { thread, is_woken: true, is_abandoned };
            }
            other => *state = other,
        }
    }
}
