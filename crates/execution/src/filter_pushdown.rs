//! A guard around DataFusion's pass that moves filters down in executable plans.
//!
//! If a projection has two columns of one name, as after a join whose sides were swapped, that pass
//! confuses them: it moved a filter of one side of an outer join to the other side, and the result
//! had wrong rows. The guard skips the pass for such plans. Filters were already moved down in the
//! logical plan, so little is lost. Upstream:
//! <https://github.com/apache/datafusion/issues/21246>.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNode;
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use thalweg_dialect::passes::PhysicalPass;

/// The guard.
pub fn guarded(pass: PhysicalPass) -> PhysicalPass {
    Arc::new(GuardedFilterPushdown(pass))
}

#[derive(Debug)]
struct GuardedFilterPushdown(PhysicalPass);

impl PhysicalOptimizerRule for GuardedFilterPushdown {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match may_be_mistaken(&plan)? {
            true => Ok(plan),
            false => self.0.optimize(plan, config),
        }
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

/// True if a filter has a projection with two columns of one name below it.
fn may_be_mistaken(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    plan.exists(|plan| match plan.is::<FilterExec>() {
        true => plan.exists(|below| Ok(doubles_names(below))),
        false => Ok(false),
    })
}

fn doubles_names(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let Some(projection) = plan.downcast_ref::<ProjectionExec>() else { return false };
    let mut names = HashSet::new();
    !projection.expr().iter().all(|column| names.insert(column.alias.as_str()))
}
