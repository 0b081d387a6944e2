//! Progress of a stream: the number of rows written, and the rows that failed.

use std::collections::VecDeque;

use thalweg_protocol::v1;
use thalweg_query::{RowFailure, Written};
use thalweg_types::{Error, SqlState};

use crate::records::values::failure;

/// Maximum failures in one reply, so that it stays below the message limits of clients.
const REPLY_FAILURES: usize = 1_000;

#[derive(Default)]
pub(super) struct Progress {
    /// All rows before this one are written or failed.
    rows: u64,
    failed: u64,
    first: Option<FirstFailure>,
    /// Failures not reported yet: the row's position in the stream, and its error.
    unreported: VecDeque<(u64, Error)>,
}

/// The row that ended a stream.
pub(super) struct FirstFailure {
    pub(super) index: u64,
    /// Number of rows written before it: all earlier ones, except those of its own atomic message.
    pub(super) written: u64,
    pub(super) error: Error,
}

impl Progress {
    /// Records the outcome of a group on a stream that continues after failures. Groups must be
    /// recorded in order.
    pub(super) fn note(&mut self, rows: u32, atomic: bool, written: Written) {
        let failures = match atomic && !written.failures.is_empty() {
            true => all_failed(rows, written.failures),
            false => written.failures,
        };
        self.failed += failures.len() as u64;
        let failures_of_group = failures.into_iter().map(|failed| {
            let index = self.rows + u64::from(failed.place);
            (index, failed.error)
        });
        self.unreported.extend(failures_of_group);
        self.rows += u64::from(rows);
    }

    /// Like [`Progress::note`], for a stream that the first failure ends.
    pub(super) fn note_until_failure(&mut self, rows: u32, atomic: bool, written: Written) {
        if let Some(RowFailure { place, error }) = written.failures.into_iter().next()
            && self.first.is_none()
        {
            let index = self.rows + u64::from(place);
            let written = if atomic { self.rows } else { index };
            self.first = Some(FirstFailure { index, written, error });
        }
        self.rows += u64::from(rows);
    }

    /// The first failed row, if any.
    pub(super) fn first_failure(&self) -> Option<&FirstFailure> {
        self.first.as_ref()
    }

    /// Number of rows written.
    pub(super) fn written(&self) -> u64 {
        self.rows - self.failed
    }

    /// The pending replies. A reply never counts a row that a later reply reports as failed. Each
    /// reply is built when the iterator is advanced, since it carries the full text of its errors.
    pub(super) fn replies(&mut self) -> impl Iterator<Item = v1::WriteResponse> + use<'_> {
        let mut has_last = false;
        std::iter::from_fn(move || {
            if has_last {
                return None;
            }
            let count = self.unreported.len().min(REPLY_FAILURES);
            has_last = count == self.unreported.len();
            let failures = self.unreported.drain(..count);
            let failures: Vec<_> = failures.map(|(index, error)| failure(index, &error)).collect();
            let durable = match (has_last, failures.last()) {
                (false, Some(last)) => last.index + 1,
                _ => self.rows,
            };
            Some(v1::WriteResponse { durable, failures })
        })
    }
}

/// The failures of an atomic group: if one row fails, all others fail with it.
fn all_failed(rows: u32, failures: Vec<RowFailure>) -> Vec<RowFailure> {
    let message = "another row of the same atomic message failed";
    let with_others = Error::new(SqlState::IN_FAILED_TRANSACTION, message);
    let mut failures = failures.into_iter().peekable();
    (0..rows)
        .map(|place| match failures.next_if(|failure| failure.place == place) {
            Some(failure) => failure,
            None => RowFailure { place, error: with_others.clone() },
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use thalweg_types::Lsn;

    use super::*;

    fn written(failed: &[u32]) -> Written {
        let failure = |place: &u32| RowFailure { place: *place, error: Error::internal("x") };
        Written { lsn: Lsn(1), rows: 0, failures: failed.iter().map(failure).collect() }
    }

    fn indexes(reply: &v1::WriteResponse) -> Vec<u64> {
        reply.failures.iter().map(|failure| failure.index).collect()
    }

    #[test]
    fn rows_count_from_the_streams_first() {
        let mut progress = Progress::default();
        progress.note(10, false, written(&[]));
        progress.note(5, false, written(&[0, 4]));
        let replies: Vec<_> = progress.replies().collect();
        assert_eq!(replies.len(), 1);
        assert_eq!((replies[0].durable, indexes(&replies[0])), (15, vec![10, 14]));
        assert_eq!((progress.written(), progress.first_failure().is_none()), (13, true));
    }

    #[test]
    fn one_row_fails_all_of_an_atomic_message() {
        let mut progress = Progress::default();
        progress.note(3, true, written(&[1]));
        let replies: Vec<_> = progress.replies().collect();
        let states: Vec<_> = replies[0].failures.iter().map(|f| f.sqlstate.as_str()).collect();
        assert_eq!(
            (states, indexes(&replies[0])),
            (vec!["25P02", "XX000", "25P02"], vec![0, 1, 2])
        );
    }

    #[test]
    fn many_failures_are_told_in_parts_none_of_which_counts_ahead() {
        let mut progress = Progress::default();
        let failed: Vec<u32> = (0..2 * REPLY_FAILURES as u32 + 500).map(|n| n * 2).collect();
        progress.note(10_000, false, written(&failed));
        let replies: Vec<_> = progress.replies().collect();
        assert_eq!(replies.len(), 3);
        for (reply, next) in replies.iter().zip(&replies[1..]) {
            assert!(indexes(next)[0] >= reply.durable);
        }
        assert_eq!(replies[2].durable, 10_000);
    }
}
