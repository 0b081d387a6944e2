//! The map on disk.

use std::path::Path;

use prost::Message as _;
use thalweg_env::Env;
use thalweg_protocol::cluster as wire;
use thalweg_types::Result;

use super::ShardMap;
use crate::checked_file::{CheckedFile, FileKind};

const KIND: FileKind = FileKind {
    name: "shard-map",
    magic: b"thwmap01",
    what: "shard map",
    hint: "Remove it to let the node take the map over from the others.",
};

/// Where a node keeps its map.
pub struct MapFile(CheckedFile);

impl MapFile {
    /// The map's file in a directory, which is made if it does not exist.
    ///
    /// # Errors
    /// If the directory cannot be made.
    pub fn new(env: &Env, directory: &Path) -> Result<MapFile> {
        CheckedFile::new(env, directory, &KIND).map(MapFile)
    }

    /// The stored map; `None` if there is no file.
    ///
    /// # Errors
    /// If the file cannot be read, or is damaged.
    pub fn load(&self) -> Result<Option<ShardMap>> {
        let Some(message) = self.0.load()? else { return Ok(None) };
        let map = wire::ShardMap::decode(message.as_slice());
        let map = map.map_err(|error| self.0.damaged(&error.to_string()))?;
        ShardMap::from_wire(&map).map(Some)
    }

    /// Stores a map. It is durable when this returns.
    ///
    /// # Errors
    /// If the map cannot be written. The file then has the old map or the new one.
    pub fn store(&self, map: &ShardMap) -> Result<()> {
        self.0.store(&map.to_wire().encode_to_vec())
    }
}
