//! The machine's file system.

use std::fs;
use std::io::{self, IoSlice};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use crate::{DirLock, File, FileIdentity, FileSystem, OpenMode};

/// Most parts of one `pwritev`: Linux's IOV_MAX.
const PARTS_MAX: usize = 1024;

/// Mode of a new file: others have no access, whatever the umask is.
const FILE_MODE: u32 = 0o600;
/// Mode of a new directory: others have no access.
const DIRECTORY_MODE: u32 = 0o700;

/// The machine's file system. Only the owner can access files and directories that it creates,
/// since rows and password verifiers are in them.
pub struct RealFiles;

struct RealFile(fs::File);

struct RealLock {
    /// The lock is released when the last handle of the open file is closed.
    _file: fs::File,
}

impl DirLock for RealLock {}

impl FileSystem for RealFiles {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let mut options = fs::OpenOptions::new();
        options.read(true).mode(FILE_MODE);
        match mode {
            OpenMode::Read => {}
            OpenMode::ReadWrite => _ = options.write(true),
            OpenMode::CreateNew => _ = options.write(true).create_new(true),
        }
        Ok(Arc::new(RealFile(options.open(path)?)))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(path)? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.sort_unstable();
        Ok(names)
    }

    #[expect(clippy::disallowed_methods, reason = "this is the real file system")]
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    #[expect(clippy::disallowed_methods, reason = "this is the real file system")]
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir_all(path)
    }

    #[expect(clippy::disallowed_methods, reason = "this is the real file system")]
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        fs::File::open(path)?.sync_all()
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        path.try_exists()
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn DirLock>> {
        let file = open_to_lock(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Box::new(RealLock { _file: file })),
            Err(fs::TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
            Err(fs::TryLockError::Error(error)) => Err(error),
        }
    }
}

/// Opens a lock file for writing, or for reading if writing is impossible: a database on read-only
/// media can still be locked while it is inspected.
#[expect(clippy::disallowed_methods, reason = "this is the real file system")]
fn open_to_lock(path: &Path) -> io::Result<fs::File> {
    let mut options = fs::OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(FILE_MODE);
    match options.open(path) {
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
            ) =>
        {
            fs::File::open(path).map_err(|_| error)
        }
        other => other,
    }
}

impl File for RealFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_exact_at(buffer, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn write_all_vectored_at(&self, parts: &[IoSlice<'_>], mut offset: u64) -> io::Result<()> {
        let mut parts = parts.to_vec();
        let mut rest = &mut parts[..];
        IoSlice::advance_slices(&mut rest, 0);
        while !rest.is_empty() {
            let written = pwritev(&self.0, &rest[..rest.len().min(PARTS_MAX)], offset)?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            IoSlice::advance_slices(&mut rest, written);
            offset += written as u64;
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.0.sync_all()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn identity(&self) -> io::Result<FileIdentity> {
        let metadata = self.0.metadata()?;
        Ok(FileIdentity { device: metadata.dev(), inode: metadata.ino(), names: metadata.nlink() })
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }
}

/// Calls `pwritev`, again after interruptions by signals; returns the number of bytes written.
fn pwritev(file: &fs::File, parts: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
    let offset = libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::FileTooLarge)?;
    let count = libc::c_int::try_from(parts.len()).expect("at most PARTS_MAX");
    loop {
        // SAFETY: an `IoSlice` has the layout of an `iovec`, as its documentation guarantees; the
        // parts and the descriptor stay borrowed for the call, which only reads the parts.
        let written =
            unsafe { libc::pwritev(file.as_raw_fd(), parts.as_ptr().cast(), count, offset) };
        match usize::try_from(written) {
            Ok(written) => return Ok(written),
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
}
