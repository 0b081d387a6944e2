//! The engine that holds the temporary objects of all sessions of a database.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use thalweg_env::Env;
use thalweg_txn::{Engine, Options, temporary_namespace};
use thalweg_types::Result;

/// An engine without a directory that starts when a session creates a temporary object.
pub(crate) struct TemporaryEngine {
    env: Env,
    options: Options,
    engine: OnceLock<Arc<Engine>>,
    /// Held while the engine starts.
    starting: Mutex<()>,
    /// Number of sessions that have had a namespace.
    sessions: AtomicU32,
}

impl TemporaryEngine {
    pub(crate) fn new(env: Env, options: Options) -> TemporaryEngine {
        TemporaryEngine {
            env,
            options,
            engine: OnceLock::new(),
            starting: Mutex::default(),
            sessions: AtomicU32::new(0),
        }
    }

    /// The engine; `None` before it has started.
    pub(crate) fn started(&self) -> Option<&Arc<Engine>> {
        self.engine.get()
    }

    /// The engine, which starts if need be.
    ///
    /// # Errors
    /// If the system refuses threads.
    pub(super) fn start(&self) -> Result<&Arc<Engine>> {
        let _starting = self.starting.lock();
        if self.engine.get().is_none() {
            let started = Engine::for_temporary_objects(self.env.clone(), self.options.clone())?;
            // The lock is held, so that this is the first one.
            let _ = self.engine.set(Arc::new(started));
        }
        Ok(self.engine.get().expect("the engine was set just now"))
    }

    /// The name of a namespace for another session.
    pub(super) fn new_namespace(&self) -> String {
        temporary_namespace(self.sessions.fetch_add(1, Ordering::Relaxed) + 1)
    }
}
