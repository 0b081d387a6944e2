//! A database's directory: its id, its format, and the lock that lets only one process use it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thalweg_env::{DirLock, Env, FileSystem, OpenMode, sync_with_ancestors};
use thalweg_types::{Error, Result, SqlState};

use crate::checkpoint::{TEMPORARY_SUFFIX, checkpoints_in, chunk_file_number};
use crate::failure::{damaged, file_error};
use crate::file_header::{FileHeader, FileKind, HEADER_BYTES, u32_at};
use crate::heads::{self, HEADS, HEADS_TEMPORARY, Heads};
use crate::segment;

const LOCK: &str = "LOCK";
const FORMAT: &str = "FORMAT";
const FORMAT_TEMPORARY: &str = "FORMAT.new";
/// Marks a copy that was not completed.
pub(crate) const INCOMPLETE: &str = "INCOMPLETE";
pub(crate) const LOG: &str = "log";
pub(crate) const CHECKPOINT: &str = "checkpoint";
/// The files of a node of a cluster, which backups copy as they are.
pub(crate) const CLUSTER: &str = "cluster";

/// Names that may exist in a directory in which a database is created: leftovers of an interrupted
/// creation, a configuration file, and entries of a fresh file system.
const HARMLESS: [&str; 8] =
    [LOCK, FORMAT_TEMPORARY, HEADS, HEADS_TEMPORARY, LOG, CHECKPOINT, "thalweg.toml", "lost+found"];

/// Action if the directory holds no database yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectoryMode {
    /// Create a database.
    CreateOrOpen,
    /// Fail.
    OpenExisting,
}

/// A database's directory, locked for this process until the value is dropped.
pub struct DataDirectory {
    path: PathBuf,
    database_id: u64,
    heads: Arc<Heads>,
    _lock: Box<dyn DirLock>,
}

impl DataDirectory {
    /// Locks a directory, and creates a database in it if it is new and `mode` allows it.
    ///
    /// Refuses a directory that holds other files, has an unknown format version, or is in use.
    pub fn open(env: &Env, path: &Path, mode: DirectoryMode) -> Result<DataDirectory> {
        let files = &*env.files;
        let is_new = !exists(files, &path.join(FORMAT))?;
        if is_new {
            check_can_create(files, path, mode)?;
            make_directories(files, path)?;
        }
        let lock = lock(files, path)?;
        // Another process may have created the database before this one had the lock.
        if !exists(files, &path.join(FORMAT))? {
            let database_id = env.random.next_u64();
            Heads::missing(env, path, database_id).create(files, path)?;
            write_format(env, path, database_id)?;
        }
        restore_checkpoint_directory(files, path)?;
        // A process that died may have left the file's name only in the page cache.
        files.sync_dir(path).map_err(|error| file_error("sync", path, error))?;
        let Format { database_id, has_heads } = read_format(files, path)?;
        let heads = if has_heads || exists(files, &path.join(HEADS))? {
            Heads::read(env, path, database_id)?
        } else {
            Heads::missing(env, path, database_id)
        };
        let heads = Arc::new(heads);
        let directory = DataDirectory { path: path.to_owned(), database_id, heads, _lock: lock };
        directory.remove_temporary_files(files)?;
        Ok(directory)
    }

    /// Path of the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A random number that all files of this database hold.
    #[must_use]
    pub fn database_id(&self) -> u64 {
        self.database_id
    }

    /// Directory of the log's segments.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.path.join(LOG)
    }

    /// Directory of the checkpoints.
    #[must_use]
    pub fn checkpoints(&self) -> PathBuf {
        self.path.join(CHECKPOINT)
    }

    /// The directory's head records.
    pub(crate) fn heads(&self) -> &Arc<Heads> {
        &self.heads
    }

    /// Syncs the head records if they are not durable yet.
    ///
    /// # Errors
    /// If the file cannot be synced. The head records then vouch for less than they could.
    pub fn sync_heads(&self) -> Result<()> {
        self.heads.sync()
    }

    /// Checks that the directory still exists under its name. If not, the log accepts no more
    /// writes.
    pub fn look_for_itself(&self, env: &Env) {
        self.heads.look_for_directory(&*env.files);
    }

    /// # Errors
    /// If the directory went away under the running process.
    pub fn check_present(&self) -> Result<()> {
        self.heads.check_present()
    }

    /// Makes a directory of format version 1 one of this version. Its log was read, and is open.
    pub(crate) fn convert(&self, env: &Env) -> Result<()> {
        self.heads.create(&*env.files, &self.path)?;
        write_format(env, &self.path, self.database_id)
    }

    /// Removes leftovers of an interrupted checkpoint.
    fn remove_temporary_files(&self, files: &dyn FileSystem) -> Result<()> {
        let directory = self.checkpoints();
        let names = list(files, &directory)?;
        for name in names.iter().filter(|name| name.ends_with(TEMPORARY_SUFFIX)) {
            let path = directory.join(name);
            files.remove_file(&path).map_err(|error| file_error("remove", &path, error))?;
        }
        Ok(())
    }
}

/// Acquires the lock of a database's directory.
pub(crate) fn lock(files: &dyn FileSystem, path: &Path) -> Result<Box<dyn DirLock>> {
    let file = path.join(LOCK);
    files.lock(&file).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => Error::new(
            SqlState::OBJECT_IN_USE,
            format!("the database in {} is in use by another process", path.display()),
        )
        .with_hint("Connect to that process, or stop it first."),
        _ => file_error("lock", &file, error),
    })
}

/// Contents of the `FORMAT` file, which makes a directory a database's directory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Format {
    pub database_id: u64,
    /// Directories have head records from version 2 on.
    pub has_heads: bool,
}

