//! Files and directories: the operations that a database needs.

use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::Arc;

/// The purpose for which a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// Reading; the file must exist.
    Read,
    /// Reading and writing; the file must exist.
    ReadWrite,
    /// Reading and writing; the file must not exist yet.
    CreateNew,
}

/// A file system. Written data is durable only after [`File::sync_data`]; creating, renaming or
/// removing a name is durable only after [`FileSystem::sync_dir`] of its directory.
pub trait FileSystem: Send + Sync {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>>;

    /// Creates a directory and its missing parents. It may exist already.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;

    /// The names in a directory, sorted.
    fn list(&self, path: &Path) -> io::Result<Vec<String>>;

    /// Renames a file and replaces a file that has the new name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    fn remove_file(&self, path: &Path) -> io::Result<()>;

    /// Removes a directory and everything in it.
    fn remove_dir_all(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in a directory durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;

    fn exists(&self, path: &Path) -> io::Result<bool>;

    /// Acquires the exclusive lock that the file at `path` represents, and creates the file if
    /// possible. Fails with [`io::ErrorKind::WouldBlock`] while another holder has it.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn DirLock>>;
}

/// Syncs a directory and all directories above it, so that the name of each is durable. Any of them
/// may be new, created by this process or by one that died. Directories that this process may not
/// read are not new.
///
/// # Errors
/// If a directory cannot be synced; the error names it.
pub fn sync_with_ancestors(files: &dyn FileSystem, path: &Path) -> io::Result<()> {
    for ancestor in path.ancestors() {
        let directory = if ancestor.as_os_str().is_empty() { Path::new(".") } else { ancestor };
        match files.sync_dir(directory) {
            Err(error) if error.kind() != io::ErrorKind::PermissionDenied => {
                let named = format!("{}: {error}", directory.display());
                return Err(io::Error::new(error.kind(), named));
            }
            _ => {}
        }
    }
    Ok(())
}

/// A lock that is held until it is dropped, or until the process ends.
pub trait DirLock: Send + Sync {}

/// The identity of an open file, and its number of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileIdentity {
    pub device: u64,
    pub inode: u64,
    /// 0 once the last name of the file was removed: then it cannot be opened again.
    pub names: u64,
}

/// An open file. Any thread may use it, since it has no shared position.
pub trait File: Send + Sync {
    /// Fills `buffer` from `offset` on; fails with `UnexpectedEof` if the file ends earlier.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_vectored_at(&[IoSlice::new(bytes)], offset)
    }

    /// Writes all parts one after the other, with as few system calls as possible. After an error
    /// any part of them may have been written.
    fn write_all_vectored_at(&self, parts: &[IoSlice<'_>], offset: u64) -> io::Result<()>;

    /// Makes the content and the length durable.
    fn sync_data(&self) -> io::Result<()>;

    /// Makes the content and all metadata of the file durable.
    fn sync_all(&self) -> io::Result<()>;

    fn len(&self) -> io::Result<u64>;

    /// The identity of the file.
    fn identity(&self) -> io::Result<FileIdentity>;

    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Truncates the file, or extends it with zeros.
    fn set_len(&self, length: u64) -> io::Result<()>;
}
