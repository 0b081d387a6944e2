//! Copies of a directory: a backup of one that may be in use, and the sound parts of a damaged one.
//!
//! Neither changes the original, and a backup needs no lock. Files are opened before anything is
//! copied: an open file stays readable if the process that uses the database removes its name. The
//! target becomes a database's directory at the very end, when its `FORMAT` is written. Until then
//! every program refuses it.

mod salvage;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thalweg_env::{Env, File, FileSystem, OpenMode};
use thalweg_types::{Error, Lsn, Result, SqlState};

use crate::checkpoint::{CheckpointReader, Coverage, checkpoints_in};
use crate::data_directory::{
    CHECKPOINT, CLUSTER, INCOMPLETE, LOG, exists, is_database, lost_format, make_directories,
    no_database, read_format, write_format,
};
use crate::failure::file_error;
use crate::heads::{CheckpointIdentity, HEADS, Head, Heads, LogPosition, read_slots};
use crate::reader::LogReader;
use crate::segment::{self, SegmentHeader, open_file};
use crate::writer::create;

pub use salvage::salvage;

/// Number of attempts of a backup, which starts again if the database writes a checkpoint
/// meanwhile.
const ATTEMPTS_MAX: usize = 20;

/// Size of the blocks that are copied.
const BLOCK_BYTES: u64 = 1 << 20;

/// Contents of a copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// The last group in it.
    pub lsn: Lsn,
    /// The last group in its checkpoint.
    pub checkpoint_lsn: Option<Lsn>,
    pub records: u64,
    pub bytes: u64,
}

/// An open file to copy, which stays readable after its name is removed.
struct Source {
    file: Arc<dyn File>,
    path: PathBuf,
    bytes: u64,
}

/// The files of a directory that are copied.
struct Sources {
    database_id: u64,
    coverage: Coverage,
    identity: Option<CheckpointIdentity>,
    /// The manifest and its chunk files; empty without a checkpoint.
    checkpoint: Vec<Source>,
    segments: Vec<Source>,
    /// The files of a node of a cluster. Each is replaced as a whole, never changed.
    cluster: Vec<Source>,
    /// The head record whose position the copy of the log must reach.
    head: Head,
}

/// Copies the database in `from`, which may be in use, into the new directory `to`. The copy holds
/// at least all groups that were acknowledged with a sync before the call, and ends between two
/// groups.
///
/// # Errors
/// If there is no database, it is damaged, or a file cannot be read or written.
pub fn backup(env: &Env, from: &Path, to: &Path) -> Result<Copied> {
    let files = &*env.files;
    if let Some(lost) = lost_format(files, from)? {
        return Err(lost);
    }
    if !is_database(files, from)? {
        return Err(no_database(from));
    }
    let target = Target::create(env, to)?;
    for _ in 1..ATTEMPTS_MAX {
        match open_sources(env, from) {
            Ok(Some(sources)) => return target.fill(&sources),
            // A checkpoint was written meanwhile, and files that it replaces were removed: try
            // again.
            Ok(None) => {}
            Err(error) if error.state() == SqlState::UNDEFINED_FILE => {}
            Err(error) => return Err(error),
        }
    }
    match open_sources(env, from)? {
        Some(sources) => target.fill(&sources),
        None => Err(Error::new(
            SqlState::OBJECT_IN_USE,
            "checkpoints follow each other too quickly for a backup",
        )
        .with_hint("Try again, or raise database.checkpoint_size.")),
    }
}

