//! One total at a time; also for window frames that slide.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowNativeTypeOp, AsArray, PrimitiveArray};
use arrow::datatypes::DataType as ArrowType;
use datafusion::common::utils::SingleRowListArrayBuilder;
use datafusion::common::{HashMap, Result as PlanResult, ScalarValue};
use datafusion::logical_expr::Accumulator;
use datafusion_functions_aggregate_common::utils::Hashable;

use super::summed::{Summed, out_of_range};

/// The sum of the values.
#[derive(Debug)]
pub struct Total<T: Summed> {
    /// `None` once it has overflowed even the wide type.
    total: Option<T::Wide>,
    rows: u64,
    data_type: ArrowType,
}

impl<T: Summed> Total<T> {
    /// A total without rows, to be returned as `data_type`.
    pub fn new(data_type: &ArrowType) -> Total<T> {
        Total { total: Some(T::Wide::ZERO), rows: 0, data_type: data_type.clone() }
    }

    /// The sum, and nothing where there were no values.
    ///
    /// # Errors
    /// If its type has no room for it.
    pub fn sum(&self) -> PlanResult<Option<T::Native>> {
        if self.rows == 0 {
            return Ok(None);
        }
        self.total.and_then(T::narrow).map(Some).ok_or_else(out_of_range::<T>)
    }

    /// Number of values that were added.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Adds totals of so many rows.
    pub fn merge_counted(&mut self, totals: &ArrayRef, rows: u64) {
        self.add(total_of::<T>(totals).0, rows);
    }

    fn add(&mut self, added: Option<T::Wide>, rows: u64) {
        let total = self.total.zip(added);
        self.total = total.and_then(|(total, added)| total.add_checked(added).ok());
        self.rows += rows;
    }

    fn subtract(&mut self, taken: Option<T::Wide>, rows: u64) {
        let total = self.total.zip(taken);
        self.total = total.and_then(|(total, taken)| total.sub_checked(taken).ok());
        self.rows -= rows;
    }
}

/// The total of an array, and how many values it has.
fn total_of<T: Summed>(values: &ArrayRef) -> (Option<T::Wide>, u64) {
    let values = values.as_primitive::<T>();
    let rows = (values.len() - values.null_count()) as u64;
    let total = match values.null_count() {
        0 => T::total(values.values()),
        _ => values
            .iter()
            .flatten()
            .try_fold(T::Wide::ZERO, |total, value| total.add_checked(T::wide(value)).ok()),
    };
    (total, rows)
}

impl<T: Summed> Accumulator for Total<T> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> PlanResult<()> {
        let (total, rows) = total_of::<T>(&values[0]);
        self.add(total, rows);
        Ok(())
    }

    fn evaluate(&mut self) -> PlanResult<ScalarValue> {
        T::scalar(self.sum()?, &self.data_type)
    }

    fn size(&self) -> usize {
        size_of::<Total<T>>()
    }

    fn state(&mut self) -> PlanResult<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> PlanResult<()> {
        self.update_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> PlanResult<()> {
        let (total, rows) = total_of::<T>(&values[0]);
        self.subtract(total, rows);
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }
}

/// The sum of the distinct values.
#[derive(Debug)]
pub struct DistinctTotal<T: Summed> {
    total: Total<T>,
    /// The number of times that each value is present: a value that leaves a frame may have come
    /// twice.
    counts: HashMap<Hashable<T::Native>, u64>,
}

impl<T: Summed> DistinctTotal<T> {
    /// A total without values, to be returned as `data_type`.
    pub fn new(data_type: &ArrowType) -> DistinctTotal<T> {
        DistinctTotal { total: Total::new(data_type), counts: HashMap::default() }
    }
}

impl<T: Summed> Accumulator for DistinctTotal<T> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> PlanResult<()> {
        for value in values[0].as_primitive::<T>().iter().flatten() {
            let count = self.counts.entry(Hashable(value)).or_default();
            *count += 1;
            if *count == 1 {
                self.total.add(Some(T::wide(value)), 1);
            }
        }
        Ok(())
    }

    fn evaluate(&mut self) -> PlanResult<ScalarValue> {
        self.total.evaluate()
    }

    fn size(&self) -> usize {
        let entry_bytes = size_of::<(Hashable<T::Native>, u64)>();
        size_of::<DistinctTotal<T>>() + self.counts.capacity() * entry_bytes
    }

    fn state(&mut self) -> PlanResult<Vec<ScalarValue>> {
        let values = self.counts.keys().map(|value| value.0);
        let values = PrimitiveArray::<T>::from_iter_values(values)
            .with_data_type(self.total.data_type.clone());
        Ok(vec![SingleRowListArrayBuilder::new(Arc::new(values)).build_list_scalar()])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> PlanResult<()> {
        for list in states[0].as_list::<i32>().iter().flatten() {
            self.update_batch(&[list])?;
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> PlanResult<()> {
        for value in values[0].as_primitive::<T>().iter().flatten() {
            let Some(count) = self.counts.get_mut(&Hashable(value)) else { continue };
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&Hashable(value));
                self.total.subtract(Some(T::wide(value)), 1);
            }
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }
}
