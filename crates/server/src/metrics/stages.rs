//! Metrics of the database's stages, updated just before the page is rendered.

use std::fmt::Write as _;

use metrics::{Counter, Gauge, counter, describe_counter, describe_gauge, gauge};
use thalweg_query::{PipelineTotals, SYNC_MICROS, StageTotals};

pub(super) struct StageMetrics {
    transactions: OfStage,
    disk: OfStage,
    log_writes: Counter,
    log_bytes_written: Counter,
}

struct OfStage {
    waiting: Gauge,
    groups: Counter,
    rounds: Counter,
}

impl StageMetrics {
    pub(super) fn new() -> StageMetrics {
        describe_gauge!("thalweg_stage_waiting", "Groups that wait for a stage.");
        describe_counter!("thalweg_stage_groups_total", "Groups that a stage took.");
        describe_counter!(
            "thalweg_stage_rounds_total",
            "How often a stage took all groups that were ready."
        );
        describe_counter!("thalweg_log_writes_total", "Writes to the log, of many groups each.");
        describe_counter!("thalweg_log_written_bytes_total", "Bytes of groups that were written.");
        StageMetrics {
            transactions: OfStage::new("transactions"),
            disk: OfStage::new("disk"),
            log_writes: counter!("thalweg_log_writes_total"),
            log_bytes_written: counter!("thalweg_log_written_bytes_total"),
        }
    }

    pub(super) fn set(&self, figures: &PipelineTotals) {
        self.transactions.set(figures.transactions);
        self.disk.set(figures.disk);
        self.log_writes.absolute(figures.log_writes);
        self.log_bytes_written.absolute(figures.log_bytes_written);
    }
}

impl OfStage {
    fn new(stage: &'static str) -> OfStage {
        OfStage {
            waiting: gauge!("thalweg_stage_waiting", "stage" => stage),
            groups: counter!("thalweg_stage_groups_total", "stage" => stage),
            rounds: counter!("thalweg_stage_rounds_total", "stage" => stage),
        }
    }

    fn set(&self, figures: StageTotals) {
        self.waiting.set(figures.waiting() as f64);
        self.groups.absolute(figures.taken);
        self.rounds.absolute(figures.rounds);
    }
}

/// The histogram of sync times in Prometheus' text format. The database keeps its buckets itself.
pub(super) fn syncs(figures: &PipelineTotals) -> String {
    const NAME: &str = "thalweg_log_sync_seconds";
    let mut text =
        format!("# HELP {NAME} Time of one fdatasync of the log.\n# TYPE {NAME} histogram\n");
    let mut below = 0;
    let mut line = |text: &mut String, bound: &str, count| {
        below += count;
        let _ = writeln!(text, "{NAME}_bucket{{le=\"{bound}\"}} {below}");
    };
    for (bound, count) in SYNC_MICROS.iter().zip(figures.sync_classes) {
        line(&mut text, &(*bound as f64 / 1e6).to_string(), count);
    }
    line(&mut text, "+Inf", figures.sync_classes[SYNC_MICROS.len()]);
    let seconds = figures.sync_micros as f64 / 1e6;
    let _ = write!(text, "{NAME}_sum {seconds}\n{NAME}_count {}\n\n", figures.syncs);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_of_syncs_add_up() {
        let mut figures =
            PipelineTotals { syncs: 6, sync_micros: 1_500_000, ..PipelineTotals::default() };
        figures.sync_classes[0] = 1;
        figures.sync_classes[1] = 2;
        figures.sync_classes[SYNC_MICROS.len()] = 3;
        let text = syncs(&figures);
        assert!(text.contains("_bucket{le=\"0.00005\"} 1\n"), "{text}");
        assert!(text.contains("_bucket{le=\"0.0001\"} 3\n"), "{text}");
        assert!(text.contains("_bucket{le=\"1\"} 3\n"), "{text}");
        assert!(text.contains("_bucket{le=\"+Inf\"} 6\n"), "{text}");
        assert!(text.contains("_sum 1.5\nthalweg_log_sync_seconds_count 6\n"), "{text}");
    }
}
