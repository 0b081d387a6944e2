//! `min` and `max`: DataFusion's own, except for groups of floats.
//!
//! DataFusion starts each group at the greatest finite number, or the least, so that a group with
//! only infinities gets a wrong answer; and a value that follows a NaN replaces it.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray};
use arrow::datatypes::{DataType as ArrowType, Float32Type, Float64Type};
use datafusion::common::{Result as PlanResult, ScalarValue};
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF,
    SetMonotonicity, StatisticsArgs,
};

pub(super) fn functions() -> [Arc<AggregateUDF>; 2] {
    let extreme = |inner, greatest| Arc::new(AggregateUDF::from(Extreme { inner, greatest }));
    [extreme(min_udaf(), false), extreme(max_udaf(), true)]
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Extreme {
    inner: Arc<AggregateUDF>,
    greatest: bool,
}

impl AggregateUDFImpl for Extreme {
    thalweg_values::hands_on_to_inner!();

    fn coerce_types(&self, arg_types: &[ArrowType]) -> PlanResult<Vec<ArrowType>> {
        self.inner.coerce_types(arg_types)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> PlanResult<Box<dyn Accumulator>> {
        self.inner.accumulator(args)
    }

    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs,
    ) -> PlanResult<Box<dyn Accumulator>> {
        self.inner.create_sliding_accumulator(args)
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs,
    ) -> PlanResult<Box<dyn GroupsAccumulator>> {
        let greatest = self.greatest;
        match args.return_field.data_type() {
            ArrowType::Float32 => {
                Ok(Box::new(FloatExtremes::<Float32Type>::new(move |new, best| {
                    is_better(new.into(), best.into(), greatest)
                })))
            }
            ArrowType::Float64 => {
                Ok(Box::new(FloatExtremes::<Float64Type>::new(move |new, best| {
                    is_better(new, best, greatest)
                })))
            }
            _ => self.inner.create_groups_accumulator(args),
        }
    }

    fn is_descending(&self) -> Option<bool> {
        self.inner.inner().is_descending()
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.inner().order_sensitivity()
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        self.inner.inner().reverse_expr()
    }

    fn value_from_stats(&self, args: &StatisticsArgs) -> Option<ScalarValue> {
        self.inner.inner().value_from_stats(args)
    }

    fn set_monotonicity(&self, data_type: &ArrowType) -> SetMonotonicity {
        self.inner.inner().set_monotonicity(data_type)
    }
}

/// In PostgreSQL's order, in which NaN is greater than all others.
fn is_better(new: f64, best: f64, greatest: bool) -> bool {
    let place = |value: f64| if value.is_nan() { f64::NAN } else { value };
    let wanted = if greatest { Ordering::Greater } else { Ordering::Less };
    place(new).total_cmp(&place(best)) == wanted
}

/// The extremes of the floats of many groups.
struct FloatExtremes<T: ArrowPrimitiveType> {
    values: Vec<Option<T::Native>>,
    is_better: Box<dyn Fn(T::Native, T::Native) -> bool + Send + Sync>,
}

impl<T: ArrowPrimitiveType> FloatExtremes<T> {
    fn new(is_better: impl Fn(T::Native, T::Native) -> bool + Send + Sync + 'static) -> Self {
        FloatExtremes { values: Vec::new(), is_better: Box::new(is_better) }
    }
}

/// True if a row passes the filter of an aggregate.
fn passes(filter: Option<&BooleanArray>, row: usize) -> bool {
    filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row))
}

impl<T: ArrowPrimitiveType> GroupsAccumulator for FloatExtremes<T> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        filter: Option<&BooleanArray>,
        groups: usize,
    ) -> PlanResult<()> {
        self.values.resize(groups, None);
        for (row, value) in values[0].as_primitive::<T>().iter().enumerate() {
            let Some(value) = value.filter(|_| passes(filter, row)) else { continue };
            let best = &mut self.values[group_indices[row]];
            if best.is_none_or(|best| (self.is_better)(value, best)) {
                *best = Some(value);
            }
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> PlanResult<ArrayRef> {
        let values = emit_to.take_needed(&mut self.values);
        Ok(Arc::new(values.into_iter().collect::<PrimitiveArray<T>>()))
    }

    fn state(&mut self, emit_to: EmitTo) -> PlanResult<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit_to)?])
    }

    fn merge_batch(
        &mut self,
        states: &[ArrayRef],
        group_indices: &[usize],
        groups: usize,
    ) -> PlanResult<()> {
        self.update_batch(states, group_indices, None, groups)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> PlanResult<Vec<ArrayRef>> {
        let rows = values[0].as_primitive::<T>().iter().enumerate();
        let values = rows.map(|(row, value)| value.filter(|_| passes(filter, row)));
        Ok(vec![Arc::new(values.collect::<PrimitiveArray<T>>())])
    }

    fn size(&self) -> usize {
        self.values.capacity() * size_of::<Option<T::Native>>()
    }
}

#[cfg(test)]
mod tests {
    use super::is_better;

    #[test]
    fn nan_is_the_greatest_whatever_its_sign() {
        for nan in [f64::NAN, -f64::NAN] {
            assert!(is_better(nan, f64::INFINITY, true) && !is_better(nan, f64::INFINITY, false));
            assert!(is_better(f64::INFINITY, nan, false) && !is_better(1.0, nan, true));
            assert!(!is_better(nan, f64::NAN, true) && !is_better(nan, f64::NAN, false));
        }
        assert!(is_better(f64::NEG_INFINITY, f64::MIN, false));
    }
}
