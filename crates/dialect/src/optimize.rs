//! Optimizer passes that make plans cheaper without changing their meaning, a place where constants
//! are folded, and guards around DataFusion's passes that would change the meaning of a plan.

mod column_equalities;
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

pub(crate) use self::column_equalities::with_one_zero;
pub(crate) use self::date_comparisons::CompareDays;
use crate::passes::LogicalPass as Pass;

/// Runs a pass on a plan where the pass is correct.
type Guard = fn(&Pass, LogicalPlan, &dyn OptimizerConfig) -> PlanResult<Transformed<LogicalPlan>>;

/// The guard of [`many_joins`](mod@many_joins).
pub(crate) fn many_joins(pass: Pass) -> Pass {
    Arc::new(Guarded { pass, guard: many_joins::rewrite })
}

/// The guard of [`constant_having`](mod@constant_having).
pub(crate) fn constant_having(pass: Pass) -> Pass {
    Arc::new(Guarded { pass, guard: constant_having::rewrite })
}

/// The guard of [`column_equalities`](mod@column_equalities).
pub(crate) fn column_equalities(pass: Pass) -> Pass {
    Arc::new(Guarded { pass, guard: column_equalities::rewrite })
}

/// The guard of [`sums_of_sums`](mod@sums_of_sums).
pub(crate) fn sums_of_sums(pass: Pass) -> Pass {
    Arc::new(Guarded { pass, guard: sums_of_sums::rewrite })
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
