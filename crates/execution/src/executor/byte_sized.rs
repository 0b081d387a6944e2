//! Projections whose results may be much larger than their inputs, piece by piece.
//!
//! The size of a batch is a number of rows, however wide the values are that functions make for
//! them. Under a small memory limit, one batch of wide texts may exceed the limit. After its first
//! rows were sent, a statement cannot restart with smaller batches. Such a projection therefore
//! measures the memory that its batches take, and projects only as many rows at a time as fit into
//! a part of the limit. If memory is refused all the same, it tries fewer rows.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, SchemaRef};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{PhysicalExprRef, ScalarFunctionExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use futures::{Stream, StreamExt};
use thalweg_env::thread_net_bytes;

use super::is_shortage;

/// Divisor of the statement's limit that gives the size of a batch: several batches are on their
/// way between operators at a time.
const PARTS_OF_LIMIT: usize = 16;
const BATCH_BYTES_MIN: usize = 64 << 10;
const BATCH_BYTES_MAX: usize = 16 << 20;

/// Under a small limit, a piece has so few rows that it keeps its size with values of so many
/// bytes. Wide rows may follow narrow ones, and a piece that is refused has taken most of the limit
/// by then.
const VALUE_BYTES: usize = 8 << 10;

/// A piece that exceeds its size by this factor is dropped, and projected again as smaller pieces.
const TOO_LARGE: usize = 4;

/// Divisor of the number of rows with which a piece is tried again after memory was refused.
const FEWER_ROWS: usize = 8;

/// The results of a projection piece by piece, if one of its functions makes values of any length.
/// Other operators stay as they are.
pub(super) fn in_pieces(
    plan: Arc<dyn ExecutionPlan>,
) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let mut makes_any = false;
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        for column in projection.expr() {
            makes_any |= makes_values(&column.expr)?;
        }
    }
    Ok(match makes_any {
        true => Transformed::yes(Arc::new(ByteSized { projection: plan }) as _),
        false => Transformed::no(plan),
    })
}

/// Bytes that a batch should have at most, by the statement's limit.
pub(super) fn batch_bytes(context: &TaskContext) -> usize {
    let bytes = match context.memory_pool().memory_limit() {
        MemoryLimit::Finite(limit) => limit / PARTS_OF_LIMIT,
        MemoryLimit::Infinite | MemoryLimit::Unknown => BATCH_BYTES_MAX,
    };
    bytes.clamp(BATCH_BYTES_MIN, BATCH_BYTES_MAX)
}

/// Number of rows that a batch with values of any length should have at most; `None` if the
/// statement's limit is not small.
pub(super) fn rows_max(context: &TaskContext) -> Option<usize> {
    let bytes = batch_bytes(context);
    (bytes < BATCH_BYTES_MAX).then_some(bytes / VALUE_BYTES)
}

/// A projection piece by piece.
pub(super) fn pieces_of(projection: ProjectionExec) -> Arc<dyn ExecutionPlan> {
    Arc::new(ByteSized { projection: Arc::new(projection) })
}

/// True for the operator of this module, which passes on what the projection below it makes.
pub(crate) fn is_byte_sized(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<ByteSized>()
}

/// The projection inside this operator; other operators themselves.
pub(super) fn whole(plan: &Arc<dyn ExecutionPlan>) -> &Arc<dyn ExecutionPlan> {
    plan.downcast_ref::<ByteSized>().map_or(plan, |pieces| &pieces.projection)
}

