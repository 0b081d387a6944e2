//! Parts that all connections of a process share: the runtime that their statements run on, the way
//! in which a Python thread waits for the engine, and the check that the process was not forked.

use std::future::Future;
use std::pin::pin;
use std::sync::OnceLock;
use std::time::Duration;

use pyo3::prelude::*;
use thalweg::{CancelHandle, Error, Result, SqlState};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use crate::errors::exception;

/// Interval at which a waiting thread lets Python handle signals, such as Ctrl-C.
const SIGNALS_EVERY: Duration = Duration::from_millis(50);

/// Threads for timers and for the parts of statements that wait. Plans run on the database's own
/// threads.
const RUNTIME_THREADS: usize = 2;

struct Process {
    id: u32,
    runtime: Runtime,
}

static PROCESS: OnceLock<Process> = OnceLock::new();

/// The runtime of this process, started by its first database.
///
/// # Errors
/// If this process was forked from one that used a database: it has none of the threads.
pub fn runtime() -> Result<&'static Runtime> {
    if PROCESS.get().is_none() {
        thalweg_program::prepare_memory();
        let runtime = Builder::new_multi_thread()
            .worker_threads(RUNTIME_THREADS)
            .thread_name("thalweg-python")
            .enable_all()
            .build();
        let runtime =
            runtime.map_err(|error| Error::new(SqlState::OUT_OF_MEMORY, error.to_string()))?;
        // Another thread may have been faster. Its runtime is used then.
        let _ = PROCESS.set(Process { id: std::process::id(), runtime });
    }
    let process = PROCESS.get().expect("set above");
    match is_fork() {
        false => Ok(&process.runtime),
        true => Err(Error::new(
            SqlState::OBJECT_NOT_IN_STATE,
            format!(
                "this process was forked from process {}, which had used Thalweg: the threads of \
                 its databases are not in this process",
                process.id
            ),
        )
        .with_hint(
            "Start processes with multiprocessing.get_context(\"spawn\"), or connect only after \
             the fork.",
        )),
    }
}

/// True in a process that was forked from one that used a database.
pub fn is_fork() -> bool {
    PROCESS.get().is_some_and(|process| process.id != std::process::id())
}

/// Waits for work of the engine without the interpreter's lock.
///
/// # Errors
/// Errors of the work. If a signal handler of Python raises an exception, as that of Ctrl-C does,
/// the work is canceled, and the exception is returned after its end.
pub fn wait<T: Send>(
    py: Python<'_>,
    cancel: Option<&CancelHandle>,
    work: impl Future<Output = Result<T>> + Send,
) -> PyResult<T> {
    let runtime = runtime().map_err(|error| exception(py, &error))?;
    let (done, raised) = py.detach(|| {
        let (mut work, mut raised) = (pin!(work), None);
        loop {
            let waited = runtime.block_on(async { timeout(SIGNALS_EVERY, work.as_mut()).await });
            if let Ok(done) = waited {
                return (done, raised);
            }
            // Signal handlers run here, outside of the runtime, since they may use it themselves.
            if raised.is_none() {
                raised = Python::attach(|py| py.check_signals()).err();
            }
            // A statement that begins after a cancel does not hear it, so the cancel is repeated.
            if let (Some(_), Some(cancel)) = (&raised, cancel) {
                cancel.cancel();
            }
        }
    });
    match raised {
        Some(raised) => {
            drop_detached(done);
            Err(raised)
        }
        None => done.map_err(|error| exception(py, &error)),
    }
}

/// Drops parts of a database without the interpreter's lock. The drop may wait for threads of the
/// engine, and such a thread takes the lock to free memory of another library.
pub fn drop_detached<T: Send>(parts: T) {
    Python::try_attach(|py| py.detach(|| drop(parts)));
}

/// A part of a database. In a forked process it is forgotten instead of dropped, because its drop
/// would wait for threads that the process does not have.
pub struct Guarded<T>(Option<T>);

impl<T> Default for Guarded<T> {
    fn default() -> Guarded<T> {
        Guarded(None)
    }
}

impl<T> Guarded<T> {
    pub fn new(value: T) -> Guarded<T> {
        Guarded(Some(value))
    }

    pub fn get_mut(&mut self) -> Option<&mut T> {
        self.0.as_mut()
    }

    pub fn take(&mut self) -> Option<T> {
        self.0.take()
    }
}

impl<T> Drop for Guarded<T> {
    fn drop(&mut self) {
        if is_fork() {
            std::mem::forget(self.0.take());
        }
    }
}
