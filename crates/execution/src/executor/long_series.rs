//! Long series and long arrays that are unnested to rows.
//!
//! `SELECT generate_series(a, b)` is planned as a projection that makes arrays of the series and,
//! above it, DataFusion's `UnnestExec`, which makes rows of the arrays. A series may be larger than
//! memory, or practically endless. So this operator, in place of the projection, splits a row with
//! a long series into several rows, each with the next part of it. Unnesting these gives the same
//! rows. If a row has several arrays, the parts of all begin at the same offsets: PostgreSQL
//! returns the items of several set-returning functions side by side.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, new_null_array};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, SchemaRef};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{PhysicalExprRef, ScalarFunctionExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::unnest::UnnestExec;
use futures::{Stream, StreamExt, TryStreamExt, stream};
use thalweg_functions::{Series, series_counts};
use thalweg_values::errors::external;

use super::byte_sized;

/// The name of the function that makes arrays of series.
const SERIES: &str = "generate_series";

/// Series of one batch's rows are made together up to so many items.
const ITEMS_AT_ONCE: u64 = 64 << 10;

/// An unnesting whose long series come in parts; `None` if it has no series.
pub(super) fn in_parts(unnest: &UnnestExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let input = byte_sized::whole(unnest.input());
    let Some(projection) = input.downcast_ref::<ProjectionExec>() else { return Ok(None) };
    let lists = unnest.list_column_indices();
    // Arrays in arrays and structs are unnested differently.
    if lists.iter().any(|list| list.depth != 1) || !unnest.struct_column_indices().is_empty() {
        return Ok(None);
    }
    let lists: Vec<usize> = lists.iter().map(|list| list.index_in_input_schema).collect();
    let is_series = |place: &usize| series_of(&projection.expr()[*place]).is_some();
    if !lists.iter().any(is_series) {
        return Ok(None);
    }
    let parts = Arc::new(LongSeries { projection: Arc::clone(input), lists });
    Ok(Some(Arc::new(CooperativeExec::new(parts))))
}

/// The arguments of a series.
fn series_of(column: &ProjectionExpr) -> Option<&[PhysicalExprRef]> {
    let call = column.expr.downcast_ref::<ScalarFunctionExpr>()?;
    (call.fun().name() == SERIES).then(|| call.args())
}

struct LongSeries {
    projection: Arc<dyn ExecutionPlan>,
    /// The columns that are unnested.
    lists: Vec<usize>,
}

impl LongSeries {
    fn over(&self, projection: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(LongSeries { projection, lists: self.lists.clone() }))
    }
}

crate::shown_by_name!(LongSeries);

impl ExecutionPlan for LongSeries {
    crate::hands_on!(projection);

    fn name(&self) -> &'static str {
        "LongSeries"
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let Some(projection) = self.projection.downcast_ref::<ProjectionExec>() else {
            return self.projection.execute(partition, context);
        };
        let parts = Arc::new(Parts {
            columns: projection.expr().to_vec(),
            lists: self.lists.clone(),
            schema: projection.schema(),
            items_max: context.session_config().batch_size(),
        });
        let rows = projection.input().execute(partition, context)?;
        let rows = rows.and_then(move |batch| {
            let parts = Arc::clone(&parts);
            std::future::ready(runs(&parts, &batch).map(|runs| {
                let batches = runs.into_iter().map(move |run| parts.of(&batch, run));
                stream::iter(batches).try_flatten()
            }))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows.try_flatten())))
    }
}

/// Splits the rows of a batch into parts.
struct Parts {
    columns: Vec<ProjectionExpr>,
    lists: Vec<usize>,
    schema: SchemaRef,
    /// Number of items in a part.
    items_max: usize,
}

/// Consecutive rows of a batch that are treated alike.
struct Run {
    first: usize,
    rows: usize,
    /// True if it is one row whose series exceeds one part.
    is_long: bool,
}

