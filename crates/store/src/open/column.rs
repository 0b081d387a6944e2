//! One column of an open chunk.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayData, ArrayRef, AsArray, BooleanArray, make_array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    DataType as ArrowType, Date32Type, Decimal128Type, Decimal256Type, Field, Float32Type,
    Float64Type, Int16Type, Int32Type, Int64Type, IntervalMonthDayNanoType, Time64MicrosecondType,
    TimestampMicrosecondType,
};

use crate::cell::{self, Cell};
use crate::codec;
use crate::shared::{AtomicBits, BytesWriter, SharedBytes, SharedText, TextWriter};

/// The readers' half.
pub(super) struct SharedColumn {
    values: SharedValues,
    /// A bit for each row that is NULL; `None` if the column is not nullable.
    nulls: Option<Arc<AtomicBits>>,
}

enum SharedValues {
    Fixed(Arc<SharedBytes>),
    Bits(Arc<AtomicBits>),
    Text(SharedText),
    /// Nested values, each encoded on its own.
    Encoded(SharedText),
}

impl SharedColumn {
    /// A range of the values as an array.
    pub fn array(&self, data_type: &ArrowType, rows: Range<usize>) -> ArrayRef {
        self.values.array(data_type, rows.clone(), nulls(self.nulls.as_deref(), rows))
    }

    /// Bytes allocated for values and NULL bits.
    pub fn memory_bytes(&self) -> usize {
        let values = match &self.values {
            SharedValues::Fixed(bytes) => bytes.capacity(),
            SharedValues::Bits(bits) => bits.memory_bytes(),
            SharedValues::Text(text) | SharedValues::Encoded(text) => {
                text.view_bytes() + text.block_bytes()
            }
        };
        values + self.nulls.as_ref().map_or(0, |nulls| nulls.memory_bytes())
    }
}

impl SharedValues {
    fn array(
        &self,
        data_type: &ArrowType,
        rows: Range<usize>,
        nulls: Option<NullBuffer>,
    ) -> ArrayRef {
        match self {
            SharedValues::Fixed(bytes) => {
                let width = data_type.primitive_width().expect("a type of fixed width");
                let data = ArrayData::builder(data_type.clone())
                    .len(rows.len())
                    .add_buffer(bytes.share(rows.end * width).slice(rows.start * width))
                    .nulls(nulls)
                    .build()
                    .expect("as many bytes as the rows take");
                make_array(data)
            }
            SharedValues::Bits(bits) => Arc::new(BooleanArray::new(bits.copy(rows), nulls)),
            SharedValues::Text(text) => text.array(rows, nulls),
            SharedValues::Encoded(text) => {
                let encoded = text.array(rows, nulls);
                codec::decode_values(data_type, encoded.as_binary_view())
                    .expect("what the writer encoded can be decoded")
            }
        }
    }
}

fn nulls(bits: Option<&AtomicBits>, rows: Range<usize>) -> Option<NullBuffer> {
    let nulls = bits?.copy(rows);
    (nulls.count_set_bits() > 0).then(|| NullBuffer::new(!&nulls))
}

/// The writer's half.
pub(super) struct ColumnWriter {
    values: Values,
    nulls: Option<Arc<AtomicBits>>,
}

enum Values {
    Fixed { bytes: BytesWriter, width: usize },
    Bits(Arc<AtomicBits>),
    Text(TextWriter),
    Encoded(TextWriter),
}

impl ColumnWriter {
    /// An empty column with room for `rows` rows.
    pub fn new(field: &Field, rows: usize) -> ColumnWriter {
        let values = match field.data_type() {
            ArrowType::Boolean => Values::Bits(Arc::new(AtomicBits::new(rows))),
            ArrowType::Utf8View => Values::Text(TextWriter::new(rows, true)),
            ArrowType::BinaryView => Values::Text(TextWriter::new(rows, false)),
            other => match other.primitive_width() {
                Some(width) => {
                    Values::Fixed { bytes: BytesWriter::with_capacity(rows * width), width }
                }
                None => Values::Encoded(TextWriter::new(rows, false)),
            },
        };
        let nulls = field.is_nullable().then(|| Arc::new(AtomicBits::new(rows)));
        ColumnWriter { values, nulls }
    }

    /// The readers' half, over the current allocations.
    pub fn shared(&self) -> SharedColumn {
        let values = match &self.values {
            Values::Fixed { bytes, .. } => SharedValues::Fixed(Arc::clone(bytes.shared())),
            Values::Bits(bits) => SharedValues::Bits(Arc::clone(bits)),
            Values::Text(text) => SharedValues::Text(text.shared()),
            Values::Encoded(text) => SharedValues::Encoded(text.shared()),
        };
        SharedColumn { values, nulls: self.nulls.clone() }
    }

