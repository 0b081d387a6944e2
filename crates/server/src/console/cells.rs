//! Rows as texts for the console's grid: PostgreSQL's text of every value, long ones cut.
//!
//! The grid shows texts, so the server sends them, formatted as for every other client. The page
//! then needs no type's format, and reads a cell of any row without decoding the others.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, RecordBatch, RecordBatchOptions, StringBuilder,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use thalweg_formats::text::style::{ByteaOutput, SessionStyle};
use thalweg_formats::text::{Scratch, ValueFormatter};
use thalweg_types::{Error, Result};

/// Maximum length of a cell, in bytes.
pub(super) const CELL_BYTES_MAX: usize = 16 << 10;
/// Cells of wide results are shorter, so that a row has about this size at most, in bytes.
const ROW_BYTES: usize = 4 << 20;
/// Maximum length of a cell of the widest results, in bytes.
const WIDE_CELL_BYTES_MAX: usize = 1 << 10;
/// A piece ends with the row that takes it beyond this size, in bytes.
const PIECE_BYTES: usize = 1 << 20;
const PIECE_ROWS: usize = 16_384;
/// Bytes of a cell beside its text: its place in the column.
const OFFSET_BYTES: usize = 4;

/// A cell that was cut: its row within the piece, its column, and its whole length in bytes.
pub(super) type Cut = (usize, usize, usize);

/// Makes texts of a result's rows.
pub(super) struct Cells {
    /// The schema of the texts. Its columns have numbers as names, since names may repeat.
    pub(super) schema: SchemaRef,
    style: Option<Arc<SessionStyle>>,
    cell_bytes_max: usize,
}

impl Cells {
    pub(super) fn new(columns: usize, style: Option<Arc<SessionStyle>>) -> Cells {
        let field = |number: usize| Field::new(number.to_string(), DataType::Utf8, true);
        let schema = Arc::new(Schema::new((0..columns).map(field).collect::<Vec<_>>()));
        let cell_bytes_max =
            (ROW_BYTES / columns.max(1)).clamp(WIDE_CELL_BYTES_MAX, CELL_BYTES_MAX);
        Cells { schema, style, cell_bytes_max }
    }

    /// The texts of a batch's rows from one on, as many as a piece of limited size has: at least
    /// one. Only one piece is in memory at a time, since texts can be far larger than the batch.
    ///
    /// # Errors
    /// If values of a type have no text.
    pub(super) fn piece(
        &self,
        batch: &RecordBatch,
        from: usize,
    ) -> Result<(RecordBatch, Vec<Cut>)> {
        let rows = (batch.num_rows() - from).min(PIECE_ROWS);
        let column = |array: &ArrayRef| Column::new(&array.slice(from, rows), self);
        let columns = batch.columns().iter().map(column).collect::<Result<Vec<_>>>()?;
        let builder = |_| StringBuilder::with_capacity(rows.min(64), 0);
        let mut builders: Vec<StringBuilder> = columns.iter().map(builder).collect();
        let (mut bytes, mut cuts, mut row) = (0, Vec::new(), 0);
        let mut scratch = Buffers::default();
        while row < rows && bytes < PIECE_BYTES {
            for (number, (column, builder)) in columns.iter().zip(&mut builders).enumerate() {
                bytes += OFFSET_BYTES;
                let Some((text, whole)) = column.text(row, &mut scratch)? else {
                    builder.append_null();
                    continue;
                };
                if text.len() < whole {
                    cuts.push((row, number, whole));
                }
                bytes += text.len();
                builder.append_value(text);
            }
            row += 1;
        }
        let arrays: Vec<ArrayRef> =
            builders.iter_mut().map(|builder| Arc::new(builder.finish()) as ArrayRef).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(row));
        let texts = RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options);
        let broken = |error| Error::internal("texts are no batch").with_source(error);
        Ok((texts.map_err(broken)?, cuts))
    }
}

/// Buffers for the text of one value.
#[derive(Default)]
struct Buffers {
    scratch: Scratch,
    /// The text of a value that was shortened before it was formatted.
    shortened: String,
}

/// The values of a column, as texts.
struct Column<'a> {
    cells: &'a Cells,
    formatter: ValueFormatter,
    /// The values of a `bytea`, whose text is a multiple of its size.
    bytes: Option<BinaryViewArray>,
}

impl<'a> Column<'a> {
    fn new(array: &ArrayRef, cells: &'a Cells) -> Result<Column<'a>> {
        let bytes = match array.data_type() {
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
                let unread = |error| Error::internal("a bytea cannot be read").with_source(error);
                let views = cast(array, &DataType::BinaryView).map_err(unread)?;
                Some(views.as_binary_view().clone())
            }
            _ => None,
        };
        let formatter = cells.formatter(array)?;
        Ok(Column { cells, formatter, bytes })
    }

