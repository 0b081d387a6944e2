//! `sum` of integers that fails where the total leaves `bigint`.
//!
//! PostgreSQL's `sum(bigint)` is a `numeric` and never leaves its range. Here it stays `bigint`,
//! which is a third of the work and what programs bind to; a total that does not fit is an error,
//! never a wrong number. All other types go to DataFusion's own `sum`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use accumulators::prim_op::PrimitiveGroupsAccumulator;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::datatypes::{DataType as ArrowType, FieldRef, Int64Type};
use datafusion::common::{Result as PlanResult, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF,
    SetMonotonicity, Signature, StatisticsArgs,
};
use datafusion_functions_aggregate_common::aggregate::groups_accumulator as accumulators;
use thalweg_types::{Error, SqlState};

/// DataFusion's `sum`, with accumulators of its own for `bigint`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct CheckedSum {
    inner: Arc<AggregateUDF>,
}

impl Default for CheckedSum {
    fn default() -> CheckedSum {
        CheckedSum { inner: sum_udaf() }
    }
}

fn is_plain_bigint(args: &AccumulatorArgs) -> bool {
    args.return_field.data_type() == &ArrowType::Int64 && !args.is_distinct
}

impl AggregateUDFImpl for CheckedSum {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arg_types: &[ArrowType]) -> PlanResult<ArrowType> {
        self.inner.return_type(arg_types)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> PlanResult<Box<dyn Accumulator>> {
        match is_plain_bigint(&args) {
            true => Ok(Box::new(BigintSum::default())),
            false => self.inner.accumulator(args),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs) -> PlanResult<Vec<FieldRef>> {
        self.inner.state_fields(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs,
    ) -> PlanResult<Box<dyn GroupsAccumulator>> {
        match is_plain_bigint(&args) {
            true => Ok(bigint_sums()),
            false => self.inner.create_groups_accumulator(args),
        }
    }

    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs,
    ) -> PlanResult<Box<dyn Accumulator>> {
        match is_plain_bigint(&args) {
            true => Ok(Box::new(BigintSum::default())),
            false => self.inner.create_sliding_accumulator(args),
        }
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn set_monotonicity(&self, data_type: &ArrowType) -> SetMonotonicity {
        self.inner.inner().set_monotonicity(data_type)
    }

    fn value_from_stats(&self, statistics: &StatisticsArgs) -> Option<ScalarValue> {
        self.inner.value_from_stats(statistics)
    }
}

fn out_of_range() -> DataFusionError {
    let error = Error::new(SqlState::NUMERIC_OUT_OF_RANGE, "bigint out of range")
        .with_hint("Sum the values as numeric: sum(column::numeric).");
    DataFusionError::External(Box::new(error))
}

/// One total, exact in 128 bits; also for window frames that slide.
#[derive(Debug, Default)]
struct BigintSum {
    total: i128,
    rows: u64,
}

impl BigintSum {
    fn value(&self) -> PlanResult<ScalarValue> {
        if self.rows == 0 {
            return Ok(ScalarValue::Int64(None));
        }
        let total = i64::try_from(self.total).map_err(|_| out_of_range())?;
        Ok(ScalarValue::Int64(Some(total)))
    }
}

/// The exact total of a batch, and how many values it has.
fn total_of(values: &ArrayRef) -> (i128, u64) {
    let values = values.as_primitive::<Int64Type>();
    let rows = (values.len() - values.null_count()) as u64;
    if values.null_count() > 0 {
        return (values.iter().flatten().map(i128::from).sum(), rows);
    }
    // Upper and lower halves are summed apart: neither sum can overflow in fewer than 2^31 rows,
    // and both loops are vectorised.
    let total = values
        .values()
        .chunks(1 << 20)
        .map(|chunk| {
            let upper: i64 = chunk.iter().map(|value| value >> 32).sum();
            let lower: i64 = chunk.iter().map(|value| value & 0xFFFF_FFFF).sum();
            (i128::from(upper) << 32) + i128::from(lower)
        })
        .sum();
    (total, rows)
}

impl Accumulator for BigintSum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> PlanResult<()> {
        let (total, rows) = total_of(&values[0]);
        self.total += total;
        self.rows += rows;
        Ok(())
    }

    fn evaluate(&mut self) -> PlanResult<ScalarValue> {
        self.value()
    }

    fn size(&self) -> usize {
        size_of::<BigintSum>()
    }

    fn state(&mut self) -> PlanResult<Vec<ScalarValue>> {
        Ok(vec![self.value()?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> PlanResult<()> {
        self.update_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> PlanResult<()> {
        let (total, rows) = total_of(&values[0]);
        self.total -= total;
        self.rows -= rows;
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }
}

/// Totals of many groups, 64 bits each. That one of them wrapped is remembered, and told when the
/// totals are asked for.
struct BigintSums<Add: Fn(&mut i64, i64) + Send + Sync + 'static> {
    sums: PrimitiveGroupsAccumulator<Int64Type, Add>,
    wrapped: Arc<AtomicBool>,
}

fn bigint_sums() -> Box<dyn GroupsAccumulator> {
    let wrapped = Arc::new(AtomicBool::new(false));
    let told = wrapped.clone();
    let add = move |total: &mut i64, value: i64| {
        let (sum, overflowed) = total.overflowing_add(value);
        *total = sum;
        if overflowed {
            told.store(true, Ordering::Relaxed);
        }
    };
    Box::new(BigintSums { sums: PrimitiveGroupsAccumulator::new(&ArrowType::Int64, add), wrapped })
}

impl<Add: Fn(&mut i64, i64) + Send + Sync + 'static> BigintSums<Add> {
    fn check(&self) -> PlanResult<()> {
        // The accumulator is used by one thread at a time: the flag is its own.
        if self.wrapped.load(Ordering::Relaxed) { Err(out_of_range()) } else { Ok(()) }
    }
}

impl<Add: Fn(&mut i64, i64) + Send + Sync + 'static> GroupsAccumulator for BigintSums<Add> {
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
        self.check()?;
        self.sums.evaluate(emit_to)
    }

    fn state(&mut self, emit_to: EmitTo) -> PlanResult<Vec<ArrayRef>> {
        self.check()?;
        self.sums.state(emit_to)
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
