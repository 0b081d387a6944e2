//! Collects the keys of rows that pass through.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::record_batch::RecordBatch;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{StreamExt as _, stream};
use thalweg_values::errors::external;

use super::{Keys, Plan};

/// Columns, and the sets that take their keys.
type Wanted = Arc<[(usize, Arc<Keys>)]>;

pub(super) struct CollectKeys {
    input: Plan,
    wanted: Wanted,
    /// Number of partitions that have begun, over all runs.
    begun: AtomicUsize,
}

impl CollectKeys {
    pub(super) fn new(input: &Plan, wanted: Vec<(usize, Arc<Keys>)>) -> CollectKeys {
        let (input, begun) = (Arc::clone(input), AtomicUsize::new(0));
        CollectKeys { input, wanted: wanted.into(), begun }
    }

    /// The input without the collection. Scans that wait for the keys learn that there are none.
    pub(super) fn given_up(&self) -> Plan {
        self.wanted.iter().for_each(|(_, keys)| keys.give_up());
        Arc::clone(&self.input)
    }

    fn over(&self, input: Plan) -> Result<Plan> {
        let (wanted, begun) = (Arc::clone(&self.wanted), AtomicUsize::new(0));
        Ok(Arc::new(CollectKeys { input, wanted, begun }))
    }
}

impl fmt::Debug for CollectKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_as(DisplayFormatType::Default, f)
    }
}

impl DisplayAs for CollectKeys {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let schema = self.input.schema();
        let names = self.wanted.iter().map(|(column, _)| schema.field(*column).name().as_str());
        write!(f, "CollectKeys: [{}]", names.collect::<Vec<_>>().join(", "))
    }
}

impl ExecutionPlan for CollectKeys {
    crate::over_one_input!(input);

    fn name(&self) -> &'static str {
        "CollectKeys"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let partitions = self.properties().partitioning.partition_count().max(1);
        if self.begun.fetch_add(1, Ordering::Relaxed).is_multiple_of(partitions) {
            self.wanted.iter().for_each(|(_, keys)| keys.begin(partitions));
        }
        let passing = Passing { wanted: Arc::clone(&self.wanted), has_ended: false };
        let rows = self.input.execute(partition, context)?;
        let rows = stream::try_unfold((rows, passing), |(mut rows, mut passing)| async move {
            let Some(batch) = rows.next().await.transpose()? else {
                passing.end();
                return Ok(None);
            };
            passing.collect(&batch)?;
            Ok(Some((batch, (rows, passing))))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}

/// The rows of one partition.
struct Passing {
    wanted: Wanted,
    has_ended: bool,
}

impl Passing {
    fn collect(&self, batch: &RecordBatch) -> Result<()> {
        let collect = |(column, keys): &(usize, Arc<Keys>)| keys.collect(batch.column(*column));
        self.wanted.iter().try_for_each(collect).map_err(external)
    }

    fn end(&mut self) {
        self.has_ended = true;
        self.wanted.iter().for_each(|(_, keys)| keys.end());
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        if !self.has_ended {
            self.wanted.iter().for_each(|(_, keys)| keys.give_up());
        }
    }
}