    /// Appends an array of the column's type after the first `rows` rows.
    pub fn append(&mut self, array: &ArrayRef, rows: usize) {
        match &mut self.values {
            Values::Fixed { bytes, .. } => bytes.append(fixed_bytes(array)),
            Values::Bits(bits) => {
                for index in array.as_boolean().values().set_indices() {
                    bits.set(rows + index);
                }
            }
            Values::Text(text) => match array.data_type() {
                ArrowType::Utf8View => text.append_array(array.as_string_view()),
                _ => text.append_array(array.as_binary_view()),
            },
            Values::Encoded(text) => {
                for row in 0..array.len() {
                    text.append_binary(&codec::encode_value(array, row));
                }
            }
        }
        if let Some(nulls) = array.nulls().filter(|nulls| nulls.null_count() > 0) {
            let bits = self.nulls.as_ref().expect("NULLs are refused where a column admits none");
            for index in (0..array.len()).filter(|index| nulls.is_null(*index)) {
                bits.set(rows + index);
            }
        }
    }

    /// Moves the column into an allocation for `rows` rows.
    pub fn grow(&mut self, rows: usize) {
        match &mut self.values {
            Values::Fixed { bytes, width } => {
                let mut grown = BytesWriter::with_capacity(rows * *width);
                grown.append(bytes.as_slice());
                *bytes = grown;
            }
            Values::Bits(bits) => *bits = Arc::new(bits.grown(rows)),
            Values::Text(text) | Values::Encoded(text) => text.grow(rows),
        }
        if let Some(nulls) = &mut self.nulls {
            *nulls = Arc::new(nulls.grown(rows));
        }
    }

    /// Copies a range of the values.
    pub fn copy(&self, data_type: &ArrowType, rows: Range<usize>) -> ArrayRef {
        let nulls = nulls(self.nulls.as_deref(), rows.clone());
        let values = match &self.values {
            // Making an array of bits copies them anyway.
            Values::Bits(bits) => {
                return SharedValues::Bits(Arc::clone(bits)).array(data_type, rows, nulls);
            }
            Values::Fixed { bytes, width } => {
                let copied = &bytes.as_slice()[rows.start * width..rows.end * width];
                let mut copy = BytesWriter::with_capacity(copied.len());
                copy.append(copied);
                SharedValues::Fixed(Arc::clone(copy.shared()))
            }
            Values::Text(text) => SharedValues::Text(text.copy(rows.clone())),
            Values::Encoded(text) => SharedValues::Encoded(text.copy(rows.clone())),
        };
        values.array(data_type, 0..rows.len(), nulls)
    }

    /// Removes all rows from `rows` on.
    pub fn rewind(&mut self, rows: usize) {
        match &mut self.values {
            Values::Fixed { bytes, width } => bytes.rewind(rows * *width),
            Values::Bits(bits) => bits.clear_from(rows),
            Values::Text(text) | Values::Encoded(text) => text.rewind(rows),
        }
        if let Some(nulls) = &self.nulls {
            nulls.clear_from(rows);
        }
    }

    /// One value.
    #[inline]
    pub fn cell(&self, data_type: &ArrowType, row: usize) -> Cell<'_> {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.get(row)) {
            return Cell::Null;
        }
        match &self.values {
            Values::Fixed { bytes, width } => {
                cell::fixed_cell(data_type, &bytes.as_slice()[row * width..][..*width])
            }
            Values::Bits(bits) => Cell::Number(bits.get(row).into()),
            Values::Text(text) => Cell::Bytes(text.value(row)),
            Values::Encoded(text) => Cell::Nested(text.value(row).into()),
        }
    }

    /// One value of a column of integers without NULLs.
    #[inline]
    pub fn integer(&self, row: usize) -> i64 {
        let Values::Fixed { bytes, width } = &self.values else {
            unreachable!("integers are of fixed width")
        };
        match cell::integer(&bytes.as_slice()[row * width..][..*width]) {
            Some(value) => value,
            None => unreachable!("integers have two, four or eight bytes"),
        }
    }
}

/// The bytes of a fixed-width array.
fn fixed_bytes(array: &ArrayRef) -> &[u8] {
    macro_rules! bytes {
        ($type:ty) => {
            array.as_primitive::<$type>().values().inner().as_slice()
        };
    }
    match array.data_type() {
        ArrowType::Int16 => bytes!(Int16Type),
        ArrowType::Int32 => bytes!(Int32Type),
        ArrowType::Int64 => bytes!(Int64Type),
        ArrowType::Float32 => bytes!(Float32Type),
        ArrowType::Float64 => bytes!(Float64Type),
        ArrowType::Decimal128(..) => bytes!(Decimal128Type),
        ArrowType::Decimal256(..) => bytes!(Decimal256Type),
        ArrowType::Date32 => bytes!(Date32Type),
        ArrowType::Time64(_) => bytes!(Time64MicrosecondType),
        ArrowType::Timestamp(..) => bytes!(TimestampMicrosecondType),
        ArrowType::Interval(_) => bytes!(IntervalMonthDayNanoType),
        other => unreachable!("{other} is not a type of fixed width"),
    }
}
