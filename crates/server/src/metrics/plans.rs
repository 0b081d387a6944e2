//! What the cache of plans did, told just before the page is read.

use metrics::{Counter, Gauge, counter, describe_counter, describe_gauge, gauge};
use thalweg_query::PlanFigures;

pub(super) struct PlanMetrics {
    runs: Counter,
    made: Counter,
    refused: Counter,
    statements: Gauge,
}

impl PlanMetrics {
    pub(super) fn new() -> PlanMetrics {
        describe_counter!("thalweg_kept_plan_runs_total", "Queries run by a plan that was kept.");
        describe_counter!("thalweg_kept_plans_made_total", "Plans that were made to be kept.");
        describe_counter!(
            "thalweg_kept_plans_refused_total",
            "Queries that have to be planned each time."
        );
        describe_gauge!("thalweg_kept_plan_statements", "Statements whose plans may be kept.");
        PlanMetrics {
            runs: counter!("thalweg_kept_plan_runs_total"),
            made: counter!("thalweg_kept_plans_made_total"),
            refused: counter!("thalweg_kept_plans_refused_total"),
            statements: gauge!("thalweg_kept_plan_statements"),
        }
    }

    pub(super) fn set(&self, figures: PlanFigures) {
        self.runs.absolute(figures.runs);
        self.made.absolute(figures.made);
        self.refused.absolute(figures.refused);
        self.statements.set(figures.statements as f64);
    }
}
