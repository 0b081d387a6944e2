//! Columns in the types that every Flight client supports: texts and bytes with offsets instead of
//! views, lists with 32-bit offsets, no dictionaries.
//!
//! Views are converted to offsets in one pass over their rows. Texts and bytes have the same layout
//! on the wire, so converted texts stay typed as bytes: this avoids a second validation, and only
//! the schema message declares them as text.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::types::ByteViewType;
use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, GenericByteViewArray, ListArray, RecordBatch,
    RecordBatchOptions,
};
use arrow::buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use arrow::error::ArrowError;
use thalweg_types::{Error, Result};

/// Maximum length of a value that is stored in the view itself.
const INLINE_BYTES: usize = 12;

/// A column in the type that clients see.
#[must_use]
pub fn wire_field(field: &Field) -> FieldRef {
    let wire = field.clone().with_data_type(wire_type(field.data_type()));
    Arc::new(wire.with_metadata(HashMap::clone(field.metadata())))
}

fn wire_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Utf8View | DataType::LargeUtf8 => DataType::Utf8,
        DataType::BinaryView | DataType::LargeBinary => DataType::Binary,
        DataType::Dictionary(_, values) => wire_type(values),
        DataType::RunEndEncoded(_, values) => wire_type(values.data_type()),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _) => DataType::List(wire_field(item)),
        DataType::Struct(fields) => {
            DataType::Struct(fields.iter().map(|field| wire_field(field)).collect())
        }
        DataType::Map(entries, sorted) => DataType::Map(wire_field(entries), *sorted),
        other => other.clone(),
    }
}

/// The columns of a batch in their wire types, except for views and lists.
///
/// The later conversion of those adds no more bytes than [`weight`] predicts.
pub(super) fn without_exotic(batch: &RecordBatch, wire: &Schema) -> Result<Vec<ArrayRef>> {
    let columns = batch.columns().iter().zip(wire.fields());
    columns.map(|(column, field)| plain(column, field.data_type())).collect()
}

fn plain(array: &ArrayRef, target: &DataType) -> Result<ArrayRef> {
    match array.data_type() {
        DataType::Utf8View | DataType::BinaryView | DataType::List(_) => Ok(Arc::clone(array)),
        same if same == target => Ok(Arc::clone(array)),
        _ => cast(array, target).map_err(unfit),
    }
}

/// The columns in the layout of their wire types.
pub(super) fn laid_out(columns: &[ArrayRef], rows: usize) -> Result<RecordBatch> {
    let columns: Vec<ArrayRef> = columns.iter().map(lay_out).collect::<Result<_>>()?;
    let fields: Vec<Field> =
        columns.iter().map(|column| Field::new("", column.data_type().clone(), true)).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let schema = Arc::new(Schema::new(fields));
    RecordBatch::try_new_with_options(schema, columns, &options).map_err(unfit)
}

fn lay_out(array: &ArrayRef) -> Result<ArrayRef> {
    Ok(match array.data_type() {
        DataType::Utf8View => Arc::new(bytes_of_views(array.as_string_view())),
        DataType::BinaryView => Arc::new(bytes_of_views(array.as_binary_view())),
        DataType::List(item) => {
            let lists = array.as_list::<i32>();
            let values = lay_out(lists.values())?;
            let item = Arc::new(item.as_ref().clone().with_data_type(values.data_type().clone()));
            let (offsets, nulls) = (lists.offsets().clone(), lists.nulls().cloned());
            Arc::new(ListArray::try_new(item, offsets, values, nulls).map_err(unfit)?)
        }
        _ => Arc::clone(array),
    })
}

/// Approximate number of bytes of a column on the wire. Counts only the bytes of its rows.
#[must_use]
pub fn weight(array: &ArrayRef) -> usize {
    match array.data_type() {
        DataType::Utf8View => weight_of_views(array.as_string_view()),
        DataType::BinaryView => weight_of_views(array.as_binary_view()),
        DataType::List(_) => {
            let lists = array.as_list::<i32>();
            let (from, to) = (lists.value_offsets()[0], lists.value_offsets()[lists.len()]);
            let (from, to) = (from as usize, to as usize);
            weight(&lists.values().slice(from, to - from)) + lists.len() * size_of::<i32>()
        }
        DataType::Struct(_) => array.as_struct().columns().iter().map(weight).sum(),
        _ => array.to_data().get_slice_memory_size().unwrap_or(0),
    }
}

