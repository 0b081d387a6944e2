//! Reads the log from its oldest record to its end, in constant memory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use thalweg_env::{Env, FileSystem};
use thalweg_types::{Error, Lsn, Result};

use crate::checkpoint::Coverage;
use crate::heads::{Head, Vouched};
use crate::record::Record;
use crate::segment::{self, Segment};
use crate::segment_reader::{LogEnd, SegmentReader, Step};
use crate::tail::Defect;

/// Reads the records of a log, in order. It changes nothing on disk.
pub struct LogReader {
    files: Arc<dyn FileSystem>,
    /// The log: segments with consecutive numbers.
    pub(crate) segments: Vec<Segment>,
    /// True if the last segment is complete and durable, because the next one had been begun.
    pub(crate) last_is_complete: bool,
    /// Files that are not part of the log: leftovers of a removal or a creation that a crash
    /// interrupted.
    pub(crate) leftovers: Vec<PathBuf>,
    /// The next segment to open.
    next: usize,
    current: Option<SegmentReader>,
    end: Option<LogEnd>,
    bytes_total: u64,
    bytes_done: u64,
    directory: PathBuf,
    pub(crate) vouched: Vouched,
}

impl LogReader {
    /// Prepares to read the records in `directory` that are needed beside a checkpoint. Records
    /// that the checkpoint covers may be missing; later ones may not.
    ///
    /// The log must pass through the position of `head`. Segments that the checkpoint makes
    /// superfluous are not read, so damage in them is not reported.
    pub(crate) fn open(
        env: &Env,
        directory: &Path,
        database_id: u64,
        checkpoint: Coverage,
        head: Head,
    ) -> Result<LogReader> {
        let listed = segment::list(&*env.files, directory, database_id, checkpoint.log_from)?;
        let last_is_complete = listed.unfinished.is_some();
        let mut leftovers = listed.superfluous;
        let mut segments = listed.needed;
        if let Some(number) = listed.unfinished {
            leftovers.push(directory.join(segment::file_name(number)));
            if number != segments.last().map_or(1, |segment| segment.header.number + 1) {
                return Err(incomplete(directory, "the segments before the last are missing"));
            }
        }
        // Segments are removed from the oldest on, and a crash may undo any of the removals. So
        // segments before the last gap were to be removed, if the rest begins early enough.
        let contiguous = |pair: &[Segment]| pair[0].header.number + 1 == pair[1].header.number;
        if let Some(gap) = segments.windows(2).rposition(|pair| !contiguous(pair)) {
            leftovers.extend(segments.drain(..=gap).map(|segment| segment.path));
        }
        let held_before = segments.first().map(|segment| segment.header.previous_lsn);
        check_beginning(directory, held_before, checkpoint.lsn)?;
        let mut vouched = Vouched::new(head);
        let first = segments.first().map(|segment| segment.header.number);
        vouched.begin(directory, first, checkpoint.log_from)?;
        let bytes_total = segments.iter().map(|segment| segment.bytes).sum();
        Ok(LogReader {
            files: Arc::clone(&env.files),
            segments,
            last_is_complete,
            leftovers,
            next: 0,
            current: None,
            end: None,
            bytes_total,
            bytes_done: 0,
            directory: directory.to_owned(),
            vouched,
        })
    }

    /// The next record; `None` at the end of the log. A write that a crash tore at the end counts
    /// as the end, not as damage.
    ///
    /// This is not an `Iterator`, because after an error there is nothing more to read.
    #[expect(clippy::should_implement_trait, reason = "an iterator goes on after an error")]
    pub fn next(&mut self) -> Result<Option<Record>> {
        loop {
            if self.current.is_none() && !self.open_next()? {
                return Ok(None);
            }
            let current = self.current.as_mut().expect("opened above");
            let step = current.step()?;
            pass(&mut self.vouched, current, &self.segments[self.next - 1])?;
            match step {
                Step::Record(record) => return Ok(Some(record)),
                Step::End => self.finish_segment(None)?,
                Step::Broken(defect) => self.finish_segment(Some(defect))?,
            }
        }
    }

    /// Number of bytes read so far, and in total.
    #[must_use]
    pub fn progress(&self) -> (u64, u64) {
        let current = self.current.as_ref().map_or(0, |current| current.progress().0);
        (self.bytes_done + current, self.bytes_total)
    }

    /// End of the log; `None` until it was reached, or if there is no log.
    pub(crate) fn end(&self) -> Option<LogEnd> {
        self.end
    }

    fn open_next(&mut self) -> Result<bool> {
        let Some(segment) = self.segments.get(self.next) else {
            let last = self.segments.last().map_or(0, |segment| segment.header.number);
            self.vouched.finish(&self.directory, last, self.end.as_ref())?;
            return Ok(false);
        };
        let current = SegmentReader::open(&*self.files, segment)?;
        pass(&mut self.vouched, &current, segment)?;
        self.current = Some(current);
        self.next += 1;
        Ok(true)
    }

    fn finish_segment(&mut self, defect: Option<Defect>) -> Result<()> {
        let mut current = self.current.take().expect("a segment is being read");
        self.end = current.finish(defect, self.segments.get(self.next), self.last_is_complete)?;
        self.bytes_done += current.progress().1;
        Ok(())
    }
}

/// Records how far a segment was read.
pub(crate) fn pass(
    vouched: &mut Vouched,
    current: &SegmentReader,
    segment: &Segment,
) -> Result<()> {
    let (end, checksum) = current.passed();
    vouched.pass(&segment.path, segment.header.number, segment.checksum, end, checksum)
}

/// Refuses a log that lacks records after the checkpoint.
fn check_beginning(directory: &Path, held_before: Option<Lsn>, covered: Lsn) -> Result<()> {
    match held_before {
        Some(held_before) if held_before > covered => {
            let what = format!("records after {covered} up to {held_before} are missing");
            Err(incomplete(directory, &what))
        }
        None if covered > Lsn(0) => {
            let what = format!("no segment is there, but records up to {covered} were");
            Err(incomplete(directory, &what))
        }
        _ => Ok(()),
    }
}

fn incomplete(directory: &Path, what: &str) -> Error {
    Error::corrupt(format!("the log in {} is incomplete: {what}", directory.display()))
        .with_hint("Put the missing segment files back, or restore the directory from a backup.")
}
