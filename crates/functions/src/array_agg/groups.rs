//! DataFusion's `array_agg` for many groups at once, with its memory checked.
//!
//! It gathers the items of all groups in one step, without a pause in which memory could be
//! counted. So the memory of that step is checked before it begins.

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::datatypes::DataType as ArrowType;
use datafusion::common::Result as PlanResult;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use thalweg_values::errors::external;
use thalweg_values::statement_control::check_value;

/// Bytes by which the step finds one item: the numbers of its batch and its row.
const PLACE_BYTES: usize = size_of::<(usize, usize)>();
/// Bytes of a view of a text or of bytes, which the result copies in their place.
const VIEW_BYTES: usize = 16;

pub(super) struct Groups {
    inner: Box<dyn GroupsAccumulator>,
    item: ArrowType,
    /// Number of items at most.
    items: usize,
}

impl Groups {
    /// For items of the given type.
    pub(super) fn new(inner: Box<dyn GroupsAccumulator>, item: ArrowType) -> Groups {
        Groups { inner, item, items: 0 }
    }

    /// # Errors
    /// If there is not enough memory to gather the items.
    fn check_gathering(&self) -> PlanResult<()> {
        let copied = match self.item {
            ArrowType::Utf8View | ArrowType::BinaryView => self.items * VIEW_BYTES,
            _ => self.inner.size(),
        };
        check_value(self.items * PLACE_BYTES + copied, 0).map_err(external)
    }

    fn gathered(&mut self, lists: &ArrayRef) {
        let gathered = lists.as_list_opt::<i32>().map_or(0, |lists| lists.values().len());
        self.items = self.items.saturating_sub(gathered);
    }
}

impl GroupsAccumulator for Groups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        filter: Option<&BooleanArray>,
        groups: usize,
    ) -> PlanResult<()> {
        self.items += group_indices.len();
        self.inner.update_batch(values, group_indices, filter, groups)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> PlanResult<ArrayRef> {
        self.check_gathering()?;
        let lists = self.inner.evaluate(emit_to)?;
        self.gathered(&lists);
        Ok(lists)
    }

    fn state(&mut self, emit_to: EmitTo) -> PlanResult<Vec<ArrayRef>> {
        self.check_gathering()?;
        let states = self.inner.state(emit_to)?;
        states.iter().for_each(|lists| self.gathered(lists));
        Ok(states)
    }

    fn merge_batch(
        &mut self,
        states: &[ArrayRef],
        group_indices: &[usize],
        groups: usize,
    ) -> PlanResult<()> {
        let lists = states.first().and_then(|state| state.as_list_opt::<i32>());
        self.items += lists.map_or(0, |lists| lists.values().len());
        self.inner.merge_batch(states, group_indices, groups)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> PlanResult<Vec<ArrayRef>> {
        self.inner.convert_to_state(values, filter)
    }

    fn size(&self) -> usize {
        self.inner.size()
    }
}
