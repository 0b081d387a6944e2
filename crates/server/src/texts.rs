//! Texts as clients send them.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::DataType;
use thalweg_types::{Error, Result, SqlState};

/// PostgreSQL's texts, and so those of its clients, have no byte 0 inside; messages of other
/// protocols may have some.
///
/// # Errors
/// Where there is one.
pub(crate) fn without_zero(text: &str) -> Result<()> {
    if !text.contains('\0') {
        return Ok(());
    }
    let message = "invalid byte sequence for encoding \"UTF8\": 0x00";
    Err(Error::new(SqlState::INVALID_BYTE_SEQUENCE, message))
}

/// The same for the texts of a column, wherever they stand in it.
///
/// # Errors
/// As [`without_zero`].
pub(crate) fn column_without_zero(column: &ArrayRef) -> Result<()> {
    let mut texts = |text: Option<&str>| text.map_or(Ok(()), without_zero);
    let parts = match column.data_type() {
        DataType::Utf8 => return column.as_string::<i32>().iter().try_for_each(&mut texts),
        DataType::LargeUtf8 => return column.as_string::<i64>().iter().try_for_each(&mut texts),
        DataType::Utf8View => return column.as_string_view().iter().try_for_each(&mut texts),
        DataType::Dictionary(..) => std::slice::from_ref(column.as_any_dictionary().values()),
        DataType::List(_) => std::slice::from_ref(column.as_list::<i32>().values()),
        DataType::LargeList(_) => std::slice::from_ref(column.as_list::<i64>().values()),
        DataType::FixedSizeList(..) => std::slice::from_ref(column.as_fixed_size_list().values()),
        DataType::Struct(_) => column.as_struct().columns(),
        _ => return Ok(()),
    };
    parts.iter().try_for_each(column_without_zero)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        DictionaryArray, FixedSizeListArray, LargeStringArray, ListArray, StringArray,
        StringViewArray, StructArray,
    };
    use arrow::buffer::OffsetBuffer;
    use arrow::datatypes::{Field, Int32Type};

    use super::*;

    /// A text wherever a column can have it.
    fn columns(text: &str) -> Vec<ArrayRef> {
        let texts: ArrayRef = Arc::new(StringArray::from(vec![None, Some("a"), Some(text)]));
        let field = Arc::new(Field::new("item", DataType::Utf8, true));
        let offsets = OffsetBuffer::from_lengths([3]);
        let list = ListArray::new(Arc::clone(&field), offsets, Arc::clone(&texts), None);
        let fixed = FixedSizeListArray::new(Arc::clone(&field), 3, Arc::clone(&texts), None);
        let row = StructArray::from(vec![(field, Arc::clone(&texts))]);
        let dictionary: DictionaryArray<Int32Type> = [text, "a"].into_iter().collect();
        vec![
            texts,
            Arc::new(LargeStringArray::from(vec![text])),
            Arc::new(StringViewArray::from(vec![text])),
            Arc::new(dictionary),
            Arc::new(list),
            Arc::new(fixed),
            Arc::new(row),
        ]
    }

    #[test]
    fn no_text_holds_a_nul() {
        for column in columns("zero\0within a text of some length") {
            let error = column_without_zero(&column).unwrap_err();
            assert_eq!(error.state().0, "22021", "{}", column.data_type());
        }
        assert!(columns("\u{1} and é").iter().all(|column| column_without_zero(column).is_ok()));
    }
}
