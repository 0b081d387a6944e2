//! Metrics of Thalweg's own operators for `EXPLAIN ANALYZE`: time, rows and bytes.

use arrow::array::RecordBatch;
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, Time,
};
use thalweg_formats::flight::weight;

/// Time, rows and bytes of one partition.
///
/// The bytes are those of the rows. DataFusion would count whole buffers, although a batch that is
/// a slice of a chunk uses only a part of them.
pub struct OperatorMetrics {
    baseline: BaselineMetrics,
    bytes: Count,
}

impl OperatorMetrics {
    /// Registers one partition's metrics in those of its operator.
    #[must_use]
    pub fn of_partition(metrics: &ExecutionPlanMetricsSet, partition: usize) -> OperatorMetrics {
        OperatorMetrics {
            baseline: BaselineMetrics::new(metrics, partition),
            bytes: MetricBuilder::new(metrics).output_bytes(partition),
        }
    }

    /// Computing time of the partition.
    #[must_use]
    pub fn time(&self) -> &Time {
        self.baseline.elapsed_compute()
    }

    /// Counts a batch that the operator emits.
    pub fn count(&self, batch: &RecordBatch) {
        self.baseline.record_output(batch.num_rows());
        self.bytes.add(batch.columns().iter().map(weight).sum());
    }
}
