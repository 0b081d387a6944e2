//! Passes over plans that keep their meaning and make them cheaper, where constants are folded, and
//! guards around those of DataFusion's that change what a plan means.

mod days;
mod many_joins;
mod rows_of_none;
mod sums_of_sums;

use std::sync::Arc;

use datafusion::common::Result as PlanResult;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

pub(crate) use self::days::CompareDays;

type Pass = Arc<dyn OptimizerRule + Send + Sync>;

/// Does a pass's work on a plan where that is right.
type Guard = fn(&Pass, LogicalPlan, &dyn OptimizerConfig) -> PlanResult<Transformed<LogicalPlan>>;

/// Replaces some of DataFusion's passes with guarded ones.
pub(crate) fn guarded(passes: Vec<Pass>) -> Vec<Pass> {
    let guarded = |pass: Pass| -> Pass {
        let guard: Guard = match pass.name() {
            many_joins::GUARDED => many_joins::rewrite,
            rows_of_none::GUARDED => rows_of_none::rewrite,
            sums_of_sums::GUARDED => sums_of_sums::rewrite,
            _ => return pass,
        };
        Arc::new(Guarded { pass, guard })
    };
    passes.into_iter().map(guarded).collect()
}

/// A pass of DataFusion's, which is asked for everything but its work.
#[derive(Debug)]
struct Guarded {
    pass: Pass,
    guard: Guard,
}

impl OptimizerRule for Guarded {
    fn name(&self) -> &str {
        self.pass.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.pass.apply_order()
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> PlanResult<Transformed<LogicalPlan>> {
        (self.guard)(&self.pass, plan, config)
    }
}
