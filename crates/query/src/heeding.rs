//! Passes of the planner heed cancels.
//!
//! Planning gives its thread to nobody, and takes seconds where a statement has a hundred thousand
//! values. So each pass looks whether its statement was canceled before it begins, and so do the
//! steps between them. Each pass looks as well whether the plan has become larger than a
//! statement's memory may be.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{AnalyzerRule, ApplyOrder, OptimizerConfig, OptimizerRule};
use thalweg_dialect::errors::external;
use thalweg_dialect::stop;

use crate::cancel;

/// Makes all passes of a planner heed cancels.
pub(crate) fn heed(builder: &mut SessionStateBuilder) {
    let analyzing = builder.analyzer().iter_mut().map(|analyzer| &mut analyzer.rules);
    for rule in analyzing.flatten() {
        *rule = Arc::new(Heeding(Arc::clone(rule)));
    }
    for rule in builder.analyzer_rules().iter_mut().flatten() {
        *rule = Arc::new(Heeding(Arc::clone(rule)));
    }
    let optimizing = builder.optimizer().iter_mut().map(|optimizer| &mut optimizer.rules);
    for rule in optimizing.flatten() {
        *rule = Arc::new(Heeding(Arc::clone(rule)));
    }
}

/// # Errors
/// What to say of the cancel, where what is planned was canceled.
pub(crate) fn go_on() -> Result<()> {
    cancel::check().and_then(|()| stop::go_on()).map_err(external)
}

#[derive(Debug)]
struct Heeding<P: ?Sized>(Arc<P>);

impl AnalyzerRule for Heeding<dyn AnalyzerRule + Send + Sync> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        go_on()?;
        self.0.analyze(plan, config)
    }
}

impl OptimizerRule for Heeding<dyn OptimizerRule + Send + Sync> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        go_on()?;
        stop::folding(|| self.0.rewrite(plan, config))
    }
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::LogicalPlanBuilder;
    use thalweg_dialect::errors::from_datafusion;
    use thalweg_types::SqlState;

    use super::*;
    use crate::cancel::SessionCancels;

    #[tokio::test]
    async fn passes_end_where_their_statement_was_canceled() {
        let mut builder = thalweg_dialect::configure(SessionStateBuilder::new());
        heed(&mut builder);
        let state = builder.build();
        let plan = LogicalPlanBuilder::empty(true).build().unwrap();
        assert!(state.optimize(&plan).is_ok());
        let cancels = SessionCancels::new();
        let handle = cancels.handle();
        let planning = async {
            handle.cancel();
            Ok(state.optimize(&plan))
        };
        let error = cancels.run(planning).await.unwrap().unwrap_err();
        assert_eq!(from_datafusion(error, "").state(), SqlState::QUERY_CANCELED);
        assert!(state.optimize(&plan).is_ok());
    }
}
