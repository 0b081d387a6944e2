//! Tasks, and the threads that run them.
//!
//! [`TaskThreads`] and [`TaskThread`] are runtimes of tokio with threads of their own. In a
//! simulation both stand for its loop, on which the tasks of all machines run.

use std::io;

use thalweg_env::{Env, ThreadHandle, is_simulated};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Starts a task on the threads that the caller runs on.
#[expect(clippy::disallowed_methods, reason = "tasks start here")]
pub fn spawn<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    tokio::spawn(work)
}

/// Runs work that may block on a thread of its own; in a simulation, on a thread that takes turns.
/// The work runs to its end even if the handle is dropped.
#[expect(clippy::disallowed_methods, reason = "blocking work starts here")]
pub fn spawn_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    let Some(schedule) = thalweg_env::Schedule::current() else {
        return tokio::task::spawn_blocking(work);
    };
    let (done, result) = oneshot::channel();
    let runtime = Handle::current();
    let body = Box::new(move || {
        let _inside = runtime.enter();
        // The caller may have stopped waiting.
        let _ = done.send(work());
    });
    let started = thalweg_env::Threads::spawn(&schedule, "blocking", body);
    tokio::spawn(async move {
        started.expect("the system has a thread for a simulation");
        result.await.expect("the blocking work does not panic")
    })
}

/// Threads that run tasks; in a simulation, its loop. Tasks end when this is dropped, except in a
/// simulation, where their machine is cut off instead.
pub struct TaskThreads {
    handle: Handle,
    /// `None` in a simulation, and while this is being dropped.
    own: Option<Runtime>,
}

impl TaskThreads {
    /// Starts threads with this name. `stack_bytes` is the size of each thread's stack; `None`
    /// leaves it to tokio.
    ///
    /// # Errors
    /// If the system refuses threads.
    pub fn start(
        name: &str,
        threads: usize,
        stack_bytes: Option<usize>,
    ) -> io::Result<TaskThreads> {
        if let Some(handle) = simulated() {
            return Ok(TaskThreads { handle, own: None });
        }
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(threads).thread_name(name).enable_all();
        if let Some(bytes) = stack_bytes {
            builder.thread_stack_size(bytes);
        }
        let own = builder.build()?;
        Ok(TaskThreads { handle: own.handle().clone(), own: Some(own) })
    }

    #[must_use]
    pub fn handle(&self) -> &Handle {
        &self.handle
    }
}

impl Drop for TaskThreads {
    fn drop(&mut self) {
        // The last owner may be a task of some runtime, which must not wait for threads.
        if let Some(own) = self.own.take() {
            own.shutdown_background();
        }
    }
}

/// One thread that runs tasks; in a simulation, its loop. Dropping it ends the thread.
pub struct TaskThread {
    handle: Handle,
    /// Dropped before the thread is joined.
    end: Option<oneshot::Sender<()>>,
    thread: Option<Box<dyn ThreadHandle>>,
}

impl TaskThread {
    /// # Errors
    /// If the system refuses the thread.
    pub fn start(name: &str, env: &Env) -> io::Result<TaskThread> {
        if let Some(handle) = simulated() {
            return Ok(TaskThread { handle, end: None, thread: None });
        }
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel::<()>();
        let body = Box::new(move || {
            // The channel ends when the sender is dropped.
            let _ = runtime.block_on(ended);
        });
        let thread = env.threads.spawn(name, body)?;
        Ok(TaskThread { handle, end: Some(end), thread: Some(thread) })
    }

    #[must_use]
    pub fn handle(&self) -> &Handle {
        &self.handle
    }
}

impl Drop for TaskThread {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // If this runs on the thread itself, joining it would block forever.
            if Handle::try_current().is_ok_and(|here| here.id() == self.handle.id()) {
                return;
            }
            // A thread that panicked has failed its tasks already.
            let _ = thread.join();
        }
    }
}

/// The loop of the simulation that the calling thread belongs to.
fn simulated() -> Option<Handle> {
    is_simulated().then(Handle::current)
}
