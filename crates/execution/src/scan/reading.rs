//! Reads a scan's rows chunk by chunk, and each chunk batch by batch.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::compute::{FilterBuilder, FilterPredicate};
use arrow::error::ArrowError;
use datafusion::error::Result;
use datafusion::physical_plan::PlanProperties;
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder};
use thalweg_scan::RowFilter;
use thalweg_store::ChunkView;
use thalweg_values::statement_control::StatementControl;

use super::threshold::Watched;
use super::{BATCH_ROWS, ShardScan};
use crate::operator_metrics::OperatorMetrics;

/// If more than one in this many rows of a chunk pass the filter, all of them are passed on.
const SIEVED_ROWS: usize = 3;
/// After such a chunk, this many chunks are not filtered ahead.
const UNSIEVED_CHUNKS: usize = 3;

/// Metrics of one partition.
pub(super) struct Figures {
    operator_metrics: OperatorMetrics,
    chunks_read: Count,
    /// Chunks that were skipped: no row passed the filter, or they are beyond the threshold.
    chunks_pruned: Count,
    /// Rows whose columns were all read. These are only the passing rows of a chunk if they are
    /// few.
    rows_read: Count,
}

impl Figures {
    pub(super) fn of(metrics: &ExecutionPlanMetricsSet, partition: usize) -> Figures {
        let counter = |name| MetricBuilder::new(metrics).counter(name, partition);
        Figures {
            operator_metrics: OperatorMetrics::of_partition(metrics, partition),
            chunks_read: counter("chunks_read"),
            chunks_pruned: counter("chunks_pruned"),
            rows_read: counter("rows_read"),
        }
    }
}

/// The rows of one partition, read on demand.
pub(super) struct Reading {
    scan: ShardScan,
    stop: Option<Arc<StatementControl>>,
    figures: Figures,
    cursor: Cursor,
    /// Number of chunks that are not filtered before they are read.
    not_row_filtered: usize,
    threshold: Option<Watched>,
    /// Number of rows that are still wanted.
    left: usize,
}

impl Reading {
    pub(super) fn of(
        scan: ShardScan,
        stop: Option<Arc<StatementControl>>,
        figures: Figures,
    ) -> Reading {
        let left = scan.wanted.limit.unwrap_or(usize::MAX);
        let threshold = scan.wanted.threshold.as_ref().map(Watched::of);
        let cursor = Cursor::default();
        Reading { scan, stop, figures, cursor, not_row_filtered: 0, threshold, left }
    }
}

impl Iterator for Reading {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        let time = self.figures.operator_metrics.time().clone();
        let timer = time.timer();
        if self.stop.as_ref().is_some_and(|stop| stop.is_wanted()) {
            return None;
        }
        while self.left > 0 {
            if self.cursor.chunk.is_none() {
                let index = self.scan.current.next.fetch_add(1, Ordering::Relaxed);
                let chunk = self.scan.chunks.read.get(index)?.clone();
                let columns = &self.scan.columns.all;
                let is_beyond = |threshold: &mut Watched| threshold.is_beyond(&chunk, columns);
                if self.threshold.as_mut().is_some_and(is_beyond) {
                    self.figures.chunks_pruned.add(1);
                    continue;
                }
                match self.scan.row_filtered(chunk, &mut self.not_row_filtered) {
                    Some(chunk) => {
                        self.cursor = self.scan.open(chunk);
                        self.figures.chunks_read.add(1);
                        self.figures.rows_read.add(self.cursor.length);
                    }
                    None => self.figures.chunks_pruned.add(1),
                }
                continue;
            }
            if self.cursor.row == self.cursor.length {
                self.cursor.chunk = None;
                continue;
            }
            let batch = self.cursor.next_batch(&self.scan.planned.properties, self.left);
            let rows = batch.as_ref().map_or(0, RecordBatch::num_rows);
            if batch.is_ok() && rows == 0 {
                continue;
            }
            self.left -= rows.min(self.left);
            timer.done();
            return Some(batch.inspect(|batch| self.figures.operator_metrics.count(batch)));
        }
        None
    }
}

