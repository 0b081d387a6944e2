//! A place for a link that is made when it is first needed, and anew when it was lost.

use std::sync::Arc;

use thalweg_types::{Result, SqlState};
use tokio::sync::Mutex;

use super::{Answer, Link, LinkOptions, NodeName, Peer, SilentNodes};

/// A node, whether connected to it or not. Clones share the connection.
#[derive(Clone)]
pub struct KeptLink {
    name: NodeName,
    options: Arc<LinkOptions>,
    silent: Option<SilentNodes>,
    link: Arc<Mutex<Option<Link>>>,
}

impl KeptLink {
    #[must_use]
    pub fn new(name: NodeName, options: Arc<LinkOptions>) -> KeptLink {
        KeptLink { name, options, silent: None, link: Arc::default() }
    }

    /// The same, where it is remembered that the node is silent.
    #[must_use]
    pub fn remembered_by(self, silent: SilentNodes) -> KeptLink {
        KeptLink { silent: Some(silent), ..self }
    }

    #[must_use]
    pub fn name(&self) -> &NodeName {
        &self.name
    }

    /// Asks something that may be asked twice. Where a kept connection turns out to be lost before
    /// the node answered, it is asked once more over a new one: the node may have been restarted
    /// since.
    ///
    /// # Errors
    /// Where the node refuses, or cannot be reached.
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

    /// The connection, and whether it was there already.
    ///
    /// # Errors
    /// Where the node cannot be reached, or is known to be silent.
    pub async fn link(&self) -> Result<(Link, bool)> {
        self.connection(self.silent.as_ref()).await
    }

    /// The same for what has to be tried, whatever is known of the node.
    ///
    /// # Errors
    /// Where the node cannot be reached.
    pub async fn link_anyway(&self) -> Result<(Link, bool)> {
        self.connection(None).await
    }

    async fn connection(&self, silent: Option<&SilentNodes>) -> Result<(Link, bool)> {
        let may_ask = || silent.map_or(Ok(()), |silent| silent.may_ask(&self.name));
        may_ask()?;
        let mut kept = self.link.lock().await;
        if let Some(link) = &*kept
            && !link.is_closed()
        {
            return Ok((link.clone(), true));
        }
        // Whoever had the lock may have found out.
        may_ask()?;
        let peer = Peer::new(self.name.clone(), self.silent.clone());
        let link = Link::to(peer, &self.options).await.map_err(|why| why.told_of(&self.name))?;
        *kept = Some(link.clone());
        Ok((link, false))
    }

    /// Closes the connection once its last answer is read.
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
