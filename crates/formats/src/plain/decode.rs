//! Decodes rows from untrusted bytes.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, ArrowPrimitiveType, BooleanArray, GenericByteViewArray, ListArray, PrimitiveArray,
    RecordBatch, RecordBatchOptions, make_view,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{
    BinaryViewType, ByteViewType, DataType as ArrowType, Date32Type, Decimal128Type,
    Decimal256Type, FieldRef, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
    IntervalMonthDayNanoType, IntervalUnit, SchemaRef, StringViewType, Time64MicrosecondType,
    TimeUnit, TimestampMicrosecondType,
};
use arrow::error::ArrowError;
use thalweg_types::{Error, Result, SqlState};

use super::{ROWS_MAX, by_width};

/// Maximum length of a text that is stored in its view.
const INLINE_BYTES_MAX: usize = 12;

/// Decodes the rows that [`encode`](super::encode) encoded.
///
/// # Errors
/// If the bytes are not an encoding of this schema.
pub fn decode(schema: &SchemaRef, bytes: &[u8]) -> Result<RecordBatch> {
    let mut input = Input(bytes);
    let rows = input.length()?;
    if rows > ROWS_MAX {
        return Err(damaged("there are too many of them"));
    }
    let columns = schema.fields().iter().map(|field| column(field.data_type(), rows, &mut input));
    let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
    if !input.0.is_empty() {
        return Err(damaged("something follows the last value"));
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options).map_err(unfit)
}

fn damaged(what: impl std::fmt::Display) -> Error {
    Error::new(SqlState::PROTOCOL_VIOLATION, format!("rows are damaged: {what}"))
}

fn unfit(error: ArrowError) -> Error {
    damaged(error)
}

/// The unread rest of the input.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn bytes(&mut self, length: usize) -> Result<&'a [u8]> {
        let split = self.0.split_at_checked(length);
        let (bytes, rest) = split.ok_or_else(|| damaged("they end too early"))?;
        self.0 = rest;
        Ok(bytes)
    }

    fn length(&mut self) -> Result<usize> {
        let bytes = self.bytes(size_of::<u32>())?;
        Ok(lengths(bytes).next().unwrap_or_default())
    }

    /// Reads values of a given width. The product fits: there are at most 2^32 values.
    fn values(&mut self, count: usize, width: usize) -> Result<&'a [u8]> {
        self.bytes(count * width)
    }

    fn bits(&mut self, count: usize) -> Result<BooleanBuffer> {
        Ok(BooleanBuffer::new(Buffer::from(self.bytes(count.div_ceil(8))?), 0, count))
    }
}

fn lengths(bytes: &[u8]) -> impl Iterator<Item = usize> {
    let (lengths, _) = bytes.as_chunks::<4>();
    lengths.iter().map(|length| u32::from_le_bytes(*length) as usize)
}

fn column(data_type: &ArrowType, rows: usize, input: &mut Input<'_>) -> Result<ArrayRef> {
    let nulls = match input.bytes(1)? {
        [0] => None,
        [1] => Some(NullBuffer::new(input.bits(rows)?)),
        _ => return Err(damaged("a column begins with an unknown byte")),
    };
    by_width!(data_type, numbers(data_type, rows, nulls, input),
        ArrowType::Boolean => Ok(Arc::new(BooleanArray::new(input.bits(rows)?, nulls))),
        ArrowType::Utf8View => texts::<StringViewType>(rows, nulls, input),
        ArrowType::BinaryView => texts::<BinaryViewType>(rows, nulls, input),
        ArrowType::List(item) => lists(item, rows, nulls, input),
        other => Err(Error::internal(format!("no table has a column of {other}"))),
    )
}

fn numbers<T: ArrowPrimitiveType>(
    data_type: &ArrowType,
    rows: usize,
    nulls: Option<NullBuffer>,
    input: &mut Input<'_>,
) -> Result<ArrayRef> {
    // The copy is aligned.
    let bytes = Buffer::from(input.values(rows, size_of::<T::Native>())?);
    let values = ScalarBuffer::<T::Native>::new(bytes, 0, rows);
    let array = PrimitiveArray::<T>::try_new(values, nulls).map_err(unfit)?;
    Ok(Arc::new(array.with_data_type(data_type.clone())))
}

fn texts<T: ByteViewType>(
    rows: usize,
    nulls: Option<NullBuffer>,
    input: &mut Input<'_>,
) -> Result<ArrayRef> {
    let all = input.values(rows, size_of::<u32>())?;
    let bytes = input.bytes(lengths(all).sum())?;
    if u32::try_from(bytes.len()).is_err() {
        return Err(damaged("texts are too long"));
    }
    let (mut views, mut start, mut longest) = (Vec::with_capacity(rows), 0, 0);
    for length in lengths(all) {
        views.push(make_view(&bytes[start..][..length], 0, start as u32));
        start += length;
        longest = longest.max(length);
    }
    let buffers = match longest > INLINE_BYTES_MAX {
        true => vec![Buffer::from(bytes)],
        false => Vec::new(),
    };
    // Validates texts as UTF-8.
    let array = GenericByteViewArray::<T>::try_new(views.into(), buffers, nulls);
    Ok(Arc::new(array.map_err(unfit)?))
}

fn lists(
    item: &FieldRef,
    rows: usize,
    nulls: Option<NullBuffer>,
    input: &mut Input<'_>,
) -> Result<ArrayRef> {
    let all = input.values(rows, size_of::<u32>())?;
    let mut offsets = Vec::with_capacity(rows + 1);
    offsets.push(0_i32);
    let mut end = 0_i32;
    for length in lengths(all) {
        let sum = i32::try_from(length).ok().and_then(|length| end.checked_add(length));
        end = sum.ok_or_else(|| damaged("a list is too long"))?;
        offsets.push(end);
    }
    let items = column(item.data_type(), end as usize, input)?;
    let offsets = OffsetBuffer::new(offsets.into());
    let lists = ListArray::try_new(Arc::clone(item), offsets, items, nulls).map_err(unfit)?;
    Ok(Arc::new(lists))
}
