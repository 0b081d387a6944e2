//! A link that is opened on first use, and again after it was lost.

use std::sync::Arc;

use thalweg_types::{Result, SqlState};
use tokio::sync::Mutex;

use super::{Answer, Link, LinkOptions, NodeName, Peer, UnresponsiveNodes};

/// A node, connected or not. Clones share the connection.
#[derive(Clone)]
pub struct ReconnectingLink {
    name: NodeName,
    options: Arc<LinkOptions>,
    silent: Option<UnresponsiveNodes>,
    link: Arc<Mutex<Option<Link>>>,
}

impl ReconnectingLink {
    /// A link that is not connected yet.
    #[must_use]
    pub fn new(name: NodeName, options: Arc<LinkOptions>) -> ReconnectingLink {
        ReconnectingLink { name, options, silent: None, link: Arc::default() }
    }

    /// Also records in `silent` that the node is silent, and fails at once while it is.
    #[must_use]
    pub fn with_unresponsive_nodes(self, silent: UnresponsiveNodes) -> ReconnectingLink {
        ReconnectingLink { silent: Some(silent), ..self }
    }

    /// The node's name.
    #[must_use]
    pub fn name(&self) -> &NodeName {
        &self.name
    }

    /// Sends an idempotent request. If an old connection turns out to be lost before the node
    /// answers, the request is sent again over a new one, since the node may have been restarted.
    ///
    /// # Errors
    /// If the node refuses, or cannot be reached.
    pub async fn call(&self, path: &'static str, message: &[u8]) -> Result<Answer> {
        let (link, was_kept) = self.link().await?;
        match link.call(path, message).await {
            Err(error) if error.state() == SqlState::CONNECTION_FAILURE => {
                self.forget(&link).await;
                match was_kept && !link.was_given_up() {
                    true => self.link().await?.0.call(path, message).await,
                    false => Err(error),
                }
            }
            answer => answer,
        }
    }

    /// The connection. Returns true if it was open already.
    ///
    /// # Errors
    /// If the node cannot be reached, or is known to be silent.
    pub async fn link(&self) -> Result<(Link, bool)> {
        self.connection(self.silent.as_ref()).await
    }

    /// Like [`Self::link`], but also tries a node that is known to be silent.
    ///
    /// # Errors
    /// If the node cannot be reached.
    pub async fn link_anyway(&self) -> Result<(Link, bool)> {
        self.connection(None).await
    }

    async fn connection(&self, silent: Option<&UnresponsiveNodes>) -> Result<(Link, bool)> {
        let may_ask = || silent.map_or(Ok(()), |silent| silent.may_ask(&self.name));
        may_ask()?;
        let mut kept = self.link.lock().await;
        if let Some(link) = &*kept
            && !link.is_closed()
        {
            return Ok((link.clone(), true));
        }
        // The previous holder of the lock may have found the node silent.
        may_ask()?;
        let peer = Peer::new(self.name.clone(), self.silent.clone());
        let link = Link::to(peer, &self.options).await.map_err(|why| why.told_of(&self.name))?;
        *kept = Some(link.clone());
        Ok((link, false))
    }

    /// Drops the connection, which closes after its last answer is read.
    pub async fn close(&self) {
        *self.link.lock().await = None;
    }

    async fn forget(&self, lost: &Link) {
        let mut kept = self.link.lock().await;
        if kept.as_ref().is_some_and(|link| link.is(lost)) {
            *kept = None;
        }
    }
}
