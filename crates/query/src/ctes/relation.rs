//! Plans a derived table of the reserved name as the scan of a table that is computed once.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchemaRef, internal_err};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::error::Result;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, TableType};
use datafusion::optimizer::AnalyzerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::sql::sqlparser::ast::TableFactor;
use thalweg_dialect::complete_types::complete_columns;
use thalweg_execution::optimization::{optimize_analyzed, subquery_of};
use tokio::sync::OnceCell;

use super::MATERIALIZED;
use super::scan::{MaterializedScan, SharedRows};

/// Makes a session's planner materialise what [`super::mark`] found.
///
/// # Errors
/// If the session accepts no relation planners.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    let rules = state.analyzer().rules.clone();
    state.register_relation_planner(Arc::new(MaterializedRelations { rules }))
}

struct MaterializedRelations {
    rules: Vec<Arc<dyn AnalyzerRule + Send + Sync>>,
}

impl fmt::Debug for MaterializedRelations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MaterializedRelations")
    }
}

impl MaterializedRelations {
    fn analyze(&self, plan: LogicalPlan, options: &ConfigOptions) -> Result<LogicalPlan> {
        let analyze = |plan, rule: &Arc<dyn AnalyzerRule + Send + Sync>| {
            rule.analyze(plan, options).map_err(|error| error.context(rule.name()))
        };
        self.rules.iter().try_fold(plan, analyze)
    }
}

impl RelationPlanner for MaterializedRelations {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let original = |relation| Ok(RelationPlanning::Original(Box::new(relation)));
        let TableFactor::Derived { lateral, subquery, alias: Some(alias), sample } = relation
        else {
            return original(relation);
        };
        if alias.name.value != MATERIALIZED {
            let alias = Some(alias);
            return original(TableFactor::Derived { lateral, subquery, alias, sample });
        }
        let inner = TableFactor::Derived { lateral, subquery, alias: None, sample };
        let mut plan = context.plan(inner)?;
        // A query that depends on an outer query has other rows for each outer row.
        if !refers_outside(&plan, &mut Vec::new())? {
            let options = context.context_provider().options().clone();
            let columns = complete_columns(&plan)?;
            let analyzed = self.analyze(plan, &options)?;
            let table = MaterializedTable::new(analyzed, &columns);
            let source = provider_as_source(Arc::new(table));
            plan = LogicalPlanBuilder::scan(MATERIALIZED, source, None)?.build()?;
        }
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation { plan, alias: Some(alias) })))
    }
}

/// True if a plan refers to columns that belong neither to its own inputs nor to `around`, the
/// inputs of the enclosing operators that its subqueries may refer to.
fn refers_outside(plan: &LogicalPlan, around: &mut Vec<DFSchemaRef>) -> Result<bool> {
    let depth = around.len();
    let mut found = false;
    plan.apply_expressions(|expression| {
        expression.apply(|part| {
            if let Expr::OuterReferenceColumn(_, column) = part {
                found |= !around.iter().any(|schema| schema.has_column(column));
            }
            if let Some(subquery) = subquery_of(part)
                && !found
            {
                around.extend(plan.inputs().into_iter().map(|input| Arc::clone(input.schema())));
                found = refers_outside(&subquery.subquery, around)?;
                around.truncate(depth);
            }
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })
    })?;
    for (place, input) in plan.inputs().into_iter().enumerate() {
        if let LogicalPlan::Join(join) = plan
            && place == 1
        {
            // The right side of a lateral join sees the left one.
            around.push(Arc::clone(join.left.schema()));
        }
        found = found || refers_outside(input, around)?;
    }
    around.truncate(depth);
    Ok(found)
}

/// Visits a plan, and before it the plans of the `WITH` queries that it materialises, each once.
///
/// # Errors
/// If DataFusion cannot walk the plan.
pub(crate) fn visit_materialized(
    plan: &LogicalPlan,
    visit: &mut dyn FnMut(&LogicalPlan),
) -> Result<()> {
    visit_new(plan, &mut HashSet::new(), visit)
}

fn visit_new(
    plan: &LogicalPlan,
    known: &mut HashSet<*const MaterializedTable>,
    visit: &mut dyn FnMut(&LogicalPlan),
) -> Result<()> {
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            let source = source_as_provider(&scan.source)?;
            if let Some(table) = source.downcast_ref::<MaterializedTable>()
                && known.insert(std::ptr::from_ref(table))
            {
                visit_new(&table.plan, known, visit)?;
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    visit(plan);
    Ok(())
}

/// The rows of a `WITH` query, computed once for all scans of one statement.
pub(crate) struct MaterializedTable {
    schema: SchemaRef,
    /// The analyzed plan.
    plan: LogicalPlan,
    rows: OnceCell<Arc<SharedRows>>,
}

impl fmt::Debug for MaterializedTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MaterializedTable")
    }
}

impl MaterializedTable {
    /// `columns` give the types as far as they are known before the plan is analyzed.
    fn new(plan: LogicalPlan, columns: &DFSchemaRef) -> MaterializedTable {
        let fields = plan.schema().fields().iter().zip(columns.fields());
        let fields = fields.map(|(field, described)| {
            let field =
                match field.metadata().is_empty() && field.data_type() == described.data_type() {
                    true => field.as_ref().clone().with_metadata(described.metadata().clone()),
                    false => field.as_ref().clone(),
                };
            field.with_nullable(true)
        });
        let schema = Arc::new(Schema::new(fields.collect::<Vec<Field>>()));
        MaterializedTable { schema, plan, rows: OnceCell::new() }
    }

    async fn rows(&self, state: &SessionState) -> Result<Arc<SharedRows>> {
        let optimized = optimize_analyzed(state, self.plan.clone())?;
        let plan = state.query_planner().create_physical_plan(&optimized, state).await?;
        Ok(Arc::new(SharedRows::new(plan, Arc::clone(&self.schema))))
    }
}

#[async_trait]
impl TableProvider for MaterializedTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(state) = session.as_any().downcast_ref::<SessionState>() else {
            return internal_err!("a WITH query is planned by a session of another kind");
        };
        let rows = self.rows.get_or_try_init(|| Box::pin(self.rows(state))).await?;
        Ok(Arc::new(MaterializedScan::new(Arc::clone(rows), projection)?))
    }
}
