//! `array_agg` over the frames of a window, without the arrays.
//!
//! Frames of neighbouring rows have most of their items in common, but each array has its own copy
//! of them: the arrays of a partition of `n` rows have up to `n²` items. An operator that makes a
//! few arrays at a time needs only the items of the partition, and the range of them that belongs
//! to each row. It therefore evaluates the window inside [`WindowFrames::add`]. There, `array_agg`
//! records its items and ranges, and returns an empty array in place of each of its results.

use std::cell::RefCell;
use std::ops::Range;

use arrow::array::{Array, ArrayRef};
use datafusion::common::{Result as PlanResult, internal_err};

use super::super::group_values::GroupValues;

thread_local! {
    /// The recording of the window that this thread evaluates.
    static RECORDING: RefCell<Option<Recording>> = const { RefCell::new(None) };
}

/// Items of one or more partitions, and the range of them that belongs to each evaluated frame.
#[derive(Debug, Default)]
struct Recording {
    items: GroupValues,
    count: usize,
    ranges: Vec<Range<usize>>,
}

/// True while this thread records frames.
pub(super) fn is_recording() -> bool {
    RECORDING.with_borrow(Option::is_some)
}

/// Number of items that were recorded so far.
pub(super) fn count() -> usize {
    RECORDING.with_borrow(|recording| recording.as_ref().map_or(0, |recording| recording.count))
}

/// Records further items.
pub(super) fn record_items(items: &ArrayRef) -> PlanResult<()> {
    RECORDING.with_borrow_mut(|recording| {
        let Some(recording) = recording else { return internal_err!("no frames are recorded") };
        recording.items.push(items)?;
        recording.count += items.len();
        Ok(())
    })
}

/// Records the items of a frame.
pub(super) fn record_frame(range: Range<usize>) {
    RECORDING.with_borrow_mut(|recording| {
        if let Some(recording) = recording {
            recording.ranges.push(range);
        }
    });
}

/// The frames of consecutive rows, as ranges of items.
#[derive(Debug, Default)]
pub struct WindowFrames {
    recording: Recording,
    rows: Vec<Option<Range<usize>>>,
}

impl WindowFrames {
    /// Adds the rows of a partition: `evaluate` computes an `array_agg` over their frames, without
    /// DISTINCT and without an order of its own.
    ///
    /// # Errors
    /// Errors of the evaluation.
    pub fn add(&mut self, evaluate: impl FnOnce() -> PlanResult<ArrayRef>) -> PlanResult<()> {
        struct Restored;
        impl Drop for Restored {
            fn drop(&mut self) {
                RECORDING.set(None);
            }
        }
        RECORDING.set(Some(std::mem::take(&mut self.recording)));
        let restored = Restored;
        let arrays = evaluate();
        self.recording = RECORDING.take().unwrap_or_default();
        drop(restored);
        let arrays = arrays?;
        let frames = std::mem::take(&mut self.recording.ranges);
        let filled = arrays.len() - arrays.null_count();
        // All rows of a partition may share one frame.
        let is_shared = frames.len() == 1 && filled > 1;
        if !is_shared && frames.len() != filled {
            return internal_err!("{} frames were recorded for {filled} rows", frames.len());
        }
        let mut next = frames.iter();
        self.rows.extend((0..arrays.len()).map(|row| match arrays.is_valid(row) {
            false => None,
            true if is_shared => frames.first().cloned(),
            true => next.next().cloned(),
        }));
        Ok(())
    }

    /// The range of items of each row; `None` for NULL.
    #[must_use]
    pub fn rows(&self) -> &[Option<Range<usize>>] {
        &self.rows
    }

    /// All items; `None` if there are none.
    ///
    /// # Errors
    /// If they are too many for one array.
    pub fn items(&mut self) -> PlanResult<Option<ArrayRef>> {
        Ok(self.recording.items.all()?)
    }
}
