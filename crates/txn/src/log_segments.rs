//! The log's complete segments, as the disk stage last posted them.
//!
//! Maintenance asks how much of the log a checkpoint would free. It reads the answer here, so that
//! it never waits for the disk stage.

use parking_lot::Mutex;
use thalweg_log::CompleteSegment;
use thalweg_types::Lsn;

#[derive(Default)]
pub(crate) struct LogSegments(Mutex<State>);

#[derive(Default)]
struct State {
    /// The segments before the active one, oldest first.
    complete: Vec<CompleteSegment>,
    /// Segments whose groups are all before this one are about to be removed.
    removed_before: Lsn,
}

impl LogSegments {
    /// Replaces the list. The disk stage does so when a segment is complete or removed.
    pub(crate) fn post(&self, complete: Vec<CompleteSegment>) {
        self.0.lock().complete = complete;
    }

    /// Notes that the disk stage was asked to remove the segments before a group.
    pub(crate) fn request_removal(&self, before: Lsn) {
        let mut state = self.0.lock();
        state.removed_before = state.removed_before.max(before);
    }

    /// Number of bytes that the removal of the segments before a group would free. Segments whose
    /// removal was already requested do not count.
    pub(crate) fn bytes_before(&self, lsn: Lsn) -> u64 {
        let state = self.0.lock();
        let superfluous = state
            .complete
            .iter()
            .skip_while(|segment| segment.last_lsn < state.removed_before)
            .take_while(|segment| segment.last_lsn < lsn);
        superfluous.map(|segment| segment.bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_count_until_their_removal_is_requested() {
        let segments = LogSegments::default();
        assert_eq!(segments.bytes_before(Lsn(9)), 0);
        let segment = |last_lsn, bytes| CompleteSegment { last_lsn: Lsn(last_lsn), bytes };
        segments.post(vec![segment(3, 100), segment(5, 20), segment(8, 7)]);
        assert_eq!(segments.bytes_before(Lsn(3)), 0);
        assert_eq!(segments.bytes_before(Lsn(6)), 120);
        segments.request_removal(Lsn(6));
        segments.request_removal(Lsn(4));
        assert_eq!(segments.bytes_before(Lsn(6)), 0);
        assert_eq!(segments.bytes_before(Lsn(9)), 7);
        segments.post(vec![segment(8, 7)]);
        assert_eq!(segments.bytes_before(Lsn(9)), 7);
    }
}
