//! Open chunks: one writer appends rows while readers see the published ones.

mod column;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use parking_lot::RwLock;
use thalweg_types::RowId;

use crate::cell::Cell;
use crate::index_order::Runs;
use column::{ColumnWriter, SharedColumn};

/// Minimum capacity of a new chunk, in rows; it doubles when it is full.
const FIRST_ROWS_MIN: usize = 128;

/// The readers' half of an open chunk.
///
/// A reader knows from its snapshot how many rows are published. It gets Arrow arrays over the
/// writer's own buffers; only bits (validity, booleans) and nested values are copied.
pub struct OpenChunk {
    schema: SchemaRef,
    generation: RwLock<Arc<Generation>>,
    published: AtomicU32,
    /// Published rows in the orders of indexes.
    runs: Runs,
}

/// The columns, with one allocation each. When it is full, a larger one replaces it and starts with
/// the same rows; readers of the smaller one keep it.
struct Generation {
    columns: Vec<SharedColumn>,
}

impl OpenChunk {
    /// Reads a range of rows of the projected columns. All of the rows must have been appended.
    #[must_use]
    pub fn columns(&self, projection: &[usize], rows: Range<usize>) -> Vec<ArrayRef> {
        let generation = Arc::clone(&self.generation.read());
        projection
            .iter()
            .map(|&index| {
                let data_type = self.schema.field(index).data_type();
                generation.columns[index].array(data_type, rows.clone())
            })
            .collect()
    }

    /// Number of columns.
    #[must_use]
    pub fn column_count(&self) -> usize {
        self.schema.fields().len()
    }

    /// Marks the first `rows` rows as visible to readers, for good.
    pub(crate) fn publish(&self, rows: u32) {
        self.published.fetch_max(rows, Ordering::Release);
    }

    /// Number of rows that are visible to readers.
    #[must_use]
    pub fn published(&self) -> u32 {
        self.published.load(Ordering::Acquire)
    }

    /// Bytes allocated for columns and runs.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let columns = &self.generation.read().columns;
        let columns: usize = columns.iter().map(SharedColumn::memory_bytes).sum();
        columns + self.runs.memory_bytes()
    }

    pub(crate) fn runs(&self) -> &Runs {
        &self.runs
    }
}

/// The writer's half of an open chunk: exactly one exists for each, and it is never shared.
pub(crate) struct Appender {
    chunk: Arc<OpenChunk>,
    columns: Vec<ColumnWriter>,
    rows: usize,
    capacity: usize,
}

impl Appender {
    /// An empty chunk of `schema` with room for `expected` rows.
    pub fn new(schema: &SchemaRef, expected: usize) -> Appender {
        let capacity = expected.next_power_of_two().clamp(FIRST_ROWS_MIN, RowId::CHUNK_ROWS);
        let columns: Vec<ColumnWriter> =
            schema.fields().iter().map(|field| ColumnWriter::new(field, capacity)).collect();
        let chunk = Arc::new(OpenChunk {
            schema: Arc::clone(schema),
            generation: RwLock::new(Arc::new(generation(&columns))),
            published: AtomicU32::new(0),
            runs: Runs::default(),
        });
        Appender { chunk, columns, rows: 0, capacity }
    }

    /// The readers' half.
    pub fn chunk(&self) -> &Arc<OpenChunk> {
        &self.chunk
    }

    /// Number of appended rows, published or not.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of rows that fit until the chunk has 65,536.
    pub fn room(&self) -> usize {
        RowId::CHUNK_ROWS - self.rows
    }

    /// Appends rows of the chunk's schema. Panics if they do not fit.
    pub fn append(&mut self, rows: &RecordBatch) {
        assert!(rows.num_rows() <= self.room(), "the caller splits what does not fit");
        self.reserve(self.rows + rows.num_rows());
        for (writer, array) in self.columns.iter_mut().zip(rows.columns()) {
            writer.append(array, self.rows);
        }
        self.rows += rows.num_rows();
    }

    fn reserve(&mut self, rows: usize) {
        if rows <= self.capacity {
            return;
        }
        self.capacity = rows.next_power_of_two().min(RowId::CHUNK_ROWS);
        for column in &mut self.columns {
            column.grow(self.capacity);
        }
        *self.chunk.generation.write() = Arc::new(generation(&self.columns));
    }

    /// Removes the rows at `rows` and above, which must be unpublished.
    pub fn rewind(&mut self, rows: usize) {
        assert!(rows <= self.rows, "rewinding goes backwards");
        assert!(rows >= self.chunk.published() as usize, "published rows are never undone");
        for column in &mut self.columns {
            column.rewind(rows);
        }
        self.rows = rows;
    }

    /// Copies a range of rows, so that they survive a rewind of unpublished rows.
    pub fn copy(&self, rows: Range<usize>) -> Vec<ArrayRef> {
        assert!(rows.end <= self.rows, "the rows have been appended");
        let fields = self.chunk.schema.fields();
        let columns = self.columns.iter().zip(fields);
        columns.map(|(column, field)| column.copy(field.data_type(), rows.clone())).collect()
    }

    /// One value, also of rows that are not published yet.
    pub fn cell(&self, column: usize, row: usize) -> Cell<'_> {
        assert!(row < self.rows, "the row has been appended");
        self.columns[column].cell(self.chunk.schema.field(column).data_type(), row)
    }

    /// One value of a column of integers without NULLs.
    #[inline]
    pub fn integer(&self, column: usize, row: usize) -> i64 {
        assert!(row < self.rows, "the row has been appended");
        self.columns[column].integer(row)
    }
}

fn generation(columns: &[ColumnWriter]) -> Generation {
    Generation { columns: columns.iter().map(ColumnWriter::shared).collect() }
}
