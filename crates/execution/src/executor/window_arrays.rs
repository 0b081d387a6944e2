//! `array_agg` over windows, a few arrays at a time.
//!
//! DataFusion's windows compute the results of a partition, or of a batch of it, together. Arrays
//! of frames that grow with each row are as large as the square of the partition then, and so are
//! the arrays that all rows of a partition have in common. This operator gathers the rows of a
//! partition, has DataFusion find the frames ([`WindowFrames`]), and makes the arrays of as many
//! rows at a time as fit into a part of the statement's limit. The other window functions stay in
//! an operator below.
//!
//! `string_agg`, `json_agg` and their like are functions of such arrays, which a projection above
//! computes batch by batch.

use std::fmt;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use arrow::array::{Array, ArrayRef, ListArray, MutableArrayData, make_array, new_null_array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{concat, concat_batches, partition};
use arrow::datatypes::{DataType, SchemaRef};
use arrow::record_batch::RecordBatch;
use datafusion::common::{ScalarValue, internal_err};
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{WindowFrame, WindowFrameBound, WindowFrameUnits};
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::window::{
    PlainAggregateWindowExpr, SlidingAggregateWindowExpr, WindowExpr,
};
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, EmptyRecordBatchStream, ExecutionPlan, InputOrderMode,
    PlanProperties,
};
use futures::{Stream, StreamExt};
use thalweg_functions::WindowFrames;
use thalweg_scan::{own_bytes, text_bytes};
use thalweg_values::bounded_output::allow_together;
use thalweg_values::errors::external;

use super::byte_sized::batch_bytes;

type Plan = Arc<dyn ExecutionPlan>;
type Window = Arc<dyn WindowExpr>;

/// Frames of at most so many rows stay with DataFusion, which does not gather whole partitions.
const SHORT_FRAME_ROWS: u64 = 4096;

/// Number of copies of a partition's rows in memory: as batches or concatenated, and as items.
const TIMES_HELD: usize = 2;

/// A window without its `array_agg`s, and this operator above it; `None` if it has none.
pub(super) fn in_place_of(plan: &Plan) -> Result<Option<(Plan, WindowArrays)>> {
    let (windows, input) = if let Some(window) = plan.downcast_ref::<WindowAggExec>() {
        (window.window_expr(), window.input())
    } else if let Some(window) = plan.downcast_ref::<BoundedWindowAggExec>()
        && window.input_order_mode == InputOrderMode::Sorted
    {
        (window.window_expr(), window.input())
    } else {
        return Ok(None);
    };
    let (arrays, others): (Vec<Window>, Vec<Window>) =
        windows.iter().cloned().partition(makes_arrays);
    if arrays.is_empty() {
        return Ok(None);
    }
    let before = input.schema().fields().len();
    let (mut array, mut other) = (0, before);
    let of_window = windows.iter().map(|window| match makes_arrays(window) {
        true => {
            array += 1;
            Source::Array(array - 1)
        }
        false => {
            other += 1;
            Source::Input(other - 1)
        }
    });
    let columns = (0..before).map(Source::Input).chain(of_window).collect();
    let below = match others.is_empty() {
        true => Arc::clone(input),
        false => without(plan, others)?,
    };
    let properties = Arc::clone(plan.properties());
    let above = WindowArrays { input: Arc::clone(&below), windows: arrays, columns, properties };
    Ok(Some((below, above)))
}

/// The operator with some of its window functions alone.
fn without(plan: &Plan, windows: Vec<Window>) -> Result<Plan> {
    if let Some(window) = plan.downcast_ref::<WindowAggExec>() {
        let is_dealt = !window.partition_keys().is_empty();
        let input = Arc::clone(window.input());
        return Ok(Arc::new(WindowAggExec::try_new(windows, input, is_dealt)?));
    }
    let Some(window) = plan.downcast_ref::<BoundedWindowAggExec>() else {
        return internal_err!("no window: {}", plan.name());
    };
    let is_dealt = !window.partition_keys().is_empty();
    let (input, mode) = (Arc::clone(window.input()), window.input_order_mode.clone());
    Ok(Arc::new(BoundedWindowAggExec::try_new(windows, input, mode, is_dealt)?))
}

/// True for an `array_agg` whose frames may be long.
fn makes_arrays(window: &Window) -> bool {
    let is_plain = |aggregate: &AggregateFunctionExpr| {
        aggregate.fun().name() == "array_agg"
            && !aggregate.is_distinct()
            && aggregate.order_bys().is_empty()
    };
    let any = window.as_any();
    let is_array = if let Some(plain) = any.downcast_ref::<PlainAggregateWindowExpr>() {
        is_plain(plain.get_aggregate_expr())
    } else if let Some(sliding) = any.downcast_ref::<SlidingAggregateWindowExpr>() {
        is_plain(sliding.get_aggregate_expr())
    } else {
        false
    };
    is_array && !is_short(window.get_window_frame())
}

