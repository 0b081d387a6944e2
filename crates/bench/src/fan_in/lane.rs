//! A thread that reads from its share of the workers.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use thalweg_cluster::link::{LinkOptions, NodeName, ReconnectingLink};
use thalweg_env::Env;
use thalweg_runtime::TaskThread;
use thalweg_types::{Error, Result};
use tokio::runtime::Handle;

/// A lane. Dropping it ends its thread.
pub(super) struct Lane {
    thread: TaskThread,
    links: Mutex<HashMap<NodeName, ReconnectingLink>>,
    options: Arc<LinkOptions>,
}

impl Lane {
    pub(super) fn start(number: usize, options: Arc<LinkOptions>, env: &Env) -> Result<Lane> {
        let failed = |error| Error::internal(format!("a thread could not be started: {error}"));
        let thread = TaskThread::start(&format!("fan-in-{number}"), env).map_err(failed)?;
        Ok(Lane { thread, links: Mutex::default(), options })
    }

    /// Runtime of this lane's thread.
    pub(super) fn runtime(&self) -> &Handle {
        self.thread.handle()
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
