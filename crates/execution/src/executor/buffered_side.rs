//! Guards the first side of a nested-loop join against a second read.
//!
//! DataFusion's nested-loop join holds its first side in memory. If memory runs out, it runs the
//! operators below once more and goes through their rows in parts. Two things break this: a scan
//! that ran once has already handed out some chunks, and would leave them out; and if the second
//! side has several partitions, unmatched rows of the first side come once for each of them. So a
//! side is read once, unless `memory_constrained` has taken care of both.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};

use crate::memory;

/// Passes its input through.
#[derive(Debug)]
pub(super) struct BufferedSide {
    input: Arc<dyn ExecutionPlan>,
    /// True if it may be read again from the beginning.
    replayable: bool,
    has_begun: AtomicBool,
}

impl BufferedSide {
    pub(super) fn once(input: &Arc<dyn ExecutionPlan>) -> BufferedSide {
        BufferedSide {
            input: Arc::clone(input),
            replayable: false,
            has_begun: AtomicBool::new(false),
        }
    }

    pub(super) fn replayable(input: Arc<dyn ExecutionPlan>) -> BufferedSide {
        BufferedSide { input, replayable: true, has_begun: AtomicBool::new(false) }
    }

    pub(super) fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    fn over(&self, input: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(BufferedSide {
            input,
            replayable: self.replayable,
            has_begun: AtomicBool::new(false),
        }))
    }
}

impl DisplayAs for BufferedSide {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.replayable { "FirstSide: again" } else { "FirstSide: once" })
    }
}

impl ExecutionPlan for BufferedSide {
    crate::hands_on!(input);

    fn name(&self) -> &'static str {
        "FirstSide"
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        if !self.has_begun.swap(true, Ordering::Relaxed) {
            return self.input.execute(partition, context);
        }
        match self.replayable {
            true => reset_plan_states(Arc::clone(&self.input))?.execute(partition, context),
            false => Err(memory::refusal("NestedLoopJoinExec", context.memory_pool())),
        }
    }
}
