//! The columns of a chunk, opened for reading: the store's own buffers, by width.

use std::cell::RefCell;
use std::rc::Rc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringViewArray};
use arrow::buffer::{BooleanBuffer, NullBuffer, ScalarBuffer};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type,
    Int64Type, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType, TimestampNanosecondType,
    UInt64Type,
};
use thalweg_store::{ChunkView, Dictionary};
use thalweg_types::RowId;

use super::texts::TextTest;

/// The values of a column.
pub(crate) enum Data {
    Int16(ScalarBuffer<i16>),
    Int32(ScalarBuffer<i32>),
    Int64(ScalarBuffer<i64>),
    Float32(ScalarBuffer<f32>),
    Float64(ScalarBuffer<f64>),
    Decimal(ScalarBuffer<i128>),
    Bits(BooleanBuffer),
    Text(StringViewArray),
    Dictionary(Dictionary),
    /// A type of which only the NULLs are read.
    Opaque,
}

pub(crate) struct Column {
    pub data: Data,
    /// `None` if no row is NULL.
    pub nulls: Option<NullBuffer>,
    /// Minimum and maximum of an integer column, if the chunk has a zone with them.
    pub range: Option<(i64, i64)>,
}

/// The columns of a chunk that an aggregation reads.
pub(crate) struct Source {
    pub rows: usize,
    pub columns: Vec<Column>,
    /// The chunk's number in its table.
    chunk: u32,
    /// Cached results of tests on dictionaries.
    passing: RefCell<Vec<Passing>>,
}

/// Which entries of a dictionary pass a test, which is identified by its address.
type Passing = (*const TextTest, Rc<[u8]>);

impl Source {
    /// Opens the columns at the given positions of the table.
    pub fn open(chunk: &ChunkView, places: &[usize]) -> Source {
        let plain: Vec<usize> =
            places.iter().copied().filter(|place| chunk.dictionary(*place).is_none()).collect();
        let mut arrays = chunk.columns(&plain).into_iter();
        let columns = places.iter().map(|place| match chunk.dictionary(*place) {
            Some(dictionary) => Column::of_dictionary(dictionary),
            None => {
                let array = arrays.next().expect("as many columns came as were asked for");
                Column { range: zone_range(chunk, *place), ..Column::of_array(&array) }
            }
        });
        let passing = RefCell::default();
        Source { rows: chunk.rows(), columns: columns.collect(), chunk: chunk.number(), passing }
    }

    /// Opens all columns of a batch. Row ids then have chunk number 0.
    pub fn of_batch(batch: &RecordBatch) -> Source {
        let columns = batch.columns().iter().map(Column::of_array).collect();
        Source { rows: batch.num_rows(), columns, chunk: 0, passing: RefCell::default() }
    }

    /// The id of a row.
    pub fn row_id(&self, row: usize) -> RowId {
        RowId::new(self.chunk, row as u32)
    }

    /// The result of a test on a dictionary's entries, computed once for all rows of the chunk.
    pub fn once(&self, test: &TextTest, find: impl FnOnce() -> Rc<[u8]>) -> Rc<[u8]> {
        let mut passing = self.passing.borrow_mut();
        if let Some((_, known)) = passing.iter().find(|(of, _)| std::ptr::eq(*of, test)) {
            return Rc::clone(known);
        }
        let found = find();
        passing.push((test, Rc::clone(&found)));
        found
    }
}

/// Minimum and maximum of an integer or decimal column, dead rows included.
pub(crate) fn zone_bounds(chunk: &ChunkView, place: usize) -> Option<(i128, i128)> {
    let (least, greatest) = chunk.zone(place)?.range.as_ref()?;
    Some((first_number(least)?, first_number(greatest)?))
}

/// Like [`zone_bounds`], in 64 bits; `None` if they do not fit.
pub(crate) fn zone_range(chunk: &ChunkView, place: usize) -> Option<(i64, i64)> {
    let (least, greatest) = zone_bounds(chunk, place)?;
    Some((i64::try_from(least).ok()?, i64::try_from(greatest).ok()?))
}

/// The first value of an array of integers or decimals.
fn first_number(array: &ArrayRef) -> Option<i128> {
    match Column::of_array(array).data {
        Data::Int16(values) => values.first().copied().map(i128::from),
        Data::Int32(values) => values.first().copied().map(i128::from),
        Data::Int64(values) => values.first().copied().map(i128::from),
        Data::Decimal(values) => values.first().copied(),
        _ => None,
    }
}

impl Column {
    fn of_dictionary(dictionary: &Dictionary) -> Column {
        let nulls = dictionary.nulls.clone().filter(|nulls| nulls.null_count() > 0);
        Column { data: Data::Dictionary(dictionary.clone()), nulls, range: None }
    }

    /// Opens an array. Unsupported types become [`Data::Opaque`].
    pub fn of_array(array: &ArrayRef) -> Column {
        macro_rules! values {
            ($type:ty) => {
                array.as_primitive::<$type>().values().clone()
            };
        }
        let data = match array.data_type() {
            DataType::Boolean => Data::Bits(array.as_boolean().values().clone()),
            DataType::Int16 => Data::Int16(values!(Int16Type)),
            DataType::Int32 => Data::Int32(values!(Int32Type)),
            DataType::Date32 => Data::Int32(values!(Date32Type)),
            DataType::Int64 => Data::Int64(values!(Int64Type)),
            // Unsigned columns are counts of rows, which never reach the upper bit.
            DataType::UInt64 => Data::Int64(values!(UInt64Type).into_inner().into()),
            DataType::Time64(_) => Data::Int64(values!(Time64MicrosecondType)),
            DataType::Timestamp(TimeUnit::Nanosecond, _) => {
                Data::Int64(values!(TimestampNanosecondType))
            }
            DataType::Timestamp(..) => Data::Int64(values!(TimestampMicrosecondType)),
            DataType::Float32 => Data::Float32(values!(Float32Type)),
            DataType::Float64 => Data::Float64(values!(Float64Type)),
            DataType::Decimal128(..) => Data::Decimal(values!(Decimal128Type)),
            DataType::Utf8View => Data::Text(array.as_string_view().clone()),
            _ => Data::Opaque,
        };
        let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0).cloned();
        Column { data, nulls, range: None }
    }

    /// The validity of a range of rows; `None` if none of them is NULL.
    pub fn nulls_of(&self, start: usize, length: usize) -> Option<NullBuffer> {
        let nulls = self.nulls.as_ref()?.slice(start, length);
        (nulls.null_count() > 0).then_some(nulls)
    }
}
