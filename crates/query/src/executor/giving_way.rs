//! A rule for executable plans: joins that make many rows of few give way while they do.
//!
//! DataFusion makes leaves give way, by the batches that they hand out. One such batch may meet
//! millions of rows in a nested-loop or cross join, so that a statement which was cancelled would
//! go on for minutes, and others would wait for its thread.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::joins::{CrossJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{Stream, StreamExt};

/// How many rows a nested-loop join compares with all those of its other side before it gives way.
const ROWS_AT_ONCE: usize = 256;

const RECOMPUTED: ReplaceChildrenOptions =
    ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);

/// To be applied after DataFusion's own `EnsureCooperative`, which leaves alone what lies below an
/// operator that gives way.
#[derive(Debug)]
pub(crate) struct JoinsGiveWay;

impl PhysicalOptimizerRule for JoinsGiveWay {
    fn name(&self) -> &'static str {
        "joins_give_way"
    }

    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let changed = plan.transform_up(|plan| {
            let plan = if plan.is::<NestedLoopJoinExec>() {
                let [built, probing] = plan.children()[..] else {
                    return Ok(Transformed::no(plan));
                };
                let probing = SmallBatches { input: Arc::clone(probing) };
                let children = vec![Arc::clone(built), Arc::new(probing) as _];
                plan.replace_children(children, RECOMPUTED)?
            } else if plan.is::<CrossJoinExec>() {
                plan
            } else {
                return Ok(Transformed::no(plan));
            };
            Ok(Transformed::yes(Arc::new(CooperativeExec::new(plan)) as _))
        });
        changed.map(|changed| changed.data)
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The rows of its input, few at a time; it gives way after each few.
#[derive(Debug)]
struct SmallBatches {
    input: Arc<dyn ExecutionPlan>,
}

impl DisplayAs for SmallBatches {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SmallBatches: rows={ROWS_AT_ONCE}")
    }
}

impl ExecutionPlan for SmallBatches {
    fn name(&self) -> &'static str {
        "SmallBatches"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(SmallBatches { input: children.remove(0) }))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, RECOMPUTED)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let rows = self.input.execute(partition, context)?;
        Ok(Box::pin(Few { rows, rest: None, gave_way: true }))
    }
}

struct Few {
    rows: SendableRecordBatchStream,
    /// What is left of the last batch of the input.
    rest: Option<RecordBatch>,
    /// Whether the thread was free for others since the last few rows.
    gave_way: bool,
}

impl Stream for Few {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if !std::mem::replace(&mut self.gave_way, true) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let batch = match self.rest.take() {
            Some(rest) => rest,
            None => match std::task::ready!(self.rows.poll_next_unpin(context)) {
                Some(Ok(batch)) => batch,
                ended => return Poll::Ready(ended),
            },
        };
        self.gave_way = false;
        let rows = batch.num_rows();
        if rows > ROWS_AT_ONCE {
            self.rest = Some(batch.slice(ROWS_AT_ONCE, rows - ROWS_AT_ONCE));
        }
        Poll::Ready(Some(Ok(batch.slice(0, rows.min(ROWS_AT_ONCE)))))
    }
}

impl RecordBatchStream for Few {
    fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }
}
