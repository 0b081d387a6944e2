//! A place for a link that is made when it is first needed, and anew when it was lost.

use std::sync::Arc;

use thalweg_types::{Result, SqlState};
use tokio::sync::Mutex;

use super::{Answer, Link, LinkOptions, NodeName};

/// A node, whether connected to it or not. Clones share the connection.
#[derive(Clone)]
pub struct KeptLink {
    name: NodeName,
    options: Arc<LinkOptions>,
    link: Arc<Mutex<Option<Link>>>,
}

impl KeptLink {
    #[must_use]
    pub fn new(name: NodeName, options: Arc<LinkOptions>) -> KeptLink {
        KeptLink { name, options, link: Arc::default() }
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
    /// Where the node cannot be reached.
    pub async fn link(&self) -> Result<(Link, bool)> {
        let mut kept = self.link.lock().await;
        if let Some(link) = &*kept
            && !link.is_closed()
        {
            return Ok((link.clone(), true));
        }
        let link = Link::connect(self.name.clone(), &self.options).await?;
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
