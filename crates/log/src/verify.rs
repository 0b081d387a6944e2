//! Verifies every byte of a database that is not in use.

use std::path::{Path, PathBuf};

use thalweg_env::Env;
use thalweg_types::{Error, Lsn, Result};

use crate::checkpoint::{
    CheckpointReader, ChunkFileReader, Coverage, checkpoints_in, superfluous_in,
};
use crate::data_directory::{
    CHECKPOINT, LOG, exists, is_database, lock, lost_format, no_database, read_format,
};
use crate::failure::{damaged, file_error};
use crate::heads::{CheckpointIdentity, HEADS, Head, REPAIR_HINT, Vouched, read_slots};
use crate::reader::{LogReader, pass};
use crate::segment::Segment;
use crate::segment_reader::{LogEnd, SegmentReader, Step};

/// Result of checking one file or aspect.
#[derive(Clone, Debug)]
pub enum Finding {
    /// A sound manifest of a checkpoint. `bytes` is the length of this file.
    Checkpoint { path: PathBuf, lsn: Lsn, bytes: u64, sections: usize },
    /// A sound chunk file of the checkpoint.
    Chunks { path: PathBuf, bytes: u64, sections: usize },
    /// A sound segment, with the first and last sequence number of its records if it has any.
    Segment { path: PathBuf, bytes: u64, records: u64, lsns: Option<(Lsn, Lsn)> },
    /// A file that is no longer needed and was not read. The next start removes it.
    Superfluous { path: PathBuf },
    /// A torn write at the end of the log. The next start cuts it off.
    TornTail { path: PathBuf, offset: u64, bytes: u64 },
    /// Damage.
    Problem(Error),
}

/// Summary of all findings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    pub database_id: u64,
    pub files: u64,
    pub bytes: u64,
    pub records: u64,
    /// Sequence number of the newest checkpoint.
    pub checkpoint_lsn: Option<Lsn>,
    /// Sequence numbers of the log's first and last record.
    pub log_lsns: Option<(Lsn, Lsn)>,
    pub clean_close: bool,
    pub problems: u64,
}

/// Verifies every checksum of every file of the database in `path`, and reports the findings file
/// by file. It changes nothing. It locks the directory meanwhile, and fails if it is in use.
///
/// An error means that the check could not run, not that it found damage.
pub fn verify(env: &Env, path: &Path, report: &mut dyn FnMut(Finding)) -> Result<Summary> {
    if let Some(lost) = lost_format(&*env.files, path)? {
        report(Finding::Problem(lost));
        return Ok(Summary { problems: 1, ..Summary::default() });
    }
    if !is_database(&*env.files, path)? {
        return Err(no_database(path));
    }
    let _lock = lock(&*env.files, path)?;
    let format = match read_format(&*env.files, path) {
        Ok(format) => format,
        Err(error) => {
            report(Finding::Problem(error));
            return Ok(Summary { files: 1, problems: 1, ..Summary::default() });
        }
    };
    let summary = Summary { database_id: format.database_id, files: 1, ..Summary::default() };
    let (coverage, head) = (Coverage::default(), None);
    let mut verifier = Verifier { env, path, coverage, head, summary, report };
    if format.has_heads || exists(&*env.files, &path.join(HEADS))? {
        verifier.heads();
    }
    verifier.checkpoints()?;
    verifier.log();
    Ok(verifier.summary)
}

struct Verifier<'a> {
    env: &'a Env,
    path: &'a Path,
    /// Coverage of the newest checkpoint.
    coverage: Coverage,
    /// The newest head, if there is one.
    head: Option<Head>,
    summary: Summary,
    report: &'a mut dyn FnMut(Finding),
}

