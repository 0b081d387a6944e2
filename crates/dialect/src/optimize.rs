//! Optimizer passes that make plans cheaper without changing their meaning, a place where constants
//! are folded, and guards around DataFusion's passes that would change the meaning of a plan.

mod constant_having;
mod date_comparisons;
mod many_joins;
mod sums_of_sums;

use std::sync::Arc;

use datafusion::common::Result as PlanResult;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

pub(crate) use self::date_comparisons::CompareDays;

type Pass = Arc<dyn OptimizerRule + Send + Sync>;

/// Runs a pass on a plan where the pass is correct.
type Guard = fn(&Pass, LogicalPlan, &dyn OptimizerConfig) -> PlanResult<Transformed<LogicalPlan>>;

/// Replaces some of DataFusion's passes with guarded ones.
pub(crate) fn guarded(passes: Vec<Pass>) -> Vec<Pass> {
    let guarded = |pass: Pass| -> Pass {
        let guard: Guard = match pass.name() {
            many_joins::GUARDED => many_joins::rewrite,
            constant_having::GUARDED => constant_having::rewrite,
            sums_of_sums::GUARDED => sums_of_sums::rewrite,
            _ => return pass,
        };
        Arc::new(Guarded { pass, guard })
    };
    passes.into_iter().map(guarded).collect()
}

/// A pass of DataFusion's. Everything but `rewrite` is forwarded to it.
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
