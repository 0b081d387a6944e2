//! Workers that are known to be silent, so that nobody waits for them once more.
//!
//! Whoever first asks a node that hangs, or is cut off, waits until it is given up. Others are told
//! at once what that one was told, while one task asks the node for a few bytes, again and again.
//! As soon as it says anything, be it an error, everybody asks it as before.
//!
//! Promises: only a node that takes no connection, answers no ping in time or has no way to it
//! counts as silent, and never one that is long about an answer. Each silent node is asked by one
//! task, which ends with the node's place in the map.

use std::collections::HashMap;
use std::future::pending;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use thalweg_protocol::cluster::{DescribeNodeRequest, NodeDescription};
use thalweg_types::Result;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::{DESCRIBE, Link, LinkOptions, NodeName, NotReached, Peer, unavailable};
use crate::map::SharedMap;

const QUESTION: DescribeNodeRequest = DescribeNodeRequest {};

/// Which workers of a map are silent. Clones share it.
#[derive(Clone)]
pub struct SilentNodes {
    known: Arc<Known>,
}

struct Known {
    map: SharedMap,
    /// How a node is asked whether it is back.
    options: LinkOptions,
    /// How long such a question waits before it is asked anew, over another connection.
    patience: Duration,
    nodes: Mutex<HashMap<NodeName, Silent>>,
}

struct Silent {
    /// What the first one was told who waited for it.
    why: String,
    /// What asks it, which ends where this is dropped.
    _asking: JoinSet<()>,
}

impl SilentNodes {
    /// None yet. Nodes that turn out to be silent are asked with these options whether they are
    /// back.
    #[must_use]
    pub fn new(map: SharedMap, options: &LinkOptions) -> SilentNodes {
        let patience = options.silence;
        // A connection that gives up by itself would look like an answer.
        let (connect_timeout, silence) = (2 * patience, 2 * patience);
        let options = LinkOptions { connect_timeout, silence, ..options.clone() };
        let known = Known { map, options, patience, nodes: Mutex::default() };
        SilentNodes { known: Arc::new(known) }
    }

    /// Whether a node may be asked.
    ///
    /// # Errors
    /// Where it is known to be silent: as the one was told who found out.
    pub(super) fn may_ask(&self, name: &NodeName) -> Result<()> {
        match self.known.nodes.lock().get(name) {
            Some(silent) => Err(unavailable(name, &silent.why)),
            None => Ok(()),
        }
    }

    /// Takes in that a node was silent, and asks it from now on whether it is back, on the current
    /// runtime.
    pub(super) fn note(&self, name: &NodeName, why: &str) {
        let mut nodes = self.known.nodes.lock();
        if nodes.contains_key(name) {
            return;
        }
        let mut asking = JoinSet::new();
        asking.spawn(until_it_answers(Arc::downgrade(&self.known), name.clone()));
        nodes.insert(name.clone(), Silent { why: why.to_owned(), _asking: asking });
    }
}

impl Known {
    fn has(&self, name: &NodeName) -> bool {
        self.map.current().workers().contains(name)
    }

    /// Whether a node says nothing in time, over a connection of its own.
    async fn is_silent(&self, name: &NodeName) -> bool {
        let asked = async {
            match Link::to(Peer::new(name.clone(), None), &self.options).await {
                // Whatever it answers.
                Ok(link) => drop(link.ask::<_, NodeDescription>(DESCRIBE, &QUESTION).await),
                Err(NotReached::Failed(_)) => {}
                // There is no way to it, and may be one again later.
                Err(NotReached::Silent(_)) => pending().await,
            }
        };
        timeout(self.patience, asked).await.is_err()
    }
}

/// Asks a silent node until it is silent no more, or nobody wants to know.
async fn until_it_answers(known: Weak<Known>, name: NodeName) {
    while let Some(known) = known.upgrade() {
        if !known.has(&name) || !known.is_silent(&name).await {
            let silent = known.nodes.lock().remove(&name);
            // This task ends with it.
            drop(silent);
            return;
        }
    }
}

#[cfg(test)]
mod tests;
