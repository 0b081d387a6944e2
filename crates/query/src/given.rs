//! What `EXPLAIN ANALYZE` tells of operators of our own: how long they took, and what they gave.

use arrow::array::RecordBatch;
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, Time,
};
use thalweg_formats::flight::weight;

/// Time, rows and bytes of one partition.
///
/// The bytes are those of the rows. DataFusion counts whole buffers, of which batches that are
/// slices of one chunk have but a part each.
pub struct Given {
    baseline: BaselineMetrics,
    bytes: Count,
}

impl Given {
    /// The figures of a partition among those of its operator.
    #[must_use]
    pub fn by(metrics: &ExecutionPlanMetricsSet, partition: usize) -> Given {
        Given {
            baseline: BaselineMetrics::new(metrics, partition),
            bytes: MetricBuilder::new(metrics).output_bytes(partition),
        }
    }

    #[must_use]
    pub fn time(&self) -> &Time {
        self.baseline.elapsed_compute()
    }

    /// A batch is handed on.
    pub fn count(&self, batch: &RecordBatch) {
        self.baseline.record_output(batch.num_rows());
        self.bytes.add(batch.columns().iter().map(weight).sum());
    }
}
