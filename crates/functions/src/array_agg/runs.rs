//! Ordered values, as sorted runs that are merged at the end.
//!
//! Neither step takes long at once: a run is sorted when it is full, and a merge checks for
//! cancellation between pieces.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, UInt32Array};
use arrow::compute::{filter, interleave, is_not_null, take};
use arrow::datatypes::DataType as ArrowType;
use arrow::row::{Row, RowConverter, Rows, SortField};
use datafusion::common::Result as PlanResult;
use thalweg_values::errors::external;
use thalweg_values::statement_control::check_cancelled;

use super::concat_arrays::as_one;

/// Number of rows of a run, plus a batch at most.
const RUN_ROWS: usize = 32 << 10;

/// Number of rows that are merged between two cancellation checks.
const PIECE_ROWS: usize = 8 << 10;

#[derive(Debug)]
pub(super) struct Runs {
    converter: RowConverter,
    leaves_nulls_out: bool,
    /// Batches that are in no run yet: the values, and behind them the sort keys.
    pending: Vec<Vec<ArrayRef>>,
    pending_rows: usize,
    pending_bytes: usize,
    runs: Vec<Run>,
    runs_bytes: usize,
}

#[derive(Debug)]
struct Run {
    columns: Vec<ArrayRef>,
    /// The sort keys of the rows.
    keys: Rows,
}

impl Runs {
    /// With `leaves_nulls_out`, rows whose value is NULL are skipped.
    pub(super) fn new(order: Vec<SortField>, leaves_nulls_out: bool) -> PlanResult<Runs> {
        Ok(Runs {
            converter: RowConverter::new(order)?,
            leaves_nulls_out,
            pending: Vec::new(),
            pending_rows: 0,
            pending_bytes: 0,
            runs: Vec::new(),
            runs_bytes: 0,
        })
    }

    /// Adds rows: their values, and behind them their sort keys.
    pub(super) fn add(&mut self, columns: &[ArrayRef]) -> PlanResult<()> {
        let mut columns = columns.to_vec();
        if self.leaves_nulls_out && columns[0].is_nullable() {
            let valid = is_not_null(&columns[0])?;
            for column in &mut columns {
                *column = filter(column, &valid)?;
            }
        }
        self.pending_rows += columns[0].len();
        self.pending_bytes += columns.iter().map(slice_bytes).sum::<usize>();
        self.pending.push(columns);
        if self.pending_rows >= RUN_ROWS {
            self.end_run()?;
        }
        Ok(())
    }

    /// Adds rows that are in order already, however many.
    pub(super) fn add_ordered(&mut self, columns: &[ArrayRef]) -> PlanResult<()> {
        let rows = columns[0].len();
        if rows < RUN_ROWS {
            return self.add(columns);
        }
        for from in (0..rows).step_by(RUN_ROWS) {
            check_cancelled().map_err(external)?;
            let length = RUN_ROWS.min(rows - from);
            self.push(columns.iter().map(|column| column.slice(from, length)).collect())?;
        }
        Ok(())
    }

    /// About how many bytes all rows take.
    pub(super) fn bytes(&self) -> usize {
        self.runs_bytes + self.pending_bytes
    }

    /// The first so many columns of all rows in order; `None` if there are no rows.
    pub(super) fn merged(&mut self, columns: usize) -> PlanResult<Option<Vec<ArrayRef>>> {
        self.end_run()?;
        let mut pieces = vec![Vec::new(); columns];
        let mut merge = Merge::of(&self.runs);
        loop {
            check_cancelled().map_err(external)?;
            let places = merge.next_places();
            if places.is_empty() {
                break;
            }
            for (column, pieces) in pieces.iter_mut().enumerate() {
                let parts: Vec<&dyn Array> =
                    self.runs.iter().map(|run| run.columns[column].as_ref()).collect();
                pieces.push(own(interleave(&parts, &places)?));
            }
        }
        if self.runs.is_empty() {
            return Ok(None);
        }
        pieces.iter().map(|pieces| as_one(pieces)).collect::<PlanResult<_>>().map(Some)
    }

    fn end_run(&mut self) -> PlanResult<()> {
        if self.pending_rows == 0 {
            return Ok(());
        }
        let pending = std::mem::take(&mut self.pending);
        (self.pending_rows, self.pending_bytes) = (0, 0);
        let column = |place: usize| {
            as_one(&pending.iter().map(|batch| Arc::clone(&batch[place])).collect::<Vec<_>>())
        };
        let columns = (0..pending[0].len()).map(column).collect::<PlanResult<Vec<_>>>()?;
        let keys = self.converter.convert_columns(&columns[1..])?;
        let mut order: Vec<u32> = (0..columns[0].len() as u32).collect();
        order.sort_by_key(|row| keys.row(*row as usize));
        let order = UInt32Array::from(order);
        let sorted = columns.iter().map(|column| Ok(own(take(column, &order, None)?)));
        let sorted = sorted.collect::<PlanResult<Vec<_>>>()?;
        self.push(sorted)
    }

    fn push(&mut self, columns: Vec<ArrayRef>) -> PlanResult<()> {
        let keys = self.converter.convert_columns(&columns[1..])?;
        let bytes: usize = columns.iter().map(slice_bytes).sum();
        self.runs_bytes += bytes + keys.size();
        self.runs.push(Run { columns, keys });
        Ok(())
    }
}

