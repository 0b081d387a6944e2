//! Rows as texts for the console's grid: PostgreSQL's text of every value, long ones cut.
//!
//! The grid shows texts, so the server sends them, formatted as for every other client. The page
//! then needs no type's format, and reads a cell of any row without decoding the others.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BinaryViewArray, RecordBatch, StringBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use thalweg_formats::text::{Scratch, ValueFormatter};
use thalweg_types::{Error, Result};

/// Maximum length of a cell, in bytes.
pub(super) const CELL_BYTES_MAX: usize = 16 << 10;
/// A batch ends with the row that takes it beyond this size, in bytes.
const BATCH_BYTES: usize = 1 << 20;
const BATCH_ROWS: usize = 16_384;

/// A cell that was cut: its row within the batch, its column, and its whole length in bytes.
pub(super) type Cut = (usize, usize, usize);

/// The schema of the texts of rows. Its columns have numbers as names, since names may repeat.
pub(super) fn text_schema(columns: usize) -> SchemaRef {
    let field = |number: usize| Field::new(number.to_string(), DataType::Utf8, true);
    Arc::new(Schema::new((0..columns).map(field).collect::<Vec<_>>()))
}

/// The rows of a batch as texts, in pieces of limited size.
///
/// # Errors
/// If values of a type have no text.
pub(super) fn texts(
    batch: &RecordBatch,
    schema: &SchemaRef,
    mut take: impl FnMut(RecordBatch, Vec<Cut>),
) -> Result<()> {
    let columns = batch.columns().iter().map(Column::new).collect::<Result<Vec<_>>>()?;
    let (mut scratch, mut from) = (Scratch::default(), 0);
    while from < batch.num_rows() {
        let mut builders: Vec<StringBuilder> =
            columns.iter().map(|_| StringBuilder::new()).collect();
        let (mut bytes, mut cuts, mut row) = (0, Vec::new(), from);
        while row < batch.num_rows() && row - from < BATCH_ROWS && bytes < BATCH_BYTES {
            for (number, (column, builder)) in columns.iter().zip(&mut builders).enumerate() {
                let Some((text, whole)) = column.text(row, &mut scratch) else {
                    builder.append_null();
                    continue;
                };
                if text.len() < whole {
                    cuts.push((row - from, number, whole));
                }
                bytes += text.len();
                builder.append_value(text);
            }
            row += 1;
        }
        let arrays: Vec<ArrayRef> =
            builders.iter_mut().map(|builder| Arc::new(builder.finish()) as ArrayRef).collect();
        let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(row - from));
        let texts = RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options);
        let broken = |error| Error::internal("texts are no batch").with_source(error);
        take(texts.map_err(broken)?, cuts);
        from = row;
    }
    Ok(())
}

/// The values of a column, as texts.
struct Column {
    formatter: ValueFormatter,
    /// The values before they were shortened, where a value is formatted at a multiple of its size.
    bytes: Option<BinaryViewArray>,
}

impl Column {
    fn new(array: &ArrayRef) -> Result<Column> {
        let (DataType::Binary | DataType::LargeBinary | DataType::BinaryView) = array.data_type()
        else {
            return Ok(Column { formatter: ValueFormatter::new(array)?, bytes: None });
        };
        let unread = |error| Error::internal("a bytea cannot be read").with_source(error);
        let views = cast(array, &DataType::BinaryView).map_err(unread)?;
        let whole = views.as_binary_view().clone();
        let shortened: BinaryViewArray = whole
            .iter()
            .map(|value| value.map(|value| &value[..value.len().min(CELL_BYTES_MAX)]))
            .collect();
        let formatter = ValueFormatter::new(&(Arc::new(shortened) as ArrayRef))?;
        Ok(Column { formatter, bytes: Some(whole) })
    }

    /// The text of a value, cut at a character, and the length of the whole text.
    fn text<'a>(&'a self, row: usize, scratch: &'a mut Scratch) -> Option<(&'a str, usize)> {
        let text = self.formatter.text(row, scratch)?;
        // As a text, a bytea has two digits a byte after its mark.
        let whole = self.bytes.as_ref().map_or(text.len(), |bytes| 2 + 2 * bytes.value(row).len());
        Some((&text[..text.floor_char_boundary(CELL_BYTES_MAX)], whole))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{BinaryArray, Int64Array, StringArray};

    use super::*;

    fn of(columns: Vec<(&str, ArrayRef)>) -> (Vec<RecordBatch>, Vec<Vec<Cut>>) {
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let (mut batches, mut cuts) = (Vec::new(), Vec::new());
        texts(&batch, &text_schema(batch.num_columns()), |batch, cut| {
            batches.push(batch);
            cuts.push(cut);
        })
        .unwrap();
        (batches, cuts)
    }

    #[test]
    fn long_cells_are_cut_at_a_character() {
        let long = "é".repeat(CELL_BYTES_MAX);
        let odd = format!("x{long}");
        let texts = StringArray::from(vec![Some("short"), None, Some(&long), Some(&odd)]);
        let bytes = vec![7_u8; 100_000];
        let bytes = BinaryArray::from(vec![Some(&b"ab"[..]), None, Some(&bytes), None]);
        let (batches, cuts) = of(vec![("t", Arc::new(texts)), ("b", Arc::new(bytes))]);
        let column = batches[0].column(0).as_string::<i32>();
        assert_eq!((column.value(0), column.value(2).len()), ("short", CELL_BYTES_MAX));
        assert_eq!(column.value(3).len(), CELL_BYTES_MAX - 1);
        let bytes = batches[0].column(1).as_string::<i32>();
        assert_eq!((bytes.value(0), bytes.value(2).len()), ("\\x6162", CELL_BYTES_MAX));
        let expected = [(2, 0, long.len()), (2, 1, 200_002), (3, 0, odd.len())];
        assert_eq!(cuts, [expected.to_vec()]);
    }

    #[test]
    fn batches_are_bounded_and_keep_every_row() {
        let numbers = Int64Array::from_iter_values(0..40_000);
        let (batches, _) = of(vec![("n", Arc::new(numbers))]);
        let rows: Vec<usize> = batches.iter().map(RecordBatch::num_rows).collect();
        assert_eq!(rows, [BATCH_ROWS, BATCH_ROWS, 40_000 - 2 * BATCH_ROWS]);
        let texts = StringArray::from_iter_values((0..1_000).map(|_| "x".repeat(4_000)));
        let (batches, _) = of(vec![("t", Arc::new(texts))]);
        assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 1_000);
        assert!(batches.iter().all(|batch| batch.num_rows() <= BATCH_BYTES / 4_000 + 1));
    }
}