/// Reads the `FORMAT` file.
pub(crate) fn read_format(files: &dyn FileSystem, path: &Path) -> Result<Format> {
    let path = path.join(FORMAT);
    let file =
        files.open(&path, OpenMode::Read).map_err(|error| file_error("open", &path, error))?;
    let length = file.len().map_err(|error| file_error("read the length of", &path, error))?;
    if length < HEADER_BYTES {
        return Err(damaged(&path, length, "the file ends too early"));
    }
    let mut bytes = [0; HEADER_BYTES as usize];
    file.read_exact_at(&mut bytes, 0).map_err(|error| file_error("read", &path, error))?;
    let header = FileHeader::decode(FileKind::Format, &bytes, &path, 0)?;
    if length != HEADER_BYTES {
        return Err(damaged(&path, HEADER_BYTES, "the file is longer than it was"));
    }
    Ok(Format { database_id: header.database_id, has_heads: u32_at(&bytes, 8) > 1 })
}

/// True if a directory is a database's directory.
pub(crate) fn is_database(files: &dyn FileSystem, path: &Path) -> Result<bool> {
    exists(files, &path.join(FORMAT))
}

/// The error of a directory that holds a log or checkpoints but no `FORMAT` file; `None` if there
/// is no such problem.
pub(crate) fn lost_format(files: &dyn FileSystem, path: &Path) -> Result<Option<Error>> {
    if is_database(files, path)? {
        return Ok(None);
    }
    if exists(files, &path.join(INCOMPLETE))? {
        let message = format!("{} is a copy that was not completed", path.display());
        let error = Error::corrupt(message);
        return Ok(Some(error.with_hint("Remove it, and make the backup again.")));
    }
    if heads::may_vouch(files, path)? {
        return Ok(Some(format_is_missing(path)));
    }
    for directory in [LOG, CHECKPOINT].map(|name| path.join(name)) {
        if !exists(files, &directory)? {
            continue;
        }
        let names = list(files, &directory)?;
        let is_part =
            |name: &String| segment::number_in(name).is_some() || chunk_file_number(name).is_some();
        if names.iter().any(is_part) || !checkpoints_in(&names).is_empty() {
            return Ok(Some(format_is_missing(&directory)));
        }
    }
    Ok(None)
}

fn format_is_missing(directory: &Path) -> Error {
    let message = format!("{} has files, but {FORMAT} beside it is missing", directory.display());
    Error::corrupt(message).with_hint("Put the file back from a backup of this database.")
}

pub(crate) fn no_database(path: &Path) -> Error {
    Error::new(SqlState::UNDEFINED_FILE, format!("there is no database in {}", path.display()))
        .with_hint("Check the path.")
}

pub(crate) fn exists(files: &dyn FileSystem, path: &Path) -> Result<bool> {
    files.exists(path).map_err(|error| file_error("look for", path, error))
}

/// Refuses to create a database if `mode` forbids it, or among foreign files.
fn check_can_create(files: &dyn FileSystem, path: &Path, mode: DirectoryMode) -> Result<()> {
    if let Some(lost) = lost_format(files, path)? {
        return Err(lost);
    }
    if mode == DirectoryMode::OpenExisting {
        return Err(no_database(path));
    }
    if !exists(files, path)? {
        return Ok(());
    }
    let names = list(files, path)?;
    if let Some(name) = names.iter().find(|name| !HARMLESS.contains(&name.as_str())) {
        return Err(Error::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("{} is not empty and holds no database (it has {name})", path.display()),
        )
        .with_hint("Name a new or an empty directory."));
    }
    for directory in [LOG, CHECKPOINT].map(|name| path.join(name)) {
        if exists(files, &directory)? && !list(files, &directory)?.is_empty() {
            return Err(format_is_missing(&directory));
        }
    }
    Ok(())
}

fn list(files: &dyn FileSystem, path: &Path) -> Result<Vec<String>> {
    files.list(path).map_err(|error| file_error("list", path, error))
}

/// Creates the directories durably.
pub(crate) fn make_directories(files: &dyn FileSystem, path: &Path) -> Result<()> {
    for directory in [path.join(LOG), path.join(CHECKPOINT)] {
        files
            .create_dir_all(&directory)
            .map_err(|error| file_error("create", &directory, error))?;
    }
    sync_with_ancestors(files, path).map_err(|error| file_error("sync", path, error))
}

/// Recreates the directory of checkpoints, because tools that copy files may leave out empty
/// directories. The caller syncs its name.
///
/// The log's directory is never empty in a database that was used, so it is not recreated.
fn restore_checkpoint_directory(files: &dyn FileSystem, path: &Path) -> Result<()> {
    let directory = path.join(CHECKPOINT);
    if exists(files, &directory)? {
        return Ok(());
    }
    files.create_dir_all(&directory).map_err(|error| file_error("create", &directory, error))
}

/// Writes the `FORMAT` file, which gets its name only once it is complete.
pub(crate) fn write_format(env: &Env, path: &Path, database_id: u64) -> Result<()> {
    let files = &*env.files;
    let (temporary, format) = (path.join(FORMAT_TEMPORARY), path.join(FORMAT));
    let header = FileHeader { kind: FileKind::Format, database_id, fields: [0; 5] };
    let write = || -> io::Result<()> {
        if files.exists(&temporary)? {
            files.remove_file(&temporary)?;
        }
        let file = files.open(&temporary, OpenMode::CreateNew)?;
        file.write_all_at(&header.encode(), 0)?;
        file.sync_all()?;
        // The names of earlier files must be durable before its own is.
        files.sync_dir(path)?;
        files.rename(&temporary, &format)?;
        files.sync_dir(path)
    };
    write().map_err(|error| file_error("create", &format, error))
}