/// The positions of the rows of all runs, in order. Among equal rows, those of earlier runs come
/// first.
struct Merge<'r> {
    runs: &'r [Run],
    /// The next row of each run that has one, the run, and the row's place in it.
    next: BinaryHeap<Reverse<(Row<'r>, usize, usize)>>,
}

impl<'r> Merge<'r> {
    fn of(runs: &'r [Run]) -> Merge<'r> {
        let first = runs.iter().enumerate().filter(|(_, run)| run.keys.num_rows() > 0);
        let next = first.map(|(at, run)| Reverse((run.keys.row(0), at, 0))).collect();
        Merge { runs, next }
    }

    /// The next rows, as pairs of run and position; empty behind the last row.
    fn next_places(&mut self) -> Vec<(usize, usize)> {
        let mut places = Vec::with_capacity(PIECE_ROWS);
        while places.len() < PIECE_ROWS
            && let Some(mut least) = self.next.peek_mut()
        {
            let Reverse((_, run, place)) = *least;
            places.push((run, place));
            let keys = &self.runs[run].keys;
            match place + 1 < keys.num_rows() {
                true => *least = Reverse((keys.row(place + 1), run, place + 1)),
                false => drop(PeekMut::pop(least)),
            }
        }
        places
    }
}

/// A column that holds on to no more than its values.
fn own(column: ArrayRef) -> ArrayRef {
    match column.data_type() {
        ArrowType::Utf8View => Arc::new(column.as_string_view().gc()),
        ArrowType::BinaryView => Arc::new(column.as_binary_view().gc()),
        _ => column,
    }
}

/// The bytes of a column's values, wherever they lie.
pub(super) fn slice_bytes(column: &ArrayRef) -> usize {
    let texts = match column.data_type() {
        ArrowType::Utf8View => column.as_string_view().total_buffer_bytes_used(),
        ArrowType::BinaryView => column.as_binary_view().total_buffer_bytes_used(),
        _ => 0,
    };
    column.to_data().get_slice_memory_size().unwrap_or_default() + texts
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, StringViewArray};
    use arrow::compute::SortOptions;

    use super::*;
    use thalweg_values::statement_control::{StatementControl, within};

    fn columns(rows: impl Iterator<Item = i64> + Clone) -> Vec<ArrayRef> {
        let text = |row: i64| (row % 11 > 0).then(|| format!("a text that is rather long: {row}"));
        let keys = rows.clone().map(|row| (row % 13 > 0).then_some(row % 1_000));
        vec![
            Arc::new(rows.clone().map(text).collect::<StringViewArray>()),
            Arc::new(keys.collect::<Int64Array>()),
        ]
    }

    fn runs(leaves_nulls_out: bool) -> Runs {
        let options = SortOptions { descending: true, nulls_first: false };
        let by = SortField::new_with_options(ArrowType::Int64, options);
        Runs::new(vec![by], leaves_nulls_out).unwrap()
    }

    fn texts(merged: &[ArrayRef]) -> Vec<Option<String>> {
        merged[0].as_string_view().iter().map(|text| text.map(str::to_owned)).collect()
    }

    /// The model: a stable sort of all rows.
    fn model(all: &[ArrayRef], leaves_nulls_out: bool) -> Vec<Option<String>> {
        let keys = all[1].as_primitive::<arrow::datatypes::Int64Type>().iter();
        let mut rows: Vec<_> = keys.zip(texts(all)).collect();
        rows.retain(|(_, text)| text.is_some() || !leaves_nulls_out);
        rows.sort_by_key(|(key, _)| (key.is_none(), Reverse(*key)));
        rows.into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn runs_are_merged_in_order() {
        let rows = 3 * RUN_ROWS as i64 + 1_234;
        for leaves_nulls_out in [false, true] {
            let mut runs = runs(leaves_nulls_out);
            for from in (0..rows).step_by(1_000) {
                runs.add(&columns(from..rows.min(from + 1_000))).unwrap();
            }
            assert!(runs.bytes() > 100 * RUN_ROWS);
            let merged = runs.merged(2).unwrap().unwrap();
            let expected = model(&columns(0..rows), leaves_nulls_out);
            assert!(texts(&merged) == expected);
            // Merged rows are in order, whatever their number.
            let mut again = self::runs(leaves_nulls_out);
            again.add_ordered(&merged).unwrap();
            again.add_ordered(&columns(0..0)).unwrap();
            assert!(texts(&again.merged(1).unwrap().unwrap()) == expected);
        }
    }

    #[test]
    fn no_rows_are_nothing() {
        assert!(runs(false).merged(2).unwrap().is_none());
        let mut runs = runs(true);
        runs.add(&columns([11, 22, 33].into_iter())).unwrap();
        assert!(runs.merged(1).unwrap().is_none());
    }

    #[test]
    fn a_merge_that_nobody_wants_ends() {
        let mut runs = runs(false);
        runs.add(&columns(0..10)).unwrap();
        let stop = Arc::new(StatementControl::default());
        stop.stop();
        assert!(within(&stop, || runs.merged(1)).is_err());
        assert_eq!(runs.merged(1).unwrap().unwrap()[0].len(), 10);
    }
}
