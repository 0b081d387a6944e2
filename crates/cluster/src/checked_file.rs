//! A small file of a node: a magic number, a checksum and one message. A new file replaces the old
//! one as a whole, so that a crash leaves one of the two. `docs/format.md` has the bytes.

use std::io;
use std::path::{Path, PathBuf};

use thalweg_env::{Env, OpenMode, sync_with_ancestors};
use thalweg_types::{Error, Result, SqlState};

/// A kind of file.
pub(crate) struct FileKind {
    pub name: &'static str,
    /// The first bytes of the file: its kind, and the version of its format.
    pub magic: &'static [u8; 8],
    /// The kind in messages.
    pub what: &'static str,
    /// The next step if the file is damaged.
    pub hint: &'static str,
}

const CHECKSUM_BYTES: usize = 4;
/// A longer file is not one of these.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// A file in a directory of a node.
pub(crate) struct CheckedFile {
    env: Env,
    directory: PathBuf,
    kind: &'static FileKind,
}

impl CheckedFile {
    /// # Errors
    /// If the directory cannot be created durably.
    pub fn new(env: &Env, directory: &Path, kind: &'static FileKind) -> Result<CheckedFile> {
        env.files
            .create_dir_all(directory)
            .and_then(|()| sync_with_ancestors(&*env.files, directory))
            .map_err(|error| failed(directory, &error))?;
        Ok(CheckedFile { env: env.clone(), directory: directory.to_owned(), kind })
    }

    fn path(&self) -> PathBuf {
        self.directory.join(self.kind.name)
    }

    /// The message that was stored last, if there is one.
    ///
    /// # Errors
    /// If the file cannot be read, or is damaged.
    pub fn load(&self) -> Result<Option<Vec<u8>>> {
        let path = self.path();
        let bytes = match self.read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(&path, &error)),
        };
        let FileKind { magic, what, .. } = self.kind;
        let Some((header, message)) = bytes.split_at_checked(magic.len() + CHECKSUM_BYTES) else {
            return Err(self.damaged("it is cut off"));
        };
        if header[..magic.len()] != magic[..] {
            return Err(self.damaged(&format!("it is no {what}")));
        }
        if header[magic.len()..] != crc32c::crc32c(message).to_le_bytes() {
            return Err(self.damaged("its checksum is another"));
        }
        Ok(Some(message.to_vec()))
    }

    /// The error for a file that is damaged.
    pub fn damaged(&self, why: &str) -> Error {
        Error::corrupt(format!("{} is damaged: {why}", self.path().display()))
            .with_hint(self.kind.hint)
    }

    /// Stores a message: durable when this returns.
    ///
    /// # Errors
    /// If it cannot be written. The file then has the old message or the new one.
    pub fn store(&self, message: &[u8]) -> Result<()> {
        let path = self.path();
        let new_path = self.directory.join(format!("{}.new", self.kind.name));
        let checksum = crc32c::crc32c(message).to_le_bytes();
        let bytes = [&self.kind.magic[..], &checksum, message].concat();
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
        let mut bytes = vec![0; usize::try_from(length).expect("the length was checked")];
        file.read_exact_at(&mut bytes, 0)?;
        Ok(bytes)
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        // A crash may have left one.
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
