//! The totals of many groups.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use accumulators::prim_op::PrimitiveGroupsAccumulator;
use arrow::array::{ArrayRef, ArrowNativeTypeOp, AsArray, BooleanArray};
use arrow::datatypes::DataType as ArrowType;
use datafusion::common::Result as PlanResult;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use datafusion_functions_aggregate_common::aggregate::groups_accumulator as accumulators;

use super::summed::{Summed, out_of_range};

/// Totals in as many bits as a value has. An overflow of any of them is remembered, and reported
/// when the totals are read.
struct Sums<T, Add>
where
    T: Summed,
    Add: Fn(&mut T::Native, T::Native) + Send + Sync + 'static,
{
    sums: PrimitiveGroupsAccumulator<T, Add>,
    overflowed: Arc<AtomicBool>,
}

pub(super) fn sums<T: Summed>(data_type: &ArrowType) -> Box<dyn GroupsAccumulator> {
    let overflowed = Arc::new(AtomicBool::new(false));
    let overflow_flag = overflowed.clone();
    let add = move |total: &mut T::Native, value: T::Native| match total.add_checked(value) {
        Ok(sum) => *total = sum,
        Err(_) => overflow_flag.store(true, Ordering::Relaxed),
    };
    Box::new(Sums::<T, _> { sums: PrimitiveGroupsAccumulator::new(data_type, add), overflowed })
}

impl<T, Add> GroupsAccumulator for Sums<T, Add>
where
    T: Summed,
    Add: Fn(&mut T::Native, T::Native) + Send + Sync + 'static,
{
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        filter: Option<&BooleanArray>,
        groups: usize,
    ) -> PlanResult<()> {
        self.sums.update_batch(values, group_indices, filter, groups)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> PlanResult<ArrayRef> {
        let sums = self.sums.evaluate(emit_to)?;
        let mut each = sums.as_primitive::<T>().values().iter();
        let fit = each.all(|sum| T::narrow(T::wide(*sum)).is_some());
        // The accumulator is used by one thread at a time: the flag is its own.
        match fit && !self.overflowed.load(Ordering::Relaxed) {
            true => Ok(sums),
            false => Err(out_of_range::<T>()),
        }
    }

    fn state(&mut self, emit_to: EmitTo) -> PlanResult<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit_to)?])
    }

    fn merge_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        groups: usize,
    ) -> PlanResult<()> {
        self.sums.merge_batch(values, group_indices, groups)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> PlanResult<Vec<ArrayRef>> {
        self.sums.convert_to_state(values, filter)
    }

    fn size(&self) -> usize {
        self.sums.size()
    }
}
