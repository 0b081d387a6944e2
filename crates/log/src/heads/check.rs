//! Compares a log and its checkpoint with the head record that vouches for them.

use std::path::Path;

use thalweg_types::{Error, Lsn, Result};

use super::{CheckpointIdentity, Head, REPAIR_HINT};
use crate::segment_reader::LogEnd;

/// A position that the log must pass through while it is read.
#[derive(Clone, Copy, Debug)]
pub struct Vouched {
    head: Head,
    reached: bool,
}

impl Vouched {
    /// Expects the log to reach the position of `head`.
    pub fn new(head: Head) -> Vouched {
        #[cfg(test)]
        if super::canary::is_without_check() {
            return Vouched { head: Head::default(), reached: true };
        }
        Vouched { head, reached: head.position.segment == 0 }
    }

    /// Begins at the log's first segment. A position that the checkpoint covers need not be in the
    /// log, because its segments may have been removed.
    pub fn begin(
        &mut self,
        directory: &Path,
        first_segment: Option<u64>,
        log_from: Lsn,
    ) -> Result<()> {
        let position = &self.head.position;
        let is_covered = position.lsn < log_from;
        if self.reached || first_segment.is_some_and(|first| first <= position.segment) {
            return Ok(());
        }
        if is_covered && first_segment.is_some() {
            self.reached = true;
            return Ok(());
        }
        Err(self.shorter(directory, "no segment of that time is there"))
    }

    /// Records that a log record ends at this position.
    pub fn pass(
        &mut self,
        path: &Path,
        segment: u64,
        segment_checksum: u32,
        end: u64,
        last_checksum: u32,
    ) -> Result<()> {
        let position = &self.head.position;
        if self.reached || segment < position.segment {
            return Ok(());
        }
        let is_same = (segment, segment_checksum) == (position.segment, position.segment_checksum);
        if is_same && end < position.end {
            return Ok(());
        }
        if is_same && end == position.end && last_checksum == position.last_checksum {
            self.reached = true;
            return Ok(());
        }
        let message = format!(
            "{} is not the file that was here: HEADS names another record before offset {} of \
             segment {}",
            path.display(),
            position.end,
            position.segment
        );
        Err(Error::corrupt(message)
            .with_detail("A file was exchanged for one of another age or of another copy.")
            .with_hint(REPAIR_HINT))
    }

    /// Checks the end of the log.
    pub fn finish(&self, directory: &Path, segment: u64, end: Option<&LogEnd>) -> Result<()> {
        let Some(end) = end else {
            if self.reached {
                return Ok(());
            }
            return Err(self.shorter(directory, "it has no segments"));
        };
        let position = &self.head.position;
        if !self.reached {
            let found = format!("it ends at offset {} of segment {segment}", end.offset);
            return Err(self.shorter(directory, &found));
        }
        let is_at_close = (segment, end.offset) == (position.segment, position.end);
        if self.head.clean && !(is_at_close && end.clean_close) {
            let message = format!(
                "the log in {} is not as it was closed: HEADS says that it was closed cleanly \
                 at offset {} of segment {}",
                directory.display(),
                position.end,
                position.segment
            );
            return Err(Error::corrupt(message)
                .with_detail(format!("It ends at offset {} of segment {segment}.", end.offset))
                .with_hint(REPAIR_HINT));
        }
        Ok(())
    }

    fn shorter(&self, directory: &Path, found: &str) -> Error {
        let position = &self.head.position;
        let message = format!(
            "the log in {} is shorter than it was: {found}, but group {} was durable",
            directory.display(),
            position.lsn
        );
        Error::corrupt(message)
            .with_detail(format!(
                "HEADS vouches for the log up to offset {} of segment {}.",
                position.end, position.segment
            ))
            .with_hint(REPAIR_HINT)
    }
}

impl Head {
    /// Refuses the newest checkpoint if the head record does not name it.
    pub fn check_checkpoint(
        &self,
        directory: &Path,
        found: Option<CheckpointIdentity>,
    ) -> Result<()> {
        if found == self.checkpoint || found.is_some() && found == self.next_checkpoint {
            return Ok(());
        }
        let named = |checkpoint: Option<CheckpointIdentity>| match checkpoint {
            Some(checkpoint) => format!("the checkpoint of group {}", checkpoint.lsn),
            None => "no checkpoint".to_owned(),
        };
        let message = format!(
            "{} holds {}, but HEADS names {}",
            directory.display(),
            match found {
                Some(_) if found.map(|found| found.lsn) == self.checkpoint.map(|own| own.lsn) =>
                    "another checkpoint of that name".to_owned(),
                found => named(found),
            },
            named(self.checkpoint)
        );
        Err(Error::corrupt(message)
            .with_detail("A checkpoint is missing, or was exchanged for one of another age.")
            .with_hint(REPAIR_HINT))
    }
}
