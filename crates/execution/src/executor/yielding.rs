//! A rule for executable plans: operators that make many rows of few yield their thread meanwhile.
//! These are joins, long series ([`long_series`]), and operators above a window that returns all of
//! its rows at once. Projections that make large values make them piece by piece ([`byte_sized`]).
//!
//! DataFusion makes leaves yield, once per number of batches. But one batch may meet millions of
//! rows in a nested-loop or cross join, so that a canceled statement would go on for minutes while
//! others wait for its thread. The rule also keeps the first side of a nested-loop join from being
//! read a second time ([`BufferedSide`]).

use std::cell::Cell;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow::array::{ArrayRef, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec,
};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::unnest::UnnestExec;
use datafusion::physical_plan::windows::WindowAggExec;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use futures::{Stream, StreamExt};

use super::buffered_side::BufferedSide;
use super::window_memory::of_window;
use super::{byte_sized, byte_sized_inputs, long_series, window_arrays};
use crate::compact_texts::with_own_texts;
use crate::operator::RECOMPUTED;

/// Number of rows that a nested-loop join compares with all rows of its other side before it
/// yields.
const ROWS_AT_ONCE: usize = 256;

/// Must run after DataFusion's own `EnsureCooperative`, which skips everything below an operator
/// that yields.
#[derive(Debug)]
pub struct YieldingOperators {
    /// True if all rows are in this process. Plans in stages on workers do not split windows.
    pub alone: bool,
}

impl PhysicalOptimizerRule for YieldingOperators {
    fn name(&self) -> &'static str {
        "yielding_operators"
    }

    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        // Number of operators above the present one that hold on to batches.
        let holding = Cell::new(0_usize);
        let down = |plan: Arc<dyn ExecutionPlan>| {
            holding.set(holding.get() + usize::from(retains_batches(&plan)));
            Ok(Transformed::no(plan))
        };
        let changed = plan.transform_down_up(down, |plan| {
            holding.set(holding.get() - usize::from(retains_batches(&plan)));
            if self.alone
                && let Some(unnest) = plan.downcast_ref::<UnnestExec>()
            {
                return match long_series::in_parts(unnest)? {
                    Some(parts) => {
                        plan.replace_children(vec![parts], RECOMPUTED).map(Transformed::yes)
                    }
                    None => Ok(Transformed::no(plan)),
                };
            }
            if self.alone && plan.is::<ProjectionExec>() {
                return byte_sized::in_pieces(plan);
            }
            if self.alone && (plan.is::<AggregateExec>() || plan.is::<FilterExec>()) {
                return byte_sized_inputs::sized(plan);
            }
            let size = if holding.get() > 0 { Size::Own } else { Size::Usual };
            if self.alone
                && let Some((below, arrays)) = window_arrays::in_place_of(&plan)?
            {
                let below = match below.is::<WindowAggExec>() {
                    true => in_pieces(below, size)?,
                    false => below,
                };
                return arrays.over(below).map(Transformed::yes);
            }
            if self.alone && plan.is::<WindowAggExec>() {
                return in_pieces(plan, size).map(Transformed::yes);
            }
            let plan = if plan.is::<NestedLoopJoinExec>() {
                let [built, probing] = plan.children()[..] else {
                    return Ok(Transformed::no(plan));
                };
                let built = BufferedSide::once(built);
                let probing = SmallBatches { input: Arc::clone(probing), size: Size::Few };
                let children = vec![Arc::new(built) as _, Arc::new(probing) as _];
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

/// A window whose rows come in batches of the usual size.
fn in_pieces(window: Arc<dyn ExecutionPlan>, size: Size) -> Result<Arc<dyn ExecutionPlan>> {
    Ok(Arc::new(SmallBatches { input: of_window(window)?, size }))
}

/// True if an operator holds on to batches, and counts each with all of its buffers.
fn retains_batches(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<SortExec>()
        || plan.is::<SortPreservingMergeExec>()
        || plan.is::<RepartitionExec>()
        || plan.is::<HashJoinExec>()
        || plan.is::<SortMergeJoinExec>()
        || plan.is::<NestedLoopJoinExec>()
        || plan.is::<CrossJoinExec>()
}

/// Splits its input into small batches, and yields after each of them.
#[derive(Debug)]
pub(super) struct SmallBatches {
    input: Arc<dyn ExecutionPlan>,
    size: Size,
}

#[derive(Clone, Copy, Debug)]
enum Size {
    /// [`ROWS_AT_ONCE`].
    Few,
    /// The statement's batch size.
    Usual,
    /// The statement's batch size. Parts of a larger batch are copied into memory of their own.
    Own,
    /// The statement's batch size. All batches are copied into memory of their own.
    Copied,
}

/// Which batches are copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Copies {
    None,
    /// Batches that are parts of a larger one.
    Parts,
    All,
}

impl SmallBatches {
    /// Batches that hold only their own rows. A scan's batches are slices of a chunk, and memory
    /// accounting would count the whole chunk for each of them.
    pub(super) fn copied(input: &Arc<dyn ExecutionPlan>) -> SmallBatches {
        SmallBatches { input: Arc::clone(input), size: Size::Copied }
    }

    fn over(&self, input: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(SmallBatches { input, size: self.size }))
    }
}

impl DisplayAs for SmallBatches {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.size {
            Size::Few => write!(f, "SmallBatches: rows={ROWS_AT_ONCE}"),
            Size::Usual => f.write_str("SmallBatches"),
            Size::Own => f.write_str("SmallBatches: own"),
            Size::Copied => f.write_str("SmallBatches: copied"),
        }
    }
}

impl ExecutionPlan for SmallBatches {
    crate::hands_on!(input);

