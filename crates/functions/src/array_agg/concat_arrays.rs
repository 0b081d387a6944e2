//! Concatenation of columns.

use arrow::array::{Array, ArrayRef, AsArray, MutableArrayData, make_array};
use arrow::compute::{concat, interleave};
use arrow::datatypes::DataType as ArrowType;
use datafusion::common::Result as PlanResult;
use thalweg_values::errors::external;
use thalweg_values::statement_control::check_cancelled;

/// Number of rows that are copied between two cancellation checks.
const LOOKED_AT: usize = 256 << 10;

/// Concatenates all pieces of a column. Checks for cancellation between pieces.
pub(super) fn as_one(pieces: &[ArrayRef]) -> PlanResult<ArrayRef> {
    let rows = pieces.iter().map(|piece| piece.len()).sum();
    let parts: Vec<&dyn Array> = pieces.iter().map(AsRef::as_ref).collect();
    let is_plain = |piece: &ArrayRef| {
        !matches!(piece.data_type(), ArrowType::Dictionary(..) | ArrowType::RunEndEncoded(..))
    };
    if rows <= LOOKED_AT || !pieces.iter().all(is_plain) {
        return Ok(concat(&parts)?);
    }
    let data: Vec<_> = pieces.iter().map(|piece| piece.to_data()).collect();
    let mut all = MutableArrayData::new(data.iter().collect(), false, rows);
    let mut unlooked = 0;
    for (at, piece) in pieces.iter().enumerate() {
        unlooked += piece.len();
        if unlooked >= LOOKED_AT {
            check_cancelled().map_err(external)?;
            unlooked = 0;
        }
        all.try_extend(at, 0, piece.len())?;
    }
    Ok(make_array(all.freeze()))
}

/// The values with no more buffers of texts than there are values.
///
/// A slice lists all buffers of its batch, and concatenated slices list the buffers of each. Arrays
/// of a window's frames are slices of each other, so their number of buffers would grow with each
/// row. The texts themselves are not copied.
pub(super) fn with_used_buffers(values: ArrayRef) -> PlanResult<ArrayRef> {
    if buffers(&values) <= values.len() {
        return Ok(values);
    }
    let places: Vec<(usize, usize)> = (0..values.len()).map(|place| (0, place)).collect();
    // This lists only buffers that the values are in.
    Ok(interleave(&[values.as_ref()], &places)?)
}

/// Number of buffers that hold texts.
fn buffers(values: &ArrayRef) -> usize {
    match values.data_type() {
        ArrowType::Utf8View => values.as_string_view().data_buffers().len(),
        ArrowType::BinaryView => values.as_binary_view().data_buffers().len(),
        ArrowType::Struct(_) => {
            values.as_struct().columns().iter().map(buffers).max().unwrap_or_default()
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{AsArray, Int64Array, StringViewArray};
    use arrow::datatypes::Int64Type;

    use super::*;
    use thalweg_values::statement_control::{StatementControl, within};

    const PIECES: i64 = 80;
    const PIECE_ROWS: i64 = 10_000;

    fn pieces(piece: impl Fn(i64) -> ArrayRef) -> Vec<ArrayRef> {
        (0..PIECES).map(piece).collect()
    }

    #[test]
    fn all_rows_come_behind_each_other() {
        let rows = |at| at * PIECE_ROWS..(at + 1) * PIECE_ROWS;
        let number = |row: i64| (row % 7 > 0).then_some(row);
        let numbers =
            pieces(|at| Arc::new(rows(at).map(number).collect::<Int64Array>()) as ArrayRef);
        let all = as_one(&numbers).unwrap();
        assert!(all.as_primitive::<Int64Type>().iter().eq((0..PIECES * PIECE_ROWS).map(number)));
        let text = |row: i64| number(row).map(|row| format!("a text that is rather long: {row}"));
        // Parts of longer columns, too.
        let texts = pieces(|at| {
            let longer = (at * PIECE_ROWS - 5..(at + 1) * PIECE_ROWS + 5).map(text);
            let longer: StringViewArray = longer.collect();
            Arc::new(longer.slice(5, PIECE_ROWS as usize))
        });
        let all = as_one(&texts).unwrap();
        let all = all.as_string_view().iter();
        assert!(all.eq((0..PIECES * PIECE_ROWS).map(text).collect::<StringViewArray>().iter()));
    }

    #[test]
    fn slices_list_the_buffers_of_their_values() {
        // Each text has a buffer of its own.
        let texts: Vec<ArrayRef> = (0..50)
            .map(|at| Arc::new(StringViewArray::from(vec!["x".repeat(100 + at)])) as ArrayRef)
            .collect();
        let all = as_one(&texts).unwrap();
        assert_eq!(all.as_string_view().data_buffers().len(), 50);
        let mut frame = all.slice(0, 3);
        for row in 3..50 {
            frame = as_one(&[frame.slice(1, 2), all.slice(row, 1)]).unwrap();
            frame = with_used_buffers(frame).unwrap();
            assert_eq!(&frame, &all.slice(row - 2, 3));
            assert!(frame.as_string_view().data_buffers().len() <= 3);
        }
    }

    #[test]
    fn what_nobody_wants_ends() {
        let numbers = pieces(|_| Arc::new(Int64Array::from_iter_values(0..PIECE_ROWS)) as ArrayRef);
        let stop = Arc::new(StatementControl::default());
        stop.stop();
        assert!(within(&stop, || as_one(&numbers)).is_err());
        assert_eq!(as_one(&numbers).unwrap().len() as i64, PIECES * PIECE_ROWS);
    }
}
