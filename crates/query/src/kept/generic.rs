//! A plan without rows and values.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::datatypes::{FieldRef, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result as PlanResult};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::execution::{FunctionRegistry, TaskContext};
use datafusion::logical_expr::{Expr as PlanExpr, LogicalPlan, Volatility};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionConfig;
use datafusion::sql::parser::Statement as Tree;
use datafusion::sql::sqlparser::ast::{Expr, Value, visit_expressions};
use thalweg_txn::{Catalog, Transaction};

use super::parameter::{self, Values};
use crate::executor::{Executor, Rows};
use crate::fused::{Direct, FusedAggregate};
use crate::parameters::bind;
use crate::reduce::{self, reduced_here};
use crate::scan::{ShardScan, with_thresholds};
use crate::statement::{self, Execution};
use crate::workers::{Again, Gathering, Workers};
use crate::{plan, privileges};

/// In the configuration under which a plan is made that is kept: what is known of a table's rows
/// now must not become part of it.
pub(crate) struct Reusable;

/// Operators that are the same in every run, but for what comes from below.
const OPERATORS: [&str; 25] = [
    "AggregateExec",
    "BoundedWindowAggExec",
    "CoalesceBatchesExec",
    "CoalescePartitionsExec",
    "CooperativeExec",
    "CrossJoinExec",
    "EmptyExec",
    "FilterExec",
    "FirstOfGroups",
    "FirstSide",
    "GlobalLimitExec",
    "HashJoinExec",
    "LocalLimitExec",
    "NestedLoopJoinExec",
    "PartialSortExec",
    "PlaceholderRowExec",
    "ProjectionExec",
    "RepartitionExec",
    "SmallBatches",
    "SortExec",
    "SortExec(TopK)",
    "SortMergeJoinExec",
    "SortPreservingMergeExec",
    "UnionExec",
    "WindowAggExec",
];

/// Those of them that take their input's rows one batch after the other, on the same thread.
const PLAIN: [&str; 14] = [
    "AggregateExec",
    "CoalesceBatchesExec",
    "CooperativeExec",
    "EmptyExec",
    "FilterExec",
    "FusedAggregate",
    "GlobalLimitExec",
    "LocalLimitExec",
    "PlaceholderRowExec",
    "ProjectionExec",
    "ShardScan",
    "SmallBatches",
    "SortExec",
    "SortExec(TopK)",
];

/// A plain plan that reads no more rows than this begins where it is asked for.
const FEW_ROWS: usize = 256;

/// A plan with more parts of expressions than this is not plain.
const FEW_PARTS: usize = 100;

/// A plan of which one run at a time takes place.
pub(crate) struct GenericPlan {
    catalog: Arc<Catalog>,
    template: Arc<dyn ExecutionPlan>,
    /// Whether a run over few rows has little to do.
    is_plain: bool,
    schema: SchemaRef,
    values: Arc<Values>,
    config: SessionConfig,
    runtime: Arc<RuntimeEnv>,
    /// Who has the rows, where they do not lie here. What they do of the plan is decided in each
    /// run: it depends on which of them are asked. So are keys that scans wait for: they are those
    /// of a run.
    workers: Option<Arc<dyn Workers>>,
}

