//! A cached plan without rows and parameter values.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::datatypes::{FieldRef, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::{MemTable, source_as_provider};
use datafusion::error::Result as PlanResult;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::{Expr as PlanExpr, LogicalPlan, Volatility};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionConfig;
use datafusion::sql::parser::Statement as Tree;
use datafusion::sql::sqlparser::ast::{Expr, Value};
use parking_lot::Mutex;
use thalweg_dialect::depends_on_clock;
use thalweg_dialect::guards::guarded;
use thalweg_dialect::walk;
use thalweg_execution::executor::{Executor, Rows};
use thalweg_execution::fused::Direct;
use thalweg_execution::optimization::optimize;
use thalweg_execution::parameter_values::ParameterValues;
use thalweg_execution::scan::{States, with_thresholds};
use thalweg_execution::semi_join_filters::with_local_semi_join_filters;
use thalweg_execution::task::without_functions;
use thalweg_txn::{Catalog, Transaction};
use thalweg_values::errors::external;

use super::inline_plans::{FEW_ROWS, is_plain};
use super::parameter;
use super::template::{TemplateBinder, template};
use crate::ctes::MaterializedTable;
use crate::locks;
use crate::parameters::bind;
use crate::statement::{self, Execution};
use crate::workers::{Cluster, Gathering, Rebound, RemoteScans};
use crate::{plan, privileges};

/// Extension of the configuration under which a cached plan is made. It keeps present statistics of
/// tables out of the plan.
pub(crate) struct PlansForCache;

/// A cached plan. It serves one execution at a time.
pub(crate) struct GenericPlan {
    catalog: Arc<Catalog>,
    template: Arc<dyn ExecutionPlan>,
    /// True if an execution over few rows has little to do.
    is_plain: bool,
    schema: SchemaRef,
    values: Arc<ParameterValues>,
    config: SessionConfig,
    runtime: Arc<RuntimeEnv>,
    /// The nodes that hold the rows. Each execution decides which part of the plan workers run,
    /// since it depends on the number of workers that take part. Semi-join filters are added in
    /// each execution too, since their keys belong to it.
    cluster: Arc<Cluster>,
    shape: Mutex<Option<PlacedPlan>>,
}

/// A plan after the workers' part was split off.
struct PlacedPlan {
    gathering: Gathering,
    plan: Arc<dyn ExecutionPlan>,
}

impl GenericPlan {
    /// Plans a statement for this execution and later ones; `None` if reuse would not be safe.
    pub(crate) async fn of(
        execution: &Execution<'_>,
        tree: &Tree,
        parameters: &[FieldRef],
        values: &[ScalarValue],
    ) -> Option<GenericPlan> {
        if !statement::only_reads(tree) || names_a_time(tree) {
            return None;
        }
        if !parameters.iter().all(|field| parameter::may_wait(field)) {
            return None;
        }
        privileges::check_names(execution.names, tree).ok()?;
        statement::check_subqueries(tree).ok()?;
        locks::check_none(tree).ok()?;
        let mut tree = tree.clone();
        let stand_ins = parameters.iter().enumerate();
        let stand_ins = stand_ins.map(|(place, field)| parameter::standing_in(place, field).ok());
        let stand_ins: Vec<Option<Expr>> = stand_ins.collect();
        if stand_ins.contains(&None) {
            return None;
        }
        bind(&mut tree, &stand_ins);
        let catalog = execution.names.catalog();
        let cluster = Arc::clone(execution.names.cluster());
        let state = planning(&execution.state, cluster.scans.as_ref()).ok()?;
        plan(state, tree, values, catalog, cluster).await.ok().flatten()
    }

