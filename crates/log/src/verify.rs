//! Reading every byte of a database that is not in use.

use std::path::{Path, PathBuf};

use thalweg_env::{Env, FileSystem};
use thalweg_types::{Error, Lsn, Result};

use crate::checkpoint::{CheckpointReader, checkpoints_in};
use crate::data_directory::{CHECKPOINT, LOG, is_database, lock, no_database, read_format};
use crate::failure::file_error;
use crate::reader::LogReader;

/// One thing that was looked at.
#[derive(Clone, Debug)]
pub enum Finding {
    /// A checkpoint that is sound.
    Checkpoint { path: PathBuf, lsn: Lsn, bytes: u64, sections: usize },
    /// A segment that is sound, and the sequence numbers of its records, if it has any.
    Segment { path: PathBuf, bytes: u64, records: u64, lsns: Option<(Lsn, Lsn)> },
    /// A write at the end of the log that a crash tore: the next start cuts it away.
    TornTail { path: PathBuf, offset: u64, bytes: u64 },
    /// Something is damaged.
    Problem(Error),
}

/// What all findings come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    pub database_id: u64,
    pub files: u64,
    pub bytes: u64,
    pub records: u64,
    /// That of the newest checkpoint.
    pub checkpoint_lsn: Option<Lsn>,
    /// Of the log's first and last record.
    pub log_lsns: Option<(Lsn, Lsn)>,
    pub clean_close: bool,
    pub problems: u64,
}

/// Verifies every checksum of every file of the database in `path`, and reports what it finds, file by
/// file. It changes nothing. The directory stays locked meanwhile; it is refused while in use.
///
/// An error means that it could not look, not that it found damage.
pub fn verify(env: &Env, path: &Path, report: &mut dyn FnMut(Finding)) -> Result<Summary> {
    if !is_database(&*env.files, path)? {
        return Err(no_database(path));
    }
    let _lock = lock(&*env.files, path)?;
    let database_id = match read_format(&*env.files, path) {
        Ok(database_id) => database_id,
        Err(error) => {
            report(Finding::Problem(error));
            return Ok(Summary { files: 1, problems: 1, ..Summary::default() });
        }
    };
    let summary = Summary { database_id, files: 1, ..Summary::default() };
    let mut verifier = Verifier { env, path, summary, report };
    verifier.checkpoints()?;
    verifier.log();
    Ok(verifier.summary)
}

struct Verifier<'a> {
    env: &'a Env,
    path: &'a Path,
    summary: Summary,
    report: &'a mut dyn FnMut(Finding),
}

impl Verifier<'_> {
    fn problem(&mut self, error: Error) {
        self.summary.problems += 1;
        (self.report)(Finding::Problem(error));
    }

    fn checkpoints(&mut self) -> Result<()> {
        let directory = self.path.join(CHECKPOINT);
        let names = list(&*self.env.files, &directory)?;
        for lsn in checkpoints_in(&names) {
            match self.checkpoint(&directory, lsn) {
                Ok(reader) => {
                    self.summary.files += 1;
                    self.summary.bytes += reader.bytes();
                    self.summary.checkpoint_lsn = Some(lsn);
                    (self.report)(Finding::Checkpoint {
                        path: reader.path().to_owned(),
                        lsn,
                        bytes: reader.bytes(),
                        sections: reader.sections().len(),
                    });
                }
                Err(error) => self.problem(error),
            }
        }
        Ok(())
    }

    fn checkpoint(&self, directory: &Path, lsn: Lsn) -> Result<CheckpointReader> {
        let database_id = self.summary.database_id;
        let reader = CheckpointReader::open(self.env, directory, database_id, lsn)?;
        for section in 0..reader.sections().len() {
            reader.read(section)?;
            reader.verify_padding(section)?;
        }
        Ok(reader)
    }

    /// Reads the whole log, and then once more as a start would: from the newest checkpoint on.
    fn log(&mut self) {
        let directory = self.path.join(LOG);
        let database_id = self.summary.database_id;
        let after = self.summary.checkpoint_lsn.unwrap_or_default();
        let needed = LogReader::open(self.env, &directory, database_id, after);
        let read = needed.and_then(|_| {
            let reader = LogReader::open_whole(self.env, &directory, database_id)?;
            self.segments(reader)
        });
        if let Err(error) = read {
            self.problem(error);
        }
    }

    fn segments(&mut self, mut reader: LogReader) -> Result<()> {
        let mut found: Vec<(u64, Option<(Lsn, Lsn)>)> = vec![(0, None); reader.segments.len()];
        let first_number = reader.segments.first().map_or(1, |segment| segment.header.number);
        let mut outcome = Ok(());
        loop {
            match reader.next() {
                Ok(Some(record)) => {
                    let (records, lsns) = &mut found[(record.segment - first_number) as usize];
                    *records += 1;
                    *lsns = Some((lsns.map_or(record.lsn, |(first, _)| first), record.lsn));
                }
                Ok(None) => break,
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            }
        }
        for (segment, (records, lsns)) in reader.segments.iter().zip(found) {
            self.summary.files += 1;
            self.summary.bytes += segment.bytes;
            self.summary.records += records;
            if let Some((first, last)) = lsns {
                let begin = self.summary.log_lsns.map_or(first, |(begin, _)| begin);
                self.summary.log_lsns = Some((begin, last));
            }
            let (path, bytes) = (segment.path.clone(), segment.bytes);
            (self.report)(Finding::Segment { path, bytes, records, lsns });
        }
        self.tail(&reader);
        outcome
    }

    fn tail(&mut self, reader: &LogReader) {
        let Some((end, last)) = reader.end().zip(reader.segments.last()) else { return };
        self.summary.clean_close = end.clean_close;
        if end.torn_bytes > 0 {
            let (path, offset) = (last.path.clone(), end.offset);
            (self.report)(Finding::TornTail { path, offset, bytes: end.torn_bytes });
        }
    }
}

fn list(files: &dyn FileSystem, path: &Path) -> Result<Vec<String>> {
    files.list(path).map_err(|error| file_error("list", path, error))
}
