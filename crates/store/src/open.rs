//! Open chunks: rows that one writer appends while readers look at those that are published.

mod column;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use parking_lot::RwLock;
use thalweg_types::RowId;

use crate::cell::Cell;
use crate::order::Runs;
use column::{ColumnWriter, SharedColumn};

/// How many rows a new chunk has room for at least; it doubles when they are used up.
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

/// The columns in one allocation each. When it is full, a larger one takes its place and begins
/// with the same rows; readers that hold the smaller one keep it.
struct Generation {
    columns: Vec<SharedColumn>,
}

impl OpenChunk {
    /// Some rows of some columns, all of them appended already.
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

    #[must_use]
    pub fn column_count(&self) -> usize {
        self.schema.fields().len()
    }

    /// Notes that the first `rows` rows are visible to readers, for ever.
    pub(crate) fn publish(&self, rows: u32) {
        self.published.fetch_max(rows, Ordering::Release);
    }

    /// How many rows are visible to readers.
    #[must_use]
    pub fn published(&self) -> u32 {
        self.published.load(Ordering::Acquire)
    }

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

/// The writer's half of an open chunk: there is one for each, and it is never shared.
pub(crate) struct Appender {
    chunk: Arc<OpenChunk>,
    columns: Vec<ColumnWriter>,
    rows: usize,
    capacity: usize,
}

impl Appender {
    /// An empty chunk for rows of `schema`, of which `expected` are likely to come.
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

    pub fn chunk(&self) -> &Arc<OpenChunk> {
        &self.chunk
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    pub fn room(&self) -> usize {
        RowId::CHUNK_ROWS - self.rows
    }

    /// Appends rows of the chunk's schema, of which there must be no more than there is room for.
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

    /// Forgets the rows at `rows` and above, which no reader has seen.
    pub fn rewind(&mut self, rows: usize) {
        assert!(rows <= self.rows, "rewinding goes backwards");
        assert!(rows >= self.chunk.published() as usize, "published rows are never undone");
        for column in &mut self.columns {
            column.rewind(rows);
        }
        self.rows = rows;
    }

    /// Some rows, in memory of their own: rows that are not published may still be forgotten.
    pub fn copy(&self, rows: Range<usize>) -> Vec<ArrayRef> {
        assert!(rows.end <= self.rows, "the rows have been appended");
        let fields = self.chunk.schema.fields();
        let columns = self.columns.iter().zip(fields);
        columns.map(|(column, field)| column.copy(field.data_type(), rows.clone())).collect()
    }

    /// One value, of rows that are not published yet too.
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
