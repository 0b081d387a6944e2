//! Closed chunks: rows that never change again, in the most compact form that is still fast to
//! scan.

mod compact;
mod dictionary;
mod handle;
mod zone;

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, RecordBatch, RecordBatchOptions, UInt16Array,
};
use arrow::compute::take;
use arrow::datatypes::{DataType as ArrowType, SchemaRef};
use thalweg_types::{RowId, TableSchema};

use crate::cell::{self, Cell};
use crate::index_order::Runs;
pub use dictionary::{Codes, Dictionary};
pub use handle::ColumnHandle;
use thalweg_columns::arrow_schema;
pub use zone::Zone;

/// At most 65,536 rows that never change. Columns may be shared with other chunks.
#[derive(Clone, Debug)]
pub struct ClosedChunk {
    rows: usize,
    columns: Vec<Arc<Column>>,
    /// Its rows in the orders of indexes; chunks with the same rows share them.
    runs: Arc<Runs>,
}

/// One column of a closed chunk.
#[derive(Debug)]
pub(crate) struct Column {
    pub values: Values,
    pub zone: Zone,
}

#[derive(Debug)]
pub(crate) enum Values {
    Plain(ArrayRef),
    Dictionary(Dictionary),
}

impl ClosedChunk {
    /// Builds a chunk from a batch's rows. Copies arrays that would keep larger buffers alive.
    ///
    /// The batch has the columns of [`arrow_schema`] and at most [`RowId::CHUNK_ROWS`] rows.
    #[must_use]
    pub fn build(schema: &TableSchema, batch: &RecordBatch) -> ClosedChunk {
        let types = arrow_schema(schema);
        assert_eq!(types.fields().len(), batch.num_columns(), "a column for each of the table's");
        for (field, column) in types.fields().iter().zip(batch.columns()) {
            assert_eq!(field.data_type(), column.data_type(), "column {}", field.name());
        }
        ClosedChunk::from_arrays(batch.columns(), batch.num_rows())
    }

    /// Builds a chunk from columns of `rows` rows each.
    pub(crate) fn from_arrays(columns: &[ArrayRef], rows: usize) -> ClosedChunk {
        assert!(rows <= RowId::CHUNK_ROWS, "a chunk has at most 65,536 rows");
        let columns = columns
            .iter()
            .map(|array| {
                assert_eq!(array.len(), rows, "columns are equally long");
                Arc::new(Column::build(array))
            })
            .collect();
        ClosedChunk { rows, columns, runs: Arc::default() }
    }

    /// A chunk of columns that are encoded already.
    pub(crate) fn from_columns(columns: Vec<Arc<Column>>, rows: usize) -> ClosedChunk {
        debug_assert!(columns.iter().all(|column| column.len() == rows));
        ClosedChunk { rows, columns, runs: Arc::default() }
    }

    /// Copy of this chunk with other columns, as after an `ALTER TABLE`. An added column has one
    /// value in all rows, so any order of the rows is sorted by it. Runs therefore stay valid even
    /// if the alteration is undone and the next one gives the column's number to another column.
    pub(crate) fn with_columns(&self, columns: Vec<Arc<Column>>) -> ClosedChunk {
        let runs = Arc::clone(&self.runs);
        ClosedChunk { runs, ..ClosedChunk::from_columns(columns, self.rows) }
    }

    pub(crate) fn runs(&self) -> &Runs {
        &self.runs
    }

    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    #[must_use]
    pub fn column_count(&self) -> usize {
        self.columns.len()
    }

