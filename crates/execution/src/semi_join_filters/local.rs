//! Local scans as scans that can wait for keys.

use std::fmt;
use std::sync::Arc;

use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use thalweg_scan::KeySet;

use super::{AsLeaf, Keys, Leaf, Plan, with_semi_join_filters};
use crate::fused::FusedAggregate;
use crate::scan::ShardScan;

/// The pass of this module.
pub const PASS: &str = "semi_join_filters";

/// The pass that makes scans wait for the keys of joins. It runs after all others.
#[derive(Debug)]
pub struct ApplySemiJoinFilters;

impl PhysicalOptimizerRule for ApplySemiJoinFilters {
    fn name(&self) -> &'static str {
        PASS
    }

    fn optimize(&self, plan: Plan, _: &ConfigOptions) -> Result<Plan> {
        with_local_semi_join_filters(&plan)
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Rewrites a plan over local rows so that its scans wait for the keys of joins.
///
/// # Errors
/// If a plan cannot be rebuilt over its new inputs.
pub fn with_local_semi_join_filters(plan: &Plan) -> Result<Plan> {
    with_semi_join_filters(plan, LOCAL)
}

/// Recognizes leaves over local rows: scans and fused aggregates.
pub const LOCAL: AsLeaf = |plan| {
    if let Some(scan) = plan.downcast_ref::<ShardScan>() {
        return Some(scan as &dyn Leaf);
    }
    plan.downcast_ref::<FusedAggregate>().map(|fused| fused as &dyn Leaf)
};

/// The keys that a scan waits for, with their columns.
#[derive(Clone, Default)]
pub(crate) struct WaitingFor(Vec<(usize, Arc<Keys>)>);

impl WaitingFor {
    pub(crate) fn is_nothing(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the keys of one more column.
    pub(crate) fn and(&self, column: usize, keys: &Arc<Keys>) -> WaitingFor {
        let more = std::iter::once((column, Arc::clone(keys)));
        WaitingFor(self.0.iter().cloned().chain(more).collect())
    }

    /// Waits for all keys that are available.
    pub(crate) async fn all(&self) -> Vec<(usize, Arc<KeySet>)> {
        let mut all = Vec::with_capacity(self.0.len());
        for (column, keys) in &self.0 {
            all.extend(keys.set().await.map(|keys| (*column, keys)));
        }
        all
    }

    /// Writes the names of the columns.
    pub(crate) fn write_column_names<'a>(
        &self,
        f: &mut fmt::Formatter<'_>,
        name: impl Fn(usize) -> &'a str,
    ) -> fmt::Result {
        if self.is_nothing() {
            return Ok(());
        }
        let names: Vec<&str> = self.0.iter().map(|(column, _)| name(*column)).collect();
        write!(f, " among=[{}]", names.join(", "))
    }
}