/// The runs of a batch, by the lengths of its series.
fn runs(parts: &Parts, batch: &RecordBatch) -> Result<Vec<Run>> {
    let mut items = vec![0_u64; batch.num_rows()];
    for arguments in parts.lists.iter().filter_map(|place| series_of(&parts.columns[*place])) {
        let counts = series_counts(&evaluated(arguments, batch)?).map_err(external)?;
        items.iter_mut().zip(counts).for_each(|(all, own)| *all = all.saturating_add(own));
    }
    let mut runs: Vec<Run> = Vec::new();
    let mut together = 0;
    for (first, items) in items.into_iter().enumerate() {
        let is_long = items > ITEMS_AT_ONCE;
        together += items.min(ITEMS_AT_ONCE);
        match runs.last_mut() {
            Some(run) if !run.is_long && !is_long && together <= ITEMS_AT_ONCE => run.rows += 1,
            _ => {
                together = items.min(ITEMS_AT_ONCE);
                runs.push(Run { first, rows: 1, is_long });
            }
        }
    }
    Ok(runs)
}

fn evaluated(expressions: &[PhysicalExprRef], batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
    let rows = batch.num_rows();
    let array = |of: &PhysicalExprRef| of.evaluate(batch)?.into_array(rows);
    expressions.iter().map(array).collect()
}

impl Parts {
    /// The batches of a run.
    fn of(
        &self,
        batch: &RecordBatch,
        run: Run,
    ) -> Result<impl Stream<Item = Result<RecordBatch>> + Send + use<>> {
        let rows = batch.slice(run.first, run.rows);
        Ok(match run.is_long {
            false => stream::iter(vec![self.projected(&rows)]).left_stream(),
            true => stream::iter(self.long_row(&rows)?).right_stream(),
        })
    }

    fn projected(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        let expressions: Vec<PhysicalExprRef> =
            self.columns.iter().map(|column| Arc::clone(&column.expr)).collect();
        batch_of(&self.schema, evaluated(&expressions, rows)?)
    }

    /// A row whose series are not expanded to arrays yet.
    fn long_row(&self, row: &RecordBatch) -> Result<LongRow> {
        let mut columns = Vec::with_capacity(self.columns.len());
        let mut lists = Vec::with_capacity(self.lists.len());
        for (place, column) in self.columns.iter().enumerate() {
            let series = series_of(column).filter(|_| self.lists.contains(&place));
            if let Some(arguments) = series {
                let series = Series::of(&evaluated(arguments, row)?).map_err(external)?;
                lists.push((place, series.map(Items::Series)));
                columns.push(new_null_array(self.schema.field(place).data_type(), 1));
                continue;
            }
            let value = column.expr.evaluate(row)?.into_array(1)?;
            if self.lists.contains(&place) {
                let list = value.as_list_opt::<i32>().filter(|list| list.is_valid(0));
                lists.push((place, list.map(|list| Items::Array(list.value(0)))));
            }
            columns.push(value);
        }
        let (schema, items_max) = (Arc::clone(&self.schema), self.items_max);
        Ok(LongRow { columns, lists, schema, items_max, is_first: true })
    }
}

fn batch_of(schema: &SchemaRef, columns: Vec<ArrayRef>) -> Result<RecordBatch> {
    let rows = columns.first().map_or(0, |column| column.len());
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}

/// A row that is split into several.
struct LongRow {
    columns: Vec<ArrayRef>,
    /// The columns that are unnested, and their remaining items; `None` for NULL.
    lists: Vec<(usize, Option<Items>)>,
    schema: SchemaRef,
    items_max: usize,
    is_first: bool,
}

enum Items {
    Series(Series),
    Array(ArrayRef),
}

impl Items {
    fn next(&mut self, most: usize) -> Result<ArrayRef> {
        match self {
            Items::Series(series) => series.next(most).map_err(external),
            Items::Array(items) => {
                let count = most.min(items.len());
                let next = items.slice(0, count);
                *items = items.slice(count, items.len() - count);
                Ok(next)
            }
        }
    }
}

impl LongRow {
    fn part(&mut self) -> Result<Option<RecordBatch>> {
        let mut has_items = std::mem::replace(&mut self.is_first, false);
        let mut columns = self.columns.clone();
        for (place, items) in &mut self.lists {
            let Some(items) = items else { continue };
            let DataType::List(item) = self.schema.field(*place).data_type() else { continue };
            let items = items.next(self.items_max)?;
            has_items |= !items.is_empty();
            let offsets = OffsetBuffer::from_lengths([items.len()]);
            let list = ListArray::try_new(Arc::clone(item), offsets, items, None)?;
            columns[*place] = Arc::new(list);
        }
        has_items.then(|| batch_of(&self.schema, columns)).transpose()
    }
}

impl Iterator for LongRow {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        self.part().transpose()
    }
}