/// Opens the files that a backup needs; `None` if they changed in between.
fn open_sources(env: &Env, from: &Path) -> Result<Option<Sources>> {
    let files = &*env.files;
    let format = read_format(files, from)?;
    let database_id = format.database_id;
    let head = match format.has_heads {
        true => read_slots(files, &from.join(HEADS), database_id)?.newest().map(|(_, head)| head),
        false => None,
    };
    let directory = from.join(CHECKPOINT);
    let newest = newest_checkpoint(files, &directory)?;
    let opened = match newest.map(|lsn| CheckpointReader::open(env, &directory, database_id, lsn)) {
        // A newer checkpoint may have removed chunk files of this one.
        Some(Err(error)) => return unless_newer(files, from, database_id, head, error),
        Some(Ok(opened)) => Some(opened),
        None => None,
    };
    let segments = open_files(files, &from.join(LOG), |name| segment::number_in(name).is_some())?;
    let directory_of_node = from.join(CLUSTER);
    let cluster = match exists(files, &directory_of_node)? {
        true => open_files(files, &directory_of_node, |name| !name.ends_with(".new"))?,
        false => Vec::new(),
    };
    if newest_checkpoint(files, &directory)? != newest {
        return Ok(None);
    }
    let identity = opened.as_ref().map(CheckpointReader::identity);
    if let Some(head) = head
        && let Err(error) = head.check_checkpoint(&directory, identity)
    {
        return unless_newer(files, from, database_id, Some(head), error);
    }
    let checkpoint = opened.iter().flat_map(CheckpointReader::sources).map(source).collect();
    let coverage = opened.map(|opened| opened.coverage()).unwrap_or_default();
    let head = head.unwrap_or_default();
    // The database may be opened at this moment, which undoes a clean close.
    let head = Head { clean: false, ..head };
    Ok(Some(Sources { database_id, coverage, identity, checkpoint, segments, cluster, head }))
}

/// The error, or `None` if the database began or ended a checkpoint since it wrote `head`: the next
/// attempt finds other files. A head that names the same checkpoints explains no missing file.
fn unless_newer(
    files: &dyn FileSystem,
    from: &Path,
    database_id: u64,
    head: Option<Head>,
    error: Error,
) -> Result<Option<Sources>> {
    let Some(head) = head else { return Err(error) };
    let now = read_slots(files, &from.join(HEADS), database_id)?.newest();
    let named = |head: &Head| (head.checkpoint, head.next_checkpoint);
    let is_newer = now.is_some_and(|(_, now)| named(&now) != named(&head));
    if is_newer { Ok(None) } else { Err(error) }
}

fn source((file, path, bytes): (Arc<dyn File>, PathBuf, u64)) -> Source {
    Source { file, path, bytes }
}

fn newest_checkpoint(files: &dyn FileSystem, directory: &Path) -> Result<Option<Lsn>> {
    if !exists(files, directory)? {
        return Ok(None);
    }
    let names = files.list(directory).map_err(|error| file_error("list", directory, error))?;
    Ok(checkpoints_in(&names).pop())
}

fn open_files(
    files: &dyn FileSystem,
    directory: &Path,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<Vec<Source>> {
    let names = files.list(directory).map_err(|error| file_error("list", directory, error))?;
    names
        .iter()
        .filter(|name| is_wanted(name))
        .map(|name| {
            let path = directory.join(name);
            let (file, bytes) = open_file(files, &path)?;
            Ok(Source { file, path, bytes })
        })
        .collect()
}

/// A directory that will become a copy.
struct Target<'a> {
    env: &'a Env,
    path: &'a Path,
}