/// True if an expression calls a function that returns texts, bytes or arrays.
pub(super) fn makes_values(expression: &PhysicalExprRef) -> Result<bool> {
    let mut found = false;
    expression.apply(|part| {
        let call = part.downcast_ref::<ScalarFunctionExpr>();
        found |= call.is_some_and(|call| has_any_length(call.return_type()));
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

pub(super) fn has_any_length(data_type: &DataType) -> bool {
    use DataType::{Binary, BinaryView, LargeBinary, LargeUtf8, Utf8, Utf8View};
    data_type.is_nested()
        || matches!(data_type, Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView)
}

struct ByteSized {
    projection: Arc<dyn ExecutionPlan>,
}

impl ByteSized {
    fn over(&self, projection: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(ByteSized { projection }))
    }
}

crate::shown_by_name!(ByteSized);

impl ExecutionPlan for ByteSized {
    crate::hands_on!(projection);

    fn name(&self) -> &'static str {
        "ByteSized"
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let Some(projection) = self.projection.downcast_ref::<ProjectionExec>() else {
            return self.projection.execute(partition, context);
        };
        let bytes_max = batch_bytes(&context);
        let rows_cap = rows_max(&context).unwrap_or(usize::MAX);
        Ok(Box::pin(Pieces {
            columns: projection.expr().to_vec(),
            schema: projection.schema(),
            bytes_max,
            rows_cap,
            rows_max: rows_cap,
            input: projection.input().execute(partition, context)?,
            rest: None,
            has_yielded: true,
        }))
    }
}

struct Pieces {
    columns: Vec<ProjectionExpr>,
    schema: SchemaRef,
    /// Bytes of memory that a piece should take.
    bytes_max: usize,
    /// The most rows of any piece.
    rows_cap: usize,
    /// Number of rows that fit into them, by the pieces so far.
    rows_max: usize,
    input: SendableRecordBatchStream,
    /// The rows of the input's last batch that are not projected yet.
    rest: Option<RecordBatch>,
    /// False if the thread was not free for others since the last piece of the same batch.
    has_yielded: bool,
}

impl Pieces {
    /// The next piece of some rows, and the rows behind it.
    fn piece(&mut self, rows: &RecordBatch) -> Result<(RecordBatch, Option<RecordBatch>)> {
        loop {
            let count = rows.num_rows().min(self.rows_max);
            let before = thread_net_bytes();
            let projected = match self.projected(&rows.slice(0, count)) {
                Err(error) if count > 1 && is_shortage(&error) => {
                    self.rows_max = count.div_ceil(FEWER_ROWS);
                    continue;
                }
                projected => projected?,
            };
            let bytes = usize::try_from(thread_net_bytes() - before).unwrap_or(0);
            if bytes > self.bytes_max {
                self.rows_max = (count * self.bytes_max / bytes).max(1);
                if bytes / TOO_LARGE > self.bytes_max && count > 1 {
                    continue;
                }
            } else if bytes < self.bytes_max / 4 && count == self.rows_max {
                self.rows_max = self.rows_max.saturating_mul(2).min(self.rows_cap);
            }
            let left = rows.num_rows() - count;
            return Ok((projected, (left > 0).then(|| rows.slice(count, left))));
        }
    }

    fn projected(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        let column = |column: &ProjectionExpr| -> Result<ArrayRef> {
            column.expr.evaluate(rows)?.into_array(rows.num_rows())
        };
        let columns = self.columns.iter().map(column).collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}

impl Stream for Pieces {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if !std::mem::replace(&mut self.has_yielded, true) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let rows = match self.rest.take() {
            Some(rest) => rest,
            None => match ready!(self.input.poll_next_unpin(context)) {
                Some(Ok(rows)) => rows,
                ended => return Poll::Ready(ended),
            },
        };
        Poll::Ready(Some(self.piece(&rows).map(|(piece, rest)| {
            self.has_yielded = rest.is_none();
            self.rest = rest;
            piece
        })))
    }
}

impl RecordBatchStream for Pieces {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, AsArray, Int64Array};
    use arrow::datatypes::{Field, Int64Type, Schema};
    use datafusion::config::ConfigOptions;
    use datafusion::logical_expr::{ColumnarValue, Volatility, create_udf};
    use datafusion::physical_expr::expressions::Column;
    use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
    use futures::{TryStreamExt, stream};
    use thalweg_types::{Error, SqlState};
    use thalweg_values::errors::external;

    use super::*;

    /// The pieces of two batches, by a function that has memory for so many rows.
    async fn pieces(rows_allowed: usize) -> Result<Vec<RecordBatch>> {
        let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
        let batch = |from: i64| -> Result<RecordBatch> {
            let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(from..from + 1_000));
            Ok(RecordBatch::try_new(Arc::clone(&schema), vec![numbers])?)
        };
        let same = move |args: &[ColumnarValue]| match &args[0] {
            ColumnarValue::Array(rows) if rows.len() > rows_allowed => {
                Err(external(Error::new(SqlState::OUT_OF_MEMORY, "too many rows")))
            }
            same => Ok(same.clone()),
        };
        let int = DataType::Int64;
        let same =
            create_udf("same", vec![int.clone()], int, Volatility::Immutable, Arc::new(same));
        let column: PhysicalExprRef = Arc::new(Column::new("n", 0));
        let options = Arc::new(ConfigOptions::default());
        let call = ScalarFunctionExpr::try_new(Arc::new(same), vec![column], &schema, options)?;
        let input = stream::iter([batch(0), batch(1_000)]);
        let pieces = Pieces {
            columns: vec![ProjectionExpr::new(Arc::new(call), "n")],
            schema: Arc::clone(&schema),
            bytes_max: BATCH_BYTES_MIN,
            rows_cap: usize::MAX,
            rows_max: usize::MAX,
            input: Box::pin(RecordBatchStreamAdapter::new(schema, input)),
            rest: None,
            has_yielded: true,
        };
        pieces.try_collect().await
    }

    #[tokio::test]
    async fn refused_batches_are_projected_in_pieces() {
        for rows_allowed in [1, 7, 100, 999, 1_000] {
            let pieces = pieces(rows_allowed).await.unwrap();
            assert!(pieces.iter().all(|piece| piece.num_rows() <= rows_allowed));
            let numbers = pieces
                .iter()
                .flat_map(|piece| piece.column(0).as_primitive::<Int64Type>().values().to_vec());
            assert!(numbers.eq(0..2_000), "{rows_allowed}");
        }
        assert_eq!(pieces(1_000).await.unwrap().len(), 2);
        assert!(pieces(0).await.is_err());
    }

    #[test]
    fn values_of_any_length_are_told_by_their_types() {
        assert!(has_any_length(&DataType::Utf8View));
        let list = DataType::List(Arc::new(Field::new("item", DataType::Int64, true)));
        assert!(has_any_length(&list));
        assert!(!has_any_length(&DataType::Int64) && !has_any_length(&DataType::Boolean));
    }
}
