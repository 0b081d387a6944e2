//! `array_agg`: DataFusion's own, but that one in an order is not measured with each batch.
//!
//! DataFusion asks an aggregate how much it holds whenever it was given some rows. In an order it
//! holds each value for itself, and goes through all of them to answer: with millions of values,
//! that takes minutes.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{DataType as ArrowType, FieldRef};
use datafusion::common::{Result as PlanResult, ScalarValue};
use datafusion::functions_aggregate::array_agg::array_agg_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, GroupsAccumulator, ReversedUDAF,
    Signature,
};

pub(super) fn function() -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::from(Gathering { inner: array_agg_udaf() }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Gathering {
    inner: Arc<AggregateUDF>,
}

impl AggregateUDFImpl for Gathering {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arg_types: &[ArrowType]) -> PlanResult<ArrowType> {
        self.inner.return_type(arg_types)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> PlanResult<Vec<FieldRef>> {
        self.inner.state_fields(args)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> PlanResult<Box<dyn Accumulator>> {
        let is_measured = !args.order_bys.is_empty() && !args.is_distinct;
        let inner = self.inner.accumulator(args)?;
        if is_measured {
            return Ok(Box::new(Measured::new(inner)));
        }
        Ok(inner)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs,
    ) -> PlanResult<Box<dyn GroupsAccumulator>> {
        self.inner.create_groups_accumulator(args)
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.order_sensitivity()
    }

    fn with_beneficial_ordering(
        self: Arc<Self>,
        is_given: bool,
    ) -> PlanResult<Option<Arc<dyn AggregateUDFImpl>>> {
        let inner = Arc::clone(self.inner.inner()).with_beneficial_ordering(is_given)?;
        Ok(inner.map(|inner| {
            let inner = Arc::new(AggregateUDF::new_from_shared_impl(inner));
            Arc::new(Gathering { inner }) as Arc<dyn AggregateUDFImpl>
        }))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Reversed(function())
    }

    fn supports_null_handling_clause(&self) -> bool {
        self.inner.supports_null_handling_clause()
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}

/// An aggregate that is measured each time when it has twice as many rows; in between, its size is
/// that of as many rows of the size that they had then.
#[derive(Debug)]
struct Measured {
    inner: Box<dyn Accumulator>,
    rows: usize,
    /// How many rows there were when it was measured, and how much it held.
    measured: (usize, usize),
}

impl Measured {
    fn new(inner: Box<dyn Accumulator>) -> Measured {
        Measured { inner, rows: 0, measured: (0, 0) }
    }

    fn measure(&mut self) {
        self.measured = (self.rows, self.inner.size());
    }
}

impl Accumulator for Measured {
    fn update_batch(&mut self, values: &[ArrayRef]) -> PlanResult<()> {
        self.inner.update_batch(values)?;
        self.rows += values.first().map_or(0, |values| values.len());
        if self.rows >= 2 * self.measured.0 {
            self.measure();
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> PlanResult<()> {
        self.inner.merge_batch(states)?;
        self.measure();
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> PlanResult<()> {
        self.inner.retract_batch(values)?;
        self.rows = self.rows.saturating_sub(values.first().map_or(0, |values| values.len()));
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        self.inner.supports_retract_batch()
    }

    fn state(&mut self) -> PlanResult<Vec<ScalarValue>> {
        self.inner.state()
    }

    fn evaluate(&mut self) -> PlanResult<ScalarValue> {
        self.inner.evaluate()
    }

    fn size(&self) -> usize {
        let (rows, bytes) = self.measured;
        let held = match rows {
            0 => self.inner.size(),
            rows => bytes.saturating_mul(self.rows) / rows,
        };
        held + size_of_val(self)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use arrow::array::Int64Array;

    use super::*;

    /// Holds ten bytes for each row, and counts how often it is asked.
    #[derive(Debug)]
    struct Asked {
        rows: usize,
        times: Arc<AtomicUsize>,
    }

    impl Accumulator for Asked {
        fn update_batch(&mut self, values: &[ArrayRef]) -> PlanResult<()> {
            self.rows += values[0].len();
            Ok(())
        }

        fn merge_batch(&mut self, values: &[ArrayRef]) -> PlanResult<()> {
            self.update_batch(values)
        }

        fn state(&mut self) -> PlanResult<Vec<ScalarValue>> {
            Ok(Vec::new())
        }

        fn evaluate(&mut self) -> PlanResult<ScalarValue> {
            Ok(ScalarValue::Null)
        }

        fn size(&self) -> usize {
            self.times.fetch_add(1, Ordering::Relaxed);
            self.rows * 10
        }
    }

    #[test]
    fn sizes_are_told_of_many_rows_without_going_through_them() {
        let times = Arc::new(AtomicUsize::new(0));
        let asked = Asked { rows: 0, times: Arc::clone(&times) };
        let mut measured = Measured::new(Box::new(asked));
        let own = measured.size();
        let rows: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100));
        for batch in 1..=1_000 {
            measured.update_batch(&[Arc::clone(&rows)]).unwrap();
            assert_eq!(measured.size() - own, batch * 1_000);
        }
        assert!(times.load(Ordering::Relaxed) < 20);
        measured.merge_batch(&[rows]).unwrap();
        assert_eq!(measured.size() - own, 1_001_000);
    }
}
