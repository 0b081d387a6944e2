//! The simulated disk: a tree of files that implements [`FileSystem`].

use std::collections::BTreeSet;
use std::io::{self, IoSlice};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use super::content::Content;
use super::directory::{Directory, Node};
use super::faults::{Course, DiskCondition, Fault, Lie, Operation, Plan, dead};
use crate::{DirLock, File, FileIdentity, FileSystem, OpenMode, Random, SeededRandom};

/// A file system in memory that separates the page cache from durable data, counts its operations,
/// and fails or dies at the one that a test chose. It is a handle: clones share the disk.
///
/// Its behaviour depends only on its seed and the order of the calls.
#[derive(Clone)]
pub struct SimulatedDisk {
    disk: Arc<Disk>,
}

struct Disk {
    random: SeededRandom,
    plan: Mutex<Plan>,
    root: Arc<Mutex<Directory>>,
    locked: Mutex<BTreeSet<PathBuf>>,
}

impl SimulatedDisk {
    /// An empty disk.
    #[must_use]
    pub fn new(seed: u64) -> SimulatedDisk {
        SimulatedDisk::with_root(seed, Directory::default())
    }

    fn with_root(seed: u64, root: Directory) -> SimulatedDisk {
        let disk = Disk {
            random: SeededRandom::new(seed),
            plan: Mutex::default(),
            root: Arc::new(Mutex::new(root)),
            locked: Mutex::default(),
        };
        SimulatedDisk { disk: Arc::new(disk) }
    }

    /// Number of operations so far, which is also the number of the next one.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.disk.plan.lock().operations()
    }

    /// Injects `fault` at the operation with this number, counted from 0. Replaces an earlier
    /// injection.
    pub fn fault_at(&self, operation: u64, fault: Fault) {
        self.disk.plan.lock().fault_at(operation, fault);
    }

    /// Sets a condition that lasts.
    pub fn set_condition(&self, condition: DiskCondition) {
        self.disk.plan.lock().set_condition(condition);
    }

    /// Breaks a promise from now on.
    pub fn lie(&self, lie: Lie) {
        self.disk.plan.lock().tell(lie);
    }

    /// True if the machine died.
    #[must_use]
    pub fn crashed(&self) -> bool {
        self.disk.plan.lock().crashed()
    }

    /// Kills the machine if it is alive, and returns a possible state of its disk: all synced data,
    /// and any mixture of the rest.
    #[must_use]
    pub fn crash(&self) -> SimulatedDisk {
        self.disk.plan.lock().crash();
        let root = self.disk.root.lock().after_crash(&self.disk.random);
        SimulatedDisk::with_root(self.disk.random.next_u64(), root)
    }

    /// Copies the disk as programs see it now; the copy is durable, as after a clean shutdown of
    /// the machine.
    #[must_use]
    pub fn fork(&self, seed: u64) -> SimulatedDisk {
        SimulatedDisk::with_root(seed, self.disk.root.lock().fork())
    }
}

impl Disk {
    /// Runs an operation that takes effect completely or not at all.
    fn run<T>(
        &self,
        operation: Operation,
        effect: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        let mut plan = self.plan.lock();
        match plan.next(operation)? {
            Course::Well | Course::Short => effect(),
            Course::Fails(code) => Err(io::Error::from_raw_os_error(code)),
            Course::Dies { .. } => {
                let _ = effect();
                plan.crash();
                Err(dead())
            }
        }
    }

    /// Runs a sync, which the plan may fail, ignore or tear.
    fn sync(
        &self,
        lie: Lie,
        sync: impl FnOnce(),
        tear: impl FnOnce(&SeededRandom),
    ) -> io::Result<()> {
        let mut plan = self.plan.lock();
        let course = plan.next(Operation::Sync)?;
        if plan.lies(lie) {
            return Ok(());
        }
        match course {
            Course::Well | Course::Short => sync(),
            Course::Fails(code) => {
                tear(&self.random);
                return Err(io::Error::from_raw_os_error(code));
            }
            Course::Dies { torn } => {
                if torn {
                    tear(&self.random)
                } else {
                    sync()
                }
                plan.crash();
                return Err(dead());
            }
        }
        Ok(())
    }

    fn directory(&self, path: &Path) -> io::Result<Arc<Mutex<Directory>>> {
        let mut directory = Arc::clone(&self.root);
        for name in names_of(path)? {
            let next = match directory.lock().get(name) {
                Some(Node::Directory(next)) => Arc::clone(next),
                Some(Node::File(_)) => return Err(io::ErrorKind::NotADirectory.into()),
                None => return Err(io::ErrorKind::NotFound.into()),
            };
            directory = next;
        }
        Ok(directory)
    }