/// True for a frame of a few rows.
fn is_short(frame: &WindowFrame) -> bool {
    let rows = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::CurrentRow => Some(0),
        WindowFrameBound::Preceding(ScalarValue::UInt64(rows))
        | WindowFrameBound::Following(ScalarValue::UInt64(rows)) => *rows,
        _ => None,
    };
    let is_near = |bound| rows(bound).is_some_and(|rows| rows <= SHORT_FRAME_ROWS / 2);
    frame.units == WindowFrameUnits::Rows
        && is_near(&frame.start_bound)
        && is_near(&frame.end_bound)
}

/// A column of the result.
#[derive(Clone, Copy, Debug)]
enum Source {
    Input(usize),
    Array(usize),
}

#[derive(Debug)]
pub(super) struct WindowArrays {
    input: Plan,
    windows: Vec<Window>,
    columns: Vec<Source>,
    properties: Arc<PlanProperties>,
}

impl WindowArrays {
    /// A copy of the operator over another input with the same columns.
    pub(super) fn over(&self, input: Plan) -> Result<Plan> {
        Ok(Arc::new(WindowArrays {
            input,
            windows: self.windows.clone(),
            columns: self.columns.clone(),
            properties: Arc::clone(&self.properties),
        }))
    }
}

impl DisplayAs for WindowArrays {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |window: &Window| format!("{}: {}", window.name(), window.get_window_frame());
        let windows: Vec<String> = self.windows.iter().map(shown).collect();
        write!(f, "WindowArrays: wdw=[{}]", windows.join(", "))
    }
}

impl ExecutionPlan for WindowArrays {
    crate::over_one_input!(input);

    fn name(&self) -> &'static str {
        "WindowArrays"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        Ok(Box::pin(Arrays {
            partition_by: self.windows[0].partition_by().to_vec(),
            windows: self.windows.clone(),
            columns: self.columns.clone(),
            schema: self.schema(),
            bytes_max: batch_bytes(&context),
            rows_max: context.session_config().batch_size(),
            reservation: MemoryConsumer::new("WindowAggExec").register(context.memory_pool()),
            input: self.input.execute(partition, context)?,
            held: Vec::new(),
            held_bytes: 0,
            last_keys: Vec::new(),
            partitions: None,
            has_ended: false,
            has_yielded: true,
        }))
    }
}

struct Arrays {
    input: SendableRecordBatchStream,
    partition_by: Vec<PhysicalExprRef>,
    windows: Vec<Window>,
    columns: Vec<Source>,
    schema: SchemaRef,
    /// Bytes of the arrays of a batch, if it has more than one row.
    bytes_max: usize,
    rows_max: usize,
    /// The rows of the last partition so far.
    held: Vec<RecordBatch>,
    held_bytes: usize,
    /// The keys of that partition, as columns of one row.
    last_keys: Vec<ArrayRef>,
    reservation: MemoryReservation,
    /// Whole partitions that are on their way out.
    partitions: Option<Partitions>,
    has_ended: bool,
    /// False if the thread was not free for others since the last batch of the same partitions.
    has_yielded: bool,
}

/// Rows of whole partitions, and the frames of the rows.
struct Partitions {
    rows: RecordBatch,
    arrays: Vec<(Option<ArrayRef>, WindowFrames)>,
    /// The first row that is not out yet.
    next: usize,
}

impl Arrays {
    fn keys(&self, rows: &RecordBatch) -> Result<Vec<ArrayRef>> {
        let keys = self.partition_by.iter();
        keys.map(|key| key.evaluate(rows)?.into_array(rows.num_rows())).collect()
    }

    /// Adds rows of the input. Partitions that they complete are ready afterwards.
    fn add(&mut self, rows: RecordBatch) -> Result<()> {
        let keys = self.keys(&rows)?;
        let end = match keys.is_empty() {
            true => None,
            false => {
                let ranges = partition(&keys)?.ranges();
                let last = ranges.last().map_or(0, |range| range.start);
                (last > 0 || !self.continues(&keys)?).then_some(last)
            }
        };
        let Some(end) = end else { return self.hold(rows) };
        let rest = rows.slice(end, rows.num_rows() - end);
        self.last_keys = keys.iter().map(|key| key.slice(end, 1)).collect();
        self.hold(rows.slice(0, end))?;
        self.complete()?;
        self.hold(rest)
    }

    /// True if the first row belongs to the partition of the rows before.
    fn continues(&self, keys: &[ArrayRef]) -> Result<bool> {
        if self.last_keys.is_empty() {
            return Ok(false);
        }
        let both = self.last_keys.iter().zip(keys);
        let both = both.map(|(last, key)| concat(&[last.as_ref(), &key.slice(0, 1)]));
        Ok(partition(&both.collect::<Result<Vec<_>, _>>()?)?.len() == 1)
    }

    fn hold(&mut self, rows: RecordBatch) -> Result<()> {
        if rows.num_rows() > 0 {
            let bytes = bytes_held(&rows);
            self.reservation.try_grow(bytes)?;
            self.held_bytes += bytes;
            self.held.push(rows);
        }
        Ok(())
    }

