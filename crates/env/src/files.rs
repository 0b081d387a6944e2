//! Files and directories: what a database asks of a file system, and no more.

use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::Arc;

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// To read; it must exist.
    Read,
    /// To read and write; it must exist.
    ReadWrite,
    /// To read and write; it must not exist yet.
    CreateNew,
}

/// A file system. What is written is durable only after [`File::sync_data`]; a name that was
/// created, renamed or removed is so durably only after [`FileSystem::sync_dir`] of its directory.
pub trait FileSystem: Send + Sync {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>>;

    /// Creates a directory and its missing parents. It may be there already.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;

    /// The names in a directory, sorted.
    fn list(&self, path: &Path) -> io::Result<Vec<String>>;

    /// Gives a file a new name, in place of a file that had it.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    fn remove_file(&self, path: &Path) -> io::Result<()>;

    /// Removes a directory and all that is in it.
    fn remove_dir_all(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in a directory durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;

    fn exists(&self, path: &Path) -> io::Result<bool>;

    /// Takes the exclusive lock that the file at `path` stands for, creating the file if it can.
    /// Fails with [`io::ErrorKind::WouldBlock`] while another holds it.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn DirLock>>;
}

/// A lock that is held until it is dropped, or until the process ends.
pub trait DirLock: Send + Sync {}

/// Which file an open handle leads to, and how many names it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileIdentity {
    pub device: u64,
    pub inode: u64,
    /// 0 once the last name of the file was removed: nobody can open it again.
    pub names: u64,
}

/// An open file. Any thread may use it; there is no position that they would share.
pub trait File: Send + Sync {
    /// Fills `buffer` from `offset` on; fails with `UnexpectedEof` if the file ends before.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_vectored_at(&[IoSlice::new(bytes)], offset)
    }

    /// Writes all parts one after the other, with as few system calls as can be. After an error
    /// any part of them may have been written.
    fn write_all_vectored_at(&self, parts: &[IoSlice<'_>], offset: u64) -> io::Result<()>;

    /// Makes the content and the length durable.
    fn sync_data(&self) -> io::Result<()>;

    /// Makes the content and everything about the file durable.
    fn sync_all(&self) -> io::Result<()>;

    fn len(&self) -> io::Result<u64>;

    /// Which file this is.
    fn identity(&self) -> io::Result<FileIdentity>;

    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Cuts the file, or extends it with zeros.
    fn set_len(&self, length: u64) -> io::Result<()>;
}