impl GenericPlan {
    /// Plans a statement for this run and others; `None` where that would not be safe.
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
        let mut tree = tree.clone();
        let stand_ins = parameters.iter().enumerate();
        let stand_ins = stand_ins.map(|(place, field)| parameter::standing_in(place, field).ok());
        let stand_ins: Vec<Option<Expr>> = stand_ins.collect();
        if stand_ins.contains(&None) {
            return None;
        }
        bind(&mut tree, &stand_ins);
        let catalog = execution.names.catalog();
        let workers = execution.names.workers().cloned();
        let state = planning(&execution.state, workers.as_deref()).ok()?;
        plan(state, tree, values, catalog, workers).await.ok().flatten()
    }

    /// Whether names mean the same as when the plan was made.
    pub(super) fn is_for(&self, catalog: &Arc<Catalog>) -> bool {
        Arc::ptr_eq(&self.catalog, catalog)
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Gives the plan the rows that a transaction sees, and values. `None` where a table is not any
    /// more what the plan was made for.
    pub(crate) fn bind(
        &self,
        transaction: &mut Transaction,
        values: &[ScalarValue],
        gathering: Gathering,
    ) -> PlanResult<Option<Run>> {
        self.values.set(values);
        let mut fits = true;
        let mut outgrown = false;
        let mut rows = 0;
        let mut with_rows = |scan: &ShardScan| {
            let state = transaction.state(scan.table_id());
            let state = state.map_err(|error| DataFusionError::External(Box::new(error)))?;
            fits &= scan.fits(&state);
            let scan = scan.over(&state)?;
            rows += scan.rows_to_read();
            Ok(scan)
        };
        let bound = Arc::clone(&self.template).transform_up(|plan| {
            if let Some(scan) = plan.downcast_ref::<ShardScan>() {
                return Ok(Transformed::yes(Arc::new(with_rows(scan)?) as _));
            }
            if let Some(fused) = plan.downcast_ref::<FusedAggregate>() {
                return Ok(Transformed::yes(fused.over(&mut with_rows)?));
            }
            if let Some(workers) = &self.workers {
                match workers.again(&plan, gathering)? {
                    Again::Scan(scan) => return Ok(Transformed::yes(scan)),
                    Again::Outgrown => outgrown = true,
                    Again::Other => {}
                }
            }
            Ok(Transformed::yes(plan.reset_state()?))
        })?;
        if !fits || outgrown {
            return Ok(None);
        }
        let plan = match &self.workers {
            Some(workers) => workers.physical_rule().optimize(bound.data, self.config.options())?,
            None => with_thresholds(reduced_here(&bound.data)?)?,
        };
        let is_short = self.is_plain && rows <= FEW_ROWS;
        Ok(Some(Run { direct: Direct::of(&plan), plan, is_short }))
    }

    /// Who has the rows, where they do not lie here.
    pub(crate) fn workers(&self) -> Option<&Arc<dyn Workers>> {
        self.workers.as_ref()
    }

    /// Starts a run.
    pub(crate) fn start(&self, run: Run) -> Rows {
        let executor = self.config.get_extension::<Executor>();
        let executor = executor.expect("every planner is given the database's executor");
        // The functions that a plan calls are in it: nothing looks for one by its name any more.
        let context = TaskContext::new(
            None,
            String::new(),
            self.config.clone(),
            HashMap::new(),
            HashMap::new(),
            HashMap::new(),
            HashMap::new(),
            Arc::clone(&self.runtime),
        );
        match run.is_short {
            true => executor.begin_here(run.plan, context),
            false => executor.run_in(run.plan, context),
        }
    }
}

/// A plan with its rows and values.
pub(crate) struct Run {
    pub(crate) plan: Arc<dyn ExecutionPlan>,
    /// The plan as a fused aggregate and nothing else, if it is one.
    pub(crate) direct: Option<Direct>,
    /// Whether it has so little to do that a change of threads would take as long.
    is_short: bool,
}

