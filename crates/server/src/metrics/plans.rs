//! Metrics of the plan cache and of the planning threads, updated just before the page is rendered.

use metrics::{Counter, Gauge, counter, describe_counter, describe_gauge, gauge};
use thalweg_execution::planning::PlanningMetrics;
use thalweg_query::PlanCacheMetrics;

pub(super) struct PlanMetrics {
    runs: Counter,
    made: Counter,
    refused: Counter,
    statements: Gauge,
    planning_busy: Gauge,
    planning_waiting: Gauge,
    planning_abandoned: Gauge,
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
        describe_gauge!("thalweg_planning_threads_busy", "Threads that plan a statement.");
        describe_gauge!("thalweg_planning_waiting", "Statements that wait to be planned.");
        describe_gauge!(
            "thalweg_planning_abandoned",
            "Threads that still plan a statement which was canceled."
        );
        PlanMetrics {
            runs: counter!("thalweg_kept_plan_runs_total"),
            made: counter!("thalweg_kept_plans_made_total"),
            refused: counter!("thalweg_kept_plans_refused_total"),
            statements: gauge!("thalweg_kept_plan_statements"),
            planning_busy: gauge!("thalweg_planning_threads_busy"),
            planning_waiting: gauge!("thalweg_planning_waiting"),
            planning_abandoned: gauge!("thalweg_planning_abandoned"),
        }
    }

    pub(super) fn set_planning(&self, figures: PlanningMetrics) {
        self.planning_busy.set(figures.busy as f64);
        self.planning_waiting.set(figures.waiting as f64);
        self.planning_abandoned.set(figures.abandoned as f64);
    }

    pub(super) fn set(&self, figures: PlanCacheMetrics) {
        self.runs.absolute(figures.runs);
        self.made.absolute(figures.made);
        self.refused.absolute(figures.refused);
        self.statements.set(figures.statements as f64);
    }
}