    /// Finds the frames of the rows that are held, which are whole partitions.
    fn complete(&mut self) -> Result<()> {
        let Some(first) = self.held.first() else { return Ok(()) };
        let rows = concat_batches(&first.schema(), &self.held)?;
        self.held.clear();
        let keys = self.keys(&rows)?;
        let ranges = match keys.is_empty() {
            true => std::iter::once(0..rows.num_rows()).collect(),
            false => partition(&keys)?.ranges(),
        };
        let frames = |window: &Window| -> Result<(Option<ArrayRef>, WindowFrames)> {
            let mut frames = WindowFrames::default();
            for Range { start, end } in ranges.iter().cloned() {
                frames.add(|| window.evaluate(&rows.slice(start, end - start)))?;
            }
            Ok((frames.items()?, frames))
        };
        let arrays = self.windows.iter().map(frames).collect::<Result<_>>()?;
        self.partitions = Some(Partitions { rows, arrays, next: 0 });
        Ok(())
    }

    /// The next rows with their arrays; `None` behind the last.
    fn next_rows(&mut self) -> Result<Option<RecordBatch>> {
        let Some(partitions) = &mut self.partitions else { return Ok(None) };
        let (next, all) = (partitions.next, partitions.rows.num_rows());
        if next == all {
            self.partitions = None;
            let held = std::mem::take(&mut self.held_bytes);
            // Rows behind these partitions are held already.
            self.held_bytes = self.held.iter().map(bytes_held).sum();
            self.reservation.shrink(held.saturating_sub(self.held_bytes));
            return Ok(None);
        }
        let (mut bytes, mut count) = (0, 0);
        while next + count < all && count < self.rows_max {
            let own = partitions.bytes(next + count);
            if count > 0 && bytes + own > self.bytes_max {
                break;
            }
            bytes += own;
            count += 1;
        }
        allow_together(bytes).map_err(external)?;
        partitions.next += count;
        let columns =
            self.columns.iter().zip(self.schema.fields()).map(|(source, field)| match *source {
                Source::Input(place) => Ok(partitions.rows.column(place).slice(next, count)),
                Source::Array(place) => {
                    partitions.array(place, next..next + count, field.data_type())
                }
            });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        Ok(Some(RecordBatch::try_new(Arc::clone(&self.schema), columns)?))
    }
}

impl Partitions {
    /// Bytes of a row's arrays.
    fn bytes(&self, row: usize) -> usize {
        let own = self.arrays.iter().map(|(items, frames)| {
            let count = frames.rows()[row].as_ref().map_or(0, ExactSizeIterator::len);
            count.saturating_mul(items.as_ref().map_or(0, item_bytes))
        });
        own.sum()
    }

    /// The arrays of some rows.
    fn array(&self, place: usize, rows: Range<usize>, data_type: &DataType) -> Result<ArrayRef> {
        let (items, frames) = &self.arrays[place];
        let (Some(items), DataType::List(item)) = (items, data_type) else {
            return Ok(new_null_array(data_type, rows.len()));
        };
        let frames = &frames.rows()[rows];
        let length =
            |frame: &Option<Range<usize>>| frame.as_ref().map_or(0, ExactSizeIterator::len);
        let data = items.to_data();
        let mut copied = MutableArrayData::new(vec![&data], false, frames.iter().map(length).sum());
        for frame in frames.iter().flatten() {
            copied.try_extend(0, frame.start, frame.end)?;
        }
        let offsets = OffsetBuffer::from_lengths(frames.iter().map(length));
        let nulls: NullBuffer = frames.iter().map(Option::is_some).collect();
        let items = make_array(copied.freeze());
        Ok(Arc::new(ListArray::try_new(Arc::clone(item), offsets, items, Some(nulls))?))
    }
}

/// Bytes of the rows of a partition, with all copies.
fn bytes_held(rows: &RecordBatch) -> usize {
    TIMES_HELD * (own_bytes(rows) + text_bytes([rows]))
}

/// Bytes that an item takes in an array: texts share the memory of the items.
fn item_bytes(items: &ArrayRef) -> usize {
    match items.data_type() {
        DataType::Utf8View | DataType::BinaryView => 16,
        _ => items.get_buffer_memory_size().div_ceil(items.len().max(1)),
    }
}

impl Stream for Arrays {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if !std::mem::replace(&mut self.has_yielded, true) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        loop {
            if let Some(rows) = self.next_rows().transpose() {
                self.has_yielded = false;
                return Poll::Ready(Some(rows));
            }
            if self.has_ended {
                return Poll::Ready(None);
            }
            let added = match ready!(self.input.poll_next_unpin(context)) {
                Some(Ok(rows)) if rows.num_rows() == 0 => Ok(()),
                Some(rows) => rows.and_then(|rows| self.add(rows)),
                None => {
                    self.has_ended = true;
                    let schema = self.input.schema();
                    self.input = Box::pin(EmptyRecordBatchStream::new(schema));
                    self.complete()
                }
            };
            if let Err(error) = added {
                self.has_ended = true;
                return Poll::Ready(Some(Err(error)));
            }
        }
    }
}

impl RecordBatchStream for Arrays {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
