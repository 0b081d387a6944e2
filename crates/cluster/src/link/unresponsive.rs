//! Silent workers, which calls do not wait for again.
//!
//! The first call to a node that hangs or is cut off waits until the node is given up. Later calls
//! get the same error at once, while one task pings the node with small requests. As soon as it
//! answers anything, even an error, calls go to it as before.
//!
//! Invariants: a node counts as silent only if it accepts no connection, answers no ping in time or
//! has no route. A node that computes an answer for long is not silent. Each silent node has one
//! such task, which ends when the node leaves the map.

use std::collections::HashMap;
use std::future::pending;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use thalweg_protocol::cluster::{DescribeNodeRequest, NodeDescription};
use thalweg_runtime::timeout;
use thalweg_types::Result;
use tokio::task::JoinSet;

use super::{DESCRIBE, Link, LinkOptions, NodeName, NotReached, Peer, unavailable};
use crate::map::SharedMap;

const QUESTION: DescribeNodeRequest = DescribeNodeRequest {};

/// The silent workers of a map. Clones share it.
#[derive(Clone)]
pub struct UnresponsiveNodes {
    known: Arc<Known>,
}

struct Known {
    map: SharedMap,
    /// Options for checking if a node is back.
    options: LinkOptions,
    /// Time limit of a check. After that the node is checked again, over another connection.
    patience: Duration,
    nodes: Mutex<HashMap<NodeName, UnresponsiveNode>>,
}

struct UnresponsiveNode {
    /// The error of the call that found out.
    why: String,
    /// The checking task, which is aborted when this is dropped.
    _asking: JoinSet<()>,
}

impl UnresponsiveNodes {
    /// No node is silent yet. `options` are those of the checks.
    #[must_use]
    pub fn new(map: SharedMap, options: &LinkOptions) -> UnresponsiveNodes {
        let patience = options.silence;
        // Longer than a check, since a connection that is given up would look like an answer.
        let (connect_timeout, silence) = (2 * patience, 2 * patience);
        let options = LinkOptions { connect_timeout, silence, ..options.clone() };
        let known = Known { map, options, patience, nodes: Mutex::default() };
        UnresponsiveNodes { known: Arc::new(known) }
    }

    /// Checks that a node may be called.
    ///
    /// # Errors
    /// If the node is known to be silent: the error of the call that found out.
    pub(super) fn may_ask(&self, name: &NodeName) -> Result<()> {
        match self.known.nodes.lock().get(name) {
            Some(silent) => Err(unavailable(name, &silent.why)),
            None => Ok(()),
        }
    }

    /// Records that a node is silent, and starts to check it on the current runtime.
    pub(super) fn note(&self, name: &NodeName, why: &str) {
        let mut nodes = self.known.nodes.lock();
        if nodes.contains_key(name) {
            return;
        }
        let mut asking = JoinSet::new();
        asking.spawn(until_it_answers(Arc::downgrade(&self.known), name.clone()));
        nodes.insert(name.clone(), UnresponsiveNode { why: why.to_owned(), _asking: asking });
    }
}

impl Known {
    fn has(&self, name: &NodeName) -> bool {
        self.map.current().workers().contains(name)
    }

    /// Checks a node over a new connection. Returns true if it does not answer in time.
    async fn is_silent(&self, name: &NodeName) -> bool {
        let asked = async {
            match Link::to(Peer::new(name.clone(), None), &self.options).await {
                // Any answer counts, even an error.
                Ok(link) => drop(link.ask::<_, NodeDescription>(DESCRIBE, &QUESTION).await),
                Err(NotReached::Failed(_)) => {}
                // No route now may mean a route later, so the check waits until its time is over.
                Err(NotReached::Silent(_)) => pending().await,
            }
        };
        timeout(self.patience, asked).await.is_err()
    }
}

/// Checks a silent node until it answers, or leaves the map, or the owner is dropped.
async fn until_it_answers(known: Weak<Known>, name: NodeName) {
    while let Some(known) = known.upgrade() {
        if !known.has(&name) || !known.is_silent(&name).await {
            let silent = known.nodes.lock().remove(&name);
            // Dropping it aborts this task.
            drop(silent);
            return;
        }
    }
}

#[cfg(test)]
mod tests;
