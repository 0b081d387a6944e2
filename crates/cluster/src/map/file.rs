//! The map on disk: its wire form after a checksum. A new file replaces the old one atomically.

use std::io;
use std::path::{Path, PathBuf};

use prost::Message as _;
use thalweg_env::{Env, OpenMode};
use thalweg_protocol::cluster as wire;
use thalweg_types::{Error, Result, SqlState};

use super::ShardMap;

const NAME: &str = "shard-map";
const NEW_NAME: &str = "shard-map.new";
/// The first bytes of the file: its kind, and the version of its format.
const MAGIC: &[u8; 8] = b"thwmap01";
const HEADER_BYTES: usize = MAGIC.len() + 4;
/// Limit of the file's size, in bytes. A longer file is not a map.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// The file in which a node stores its map.
pub struct MapFile {
    env: Env,
    directory: PathBuf,
}

impl MapFile {
    /// The map's file in a directory, which is made if it does not exist.
    ///
    /// # Errors
    /// If the directory cannot be made.
    pub fn new(env: &Env, directory: &Path) -> Result<MapFile> {
        env.files.create_dir_all(directory).map_err(|error| failed(directory, &error))?;
        Ok(MapFile { env: env.clone(), directory: directory.to_owned() })
    }

    /// The stored map; `None` if there is no file.
    ///
    /// # Errors
    /// If the file cannot be read, or is damaged.
    pub fn load(&self) -> Result<Option<ShardMap>> {
        let path = self.directory.join(NAME);
        let bytes = match self.read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(&path, &error)),
        };
        let corrupt = |why: &str| {
            Error::corrupt(format!("{} is damaged: {why}", path.display()))
                .with_hint("Remove it to let the node take the map over from the others.")
        };
        let Some((header, message)) = bytes.split_at_checked(HEADER_BYTES) else {
            return Err(corrupt("it is cut off"));
        };
        if header[..MAGIC.len()] != MAGIC[..] {
            return Err(corrupt("it is no shard map"));
        }
        if header[MAGIC.len()..] != crc32c::crc32c(message).to_le_bytes() {
            return Err(corrupt("its checksum is another"));
        }
        let map = wire::ShardMap::decode(message).map_err(|error| corrupt(&error.to_string()))?;
        ShardMap::from_wire(&map).map(Some)
    }

    /// Stores a map. It is durable when this returns.
    ///
    /// # Errors
    /// If the map cannot be written. The file then has the old map or the new one.
    pub fn store(&self, map: &ShardMap) -> Result<()> {
        let (path, new_path) = (self.directory.join(NAME), self.directory.join(NEW_NAME));
        let message = map.to_wire().encode_to_vec();
        let checksum = crc32c::crc32c(&message).to_le_bytes();
        let bytes = [&MAGIC[..], &checksum, &message].concat();
        self.write(&new_path, &bytes)
            .and_then(|()| self.env.files.rename(&new_path, &path))
            .and_then(|()| self.env.files.sync_dir(&self.directory))
            .map_err(|error| failed(&path, &error))
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let file = self.env.files.open(path, OpenMode::Read)?;
        let length = file.len()?;
        if length > FILE_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it is too long"));
        }
        let mut bytes = vec![0; usize::try_from(length).expect("it was looked at")];
        file.read_exact_at(&mut bytes, 0)?;
        Ok(bytes)
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        // Left over from a crash.
        if self.env.files.exists(path)? {
            self.env.files.remove_file(path)?;
        }
        let file = self.env.files.open(path, OpenMode::CreateNew)?;
        file.write_all_at(bytes, 0)?;
        file.sync_all()
    }
}

fn failed(path: &Path, error: &io::Error) -> Error {
    Error::new(SqlState::IO_ERROR, format!("{}: {error}", path.display()))
}
