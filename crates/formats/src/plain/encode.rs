//! Encodes rows as bytes.

use std::borrow::Cow;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanBufferBuilder, RecordBatch,
};
use arrow::datatypes::{
    BinaryViewType, ByteViewType, DataType as ArrowType, Date32Type, Decimal128Type,
    Decimal256Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
    IntervalMonthDayNanoType, IntervalUnit, StringViewType, Time64MicrosecondType, TimeUnit,
    TimestampMicrosecondType, ToByteSlice,
};
use thalweg_types::{Error, Result};

use super::{ROWS_MAX, by_width};

/// Some rows of a batch, or all.
#[derive(Clone, Copy)]
pub struct Picked<'a> {
    pub batch: &'a RecordBatch,
    /// The rows' indexes in the batch.
    pub rows: Option<&'a [u32]>,
}

impl Picked<'_> {
    fn count(&self) -> usize {
        self.rows.map_or(self.batch.num_rows(), <[u32]>::len)
    }
}

/// Writes rows of successive batches that have the same columns.
///
/// # Errors
/// If a column has a type that tables do not support, or there are too many rows.
pub fn encode(batches: &[Picked<'_>]) -> Result<Vec<u8>> {
    let rows: usize = batches.iter().map(Picked::count).sum();
    if rows > ROWS_MAX {
        return Err(Error::internal(format!("{rows} rows are too many to travel as one")));
    }
    let mut out = Vec::new();
    put_length(rows, &mut out)?;
    let columns = batches.first().map_or(0, |first| first.batch.num_columns());
    for place in 0..columns {
        let values = batches.iter().map(|picked| Values {
            array: picked.batch.column(place),
            rows: picked.rows.map(Cow::Borrowed),
        });
        let values: Vec<Values<'_>> = values.collect();
        put_column(&values, rows, &mut out)?;
    }
    Ok(out)
}

/// Values of a column, either all or those of some rows.
struct Values<'a> {
    array: &'a ArrayRef,
    rows: Option<Cow<'a, [u32]>>,
}

impl Values<'_> {
    fn each(&self, mut take: impl FnMut(usize)) {
        match &self.rows {
            None => (0..self.array.len()).for_each(take),
            Some(rows) => rows.iter().for_each(|row| take(*row as usize)),
        }
    }
}

fn put_column(pieces: &[Values<'_>], rows: usize, out: &mut Vec<u8>) -> Result<()> {
    let Some(first) = pieces.first() else { return Ok(()) };
    if pieces.iter().any(|piece| piece.array.data_type() != first.array.data_type()) {
        return Err(Error::internal("rows that travel together have the same columns"));
    }
    put_nulls(pieces, rows, out);
    by_width!(first.array.data_type(), put_numbers(pieces, rows, out),
        ArrowType::Boolean => put_bits(pieces, rows, out),
        ArrowType::Utf8View => return put_texts::<StringViewType>(pieces, rows, out),
        ArrowType::BinaryView => return put_texts::<BinaryViewType>(pieces, rows, out),
        ArrowType::List(_) => return put_lists(pieces, out),
        other => return Err(Error::internal(format!("no table has a column of {other}"))),
    );
    Ok(())
}

fn put_length(length: usize, out: &mut Vec<u8>) -> Result<()> {
    let length = u32::try_from(length).map_err(|_| Error::internal("a value is too long"))?;
    out.extend_from_slice(&length.to_le_bytes());
    Ok(())
}

fn put_nulls(pieces: &[Values<'_>], rows: usize, out: &mut Vec<u8>) {
    let has_nulls = pieces.iter().any(|piece| piece.array.null_count() > 0);
    out.push(u8::from(has_nulls));
    if has_nulls {
        let mut bits = BooleanBufferBuilder::new(rows);
        for piece in pieces {
            piece.each(|row| bits.append(piece.array.is_valid(row)));
        }
        out.extend_from_slice(&bits.as_slice()[..rows.div_ceil(8)]);
    }
}

fn put_bits(pieces: &[Values<'_>], rows: usize, out: &mut Vec<u8>) {
    let mut bits = BooleanBufferBuilder::new(rows);
    for piece in pieces {
        let values = piece.array.as_boolean().values();
        piece.each(|row| bits.append(values.value(row)));
    }
    out.extend_from_slice(&bits.as_slice()[..rows.div_ceil(8)]);
}

fn put_numbers<T: ArrowPrimitiveType>(pieces: &[Values<'_>], rows: usize, out: &mut Vec<u8>) {
    let width = size_of::<T::Native>();
    out.reserve(rows * width);
    for piece in pieces {
        let values = piece.array.as_primitive::<T>().values();
        let Some(picked) = &piece.rows else {
            out.extend_from_slice(values.to_byte_slice());
            continue;
        };
        let start = out.len();
        out.resize(start + picked.len() * width, 0);
        for (place, row) in out[start..].chunks_exact_mut(width).zip(picked.iter()) {
            let value = [values[*row as usize]];
            place.copy_from_slice(value.to_byte_slice());
        }
    }
}

fn put_texts<T: ByteViewType>(pieces: &[Values<'_>], rows: usize, out: &mut Vec<u8>) -> Result<()> {
    out.reserve(rows * size_of::<u32>());
    let mut bytes = 0;
    for piece in pieces {
        let texts = piece.array.as_byte_view::<T>();
        piece.each(|row| {
            // A view begins with its length.
            let length = if texts.is_valid(row) { texts.views()[row] as u32 } else { 0 };
            out.extend_from_slice(&length.to_le_bytes());
            bytes += length as usize;
        });
    }
    // The decoder uses offsets of four bytes.
    u32::try_from(bytes).map_err(|_| Error::internal("texts are too long to travel as one"))?;
    out.reserve(bytes);
    for piece in pieces {
        let texts = piece.array.as_byte_view::<T>();
        piece.each(|row| {
            if texts.is_valid(row) {
                out.extend_from_slice(AsRef::<[u8]>::as_ref(texts.value(row)));
            }
        });
    }
    Ok(())
}

fn put_lists(pieces: &[Values<'_>], out: &mut Vec<u8>) -> Result<()> {
    let (mut items, mut count) = (Vec::with_capacity(pieces.len()), 0);
    for piece in pieces {
        let lists = piece.array.as_list::<i32>();
        let mut rows = Vec::new();
        let mut put = Ok(());
        piece.each(|row| {
            let span = match lists.is_valid(row) {
                true => lists.value_offsets()[row]..lists.value_offsets()[row + 1],
                false => 0..0,
            };
            if put.is_ok() {
                put = put_length(span.len(), out);
            }
            rows.extend(span.map(|place| place as u32));
        });
        put?;
        count += rows.len();
        items.push(Values { array: lists.values(), rows: Some(Cow::Owned(rows)) });
    }
    put_column(&items, count, out)
}