    fn file(&self, path: &Path) -> io::Result<Arc<Mutex<Content>>> {
        let (parent, name) = split(path)?;
        match self.directory(parent)?.lock().get(name) {
            Some(Node::File(content)) => Ok(Arc::clone(content)),
            Some(Node::Directory(_)) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn create(&self, path: &Path) -> io::Result<Arc<Mutex<Content>>> {
        let (parent, name) = split(path)?;
        let directory = self.directory(parent)?;
        let mut directory = directory.lock();
        if directory.get(name).is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let content = Arc::new(Mutex::new(Content::default()));
        directory.put(name, Node::File(Arc::clone(&content)));
        Ok(content)
    }
}

/// The names on a path from the root.
fn names_of(path: &Path) -> io::Result<Vec<&str>> {
    let name_of = |component| match component {
        Component::RootDir | Component::CurDir => None,
        Component::Normal(name) => Some(name.to_str().ok_or(io::ErrorKind::InvalidFilename)),
        Component::ParentDir | Component::Prefix(_) => Some(Err(io::ErrorKind::InvalidFilename)),
    };
    path.components().filter_map(name_of).map(|name| name.map_err(io::Error::from)).collect()
}

fn split(path: &Path) -> io::Result<(&Path, &str)> {
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.ok_or(io::ErrorKind::InvalidFilename)?;
    Ok((path.parent().unwrap_or(Path::new("")), name))
}

impl FileSystem for SimulatedDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let (operation, create) = match mode {
            OpenMode::Read | OpenMode::ReadWrite => (Operation::Read, false),
            OpenMode::CreateNew => (Operation::Write, true),
        };
        let content = self.disk.run(operation, || {
            if create { self.disk.create(path) } else { self.disk.file(path) }
        })?;
        let writable = mode != OpenMode::Read;
        Ok(Arc::new(SimulatedFile { disk: Arc::clone(&self.disk), content, writable }))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.disk.run(Operation::Write, || {
            let mut directory = Arc::clone(&self.disk.root);
            for name in names_of(path)? {
                let mut here = directory.lock();
                if here.get(name).is_none() {
                    here.put(name, Node::Directory(Arc::default()));
                }
                let next = match here.get(name) {
                    Some(Node::Directory(next)) => Arc::clone(next),
                    _ => return Err(io::ErrorKind::AlreadyExists.into()),
                };
                drop(here);
                directory = next;
            }
            Ok(())
        })
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        self.disk.run(Operation::Read, || Ok(self.disk.directory(path)?.lock().names()))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.run(Operation::Change, || {
            let ((parent, from), (parent_to, to)) = (split(from)?, split(to)?);
            if parent != parent_to {
                return Err(io::ErrorKind::CrossesDevices.into());
            }
            let renamed = self.disk.directory(parent)?.lock().rename(from, to);
            if renamed { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
        })
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.disk.run(Operation::Change, || {
            self.disk.file(path)?;
            let (parent, name) = split(path)?;
            self.disk.directory(parent)?.lock().remove(name);
            Ok(())
        })
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        self.disk.run(Operation::Change, || {
            self.disk.directory(path)?;
            let (parent, name) = split(path)?;
            self.disk.directory(parent)?.lock().remove(name);
            Ok(())
        })
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let directory = self.disk.directory(path)?;
        self.disk.sync(
            Lie::DirectorySync,
            || directory.lock().sync(),
            |random| directory.lock().fail_sync(random),
        )
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.disk.run(Operation::Read, || {
            Ok(self.disk.file(path).is_ok() || self.disk.directory(path).is_ok())
        })
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn DirLock>> {
        self.disk.run(Operation::Write, || {
            if self.disk.file(path).is_err() {
                self.disk.create(path)?;
            }
            if !self.disk.locked.lock().insert(path.to_owned()) {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            Ok(Box::new(SimulatedLock { disk: Arc::clone(&self.disk), path: path.to_owned() })
                as Box<dyn DirLock>)
        })
    }
}

struct SimulatedLock {
    disk: Arc<Disk>,
    path: PathBuf,
}

impl DirLock for SimulatedLock {}

impl Drop for SimulatedLock {
    fn drop(&mut self) {
        self.disk.locked.lock().remove(&self.path);
    }
}

struct SimulatedFile {
    disk: Arc<Disk>,
    content: Arc<Mutex<Content>>,
    writable: bool,
}

impl SimulatedFile {
    fn to_write(&self) -> io::Result<MutexGuard<'_, Content>> {
        if self.writable {
            Ok(self.content.lock())
        } else {
            Err(io::Error::from_raw_os_error(libc::EBADF))
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.sync(
            Lie::FileSync,
            || self.content.lock().sync(),
            |random| self.content.lock().fail_sync(random),
        )
    }
}

impl File for SimulatedFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.disk.run(Operation::Read, || {
            let content = self.content.lock();
            let from = usize::try_from(offset).ok();
            let held = from.and_then(|from| content.cached().get(from..)?.get(..buffer.len()));
            buffer.copy_from_slice(held.ok_or(io::ErrorKind::UnexpectedEof)?);
            Ok(())
        })
    }

    fn write_all_vectored_at(&self, parts: &[IoSlice<'_>], offset: u64) -> io::Result<()> {
        let mut bytes: Vec<u8> = parts.iter().map(|part| &**part).collect::<Vec<_>>().concat();
        let offset = usize::try_from(offset).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let mut plan = self.disk.plan.lock();
        let mut content = self.to_write()?;
        match plan.next(Operation::Write)? {
            Course::Well => content.write(offset, bytes),
            Course::Fails(code) => return Err(io::Error::from_raw_os_error(code)),
            Course::Short => {
                bytes.truncate(self.disk.random.below(bytes.len().max(1) as u64) as usize);
                content.write(offset, bytes);
                return Err(io::Error::from_raw_os_error(libc::ENOSPC));
            }
            Course::Dies { torn } => {
                content.write(offset, bytes);
                if torn {
                    content.mark_torn();
                }
                plan.crash();
                return Err(dead());
            }
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.sync()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync()
    }

    fn len(&self) -> io::Result<u64> {
        self.disk.run(Operation::Read, || Ok(self.content.lock().cached().len() as u64))
    }

    /// Does not count as an operation, since it does not access the disk.
    fn identity(&self) -> io::Result<FileIdentity> {
        let names = u64::from(self.disk.root.lock().holds(&self.content));
        let inode = Arc::as_ptr(&self.content).addr() as u64;
        Ok(FileIdentity { device: 0, inode, names })
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let length = usize::try_from(length).map_err(|_| io::ErrorKind::FileTooLarge)?;
        self.disk.run(Operation::Change, || {
            self.to_write()?.set_len(length);
            Ok(())
        })
    }
}
