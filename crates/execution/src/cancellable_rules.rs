//! Cancellation and limit checks in the planner's passes.
//!
//! Planning does not yield its thread, and takes seconds for a statement with a hundred thousand
//! values. So each pass has a cancellation check and a check of limits before it begins. Passes
//! that DataFusion applies to one operator at a time check at each operator. DataFusion's
//! translation of SQL checks at each relation and operator, and so do the steps between passes.

use std::sync::Arc;

use datafusion::common::DFSchema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::LogicalPlan;
use datafusion::logical_expr::planner::{
    ExprPlanner, PlannerResult, RawBinaryExpr, RelationPlanner, RelationPlannerContext,
    RelationPlanning,
};
use datafusion::optimizer::{AnalyzerRule, ApplyOrder, OptimizerConfig, OptimizerRule};
use datafusion::physical_optimizer::{PhysicalOptimizerContext, PhysicalOptimizerRule};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::sql::sqlparser::ast::TableFactor;
use thalweg_values::errors::external;
use thalweg_values::statement_control;

use crate::cancel;
use crate::planning::limits;

/// Adds a cancellation check to all passes of a planner.
pub fn with_cancellation_checks(builder: &mut SessionStateBuilder) {
    let analyzing = builder.analyzer().iter_mut().map(|analyzer| &mut analyzer.rules);
    for rule in analyzing.flatten() {
        *rule = Arc::new(CancellableRule(Arc::clone(rule)));
    }
    for rule in builder.analyzer_rules().iter_mut().flatten() {
        *rule = Arc::new(CancellableRule(Arc::clone(rule)));
    }
    let optimizing = builder.optimizer().iter_mut().map(|optimizer| &mut optimizer.rules);
    for rule in optimizing.flatten() {
        *rule = Arc::new(CancellableRule(Arc::clone(rule)));
    }
    for rule in builder.optimizer_rules().iter_mut().flatten() {
        *rule = Arc::new(CancellableRule(Arc::clone(rule)));
    }
    let physical = builder.physical_optimizers().iter_mut().map(|optimizer| &mut optimizer.rules);
    for rule in physical.flatten() {
        *rule = Arc::new(CancellableRule(Arc::clone(rule)));
    }
    for rule in builder.physical_optimizer_rules().iter_mut().flatten() {
        *rule = Arc::new(CancellableRule(Arc::clone(rule)));
    }
    builder.expr_planners().get_or_insert_default().insert(0, Arc::new(CancellableTranslation));
    builder.relation_planners().get_or_insert_default().insert(0, Arc::new(CancellableTranslation));
}

/// # Errors
/// The cancel's error if the statement was canceled; 53200 if planning takes too much memory.
pub fn check_cancelled() -> Result<()> {
    cancel::check().map_err(external)?;
    statement_control::check_cancelled().map_err(external)
}

/// Checks for cancels while DataFusion translates SQL to a plan. It plans nothing itself.
#[derive(Debug)]
struct CancellableTranslation;

impl ExprPlanner for CancellableTranslation {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        _: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        check_cancelled()?;
        Ok(PlannerResult::Original(expr))
    }
}

impl RelationPlanner for CancellableTranslation {
    fn plan_relation(
        &self,
        relation: TableFactor,
        _: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        check_cancelled()?;
        Ok(RelationPlanning::Original(Box::new(relation)))
    }
}

#[derive(Debug)]
struct CancellableRule<P: ?Sized>(Arc<P>);

impl AnalyzerRule for CancellableRule<dyn AnalyzerRule + Send + Sync> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        check_cancelled()?;
        let analyzed = self.0.analyze(plan, config)?;
        limits::check_growth(&analyzed)?;
        Ok(analyzed)
    }
}

impl OptimizerRule for CancellableRule<dyn OptimizerRule + Send + Sync> {
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
        check_cancelled()?;
        let rewritten = statement_control::folding(|| self.0.rewrite(plan, config))?;
        if rewritten.transformed && self.0.apply_order().is_none() {
            limits::check_growth(&rewritten.data)?;
        }
        Ok(rewritten)
    }
}

impl PhysicalOptimizerRule for CancellableRule<dyn PhysicalOptimizerRule + Send + Sync> {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        check_cancelled()?;
        self.0.optimize(plan, config)
    }

    fn optimize_with_context(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        context: &dyn PhysicalOptimizerContext,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        check_cancelled()?;
        self.0.optimize_with_context(plan, context)
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::LogicalPlanBuilder;
    use thalweg_types::SqlState;
    use thalweg_values::errors::from_datafusion;

    use super::*;
    use crate::cancel::SessionCancels;
    use crate::testing::with_passes_of_dialect;

    #[tokio::test]
    async fn passes_end_where_their_statement_was_canceled() {
        let builder = thalweg_dialect::configure(SessionStateBuilder::new());
        let mut builder = with_passes_of_dialect(builder);
        with_cancellation_checks(&mut builder);
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
