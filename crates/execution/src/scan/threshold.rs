//! Leaves out chunks that a sort no longer needs.
//!
//! A sort for the first few rows knows a threshold as soon as it has that many: a further row must
//! pass it to be among them. The sort publishes the threshold as an expression that changes while
//! it runs. A pass of the planner hands the expression to the scan below, which evaluates it on the
//! zones of each chunk, and skips the chunk if they do not pass. Chunks are read in the requested
//! order, as far as zones show it, so that the best rows come first.
//!
//! ```text
//!   Sort (fetch) ── threshold ──╮
//!     Filter, Projection …      │
//!       ShardScan ◄─────────────╯
//! ```
//!
//! DataFusion's own pass finds columns by name, which is ambiguous above joins. This pass follows
//! their positions.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::pruning::PruningPredicate;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use thalweg_store::ChunkView;

use super::sort_key::column_of_key;
use super::{Chunks, ShardScan, pruning};
use crate::operator::RECOMPUTED;
use crate::semi_join_filters::column_below;

type Plan = Arc<dyn ExecutionPlan>;

/// The pass. It must run after those that move sorts.
#[derive(Debug)]
pub struct PushDownThresholds;

impl PhysicalOptimizerRule for PushDownThresholds {
    fn name(&self) -> &'static str {
        "push_down_thresholds"
    }

    fn optimize(&self, plan: Plan, config: &ConfigOptions) -> Result<Plan> {
        match config.optimizer.enable_topk_dynamic_filter_pushdown {
            true => with_thresholds(plan),
            // A plan that is kept has new sorts in each run.
            false => Ok(plan),
        }
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Rewrites a plan so that its scans know the thresholds of sorts above them.
///
/// # Errors
/// If a plan cannot be rebuilt over its new inputs.
pub fn with_thresholds(plan: Plan) -> Result<Plan> {
    let rewritten = plan.transform_up(|plan| {
        let input = plan.downcast_ref::<SortExec>().map(input_of).transpose()?.flatten();
        match input {
            Some(input) => Ok(Transformed::yes(plan.replace_children(vec![input], RECOMPUTED)?)),
            None => Ok(Transformed::no(plan)),
        }
    });
    rewritten.map(|rewritten| rewritten.data)
}

/// A sort's threshold, by positions in its input's columns.
struct Asked {
    filter: Arc<dyn PhysicalExpr>,
    /// True if the greatest values of the first column come first.
    descending: bool,
}

/// A sort's input with a scan that knows its threshold; `None` if there is no such scan, or the
/// sort wants all rows.
fn input_of(sort: &SortExec) -> Result<Option<Plan>> {
    let Some(filter) = sort.dynamic_expressions_produced().pop() else { return Ok(None) };
    if sort.fetch().is_none() {
        return Ok(None);
    }
    let columns = sort.expr().iter().map(|by| column_of_key(&by.expr));
    let Some(columns) = columns.collect::<Option<Vec<usize>>>() else { return Ok(None) };
    let descending = sort.expr().first().options.descending;
    with_threshold(sort.input(), &columns, &Asked { filter, descending })
}

/// `columns` are positions in the plan's columns.
fn with_threshold(plan: &Plan, columns: &[usize], asked: &Asked) -> Result<Option<Plan>> {
    if let Some(scan) = plan.downcast_ref::<ShardScan>() {
        return Ok(scan.with_shared_threshold(columns, asked)?.map(|scan| Arc::new(scan) as Plan));
    }
    let below = columns.iter().map(|column| column_below(plan, *column));
    let Some(below) = below.collect::<Option<Vec<_>>>() else { return Ok(None) };
    let Some(&(side, _)) = below.first() else { return Ok(None) };
    // An input that is read to its end before the first result gains nothing, and may rely on the
    // order of its rows.
    let is_past = plan.is::<AggregateExec>() || plan.is::<HashJoinExec>() && side == 0;
    if is_past || below.iter().any(|(of, _)| *of != side) {
        return Ok(None);
    }
    let columns: Vec<usize> = below.into_iter().map(|(_, column)| column).collect();
    let mut children: Vec<Plan> = plan.children().into_iter().cloned().collect();
    let Some(rewritten) = with_threshold(&children[side], &columns, asked)? else {
        return Ok(None);
    };
    children[side] = rewritten;
    Arc::clone(plan).replace_children(children, RECOMPUTED).map(Some)
}

/// A filter over a table's columns that becomes effective during the scan.
#[derive(Clone)]
pub(super) struct Threshold(Arc<dyn PhysicalExpr>);

impl ShardScan {
    /// A copy of the scan for a sort by these of its columns; `None` if nothing can be left out.
    fn with_shared_threshold(&self, columns: &[usize], asked: &Asked) -> Result<Option<ShardScan>> {
        let stored: Vec<usize> =
            columns.iter().map(|column| self.columns.projection[*column]).collect();
        let is_stored = stored.iter().all(|column| self.columns.is_stored(*column));
        let sorts_by = asked.filter.children().len();
        // With a limit, other rows would replace those left out.
        let is_limited = self.wanted.limit.is_some() || self.chunks.read.len() < 2;
        if !is_stored || is_limited || sorts_by != stored.len() {
            return Ok(None);
        }
        let own = |column: &usize| -> Arc<dyn PhysicalExpr> {
            Arc::new(Column::new(self.columns.all.field(*column).name(), *column))
        };
        let own = stored.iter().map(own).collect();
        let threshold = Threshold(Arc::clone(&asked.filter).with_new_children(own)?);
        let (first, descending) = (stored[0], asked.descending);
        let read = pruning::in_order(&self.chunks.read, &self.columns.all, first, descending);
        let chunks = Chunks { read: Arc::new(read), ..self.chunks.clone() };
        let mut more = ShardScan { chunks, ..self.clone() };
        more.wanted.threshold = Some(threshold);
        Ok(Some(more))
    }
}

/// The threshold as one partition last saw it.
pub(super) struct Watched {
    threshold: Threshold,
    /// The version of the threshold that the predicate was made from.
    generation: u64,
    /// `None` as long as everything passes.
    predicate: Option<Arc<PruningPredicate>>,
}

impl Watched {
    pub(super) fn of(threshold: &Threshold) -> Watched {
        Watched { threshold: threshold.clone(), generation: 0, predicate: None }
    }

    /// True if no row of a chunk passes.
    pub(super) fn is_beyond(&mut self, chunk: &ChunkView, columns: &SchemaRef) -> bool {
        let Threshold(filter) = &self.threshold;
        // A threshold that changes meanwhile is checked again at the next chunk.
        let generation = filter.snapshot_generation();
        if generation != self.generation {
            self.predicate = pruning::predicate(filter, columns);
            self.generation = generation;
        }
        let predicate = self.predicate.as_ref();
        predicate.is_some_and(|predicate| !pruning::may_pass(predicate, chunk, columns))
    }
}
