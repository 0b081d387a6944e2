//! The newest map that a node knows.

use std::sync::Arc;

use thalweg_runtime::spawn_blocking;
use thalweg_types::{Error, Result, SqlState};
use tokio::sync::{Mutex, watch};

use super::{MapFile, ShardMap};

/// A node's map. Clones share it.
#[derive(Clone)]
pub struct SharedMap {
    current: Arc<watch::Sender<Arc<ShardMap>>>,
    /// Locked while a map is stored and published, so that versions never decrease, in memory and
    /// on disk.
    file: Arc<Mutex<Option<MapFile>>>,
}

impl SharedMap {
    /// A map in memory only.
    #[must_use]
    pub fn new(map: ShardMap) -> SharedMap {
        SharedMap { current: Arc::new(watch::Sender::new(Arc::new(map))), file: Arc::default() }
    }

    /// A map that is loaded from a file, and stored on every change.
    ///
    /// # Errors
    /// If the file is damaged.
    pub fn stored(file: MapFile) -> Result<SharedMap> {
        let map = SharedMap::new(file.load()?.unwrap_or_default());
        Ok(SharedMap { file: Arc::new(Mutex::new(Some(file))), ..map })
    }

    /// The newest map at this moment.
    #[must_use]
    pub fn current(&self) -> Arc<ShardMap> {
        Arc::clone(&self.current.borrow())
    }

    /// A receiver of all changes.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<Arc<ShardMap>> {
        self.current.subscribe()
    }

    /// Adopts a map if it is newer. Returns the newest map.
    ///
    /// # Errors
    /// If the map cannot be stored. Then the old one stays.
    pub async fn offer(&self, map: ShardMap) -> Result<Arc<ShardMap>> {
        let current = self.current();
        match map.version() > current.version() {
            true => self.change(|_| map).await,
            false => Ok(current),
        }
    }

    /// Replaces the current map by a changed one, under a lock. The change counts only if its
    /// version is higher.
    ///
    /// # Errors
    /// If the map cannot be stored. Then the old one stays.
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
        // A blocking task runs to its end, even if the caller is canceled.
        spawn_blocking(put).await.map_err(|died| Error::internal(died.to_string()))?
    }

    /// Checks that a request made with a map of this version may run here.
    ///
    /// # Errors
    /// `STALE_SHARD_MAP` if the versions differ. Both sides then look for the newer map.
    pub fn agrees(&self, version: u64) -> Result<()> {
        let own = self.current().version();
        if own == version {
            return Ok(());
        }
        let message = format!("the shard map has version {own} here, not {version}");
        Err(Error::new(SqlState::STALE_SHARD_MAP, message))
    }
}
