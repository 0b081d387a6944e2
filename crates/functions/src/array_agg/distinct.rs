//! `array_agg(DISTINCT x)` without an order: PostgreSQL finds duplicates by a sort, so its items
//! come in their order. DataFusion finds them by a hash, and takes them in any order.

use arrow::array::{Array, ArrayRef, AsArray, UInt32Array};
use arrow::compute::{SortOptions, sort_to_indices, take};
use arrow::datatypes::{DataType as ArrowType, Decimal128Type};
use arrow::row::{RowConverter, SortField};
use datafusion::common::utils::SingleRowListArrayBuilder;
use datafusion::common::{Result as PlanResult, ScalarValue};
use datafusion::logical_expr::Accumulator;
use thalweg_values::interval_length::lengths;

/// Sorts the items once all are known. States are in any order.
#[derive(Debug)]
pub(super) struct Sorted {
    inner: Box<dyn Accumulator>,
}

impl Sorted {
    pub(super) fn new(inner: Box<dyn Accumulator>) -> Sorted {
        Sorted { inner }
    }
}

/// The items in ascending order, NULL last.
fn sorted(items: &ArrayRef) -> PlanResult<ArrayRef> {
    let options = SortOptions { descending: false, nulls_first: false };
    if matches!(items.data_type(), ArrowType::Interval(_)) {
        return lengths_once(items);
    }
    if !items.data_type().is_nested() {
        return Ok(take(items, &sort_to_indices(items, Some(options), None)?, None)?);
    }
    let field = SortField::new_with_options(items.data_type().clone(), options);
    let converter = RowConverter::new(vec![field])?;
    let rows = converter.convert_columns(std::slice::from_ref(items))?;
    let mut rows: Vec<_> = rows.iter().collect();
    rows.sort_unstable();
    let mut columns = converter.convert_rows(rows)?;
    Ok(columns.remove(0))
}

/// Intervals by their lengths, of equal ones the first: DataFusion tells a day from 24 hours.
fn lengths_once(items: &ArrayRef) -> PlanResult<ArrayRef> {
    let lengths = lengths(items);
    let lengths = lengths.as_primitive::<Decimal128Type>();
    let mut places: Vec<u32> = (0..items.len() as u32).collect();
    let value = |place: u32| {
        let place = place as usize;
        lengths.is_valid(place).then(|| lengths.value(place))
    };
    places.sort_by_key(|place| (value(*place).is_none(), value(*place)));
    places.dedup_by_key(|place| value(*place));
    Ok(take(items, &UInt32Array::from(places), None)?)
}

impl Accumulator for Sorted {
    fn update_batch(&mut self, values: &[ArrayRef]) -> PlanResult<()> {
        self.inner.update_batch(values)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> PlanResult<()> {
        self.inner.merge_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> PlanResult<()> {
        self.inner.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.inner.supports_retract_batch()
    }

    fn state(&mut self) -> PlanResult<Vec<ScalarValue>> {
        self.inner.state()
    }

    fn evaluate(&mut self) -> PlanResult<ScalarValue> {
        let gathered = self.inner.evaluate()?;
        let ScalarValue::List(list) = &gathered else { return Ok(gathered) };
        if list.len() != 1 || list.is_null(0) {
            return Ok(gathered);
        }
        let items = sorted(&list.value(0))?;
        Ok(SingleRowListArrayBuilder::new(items).build_list_scalar())
    }

    fn size(&self) -> usize {
        self.inner.size() + size_of_val(self)
    }
}
