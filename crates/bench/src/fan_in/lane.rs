//! A thread that reads from its share of the workers.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use thalweg_cluster::link::{LinkOptions, NodeName, ReconnectingLink};
use thalweg_env::{Env, ThreadHandle};
use thalweg_types::{Error, Result};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// A lane. Dropping it ends its thread.
pub(super) struct Lane {
    runtime: Handle,
    links: Mutex<HashMap<NodeName, ReconnectingLink>>,
    options: Arc<LinkOptions>,
    /// Dropped before the thread is joined.
    end: Option<oneshot::Sender<()>>,
    thread: Option<Box<dyn ThreadHandle>>,
}

impl Lane {
    pub(super) fn start(number: usize, options: Arc<LinkOptions>, env: &Env) -> Result<Lane> {
        let failed = |error| Error::internal(format!("a thread could not be started: {error}"));
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel::<()>();
        let body = Box::new(move || {
            // The channel ends when the sender is dropped.
            let _ = runtime.block_on(ended);
        });
        let thread = env.threads.spawn(&format!("fan-in-{number}"), body).map_err(failed)?;
        Ok(Lane {
            runtime: handle,
            links: Mutex::default(),
            options,
            end: Some(end),
            thread: Some(thread),
        })
    }

    /// Runtime of this lane's thread.
    pub(super) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// The connection to a worker, which only this lane uses.
    pub(super) fn link(&self, worker: &NodeName) -> ReconnectingLink {
        let mut links = self.links.lock();
        if let Some(link) = links.get(worker) {
            return link.clone();
        }
        let link = ReconnectingLink::new(worker.clone(), Arc::clone(&self.options));
        links.insert(worker.clone(), link.clone());
        link
    }

    pub(super) async fn disconnect(&self) {
        let links = std::mem::take(&mut *self.links.lock());
        for link in links.values() {
            link.close().await;
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // If this runs on the lane's own thread, joining it would block forever.
            if Handle::try_current().is_ok_and(|here| here.id() == self.runtime.id()) {
                return;
            }
            // A lane that panicked has failed its query already.
            let _ = thread.join();
        }
    }
}
