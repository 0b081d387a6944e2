//! Parts of plans that gateways run repeatedly, with other values over other rows.

use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::error::Result as PlanResult;
use datafusion::physical_plan::ExecutionPlan;
use thalweg_execution::parameter_values::ParameterValues;
use thalweg_values::errors::external;

use super::Shards;
use crate::plan_cache::{TemplateBinder, template};
use crate::workers::Rebound;

/// A plan without rows. Only one run at a time uses it.
pub struct ShardPlan {
    template: Arc<dyn ExecutionPlan>,
    values: Arc<ParameterValues>,
}

impl ShardPlan {
    /// Forgets the values of the last run, which may be large.
    pub fn forget(&self) {
        self.values.set(&[]);
    }
}

impl Shards {
    /// Keeps a plan over scans that were made for several runs, with these values in its
    /// expressions. `None` if a part of it differs between runs.
    ///
    /// # Errors
    /// Planning errors.
    pub fn keep(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        values: &Arc<ParameterValues>,
    ) -> PlanResult<Option<ShardPlan>> {
        let template = template(Arc::clone(plan), &|_| Ok(Rebound::Other))?;
        Ok(template.map(|template| ShardPlan { template, values: Arc::clone(values) }))
    }

    /// A kept plan with other values over the current rows; `None` if its table has changed too
    /// much since the plan was made.
    ///
    /// # Errors
    /// Planning errors.
    pub fn rebound(
        &self,
        kept: &ShardPlan,
        values: &[ScalarValue],
    ) -> PlanResult<Option<Arc<dyn ExecutionPlan>>> {
        kept.values.set(values);
        let snapshot = self.database.shared.engine.snapshot();
        let mut states = |table| self.states(&snapshot, table, &[]).map_err(external);
        TemplateBinder::new(&mut states).plan(&kept.template, &|_| Ok(Rebound::Other))
    }
}