impl<'a> Target<'a> {
    /// Creates the directory, or accepts an empty one.
    fn create(env: &'a Env, path: &'a Path) -> Result<Target<'a>> {
        let files = &*env.files;
        if exists(files, path)? {
            let names = files.list(path).map_err(|error| file_error("list", path, error))?;
            if !names.is_empty() {
                let message = format!("{} is not empty", path.display());
                return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
                    .with_hint("Name a new or an empty directory."));
            }
        }
        make_directories(files, path)?;
        let mark = path.join(INCOMPLETE);
        let create = || files.open(&mark, OpenMode::CreateNew)?.sync_all();
        create().map_err(|error| file_error("create", &mark, error))?;
        files.sync_dir(path).map_err(|error| file_error("sync", path, error))?;
        Ok(Target { env, path })
    }

    fn fill(&self, sources: &Sources) -> Result<Copied> {
        let mut bytes = 0;
        if !sources.cluster.is_empty() {
            let directory = self.path.join(CLUSTER);
            let created = self.env.files.create_dir_all(&directory);
            created.map_err(|error| file_error("create", &directory, error))?;
        }
        for source in sources.checkpoint.iter().chain(&sources.segments).chain(&sources.cluster) {
            bytes += self.copy(source)?;
        }
        let log = self.path.join(LOG);
        let Sources { database_id, coverage, head, .. } = *sources;
        if sources.segments.is_empty() {
            // Only the checkpoint is sound: the log continues after it.
            let (number, previous_lsn) = (1, coverage.lsn);
            let header =
                SegmentHeader { number, previous_lsn, previous_end: 0, previous_checksum: 0 };
            create(&*self.env.files, &log, database_id, &header).map_err(|failed| failed.error)?;
        }
        let mut reader = LogReader::open(self.env, &log, database_id, coverage, head)?;
        let mut copied = Copied { lsn: coverage.lsn, bytes, ..Copied::default() };
        copied.checkpoint_lsn = sources.identity.map(|identity| identity.lsn);
        while let Some(record) = reader.next()? {
            copied.records += 1;
            copied.lsn = copied.lsn.max(record.lsn);
        }
        self.verify_checkpoint(sources)?;
        let position = self.cut(&reader)?;
        self.complete(sources, position)?;
        Ok(copied)
    }

    /// Copies a file under its own name, and returns the number of bytes.
    fn copy(&self, source: &Source) -> Result<u64> {
        let file = source.path.file_name().unwrap_or_default();
        let below = source.path.parent().and_then(Path::file_name).unwrap_or_default();
        let path = self.path.join(below).join(file);
        let target = self.env.files.open(&path, OpenMode::CreateNew);
        let target = target.map_err(|error| file_error("create", &path, error))?;
        let (mut offset, mut end) = (0, source.bytes);
        while offset < end {
            let mut block = vec![0; BLOCK_BYTES.min(end - offset) as usize];
            match source.file.read_exact_at(&mut block, offset) {
                Ok(()) => {}
                // The writer cut off prepared zeros at the segment's end meanwhile.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    let length = source.file.len();
                    end = length.map_err(|error| file_error("read", &source.path, error))?.min(end);
                    continue;
                }
                Err(error) => return Err(file_error("read", &source.path, error)),
            }
            target
                .write_all_at(&block, offset)
                .map_err(|error| file_error("write to", &path, error))?;
            offset += block.len() as u64;
        }
        target.sync_all().map_err(|error| file_error("sync", &path, error))?;
        Ok(offset)
    }

    /// Reads the copied checkpoint back and verifies it.
    fn verify_checkpoint(&self, sources: &Sources) -> Result<()> {
        let Some(identity) = sources.identity else { return Ok(()) };
        let (directory, id) = (self.path.join(CHECKPOINT), sources.database_id);
        let reader = CheckpointReader::open(self.env, &directory, id, identity.lsn)?;
        (0..reader.sections().len()).try_for_each(|section| reader.read(section).map(drop))
    }

    /// Cuts off everything after the last record.
    fn cut(&self, reader: &LogReader) -> Result<LogPosition> {
        for path in &reader.leftovers {
            let removed = self.env.files.remove_file(path);
            removed.map_err(|error| file_error("remove", path, error))?;
        }
        let Some((segment, end)) = reader.segments.last().zip(reader.end()) else {
            return Ok(LogPosition::default());
        };
        let file = self.env.files.open(&segment.path, OpenMode::ReadWrite);
        let cut = file.and_then(|file| {
            file.set_len(end.offset)?;
            file.sync_all()
        });
        cut.map_err(|error| file_error("cut", &segment.path, error))?;
        Ok(LogPosition {
            segment: segment.header.number,
            end: end.offset,
            lsn: end.last_lsn,
            segment_checksum: segment.checksum,
            last_checksum: end.previous_checksum,
        })
    }

    /// Makes the directory a database's directory.
    fn complete(&self, sources: &Sources, position: LogPosition) -> Result<()> {
        let (files, path) = (&*self.env.files, self.path);
        let cluster = (!sources.cluster.is_empty()).then(|| path.join(CLUSTER));
        for directory in [path.join(LOG), path.join(CHECKPOINT)].into_iter().chain(cluster) {
            files.sync_dir(&directory).map_err(|error| file_error("sync", &directory, error))?;
        }
        let heads = Heads::missing(self.env, path, sources.database_id);
        heads.write(|head| (head.position, head.checkpoint) = (position, sources.identity))?;
        heads.create(files, path)?;
        let mark = path.join(INCOMPLETE);
        files.sync_dir(path).map_err(|error| file_error("sync", path, error))?;
        files.remove_file(&mark).map_err(|error| file_error("remove", &mark, error))?;
        write_format(self.env, path, sources.database_id)
    }
}