impl ShardScan {
    /// Waits for keys, and adds a filter by them to the scan.
    pub(super) async fn with_keys(mut self) -> ShardScan {
        let mut row_filter = self.chunks.row_filter.take();
        for (column, keys) in self.wanted.among.all().await {
            let place = self.columns.projection[column];
            row_filter = Some(Arc::new(RowFilter::among(row_filter.as_deref(), place, &keys)));
        }
        self.chunks.row_filter = row_filter;
        self
    }

    /// A chunk restricted to the rows that pass the filter, if they are few; `None` if no row
    /// passes. If they are many, the check is skipped for some chunks.
    fn row_filtered(&self, chunk: ChunkView, not_row_filtered: &mut usize) -> Option<ChunkView> {
        let Some(row_filter) = &self.chunks.row_filter else { return Some(chunk) };
        if !self.wanted.among.is_nothing() && !row_filter.may_concern(&chunk) {
            return None;
        }
        if chunk.chosen().is_some() {
            return Some(chunk);
        }
        if let Some(fewer) = not_row_filtered.checked_sub(1) {
            *not_row_filtered = fewer;
            return Some(chunk);
        }
        match row_filter.passing(&chunk, chunk.live_rows() / SIEVED_ROWS) {
            Ok(Some(passing)) => (!passing.is_empty()).then(|| chunk.narrowed(passing)),
            Ok(None) => {
                *not_row_filtered = UNSIEVED_CHUNKS;
                Some(chunk)
            }
            // The filter above reports the error, if it evaluates the row.
            Err(_) => Some(chunk),
        }
    }

    fn open(&self, chunk: ChunkView) -> Cursor {
        let projection = &self.columns.projection;
        let stored = projection.iter().copied().filter(|place| self.columns.is_stored(*place));
        let stored: Vec<usize> = stored.collect();
        let chosen = chunk.chosen();
        let read = match chosen {
            Some(places) => chunk.take(&stored, places),
            None => chunk.columns(&stored),
        };
        let ids = || match chosen {
            Some(places) => chunk.row_ids(places.values().iter().map(|place| (*place).into())),
            None => chunk.row_ids(0..chunk.rows()),
        };
        let mut read = read.into_iter();
        let columns = projection
            .iter()
            .map(|place| {
                if self.columns.is_stored(*place) {
                    read.next().expect("as many columns came as were asked for")
                } else {
                    Arc::new(ids()) as ArrayRef
                }
            })
            .collect();
        let (length, live) = match chosen {
            Some(places) => (places.len(), None),
            None => (chunk.rows(), chunk.live_mask().map(|mask| BooleanArray::new(mask, None))),
        };
        Cursor { chunk: Some(chunk), columns, live, length, row: 0 }
    }
}

/// The position of a partition in its current chunk.
#[derive(Default)]
struct Cursor {
    chunk: Option<ChunkView>,
    columns: Vec<ArrayRef>,
    live: Option<BooleanArray>,
    /// Number of rows of the columns.
    length: usize,
    row: usize,
}

impl Cursor {
    fn next_batch(&mut self, properties: &PlanProperties, most: usize) -> Result<RecordBatch> {
        let length = BATCH_ROWS.min(self.length - self.row);
        let start = self.row;
        self.row += length;
        let live = self.live.as_ref().map(|live| live.slice(start, length));
        // Applied before the batch is made: dead rows may have NULLs in a column that no longer
        // allows them.
        let filter = live.as_ref().map(|live| FilterBuilder::new(live).optimize().build());
        let column = |column: &ArrayRef| match &filter {
            None => Ok(column.slice(start, length)),
            Some(filter) => filter.filter(&column.slice(start, length)),
        };
        let columns = self.columns.iter().map(column).collect::<Result<_, ArrowError>>()?;
        let count = filter.as_ref().map_or(length, FilterPredicate::count);
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        let schema = Arc::clone(properties.eq_properties.schema());
        let live = RecordBatch::try_new_with_options(schema, columns, &options)?;
        Ok(if live.num_rows() > most { live.slice(0, most) } else { live })
    }
}
