//! `array_agg` of values as they come.
//!
//! DataFusion's own puts millions of them together without a pause.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, new_empty_array};
use arrow::compute::{filter, is_not_null};
use arrow::datatypes::DataType as ArrowType;
use datafusion::common::utils::SingleRowListArrayBuilder;
use datafusion::common::{Result as PlanResult, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::Accumulator;
use datafusion::logical_expr::function::AccumulatorArgs;

use thalweg_values::errors::external;
use thalweg_values::statement_control::check_cancelled;

use super::concat_arrays::{as_one, with_used_buffers};
use super::frames;
use super::runs::slice_bytes;

#[derive(Debug)]
pub(super) struct Unordered {
    item: ArrowType,
    leaves_nulls_out: bool,
    /// None of them is empty.
    pieces: VecDeque<ArrayRef>,
    bytes: usize,
    /// Items of a frame that are recorded elsewhere: the first, and the one behind the last.
    recorded: Option<(usize, usize)>,
}

impl Unordered {
    pub(super) fn new(args: &AccumulatorArgs) -> Unordered {
        let item = &args.expr_fields[0];
        Unordered {
            item: item.data_type().clone(),
            leaves_nulls_out: args.ignore_nulls && item.is_nullable(),
            pieces: VecDeque::new(),
            bytes: 0,
            recorded: frames::is_recording().then(|| (frames::count(), frames::count())),
        }
    }

    fn values(&self, column: &ArrayRef) -> PlanResult<ArrayRef> {
        match self.leaves_nulls_out && column.is_nullable() {
            true => Ok(filter(column, &is_not_null(column)?)?),
            false => Ok(ArrayRef::clone(column)),
        }
    }

    fn add(&mut self, piece: ArrayRef) -> PlanResult<()> {
        if !piece.is_empty() {
            let piece = with_used_buffers(piece)?;
            self.bytes += slice_bytes(&piece) + size_of::<ArrayRef>();
            self.pieces.push_back(piece);
        }
        Ok(())
    }

    /// Records a frame of recorded items, and returns an empty array in its place.
    fn record(&self, (first, end): (usize, usize)) -> PlanResult<ScalarValue> {
        // A partition has as many frames as rows.
        check_cancelled().map_err(external)?;
        if first == end {
            return Ok(self.nothing());
        }
        frames::record_frame(first..end);
        Ok(SingleRowListArrayBuilder::new(new_empty_array(&self.item)).build_list_scalar())
    }

    fn nothing(&self) -> ScalarValue {
        ScalarValue::new_null_list(self.item.clone(), true, 1)
    }
}

impl Accumulator for Unordered {
    fn update_batch(&mut self, values: &[ArrayRef]) -> PlanResult<()> {
        let values = self.values(&values[0])?;
        if let Some((_, end)) = &mut self.recorded {
            *end += values.len();
            return frames::record_items(&values);
        }
        self.add(values)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> PlanResult<()> {
        let Some(lists) = states.first().and_then(|lists| lists.as_list_opt::<i32>()) else {
            return Err(DataFusionError::Internal("the state of array_agg is a list".to_owned()));
        };
        for values in lists.iter().flatten() {
            self.add(values)?;
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> PlanResult<()> {
        let mut gone = self.values(&values[0])?.len();
        if let Some((first, _)) = &mut self.recorded {
            *first += gone;
            return Ok(());
        }
        while let Some(first) = self.pieces.pop_front() {
            self.bytes -= slice_bytes(&first) + size_of::<ArrayRef>();
            if gone < first.len() {
                let rest = first.slice(gone, first.len() - gone);
                self.bytes += slice_bytes(&rest) + size_of::<ArrayRef>();
                self.pieces.push_front(rest);
                break;
            }
            gone -= first.len();
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn state(&mut self) -> PlanResult<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn evaluate(&mut self) -> PlanResult<ScalarValue> {
        if let Some(recorded) = self.recorded {
            return self.record(recorded);
        }
        if self.pieces.is_empty() {
            return Ok(self.nothing());
        }
        let all = with_used_buffers(as_one(self.pieces.make_contiguous())?)?;
        // Frames of a window add a row at a time, and are evaluated for each.
        if self.pieces.len() > 1 {
            self.pieces.clear();
            self.bytes = 0;
            self.add(Arc::clone(&all))?;
        }
        Ok(SingleRowListArrayBuilder::new(all).build_list_scalar())
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.bytes
    }
}