impl Verifier<'_> {
    fn problem(&mut self, error: Error) {
        self.summary.problems += 1;
        (self.report)(Finding::Problem(error));
    }

    fn heads(&mut self) {
        self.summary.files += 1;
        let path = self.path.join(HEADS);
        match read_slots(&*self.env.files, &path, self.summary.database_id) {
            Ok(slots) => {
                self.head = slots.newest().map(|(_, head)| head);
                if let Some(offset) = slots.damage {
                    let what = match self.head {
                        Some(_) => "a head is not what was written; another one is sound",
                        None => "no head is sound",
                    };
                    self.problem(damaged(&path, offset, what).with_hint(REPAIR_HINT));
                }
            }
            Err(error) => self.problem(error),
        }
    }

    fn checkpoints(&mut self) -> Result<()> {
        let newest = self.newest_checkpoint()?;
        let directory = self.path.join(CHECKPOINT);
        let checked = match (&self.head, newest) {
            (Some(head), Ok(found)) => head.check_checkpoint(&directory, found),
            // There is no head to compare with, or the problem was already reported.
            _ => Ok(()),
        };
        checked.unwrap_or_else(|error| self.problem(error));
        Ok(())
    }

    /// Reads the newest checkpoint. Returns its identity, or an error if its manifest is damaged.
    fn newest_checkpoint(&mut self) -> Result<Result<Option<CheckpointIdentity>, ()>> {
        let directory = self.path.join(CHECKPOINT);
        if !exists(&*self.env.files, &directory)? {
            // A copying tool may have left out an empty directory. The next start creates it.
            return Ok(Ok(None));
        }
        let names = self.env.files.list(&directory);
        let names = names.map_err(|error| file_error("list", &directory, error))?;
        let Some(lsn) = checkpoints_in(&names).pop() else {
            self.superfluous(&directory, superfluous_in(&names, None, &[]));
            return Ok(Ok(None));
        };
        self.summary.checkpoint_lsn = Some(lsn);
        self.coverage = Coverage { lsn, ..Coverage::default() };
        self.summary.files += 1;
        let database_id = self.summary.database_id;
        let opened = CheckpointReader::open_manifest(self.env, &directory, database_id, lsn);
        match opened.and_then(|reader| reader.verify_manifest().map(|()| reader)) {
            Ok(reader) => {
                self.coverage = reader.coverage();
                let (path, bytes) = (reader.path().to_owned(), reader.manifest_bytes());
                let sections = reader.sections().len();
                self.summary.bytes += bytes;
                (self.report)(Finding::Checkpoint { path, lsn, bytes, sections });
                self.chunk_files(&reader);
                self.superfluous(
                    &directory,
                    superfluous_in(&names, Some(lsn), reader.chunk_files()),
                );
                Ok(Ok(Some(reader.identity())))
            }
            Err(error) => {
                self.problem(error);
                Ok(Err(()))
            }
        }
    }

    /// Reads the chunk files that a checkpoint names, each for itself, so that damage in one does
    /// not hide damage in another.
    fn chunk_files(&mut self, checkpoint: &CheckpointReader) {
        let database_id = self.summary.database_id;
        for named in checkpoint.chunk_files() {
            self.summary.files += 1;
            let opened = ChunkFileReader::open(self.env, checkpoint.path(), database_id, *named);
            let read = opened
                .and_then(|reader| Ok((reader.verify(checkpoint.sections())?, reader.file.path)));
            match read {
                Ok((sections, path)) => {
                    self.summary.bytes += named.bytes;
                    (self.report)(Finding::Chunks { path, bytes: named.bytes, sections });
                }
                Err(error) => self.problem(error),
            }
        }
    }

    fn superfluous(&mut self, directory: &Path, names: Vec<String>) {
        for name in names {
            (self.report)(Finding::Superfluous { path: directory.join(name) });
        }
    }

    fn log(&mut self) {
        let directory = self.path.join(LOG);
        let database_id = self.summary.database_id;
        // Open it as recovery would, with the newest checkpoint.
        let head = self.head.unwrap_or_default();
        let opened = LogReader::open(self.env, &directory, database_id, self.coverage, head);
        let mut log = match opened {
            Ok(log) => log,
            Err(error) => return self.problem(error),
        };
        for path in &log.leftovers {
            (self.report)(Finding::Superfluous { path: path.clone() });
        }
        let problems = self.summary.problems;
        let mut end = None;
        // Check segment by segment, so that damage in one does not hide damage in another.
        for (place, segment) in log.segments.iter().enumerate() {
            self.summary.files += 1;
            self.summary.bytes += segment.bytes;
            let next = log.segments.get(place + 1);
            match self.segment(segment, next, log.last_is_complete, &mut log.vouched) {
                Ok(found) => end = found,
                Err(error) => self.problem(error),
            }
        }
        if self.summary.problems == problems {
            let last = log.segments.last().map_or(0, |segment| segment.header.number);
            if let Err(error) = log.vouched.finish(&directory, last, end.as_ref()) {
                self.problem(error);
            }
        }
    }

    fn segment(
        &mut self,
        segment: &Segment,
        next: Option<&Segment>,
        last_is_complete: bool,
        vouched: &mut Vouched,
    ) -> Result<Option<LogEnd>> {
        let mut reader = SegmentReader::open(&*self.env.files, segment)?;
        pass(vouched, &reader, segment)?;
        let mut lsns: Option<(Lsn, Lsn)> = None;
        let mut records = 0;
        let defect = loop {
            let step = reader.step()?;
            pass(vouched, &reader, segment)?;
            match step {
                Step::Record(record) => {
                    records += 1;
                    lsns = Some((lsns.map_or(record.lsn, |(first, _)| first), record.lsn));
                }
                Step::End => break None,
                Step::Broken(defect) => break Some(defect),
            }
        };
        self.summary.records += records;
        if let Some((first, last)) = lsns {
            let begin = self.summary.log_lsns.map_or(first, |(begin, _)| begin);
            self.summary.log_lsns = Some((begin, last));
        }
        let end = reader.finish(defect, next, last_is_complete)?;
        let (path, bytes) = (segment.path.clone(), segment.bytes);
        (self.report)(Finding::Segment { path, bytes, records, lsns });
        let Some(end) = end else { return Ok(None) };
        self.summary.clean_close = end.clean_close;
        if end.torn_bytes > 0 {
            let (path, offset, bytes) = (segment.path.clone(), end.offset, end.torn_bytes);
            (self.report)(Finding::TornTail { path, offset, bytes });
        }
        Ok(Some(end))
    }
}