    fn name(&self) -> &'static str {
        "SmallBatches"
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let usual = context.session_config().batch_size();
        let (most, copies) = match self.size {
            Size::Few => (ROWS_AT_ONCE, Copies::None),
            Size::Usual => (usual, Copies::None),
            Size::Own => (usual, Copies::Parts),
            Size::Copied => (usual, Copies::All),
        };
        let rows = self.input.execute(partition, context)?;
        Ok(Box::pin(Few::new(rows, most, copies)))
    }
}

struct Few {
    rows: SendableRecordBatchStream,
    /// Greatest number of rows in a batch.
    most: usize,
    copies: Copies,
    /// Remainder of the input's last batch.
    rest: Option<RecordBatch>,
    /// Number of rows that batch had.
    rows_before: usize,
    /// True if the task has yielded since the last small batch.
    has_yielded: bool,
}

impl Few {
    fn new(rows: SendableRecordBatchStream, most: usize, copies: Copies) -> Few {
        Few { rows, most, copies, rest: None, rows_before: 0, has_yielded: true }
    }

    /// True if a part of `rows` rows is to be copied. A part that is nearly the whole batch keeps
    /// the batch's memory.
    fn copies(&self, rows: usize) -> bool {
        match self.copies {
            Copies::None => false,
            Copies::Parts => rows < self.rows_before - self.rows_before / 8,
            Copies::All => true,
        }
    }
}

impl Stream for Few {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if !std::mem::replace(&mut self.has_yielded, true) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let batch = match self.rest.take() {
            Some(rest) => rest,
            None => match std::task::ready!(self.rows.poll_next_unpin(context)) {
                Some(Ok(batch)) => {
                    self.rows_before = batch.num_rows();
                    batch
                }
                ended => return Poll::Ready(ended),
            },
        };
        self.has_yielded = false;
        let (rows, most) = (batch.num_rows(), self.most);
        if rows > most {
            self.rest = Some(batch.slice(most, rows - most));
        }
        let few = batch.slice(0, rows.min(most));
        Poll::Ready(Some(match self.copies(few.num_rows()) {
            true => copied(&few),
            false => Ok(few),
        }))
    }
}

/// Copies the rows into memory of exactly the size that they need.
fn copied(batch: &RecordBatch) -> Result<RecordBatch> {
    let places = UInt32Array::from_iter_values(0..batch.num_rows() as u32);
    let column = |column: &ArrayRef| -> Result<ArrayRef, ArrowError> {
        // `take` copies only the views of texts, so their bytes are copied too.
        Ok(with_own_texts(&take(column, &places, None)?))
    };
    let columns = batch.columns().iter().map(column).collect::<Result<_, ArrowError>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(batch.schema(), columns, &options)?)
}

impl RecordBatchStream for Few {
    fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, StringViewArray};
    use arrow::compute::concat_batches;
    use datafusion::error::DataFusionError;
    use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
    use futures::{TryStreamExt, stream};

    use super::*;

    fn numbers_and_texts() -> RecordBatch {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..10_000));
        let text =
            |number: i64| (number % 7 > 0).then(|| format!("a text, and a long one: {number}"));
        let texts: StringViewArray = (0..10_000).map(text).collect();
        let texts: ArrayRef = Arc::new(texts);
        let all = RecordBatch::try_from_iter_with_nullable([
            ("number", numbers, false),
            ("text", texts, true),
        ]);
        all.unwrap()
    }

    /// Splits some batches into pieces of a thousand rows.
    async fn pieces(batches: Vec<RecordBatch>, copies: Copies) -> Vec<RecordBatch> {
        let schema = batches[0].schema();
        let rows = stream::iter(batches.into_iter().map(Ok::<_, DataFusionError>));
        let rows = Box::pin(RecordBatchStreamAdapter::new(schema, rows));
        Few::new(rows, 1_000, copies).try_collect().await.unwrap()
    }

    #[tokio::test]
    async fn parts_of_a_large_batch_count_as_what_they_are() {
        let all = numbers_and_texts();
        let shared = pieces(vec![all.clone()], Copies::None).await;
        let own = pieces(vec![all.clone()], Copies::Parts).await;
        let bytes = |found: &[RecordBatch]| -> usize {
            found.iter().map(RecordBatch::get_array_memory_size).sum()
        };
        for found in [&shared, &own] {
            assert_eq!(found.len(), 10);
            assert_eq!(concat_batches(&all.schema(), found).unwrap(), all);
        }
        assert!(bytes(&shared) > 9 * all.get_array_memory_size());
        assert!(bytes(&own) < 2 * all.get_array_memory_size());
    }

    #[tokio::test]
    async fn whole_batches_are_handed_on_and_nearly_whole_ones_cut_without_a_copy() {
        let all = numbers_and_texts();
        let numbers = |batch: &RecordBatch| batch.column(0).to_data().buffers()[0].as_ptr();
        let (whole, nearly) = (all.slice(0, 1_000), all.slice(0, 1_100));
        let own = pieces(vec![whole, nearly], Copies::Parts).await;
        assert_eq!(own.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [1_000, 1_000, 100]);
        assert_eq!(numbers(&own[0]), numbers(&all));
        assert_eq!(numbers(&own[1]), numbers(&all));
        assert!(own[2].get_array_memory_size() < 100 * 80);
    }

    #[test]
    fn copies_hold_on_to_their_rows_alone() {
        let few = numbers_and_texts().slice(5_000, 100);
        let own = copied(&few).unwrap();
        assert_eq!(own, few);
        // A number, a view and a text of thirty letters each.
        assert!(own.get_array_memory_size() < 100 * 80, "{}", own.get_array_memory_size());
        assert!(few.get_array_memory_size() > 100_000);
    }
}
