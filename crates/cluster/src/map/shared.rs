//! The newest map that a node knows.

use std::sync::Arc;

use thalweg_types::{Error, Result, SqlState};
use tokio::sync::{Mutex, watch};
use tokio::task::spawn_blocking;

use super::{MapFile, ShardMap};

/// A node's map. Clones share it.
#[derive(Clone)]
pub struct SharedMap {
    current: Arc<watch::Sender<Arc<ShardMap>>>,
    /// Held while a map is stored and put in place: versions never go back, on disk neither.
    file: Arc<Mutex<Option<MapFile>>>,
}

impl SharedMap {
    /// In memory only.
    #[must_use]
    pub fn new(map: ShardMap) -> SharedMap {
        SharedMap { current: Arc::new(watch::Sender::new(Arc::new(map))), file: Arc::default() }
    }

    /// As it was stored, and stored whenever it changes.
    ///
    /// # Errors
    /// Where what was stored is damaged.
    pub fn stored(file: MapFile) -> Result<SharedMap> {
        let map = SharedMap::new(file.load()?.unwrap_or_default());
        Ok(SharedMap { file: Arc::new(Mutex::new(Some(file))), ..map })
    }

    #[must_use]
    pub fn current(&self) -> Arc<ShardMap> {
        Arc::clone(&self.current.borrow())
    }

    /// Tells of changes.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<Arc<ShardMap>> {
        self.current.subscribe()
    }

    /// Takes a map over if it is newer. The newest, then.
    ///
    /// # Errors
    /// Where it cannot be stored; the old one stays then.
    pub async fn offer(&self, map: ShardMap) -> Result<Arc<ShardMap>> {
        let current = self.current();
        match map.version() > current.version() {
            true => self.change(|_| map).await,
            false => Ok(current),
        }
    }

    /// Makes another map of the current one; nobody else does meanwhile. Only a higher version
    /// counts as a change.
    ///
    /// # Errors
    /// Where it cannot be stored; the old one stays then.
    pub async fn change(
        &self,
        change: impl FnOnce(&ShardMap) -> ShardMap + Send,
    ) -> Result<Arc<ShardMap>> {
        let file = Arc::clone(&self.file).lock_owned().await;
        let before = self.current();
        let map = Arc::new(change(&before));
        if map.version() <= before.version() {
            return Ok(before);
        }
        let current = Arc::clone(&self.current);
        let put = move || {
            if let Some(file) = &*file {
                file.store(&map)?;
            }
            current.send_replace(Arc::clone(&map));
            Ok(map)
        };
        // Once begun it comes to its end, whoever waits for it.
        spawn_blocking(put).await.map_err(|died| Error::internal(died.to_string()))?
    }

    /// Whether something that was decided by a map of this version may be done here.
    ///
    /// # Errors
    /// With a code of its own, where the two differ: both sides then look for the newer map.
    pub fn agrees(&self, version: u64) -> Result<()> {
        let own = self.current().version();
        if own == version {
            return Ok(());
        }
        let message = format!("the shard map has version {own} here, not {version}");
        Err(Error::new(SqlState::STALE_SHARD_MAP, message))
    }
}