    /// True if the catalog is the one that the plan was made for.
    pub(super) fn is_for(&self, catalog: &Arc<Catalog>) -> bool {
        Arc::ptr_eq(&self.catalog, catalog)
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Binds the plan to the rows that a transaction sees, and to parameter values. `None` if a
    /// table no longer fits the plan.
    pub(crate) fn bind(
        &self,
        transaction: &mut Transaction,
        values: &[ScalarValue],
        gathering: Gathering,
    ) -> PlanResult<Option<Run>> {
        self.values.set(values);
        let mut states = |table| transaction.state(table).map(States::from).map_err(external);
        let mut now = TemplateBinder::new(&mut states);
        let plan = match self.cluster.is_present() {
            true => self.over_workers(&mut now, gathering)?,
            false => {
                let plan = now.plan(&self.template, &|_| Ok(Rebound::Other))?;
                plan.map(|plan| with_thresholds(with_local_semi_join_filters(&plan)?))
                    .transpose()?
            }
        };
        let is_short = self.is_plain && now.read() <= FEW_ROWS;
        Ok(plan.map(|plan| Run { direct: Direct::of(&plan), plan, is_short }))
    }

    /// The plan over workers. The split of the previous execution is reused if as many workers take
    /// part.
    fn over_workers(
        &self,
        now: &mut TemplateBinder<'_>,
        gathering: Gathering,
    ) -> PlanResult<Option<Arc<dyn ExecutionPlan>>> {
        let scans = self.scans();
        let mut shape = self.shape.lock();
        let same = |plan: &_| scans.same_again(plan);
        if let Some(PlacedPlan { plan, .. }) =
            shape.as_ref().filter(|last| last.gathering == gathering)
            && let Some(plan) = now.plan(plan, &same)?
        {
            return Ok(Some(plan));
        }
        let Some(plan) = now.plan(&self.template, &|plan| scans.rebound(plan, gathering))? else {
            return Ok(None);
        };
        let plan = scans.physical_rule().optimize(plan, self.config.options())?;
        // Store a template without rows, and execute a plan that is made from it.
        let known = template(Arc::clone(&plan), &same)?;
        let rebound = match &known {
            Some(known) => now.plan(known, &same)?,
            None => None,
        };
        *shape = known.filter(|_| rebound.is_some()).map(|plan| PlacedPlan { gathering, plan });
        Ok(Some(rebound.unwrap_or(plan)))
    }

    /// Reads of rows on other nodes.
    pub(crate) fn scans(&self) -> &dyn RemoteScans {
        self.cluster.scans.as_ref()
    }

    /// Starts an execution.
    pub(crate) fn start(&self, run: Run) -> Rows {
        let executor = Executor::of(&self.config);
        let runtime = Arc::clone(&self.runtime);
        let context = without_functions(String::new(), &self.config, runtime);
        match run.is_short {
            true => executor.begin_here(run.plan, context),
            false => executor.run_in(run.plan, context),
        }
    }
}

/// A plan bound to its rows and values.
pub(crate) struct Run {
    pub(crate) plan: Arc<dyn ExecutionPlan>,
    /// Set if the plan consists of one fused aggregate.
    pub(crate) direct: Option<Direct>,
    /// True if the plan is so short that a thread switch would take as long.
    is_short: bool,
}

/// Session state that plans a statement for many executions.
fn planning(state: &SessionState, scans: &dyn RemoteScans) -> PlanResult<SessionState> {
    let of_run = scans.physical_rule();
    let rules = state.physical_optimizers().iter().filter(|rule| rule.name() != of_run.name());
    let builder = SessionStateBuilder::new_from_existing(state.clone());
    let mut state = builder.with_physical_optimizer_rules(rules.cloned().collect()).build();
    state.register_udf(Arc::new(parameter::function()))?;
    let config = state.config_mut();
    config.set_extension(Arc::new(PlansForCache));
    // Dynamic filters of one execution would drop rows of the next.
    let optimizer = &mut config.options_mut().optimizer;
    optimizer.enable_dynamic_filter_pushdown = false;
    optimizer.enable_topk_dynamic_filter_pushdown = false;
    optimizer.enable_join_dynamic_filter_pushdown = false;
    optimizer.enable_aggregate_dynamic_filter_pushdown = false;
    Ok(state)
}

async fn plan(
    state: SessionState,
    tree: Tree,
    values: &[ScalarValue],
    catalog: Arc<Catalog>,
    cluster: Arc<Cluster>,
) -> PlanResult<Option<GenericPlan>> {
    let planned = plan::statement(&state, tree).await?;
    if !is_the_same_whenever_asked(&planned.plan)? {
        return Ok(None);
    }
    let held = Arc::new(ParameterValues::default());
    // Plan with the first execution's values, as a sample of what such values allow.
    held.set(values);
    let planning = async {
        let optimized = guarded(optimize(&state, &planned.plan)?)?;
        let optimized = parameter::with_values(optimized, &held)?;
        state.query_planner().create_physical_plan(&optimized, &state).await
    };
    let physical = Executor::of(state.config()).counted(&state, planning).await?;
    let elsewhere = |plan: &_| cluster.scans.rebound(plan, Gathering::default());
    let Some(template) = template(physical, &elsewhere)? else { return Ok(None) };
    let is_plain = !cluster.is_present() && is_plain(&template)?;
    let schema = plan::renamed(&template.schema(), &planned);
    let (config, runtime) = (state.config().clone(), Arc::clone(state.runtime_env()));
    Ok(Some(GenericPlan {
        catalog,
        template,
        is_plain,
        schema,
        values: held,
        config,
        runtime,
        cluster,
        shape: Mutex::default(),
    }))
}

/// True if the plan is valid for every execution. All functions must be immutable: none may be
/// evaluated while planning or change from call to call. And no table may hold rows as of planning,
/// as system tables about sessions do, since the plan would depend on their number.
fn is_the_same_whenever_asked(plan: &LogicalPlan) -> PlanResult<bool> {
    let mut same = true;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            let source = source_as_provider(&scan.source)?;
            same &= !source.is::<MemTable>() && !source.is::<MaterializedTable>();
        }
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                match expr {
                    PlanExpr::ScalarFunction(call) => {
                        same &= call.func.signature().volatility == Volatility::Immutable;
                    }
                    // This also covers views, whose texts `names_a_time` does not see.
                    PlanExpr::Literal(value, _) => {
                        same &= !value.try_as_str().flatten().is_some_and(depends_on_clock);
                    }
                    _ => {}
                }
                Ok(if same { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
            })
        })
    })?;
    Ok(same)
}

/// True if some literal may name a time: `'today'` is evaluated while planning.
fn names_a_time(tree: &Tree) -> bool {
    const WORDS: [&str; 5] = ["now", "today", "tomorrow", "yesterday", "allballs"];
    let Tree::Statement(statement) = tree else { return true };
    let found = walk::visit_expressions(statement.as_ref(), |expr| {
        let Expr::Value(value) = expr else { return ControlFlow::Continue(()) };
        let text = match &value.value {
            Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => text,
            Value::DollarQuotedString(text) => &text.value,
            _ => return ControlFlow::Continue(()),
        };
        let text = text.trim().to_lowercase();
        match WORDS.iter().any(|word| text.contains(word)) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    found.is_break()
}
