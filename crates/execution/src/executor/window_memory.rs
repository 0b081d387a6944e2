//! Accounts for rows that the operator above holds without accounting for them.
//!
//! DataFusion's `WindowAggExec` collects all rows of its input and concatenates them into one
//! batch, without reserving memory. So its input reserves for it: each batch twice, until the
//! window's rows end. A window cannot spill. If memory is short, the error names the window.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::unnest::UnnestExec;
use datafusion::physical_plan::windows::WindowAggExec;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use futures::TryStreamExt;
use thalweg_scan::{own_bytes, text_bytes};

use super::long_series;
use crate::operator::RECOMPUTED;
use crate::staged::Staged;

type Plan = Arc<dyn ExecutionPlan>;

/// Once as batches, once concatenated.
const TIMES_HELD: usize = 2;

/// Accounts for the memory of a plan's windows, and splits its long series, where they run in this
/// process.
///
/// # Errors
/// If an operator does not take its new children.
pub fn with_window_memory(plan: Plan) -> Result<Plan> {
    let counted = plan.transform_down(|node| {
        // Parts that run on workers count there.
        if node.is::<Staged>() {
            return Ok(Transformed::new(node, false, TreeNodeRecursion::Jump));
        }
        if let Some(unnest) = node.downcast_ref::<UnnestExec>()
            && let Some(parts) = long_series::in_parts(unnest)?
        {
            return node.replace_children(vec![parts], RECOMPUTED).map(Transformed::yes);
        }
        match node.is::<WindowAggExec>() {
            false => Ok(Transformed::no(node)),
            true => of_window(node).map(Transformed::yes),
        }
    });
    counted.map(|counted| counted.data)
}

/// A window whose input reserves memory for it.
pub(super) fn of_window(window: Plan) -> Result<Plan> {
    let children = window.children().into_iter().map(|input| {
        let (input, by) = (Arc::clone(input), window.name().to_owned());
        Arc::new(WindowInput { input, by }) as Plan
    });
    let children = children.collect();
    window.replace_children(children, RECOMPUTED)
}

/// An input, and the name of the operator that holds its rows.
struct WindowInput {
    input: Plan,
    by: String,
}

impl WindowInput {
    fn over(&self, input: Plan) -> Result<Plan> {
        Ok(Arc::new(WindowInput { input, by: self.by.clone() }))
    }
}

impl fmt::Debug for WindowInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_as(DisplayFormatType::Default, f)
    }
}

impl DisplayAs for WindowInput {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Held: by {}", self.by)
    }
}

impl ExecutionPlan for WindowInput {
    crate::hands_on!(input);

    fn name(&self) -> &'static str {
        "Held"
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let held = MemoryConsumer::new(&self.by).register(context.memory_pool());
        let rows = self.input.execute(partition, context)?;
        let rows = rows.and_then(move |batch| {
            let bytes = TIMES_HELD * (own_bytes(&batch) + text_bytes([&batch]));
            std::future::ready(held.try_grow(bytes).map(|()| batch))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}
