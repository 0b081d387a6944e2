//! The distinct values of a group in order, in little more memory than they need.
//!
//! DataFusion's own has a hash table, a row and a row converter for each group: kilobytes, where
//! most groups have a few values. Here a group holds its values as one array. Once their number
//! has doubled, they are sorted and duplicates are dropped.

use arrow::array::{Array, ArrayRef, AsArray, UInt32Array};
use arrow::compute::{SortOptions, filter, is_not_null, partition, sort_to_indices, take};
use arrow::datatypes::DataType as ArrowType;
use datafusion::common::utils::SingleRowListArrayBuilder;
use datafusion::common::{Result as PlanResult, ScalarValue, internal_err};
use datafusion::logical_expr::Accumulator;
use datafusion::logical_expr::function::AccumulatorArgs;
use thalweg_values::bounded_output::allow_together;
use thalweg_values::errors::external;
use thalweg_values::statement_control::check_cancelled;

use super::super::group_values::GroupValues;

/// Fewer values are not examined for duplicates before the result is asked for.
const VALUES_MIN: usize = 1 << 10;

/// Twice the bytes that sorting takes for each value beside the values: its key, its position, and
/// its view among all values, the sorted and the distinct ones. Partitions may sort at the same
/// time.
const SORTING_BYTES: usize = 224;

#[derive(Debug)]
pub(super) struct DistinctValues {
    item: ArrowType,
    leaves_nulls_out: bool,
    values: GroupValues,
    count: usize,
    /// The number of values after duplicates were dropped last.
    distinct: usize,
}

impl DistinctValues {
    /// True for types whose values are equal where they compare as equal.
    pub(super) fn takes(args: &AccumulatorArgs) -> bool {
        let item = args.expr_fields[0].data_type();
        let is_plain =
            !item.is_nested() && !matches!(item, ArrowType::Interval(_) | ArrowType::Null);
        is_plain && !matches!(item, ArrowType::Dictionary(..) | ArrowType::RunEndEncoded(..))
    }

    pub(super) fn new(args: &AccumulatorArgs) -> DistinctValues {
        let item = &args.expr_fields[0];
        DistinctValues {
            item: item.data_type().clone(),
            leaves_nulls_out: args.ignore_nulls && item.is_nullable(),
            values: GroupValues::default(),
            count: 0,
            distinct: 0,
        }
    }

    fn add(&mut self, values: &ArrayRef) -> PlanResult<()> {
        match self.leaves_nulls_out && values.null_count() > 0 {
            true => self.push(&filter(values, &is_not_null(values)?)?),
            false => self.push(values),
        }
    }

    fn push(&mut self, values: &ArrayRef) -> PlanResult<()> {
        self.values.push(values)?;
        self.count += values.len();
        if self.count >= VALUES_MIN && self.count >= 2 * self.distinct {
            self.drop_duplicates()?;
        }
        Ok(())
    }

    /// Sorts the values in ascending order, NULL last, and drops duplicates.
    fn drop_duplicates(&mut self) -> PlanResult<()> {
        // Many groups are evaluated one after the other.
        check_cancelled().map_err(external)?;
        if self.distinct == self.count {
            return Ok(());
        }
        let sorting = self.count.saturating_mul(SORTING_BYTES);
        allow_together(sorting).map_err(external)?;
        let Some(values) = self.values.take()? else { return Ok(()) };
        // Texts stay where they are, and each step below only makes views of them.
        let options = SortOptions { descending: false, nulls_first: false };
        let sorted = take(&values, &sort_to_indices(&values, Some(options), None)?, None)?;
        drop(values);
        let runs = partition(std::slice::from_ref(&sorted))?.ranges();
        let first: UInt32Array = runs.iter().map(|run| run.start as u32).collect();
        let distinct = take(&sorted, &first, None)?;
        drop(sorted);
        self.count = distinct.len();
        self.distinct = distinct.len();
        Ok(self.values.push_own(distinct)?)
    }
}

impl Accumulator for DistinctValues {
    fn update_batch(&mut self, values: &[ArrayRef]) -> PlanResult<()> {
        self.add(&values[0])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> PlanResult<()> {
        let Some(lists) = states.first().and_then(|lists| lists.as_list_opt::<i32>()) else {
            return internal_err!("the state of array_agg is a list");
        };
        lists.iter().flatten().try_for_each(|values| self.push(&values))
    }

    fn state(&mut self) -> PlanResult<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn evaluate(&mut self) -> PlanResult<ScalarValue> {
        self.drop_duplicates()?;
        Ok(match self.values.all()? {
            Some(values) => SingleRowListArrayBuilder::new(values).build_list_scalar(),
            None => ScalarValue::new_null_list(self.item.clone(), true, 1),
        })
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.values.size()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::StringViewArray;

    use super::*;

    #[test]
    fn values_are_distinct_and_in_order_however_they_come() {
        let mut group = DistinctValues {
            item: ArrowType::Utf8View,
            leaves_nulls_out: false,
            values: GroupValues::default(),
            count: 0,
            distinct: 0,
        };
        let text = |at: usize| {
            (!at.is_multiple_of(500)).then(|| format!("a text that is no view {:03}", at % 500))
        };
        for from in (0..20_000).step_by(70) {
            let values: ArrayRef =
                Arc::new((from..from + 70).map(text).collect::<StringViewArray>());
            group.update_batch(&[values]).unwrap();
            assert!(group.count < VALUES_MIN + 2 * 500);
        }
        let expected: ArrayRef = Arc::new((1..501).map(text).collect::<StringViewArray>());
        let ScalarValue::List(list) = group.evaluate().unwrap() else { panic!("a list") };
        assert_eq!(&list.value(0), &expected);
        let state = group.state().unwrap().remove(0).to_array().unwrap();
        group.merge_batch(&[state]).unwrap();
        let ScalarValue::List(list) = group.evaluate().unwrap() else { panic!("a list") };
        assert_eq!(&list.value(0), &expected);
    }
}