    /// The identities of its columns, in the order of the schema.
    pub fn column_handles(&self) -> impl ExactSizeIterator<Item = ColumnHandle> + '_ {
        self.columns.iter().map(ColumnHandle::new)
    }

    pub(crate) fn column_parts(&self) -> &[Arc<Column>] {
        &self.columns
    }

    /// A column in its declared Arrow type. Text bytes are shared, not copied; at most views are
    /// gathered.
    #[must_use]
    pub fn column(&self, index: usize) -> ArrayRef {
        self.column_rows(index, 0..self.rows)
    }

    /// A range of rows of the projected columns, in their declared Arrow types.
    #[must_use]
    pub fn columns(&self, projection: &[usize], rows: Range<usize>) -> Vec<ArrayRef> {
        projection.iter().map(|&index| self.column_rows(index, rows.clone())).collect()
    }

    fn column_rows(&self, index: usize, rows: Range<usize>) -> ArrayRef {
        match &self.columns[index].values {
            Values::Plain(array) if rows.len() == array.len() => Arc::clone(array),
            Values::Plain(array) => array.slice(rows.start, rows.len()),
            Values::Dictionary(dictionary) => dictionary.array(rows),
        }
    }

    /// The Arrow type of a column.
    #[must_use]
    pub fn data_type(&self, index: usize) -> &ArrowType {
        match &self.columns[index].values {
            Values::Plain(array) => array.data_type(),
            Values::Dictionary(_) => &ArrowType::Utf8View,
        }
    }

    /// All columns as a batch.
    #[must_use]
    pub fn batch(&self, schema: &SchemaRef) -> RecordBatch {
        let columns = (0..self.columns.len()).map(|index| self.column(index)).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
            .expect("the columns have the types of the table's schema")
    }

    /// The minimum, maximum and null count of a column.
    #[must_use]
    pub fn zone(&self, index: usize) -> &Zone {
        &self.columns[index].zone
    }

    /// The dictionary of a column that is dictionary-encoded.
    #[must_use]
    pub fn dictionary(&self, index: usize) -> Option<&Dictionary> {
        match &self.columns[index].values {
            Values::Dictionary(dictionary) => Some(dictionary),
            Values::Plain(_) => None,
        }
    }

    /// Gathers rows of a column by their offsets, in the column's declared Arrow type.
    pub(crate) fn take(&self, index: usize, places: &UInt16Array) -> ArrayRef {
        match &self.columns[index].values {
            Values::Plain(array) => taken(array, places),
            Values::Dictionary(dictionary) => dictionary.take(places),
        }
    }

    /// One value.
    #[inline]
    pub(crate) fn cell(&self, column: usize, row: usize) -> Cell<'_> {
        match &self.columns[column].values {
            Values::Plain(array) => cell::cell(array, row),
            Values::Dictionary(dictionary) => dictionary.cell(row),
        }
    }

    /// One value of a column of integers without NULLs.
    #[inline]
    pub(crate) fn integer<T: ArrowPrimitiveType<Native: Into<i64>>>(
        &self,
        column: usize,
        row: usize,
    ) -> i64 {
        match &self.columns[column].values {
            Values::Plain(array) => array.as_primitive::<T>().value(row).into(),
            Values::Dictionary(_) => unreachable!("only texts have dictionaries"),
        }
    }

    /// Bytes allocated for columns and runs; shared ones count in every chunk that has them.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let columns: usize = self.columns.iter().map(|column| column.memory_bytes()).sum();
        columns + self.runs.memory_bytes()
    }
}

/// Gathers rows of an array by their offsets.
pub(crate) fn taken(array: &ArrayRef, places: &UInt16Array) -> ArrayRef {
    take(array, places, None).expect("the places are within the array")
}

impl Column {
    /// Encodes an array: computes its zone and a dictionary if that takes clearly less memory.
    pub fn build(array: &ArrayRef) -> Column {
        let zone = Zone::of(array);
        let values = match Dictionary::of(array) {
            Some(dictionary) => Values::Dictionary(dictionary),
            None => Values::Plain(compact::compact(array)),
        };
        Column { values, zone }
    }

    fn len(&self) -> usize {
        match &self.values {
            Values::Plain(array) => array.len(),
            Values::Dictionary(dictionary) => dictionary.len(),
        }
    }

    /// Bytes allocated for values and zone.
    pub fn memory_bytes(&self) -> usize {
        let values = match &self.values {
            Values::Plain(array) => array.get_buffer_memory_size(),
            Values::Dictionary(dictionary) => dictionary.memory_bytes(),
        };
        values + self.zone.memory_bytes()
    }
}

#[cfg(test)]
mod tests;