/// What plans a statement for many runs.
fn planning(state: &SessionState, workers: Option<&dyn Workers>) -> PlanResult<SessionState> {
    let theirs = workers.map(Workers::physical_rule);
    let of_run = theirs.as_ref().map_or(reduce::PASS, |rule| rule.name());
    let rules = state.physical_optimizers().iter().filter(|rule| rule.name() != of_run);
    let builder = SessionStateBuilder::new_from_existing(state.clone());
    let mut state = builder.with_physical_optimizer_rules(rules.cloned().collect()).build();
    state.register_udf(Arc::new(parameter::function()))?;
    let config = state.config_mut();
    config.set_extension(Arc::new(Reusable));
    // What a join or a top-k has found in one run would leave rows out of the next.
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
    workers: Option<Arc<dyn Workers>>,
) -> PlanResult<Option<GenericPlan>> {
    let planned = plan::statement(&state, tree).await?;
    if !is_the_same_whenever_asked(&planned.plan)? {
        return Ok(None);
    }
    let held = Arc::new(Values::default());
    // Those of the first run show what the plan can make of such values.
    held.set(values);
    let optimized = parameter::with_values(state.optimize(&planned.plan)?, &held)?;
    let physical = state.query_planner().create_physical_plan(&optimized, &state).await?;
    let Some(template) = template(physical, workers.as_deref())? else { return Ok(None) };
    let is_plain = workers.is_none() && is_plain(&template)? && is_brief(&optimized)?;
    let schema = plan::renamed(&template.schema(), &planned);
    let (config, runtime) = (state.config().clone(), Arc::clone(state.runtime_env()));
    let values = held;
    let plan =
        GenericPlan { catalog, template, is_plain, schema, values, config, runtime, workers };
    Ok(Some(plan))
}

/// The plan without rows, so that it keeps none alive; `None` where it has more in it than
/// operators and tables.
fn template(
    plan: Arc<dyn ExecutionPlan>,
    workers: Option<&dyn Workers>,
) -> PlanResult<Option<Arc<dyn ExecutionPlan>>> {
    let mut known = true;
    let template = plan.transform_up(|plan| {
        if let Some(scan) = plan.downcast_ref::<ShardScan>() {
            return Ok(Transformed::yes(Arc::new(scan.without_rows()) as _));
        }
        if let Some(fused) = plan.downcast_ref::<FusedAggregate>() {
            return Ok(Transformed::yes(Arc::new(fused.without_rows()?) as _));
        }
        let of_workers = |workers: &dyn Workers| workers.again(&plan, Gathering::default());
        let is_scan = matches!(workers.map(of_workers), Some(Ok(Again::Scan(_) | Again::Outgrown)));
        known &= is_scan || OPERATORS.contains(&plan.name());
        Ok(Transformed::no(plan))
    })?;
    Ok(known.then_some(template.data))
}

fn is_plain(plan: &Arc<dyn ExecutionPlan>) -> PlanResult<bool> {
    let is_other =
        |plan: &Arc<dyn ExecutionPlan>| plan.children().len() > 1 || !PLAIN.contains(&plan.name());
    Ok(!plan.exists(|plan| Ok(is_other(plan)))?)
}

/// Whether expressions are short and call no functions, which may take any time for a row.
fn is_brief(plan: &LogicalPlan) -> PlanResult<bool> {
    let mut parts = 0;
    let mut calls = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                parts += 1;
                calls |= matches!(expr, PlanExpr::ScalarFunction(_)) && !parameter::is_held(expr);
                Ok(match calls || parts > FEW_PARTS {
                    true => TreeNodeRecursion::Stop,
                    false => TreeNodeRecursion::Continue,
                })
            })
        })
    })?;
    Ok(!calls && parts <= FEW_PARTS)
}

/// Whether no function answers while the statement is planned, or otherwise each time.
fn is_the_same_whenever_asked(plan: &LogicalPlan) -> PlanResult<bool> {
    let mut same = true;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                if let PlanExpr::ScalarFunction(call) = expr {
                    same &= call.func.signature().volatility == Volatility::Immutable;
                }
                Ok(if same { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
            })
        })
    })?;
    Ok(same)
}

/// Whether some text may be a word for a time: `'today'` gets its meaning when it is planned.
fn names_a_time(tree: &Tree) -> bool {
    const WORDS: [&str; 5] = ["now", "today", "tomorrow", "yesterday", "allballs"];
    let Tree::Statement(statement) = tree else { return true };
    let found = visit_expressions(statement.as_ref(), |expr| {
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
