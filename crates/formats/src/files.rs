//! The files that users name: finding them, opening them, and writing them atomically.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use thalweg_types::{Error, Result, SqlState};

use crate::Format;

/// An I/O error, worded for the user.
pub(crate) fn io_error(action: &str, path: &Path, error: io::Error) -> Error {
    let state = match error.kind() {
        io::ErrorKind::NotFound => SqlState::UNDEFINED_FILE,
        io::ErrorKind::PermissionDenied => SqlState::INSUFFICIENT_PRIVILEGE,
        io::ErrorKind::StorageFull => SqlState::DISK_FULL,
        io::ErrorKind::IsADirectory => SqlState::WRONG_OBJECT_TYPE,
        _ => SqlState::IO_ERROR,
    };
    let message = format!("could not {action} file \"{}\": {error}", path.display());
    Error::new(state, message).with_source(error)
}

#[expect(clippy::disallowed_methods, reason = "files that a user names are not the database's own")]
pub(crate) fn open(path: &Path) -> Result<File> {
    File::open(path).map_err(|error| io_error("open", path, error))
}

/// Opens a file and seeks to an offset.
pub(crate) fn open_at(path: &Path, offset: u64) -> Result<File> {
    let mut file = open(path)?;
    if offset > 0 {
        file.seek(SeekFrom::Start(offset)).map_err(|error| io_error("read", path, error))?;
    }
    Ok(file)
}

/// The length of a file; `None` for pipes and devices, which have no length.
pub(crate) fn length(path: &Path) -> Result<Option<u64>> {
    let metadata = fs::metadata(path).map_err(|error| io_error("open", path, error))?;
    Ok(metadata.is_file().then_some(metadata.len()))
}

/// The first bytes of a file, fewer if it is shorter.
pub(crate) fn head(path: &Path, bytes_max: u64) -> Result<Vec<u8>> {
    let mut head = Vec::new();
    let read = open(path)?.take(bytes_max).read_to_end(&mut head);
    read.map_err(|error| io_error("read", path, error))?;
    Ok(head)
}

/// The files that a path denotes: the file itself, those in a directory, or those that match a
/// pattern.
///
/// Files in a directory are skipped if their names begin with a dot or an underscore. Unless the
/// format is given, files with unknown extensions are skipped, too.
pub(crate) fn resolve(path: &Path, format: Option<Format>) -> Result<(Format, Vec<PathBuf>)> {
    let files = match path.file_name().and_then(|name| name.to_str()) {
        _ if path.is_dir() => {
            files_in(path, |file| format.is_some() || Format::of_path(file).is_some())?
        }
        Some(pattern) if pattern.contains(['*', '?']) && !path.exists() => {
            let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            files_in(directory.unwrap_or(Path::new(".")), |file| {
                let name = file.file_name().and_then(|name| name.to_str());
                name.is_some_and(|name| matches(pattern.as_bytes(), name.as_bytes()))
            })?
        }
        _ => {
            length(path)?;
            vec![path.to_owned()]
        }
    };
    let Some(first) = files.first() else {
        let message = format!("\"{}\" holds no files that can be read", path.display());
        return Err(Error::new(SqlState::UNDEFINED_FILE, message)
            .with_hint("Files are known by their extensions, such as .csv and .parquet."));
    };
    let format = match format.or_else(|| Format::of_path(first)) {
        Some(format) => format,
        None => return Err(unknown_format(first)),
    };
    let other = files.iter().find(|file| Format::of_path(file).is_some_and(|own| own != format));
    match other {
        Some(other) if files.len() > 1 => {
            let message = format!("\"{}\" holds files of several formats", path.display());
            Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message).with_detail(format!(
                "One is \"{}\", another \"{}\".",
                first.display(),
                other.display()
            )))
        }
        _ => Ok((format, files)),
    }
}

pub(crate) fn unknown_format(path: &Path) -> Error {
    let message = format!("the format of \"{}\" is not known", path.display());
    Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
        .with_hint("Say it with the option FORMAT, such as FORMAT csv.")
}

fn files_in(directory: &Path, is_wanted: impl Fn(&Path) -> bool) -> Result<Vec<PathBuf>> {
    let failed = |error| io_error("read directory of", directory, error);
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !name.starts_with(['.', '_']) && path.is_file() && is_wanted(&path) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// True if a name matches a pattern, in which `*` is any bytes and `?` any one byte.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern, name) {
        ([], []) => true,
        ([b'*', rest @ ..], _) => (0..=name.len()).any(|taken| matches(rest, &name[taken..])),
        ([b'?', pattern @ ..], [_, name @ ..]) => matches(pattern, name),
        ([expected, pattern @ ..], [byte, name @ ..]) => expected == byte && matches(pattern, name),
        _ => false,
    }
}

/// A file that appears under its name only once it is complete.
///
/// Until then it has another name in the same directory. If it is dropped before that, it is
/// removed. Pipes and devices are written directly.
pub(crate) struct NewFile {
    path: PathBuf,
    temporary: Option<PathBuf>,
    file: File,
}

impl NewFile {
    /// Opens a temporary file beside `path`, or the path itself if it is a pipe or device. Fails if
    /// it is a directory or cannot be created.
    pub fn create(path: &Path) -> Result<NewFile> {
        let is_special = path.exists() && !path.is_file();
        if is_special {
            if path.is_dir() {
                let message = format!("\"{}\" is a directory", path.display());
                return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
            let opened = fs::OpenOptions::new().write(true).open(path);
            let file = opened.map_err(|error| io_error("open", path, error))?;
            return Ok(NewFile { path: path.to_owned(), temporary: None, file });
        }
        let (temporary, file) = create_temporary(path)?;
        Ok(NewFile { path: path.to_owned(), temporary: Some(temporary), file })
    }

    /// Another handle that writes to the same file.
    pub fn writer(&self) -> Result<File> {
        self.file.try_clone().map_err(|error| io_error("write", &self.path, error))
    }

    /// Syncs the file and renames it to its final name.
    #[expect(
        clippy::disallowed_methods,
        reason = "files that a user names are not the database's own"
    )]
    pub fn finish(mut self) -> Result<()> {
        if let Some(temporary) = &self.temporary {
            let failed = |error| io_error("write", &self.path, error);
            self.file.sync_all().map_err(failed)?;
            fs::rename(temporary, &self.path).map_err(failed)?;
            self.temporary = None;
        }
        Ok(())
    }
}

impl Drop for NewFile {
    #[expect(
        clippy::disallowed_methods,
        reason = "files that a user names are not the database's own"
    )]
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // An error cannot be reported from here; a remaining file is harmless.
            _ = fs::remove_file(temporary);
        }
    }
}

/// Creates a file beside `path` under a unique name.
fn create_temporary(path: &Path) -> Result<(PathBuf, File)> {
    let Some(name) = path.file_name() else {
        let message = format!("\"{}\" is not the name of a file", path.display());
        return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message));
    };
    let mut attempt = 0_u32;
    loop {
        let mut temporary_name = std::ffi::OsString::from(".");
        temporary_name.push(name);
        temporary_name.push(format!(".{}-{attempt}.tmp", std::process::id()));
        let temporary = path.with_file_name(temporary_name);
        match fs::OpenOptions::new().write(true).create_new(true).open(&temporary) {
            Ok(file) => return Ok((temporary, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempt < 1_000 => {
                attempt += 1;
            }
            Err(error) => return Err(io_error("create", path, error)),
        }
    }
}

/// Creates a directory and its parents, for files to be written to.
///
/// # Errors
/// If the system refuses.
pub fn create_directory(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(|error| io_error("create", path, error))
}
