//! An aggregate that is not measured with each batch.
//!
//! DataFusion asks an aggregate for its size after every batch. An ordered one holds each value
//! separately, and visits all of them to compute the size.

use arrow::array::{Array, ArrayRef, AsArray};
use datafusion::common::{Result as PlanResult, ScalarValue};
use datafusion::logical_expr::Accumulator;

/// An aggregate whose size is measured each time its number of rows has doubled. In between, its
/// size is extrapolated from the rows of the last measurement.
#[derive(Debug)]
pub(super) struct CachedSize {
    inner: Box<dyn Accumulator>,
    rows: usize,
    /// Number of rows at the last measurement, and the size then.
    measured: (usize, usize),
}

impl CachedSize {
    pub(super) fn new(inner: Box<dyn Accumulator>) -> CachedSize {
        CachedSize { inner, rows: 0, measured: (0, 0) }
    }

    /// Number of rows that were added.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    fn measure(&mut self) {
        self.measured = (self.rows, self.inner.size());
    }
}

impl Accumulator for CachedSize {
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
        let lists = states.first().and_then(|states| states.as_list_opt::<i32>());
        self.rows += lists.map_or(0, |lists| lists.values().len());
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
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use arrow::array::Int64Array;

    use super::*;

    /// Holds ten bytes for each row, and counts how often it is measured.
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
        let mut measured = CachedSize::new(Box::new(asked));
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
