//! Parts of plans that gateways ask for again and again, with other values over other rows.

use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::error::Result as PlanResult;
use datafusion::physical_plan::ExecutionPlan;
use thalweg_dialect::errors::external;

use super::Shards;
use crate::kept::{OverRows, Values, template};
use crate::workers::Again;

/// A plan without rows, of which one run at a time takes place.
pub struct ShardPlan {
    template: Arc<dyn ExecutionPlan>,
    values: Arc<Values>,
}

impl ShardPlan {
    /// Forgets the values of the last run, which may be large.
    pub fn forget(&self) {
        self.values.set(&[]);
    }
}

impl Shards {
    /// Keeps a plan over scans that were made for many runs, in whose expressions are these values;
    /// `None` where there is more in it than is the same in every run.
    ///
    /// # Errors
    /// Those of planning.
    pub fn keep(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        values: &Arc<Values>,
    ) -> PlanResult<Option<ShardPlan>> {
        let template = template(Arc::clone(plan), &|_| Ok(Again::Other))?;
        Ok(template.map(|template| ShardPlan { template, values: Arc::clone(values) }))
    }

    /// A plan that was kept, with other values over the rows of now; `None` where its table is not
    /// any more what it was made for.
    ///
    /// # Errors
    /// Those of planning.
    pub fn again(
        &self,
        kept: &ShardPlan,
        values: &[ScalarValue],
    ) -> PlanResult<Option<Arc<dyn ExecutionPlan>>> {
        kept.values.set(values);
        let snapshot = self.database.shared.engine.snapshot();
        let mut states = |table| self.states(&snapshot, table, &[]).map_err(external);
        OverRows::new(&mut states).plan(&kept.template, &|_| Ok(Again::Other))
    }
}
