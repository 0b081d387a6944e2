//! A simulated disk whose opening of files goes through a function.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::SimulatedDisk;
use crate::files::{DirLock, File, FileSystem, OpenMode};

/// A disk that opens files by a function of the disk beneath. All else is done by that disk.
pub struct OpenedThrough<F> {
    disk: SimulatedDisk,
    open: F,
}

impl<F> OpenedThrough<F>
where
    F: Fn(&SimulatedDisk, &Path, OpenMode) -> io::Result<Arc<dyn File>> + Send + Sync,
{
    /// A view of `disk`, whose files `open` opens.
    #[must_use]
    pub fn new(disk: SimulatedDisk, open: F) -> OpenedThrough<F> {
        OpenedThrough { disk, open }
    }
}

impl<F> FileSystem for OpenedThrough<F>
where
    F: Fn(&SimulatedDisk, &Path, OpenMode) -> io::Result<Arc<dyn File>> + Send + Sync,
{
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        (self.open)(&self.disk, path, mode)
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.disk.create_dir_all(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        self.disk.list(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.disk.remove_file(path)
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        self.disk.remove_dir_all(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.disk.sync_dir(path)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.disk.exists(path)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn DirLock>> {
        self.disk.lock(path)
    }
}
