//! Metrics of the record API.

use metrics::{Counter, Histogram, Unit, counter, describe_counter, describe_histogram, histogram};
use thalweg_query::Written;
use tokio::time::Instant;

/// Histogram of the number of rows per group.
pub(super) const GROUP_ROWS: &str = "thalweg_record_group_rows";

pub(crate) struct RecordMetrics {
    groups: Counter,
    group_rows: Histogram,
    reads: Counter,
    replies: Counter,
    rows: Counter,
    failures: Counter,
    acknowledged_seconds: Histogram,
    look_ups: Counter,
    found: Counter,
}

impl RecordMetrics {
    pub(super) fn new() -> RecordMetrics {
        describe_counter!("thalweg_record_groups_total", "Groups in which records were written.");
        describe_histogram!(GROUP_ROWS, "Records of one group.");
        describe_counter!("thalweg_record_reads_total", "How often streams of records were read.");
        describe_counter!("thalweg_record_replies_total", "Replies sent on streams of records.");
        describe_counter!("thalweg_record_rows_total", "Records that were written.");
        describe_counter!("thalweg_record_failures_total", "Records that could not be written.");
        describe_histogram!(
            "thalweg_record_acknowledged_seconds",
            Unit::Seconds,
            "Time from a group of records being read to its acknowledgement."
        );
        describe_counter!("thalweg_record_lookups_total", "Keys that were looked up.");
        describe_counter!("thalweg_record_found_total", "Keys that were found.");
        RecordMetrics {
            groups: counter!("thalweg_record_groups_total"),
            group_rows: histogram!(GROUP_ROWS),
            reads: counter!("thalweg_record_reads_total"),
            replies: counter!("thalweg_record_replies_total"),
            rows: counter!("thalweg_record_rows_total"),
            failures: counter!("thalweg_record_failures_total"),
            acknowledged_seconds: histogram!("thalweg_record_acknowledged_seconds"),
            look_ups: counter!("thalweg_record_lookups_total"),
            found: counter!("thalweg_record_found_total"),
        }
    }

    /// Counts an acknowledged group with its rows, and the time since it was read.
    pub(crate) fn acknowledged(&self, rows: u32, written: &Written, since: Instant) {
        self.groups.increment(1);
        self.group_rows.record(f64::from(rows));
        self.rows.increment(written.rows);
        self.failures.increment(u64::from(rows).saturating_sub(written.rows));
        self.acknowledged_seconds.record(since.elapsed().as_secs_f64());
    }

    /// Counts one read of everything that was available on a stream.
    pub(crate) fn read(&self) {
        self.reads.increment(1);
    }

    pub(crate) fn replied(&self) {
        self.replies.increment(1);
    }

    pub(crate) fn looked_up(&self, keys: usize, found: usize) {
        self.look_ups.increment(keys as u64);
        self.found.increment(found as u64);
    }
}