    /// The text of a value, cut at a character, and the length of the whole text.
    fn text<'b>(
        &'b self,
        row: usize,
        buffers: &'b mut Buffers,
    ) -> Result<Option<(&'b str, usize)>> {
        let Buffers { scratch, shortened } = buffers;
        let max = self.cells.cell_bytes_max;
        let long = self.bytes.as_ref().filter(|bytes| !bytes.is_null(row));
        let long = long.map(|bytes| bytes.value(row)).filter(|bytes| bytes.len() > max);
        let (text, whole) = match long {
            None => match self.formatter.text(row, scratch) {
                None => return Ok(None),
                Some(text) => (text, text.len()),
            },
            Some(bytes) => {
                let begin: ArrayRef = Arc::new(BinaryViewArray::from_iter_values([&bytes[..max]]));
                shortened.clear();
                self.cells.formatter(&begin)?.format(0, shortened);
                (shortened.as_str(), self.cells.text_bytes(bytes))
            }
        };
        Ok(Some((&text[..text.floor_char_boundary(max)], whole)))
    }
}

impl Cells {
    fn formatter(&self, array: &ArrayRef) -> Result<ValueFormatter> {
        ValueFormatter::of_session(array, self.style.clone())
    }

    /// Length of a `bytea` as text: two digits a byte after the mark, or at least its bytes in the
    /// escape format.
    fn text_bytes(&self, value: &[u8]) -> usize {
        match &self.style {
            Some(style) if style.bytea == ByteaOutput::Escape => value.len(),
            _ => 2 + 2 * value.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{BinaryArray, Int64Array, StringArray, StringViewBuilder};

    use super::*;

    fn of(columns: Vec<(&str, ArrayRef)>) -> (Vec<RecordBatch>, Vec<Vec<Cut>>) {
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let cells = Cells::new(batch.num_columns(), None);
        let (mut pieces, mut all_cuts, mut from) = (Vec::new(), Vec::new(), 0);
        while from < batch.num_rows() {
            let (texts, cuts) = cells.piece(&batch, from).unwrap();
            from += texts.num_rows();
            pieces.push(texts);
            all_cuts.push(cuts);
        }
        (pieces, all_cuts)
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
        assert!(column.is_null(1));
        assert_eq!(column.value(3).len(), CELL_BYTES_MAX - 1);
        let bytes = batches[0].column(1).as_string::<i32>();
        assert_eq!((bytes.value(0), bytes.value(2).len()), ("\\x6162", CELL_BYTES_MAX));
        assert!(bytes.is_null(1) && bytes.is_null(3));
        let expected = [(2, 0, long.len()), (2, 1, 200_002), (3, 0, odd.len())];
        assert_eq!(cuts, [expected.to_vec()]);
    }

    #[test]
    fn the_style_of_the_session_is_used() {
        let style = SessionStyle { bytea: ByteaOutput::Escape, ..SessionStyle::default() };
        let bytes = vec![b'x'; 100_000];
        let bytes = BinaryArray::from(vec![&b"ab\0"[..], &bytes]);
        let batch = RecordBatch::try_from_iter([("b", Arc::new(bytes) as ArrayRef)]).unwrap();
        let (texts, cuts) = Cells::new(1, Some(Arc::new(style))).piece(&batch, 0).unwrap();
        let texts = texts.column(0).as_string::<i32>();
        assert_eq!((texts.value(0), texts.value(1).len()), ("ab\\000", CELL_BYTES_MAX));
        assert_eq!(cuts, [(1, 0, 100_000)]);
    }

    #[test]
    fn pieces_are_bounded_and_keep_every_row() {
        let numbers = Int64Array::from_iter_values(0..40_000);
        let (batches, _) = of(vec![("n", Arc::new(numbers))]);
        let rows: Vec<usize> = batches.iter().map(RecordBatch::num_rows).collect();
        assert_eq!(rows, [PIECE_ROWS, PIECE_ROWS, 40_000 - 2 * PIECE_ROWS]);
        let texts = StringArray::from_iter_values((0..1_000).map(|_| "x".repeat(4_000)));
        let (batches, _) = of(vec![("t", Arc::new(texts))]);
        assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 1_000);
        assert!(batches.iter().all(|batch| batch.num_rows() <= PIECE_BYTES / 4_000 + 1));
    }

    /// Views of one value make a batch small whose texts are large.
    #[test]
    fn a_piece_of_wide_rows_has_few_bytes() {
        let mut views = StringViewBuilder::new();
        let block = views.append_block(vec![b'x'; 100_000].into());
        for _ in 0..10 {
            views.try_append_view(block, 0, 100_000).unwrap();
        }
        let column: ArrayRef = Arc::new(views.finish());
        let nothing: ArrayRef = Arc::new(Int64Array::new_null(10));
        for column in [column, nothing] {
            let names: Vec<String> = (0..5_000).map(|number| number.to_string()).collect();
            let columns = names.iter().map(|name| (name.as_str(), Arc::clone(&column)));
            let (batches, cuts) = of(columns.collect());
            assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 10);
            for (batch, cuts) in batches.iter().zip(cuts) {
                assert!(batch.get_array_memory_size() < 16 << 20);
                assert!(cuts.len() % 5_000 == 0);
            }
        }
    }
}
