//! Salvages a damaged directory: its newest sound checkpoint, and the log after it up to the first
//! damage.

use std::path::Path;

use thalweg_env::Env;
use thalweg_types::{Error, Lsn, Result};

use super::{Copied, Source, Sources, Target, source};
use crate::checkpoint::{CheckpointReader, Coverage, checkpoints_in};
use crate::data_directory::{CHECKPOINT, LOG, exists, lock, read_format};
use crate::failure::{damaged, file_error};
use crate::heads::{HEADS, Head, database_of, read_slots};
use crate::segment::{self, Segment, SegmentHeader, open_file};
use crate::segment_reader::{SegmentReader, Step};

/// Copies the sound parts of the database in `from` into the new directory `to`, and reports the
/// damage that is left behind. `from` is not changed.
///
/// # Errors
/// If the database is in use, no file tells its id, or nothing is sound.
pub fn salvage(
    env: &Env,
    from: &Path,
    to: Option<&Path>,
    report: &mut dyn FnMut(Error),
) -> Result<Copied> {
    let _lock = lock(&*env.files, from)?;
    let database_id = match read_format(&*env.files, from) {
        Ok(format) => format.database_id,
        Err(error) => {
            let database_id = database_of(&*env.files, from).ok_or_else(|| error.clone())?;
            report(error);
            database_id
        }
    };
    let head = match read_slots(&*env.files, &from.join(HEADS), database_id) {
        Ok(slots) => slots.newest().map(|(_, head)| head),
        Err(error) => {
            report(error);
            None
        }
    };
    let mut salvage = Salvage { env, from, database_id, report };
    let mut sources = salvage.checkpoint()?;
    let end = salvage.log(&mut sources)?;
    if let Some(head) = head.filter(|head| head.position.lsn > end) {
        let message = format!("groups after {end} up to {} or beyond are lost", head.position.lsn);
        (salvage.report)(Error::corrupt(message));
    }
    match to {
        Some(to) => Target::create(env, to)?.fill(&sources),
        None => Ok(Copied { lsn: end, ..Copied::default() }),
    }
}

struct Salvage<'a> {
    env: &'a Env,
    from: &'a Path,
    database_id: u64,
    report: &'a mut dyn FnMut(Error),
}

impl Salvage<'_> {
    /// The newest checkpoint whose sections are all sound.
    fn checkpoint(&mut self) -> Result<Sources> {
        let mut sources = Sources {
            database_id: self.database_id,
            coverage: Coverage::default(),
            identity: None,
            checkpoint: Vec::new(),
            segments: Vec::new(),
            cluster: Vec::new(),
            head: Head::default(),
        };
        let directory = self.from.join(CHECKPOINT);
        if !exists(&*self.env.files, &directory)? {
            return Ok(sources);
        }
        let names = self.env.files.list(&directory);
        let names = names.map_err(|error| file_error("list", &directory, error))?;
        for lsn in checkpoints_in(&names).into_iter().rev() {
            let opened = CheckpointReader::open(self.env, &directory, self.database_id, lsn);
            let read = opened.and_then(|reader| {
                (0..reader.sections().len()).try_for_each(|at| reader.read(at).map(drop))?;
                Ok(reader)
            });
            match read {
                Ok(reader) => {
                    sources.coverage = reader.coverage();
                    sources.identity = Some(reader.identity());
                    sources.checkpoint = reader.sources().map(source).collect();
                    return Ok(sources);
                }
                Err(error) => (self.report)(error),
            }
        }
        Ok(sources)
    }

    /// Adds the log from where the checkpoint needs it, up to the first damage. Returns the last
    /// sequence number.
    fn log(&mut self, sources: &mut Sources) -> Result<Lsn> {
        let covered = sources.coverage.lsn;
        let found = self.segments()?;
        let log_from = sources.coverage.log_from.max(Lsn(1));
        let is_first = |segment: &Segment| match covered {
            Lsn(0) => segment.header.number == 1,
            _ => segment.header.previous_lsn < log_from,
        };
        let Some(first) = found.iter().rposition(is_first) else {
            let message = "the log after the checkpoint does not begin where it must";
            let nothing = Error::corrupt(format!("{}: {message}", self.from.display()));
            return if covered == Lsn(0) { Err(nothing) } else { self.nothing(nothing, covered) };
        };
        let mut end = covered;
        for (place, segment) in found.iter().enumerate().skip(first) {
            let next = found.get(place + 1);
            let mut reader = SegmentReader::open(&*self.env.files, segment)?;
            let broken = loop {
                match reader.step()? {
                    Step::Record(record) => end = end.max(record.lsn),
                    Step::End => break None,
                    Step::Broken(defect) => break Some(defect),
                }
            };
            let judged = reader.finish(broken, next, false);
            let (bytes, _) = reader.passed();
            let (file, _) = open_file(&*self.env.files, &segment.path)?;
            sources.segments.push(Source { file, path: segment.path.clone(), bytes });
            if let Err(error) = judged {
                (self.report)(error);
                break;
            }
        }
        Ok(end)
    }

    /// Reports that only the checkpoint is sound.
    fn nothing(&mut self, error: Error, covered: Lsn) -> Result<Lsn> {
        (self.report)(error);
        Ok(covered)
    }

    /// The segments with sound headers. The header of a segment after a gap shows that it does not
    /// continue the one before.
    fn segments(&mut self) -> Result<Vec<Segment>> {
        let directory = self.from.join(LOG);
        if !exists(&*self.env.files, &directory)? {
            return Ok(Vec::new());
        }
        let names = self.env.files.list(&directory);
        let names = names.map_err(|error| file_error("list", &directory, error))?;
        let mut found: Vec<Segment> = Vec::new();
        for number in names.iter().filter_map(|name| segment::number_in(name)) {
            let path = directory.join(segment::file_name(number));
            match self.segment(&path, number) {
                Ok(segment) => found.extend(segment),
                Err(error) => (self.report)(error),
            }
        }
        Ok(found)
    }

    fn segment(&self, path: &Path, number: u64) -> Result<Option<Segment>> {
        let (file, bytes) = open_file(&*self.env.files, path)?;
        let read = segment::read_header(&*file, path, bytes, self.database_id)?;
        let Some((header, checksum)) = read else { return Ok(None) };
        let SegmentHeader { number: own, .. } = header;
        if own != number {
            let what = format!("it is segment {own}, under another's name");
            return Err(damaged(path, 0, what));
        }
        Ok(Some(Segment { header, checksum, path: path.to_owned(), bytes }))
    }
}