fn weight_of_views<T: ByteViewType>(array: &GenericByteViewArray<T>) -> usize {
    let bytes: usize = array.views().iter().map(|view| length(*view)).sum();
    bytes + array.len() * size_of::<i32>()
}

fn length(view: u128) -> usize {
    view as u32 as usize
}

/// Concatenates the values. They must fit 2 GiB, which callers check with [`weight`].
fn bytes_of_views<T: ByteViewType>(array: &GenericByteViewArray<T>) -> BinaryArray {
    let views = array.views();
    let total: usize = views.iter().map(|view| length(*view)).sum();
    // Short values are copied with the full inline length, and the next value overwrites the
    // excess. The last value needs room for its excess.
    let mut values = vec![0; total + INLINE_BYTES];
    let mut offsets = Vec::with_capacity(views.len() + 1);
    let mut end = 0;
    offsets.push(0_i32);
    for view in views.iter() {
        let length = length(*view);
        if length <= INLINE_BYTES {
            values[end..end + INLINE_BYTES].copy_from_slice(&view.to_le_bytes()[4..]);
        } else {
            let (buffer, from) = ((view >> 64) as u32 as usize, (view >> 96) as usize);
            let value = &array.data_buffers()[buffer][from..from + length];
            values[end..end + length].copy_from_slice(value);
        }
        end += length;
        offsets.push(end as i32);
    }
    values.truncate(total);
    let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
    BinaryArray::new(offsets, Buffer::from_vec(values), array.nulls().cloned())
}

fn unfit(error: ArrowError) -> Error {
    Error::internal("rows do not fit the types that clients get").with_source(error)
}

#[cfg(test)]
mod tests {
    use arrow::array::{BinaryViewArray, DictionaryArray, ListBuilder, StringViewBuilder};
    use arrow::array::{StringArray, StringViewArray};
    use arrow::datatypes::Int32Type;

    use super::*;

    fn wire(column: ArrayRef) -> ArrayRef {
        let field = Field::new("c", column.data_type().clone(), true);
        let rows = column.len();
        let schema = Arc::new(Schema::new(vec![field]));
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![column]).unwrap();
        let wire = Schema::new(vec![wire_field(schema.field(0))]);
        let laid = laid_out(&without_exotic(&batch, &wire).unwrap(), rows).unwrap();
        // Reading bytes as text validates them, as a client does.
        cast(laid.column(0), wire.field(0).data_type()).unwrap()
    }

    #[test]
    fn views_become_texts_with_offsets() {
        let values =
            vec![Some(""), Some("short"), None, Some("longer than twelve bytes"), Some("é")];
        let views: ArrayRef = Arc::new(StringViewArray::from(values.clone()));
        assert_eq!(wire(Arc::clone(&views)).as_string::<i32>(), &StringArray::from(values.clone()));
        let part = wire(views.slice(1, 3));
        assert_eq!(part.as_string::<i32>(), &StringArray::from(values[1..4].to_vec()));
        assert_eq!(wire(views.slice(0, 0)).len(), 0);
    }

    #[test]
    fn bytes_and_lists_and_dictionaries_follow() {
        let bytes: ArrayRef = Arc::new(BinaryViewArray::from(vec![Some(&b"\xff"[..]), None]));
        assert_eq!(wire(bytes).as_binary::<i32>().value(0), b"\xff");
        let mut lists = ListBuilder::new(StringViewBuilder::new());
        lists.append_value([Some("a"), None, Some("longer than twelve bytes")]);
        lists.append_null();
        let lists = wire(Arc::new(lists.finish()));
        assert_eq!(lists.as_list::<i32>().value(0).as_string::<i32>().value(2).len(), 24);
        let words: DictionaryArray<Int32Type> = vec!["x", "y", "x"].into_iter().collect();
        assert_eq!(
            wire(Arc::new(words)).as_string::<i32>(),
            &StringArray::from(vec!["x", "y", "x"])
        );
    }

    #[test]
    fn a_slice_weighs_its_own_rows() {
        let long = "x".repeat(1_000);
        let views: ArrayRef = Arc::new(StringViewArray::from(vec![long.as_str(); 10]));
        assert_eq!(weight(&views.slice(0, 1)), 1_004);
        let mut lists = ListBuilder::new(StringViewBuilder::new());
        (0..10).for_each(|_| lists.append_value([Some(long.as_str()), Some("")]));
        let lists: ArrayRef = Arc::new(lists.finish());
        assert_eq!(weight(&lists.slice(3, 2)), 2 * (1_000 + 2 * 4 + 4));
    }
}
