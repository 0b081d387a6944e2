//! Checks that values sent by clients are ones that tables can hold.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Time64MicrosecondType, TimeUnit};
use thalweg_formats::columns::TIMES_OF_DAY;
use thalweg_formats::text::ValueFormatter;
use thalweg_types::{Error, Result, SqlState};

/// Checks that a text has no zero byte. PostgreSQL's texts have none, so its clients could not read
/// one, but other protocols can send it.
///
/// # Errors
/// If there is one.
pub(crate) fn without_zero(text: &str) -> Result<()> {
    if !text.contains('\0') {
        return Ok(());
    }
    let message = "invalid byte sequence for encoding \"UTF8\": 0x00";
    Err(Error::new(SqlState::INVALID_BYTE_SEQUENCE, message))
}

/// Checks that tables can hold every value of a column, nested ones included: texts must have no
/// zero byte, and times must lie within a day, which Arrow does not require.
///
/// # Errors
/// If the column holds any other value.
pub(crate) fn check_column(column: &ArrayRef) -> Result<()> {
    let mut texts = |text: Option<&str>| text.map_or(Ok(()), without_zero);
    let parts = match column.data_type() {
        DataType::Utf8 => return column.as_string::<i32>().iter().try_for_each(&mut texts),
        DataType::LargeUtf8 => return column.as_string::<i64>().iter().try_for_each(&mut texts),
        DataType::Utf8View => return column.as_string_view().iter().try_for_each(&mut texts),
        DataType::Time32(_) | DataType::Time64(_) => return times_of_day(column),
        DataType::Dictionary(..) => std::slice::from_ref(column.as_any_dictionary().values()),
        DataType::List(_) => std::slice::from_ref(column.as_list::<i32>().values()),
        DataType::LargeList(_) => std::slice::from_ref(column.as_list::<i64>().values()),
        DataType::FixedSizeList(..) => std::slice::from_ref(column.as_fixed_size_list().values()),
        DataType::Struct(_) => column.as_struct().columns(),
        _ => return Ok(()),
    };
    parts.iter().try_for_each(check_column)
}

fn times_of_day(column: &ArrayRef) -> Result<()> {
    let unread = |error| Error::internal("times cannot be read").with_source(error);
    let micros = cast(column, &DataType::Time64(TimeUnit::Microsecond)).map_err(unread)?;
    let mut times = micros.as_primitive::<Time64MicrosecondType>().iter();
    let is_outside = |time: Option<i64>| time.is_some_and(|time| !TIMES_OF_DAY.contains(&time));
    let Some(row) = times.position(is_outside) else { return Ok(()) };
    let mut text = String::new();
    ValueFormatter::new(&micros)?.format(row, &mut text);
    let message = format!("value \"{text}\" is out of range for type time");
    Err(Error::new(SqlState::DATETIME_OVERFLOW, message))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        DictionaryArray, FixedSizeListArray, LargeStringArray, ListArray, StringArray,
        StringViewArray, StructArray, Time32SecondArray, Time64MicrosecondArray,
        Time64NanosecondArray,
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
            let error = check_column(&column).unwrap_err();
            assert_eq!(error.state().0, "22021", "{}", column.data_type());
        }
        assert!(columns("\u{1} and é").iter().all(|column| check_column(column).is_ok()));
    }

    #[test]
    fn no_time_is_outside_a_day() {
        let day = 86_400;
        let seconds = |time| Arc::new(Time32SecondArray::from(vec![None, Some(time)])) as ArrayRef;
        let micros = |time| Arc::new(Time64MicrosecondArray::from(vec![time])) as ArrayRef;
        let nanos = |time| Arc::new(Time64NanosecondArray::from(vec![time])) as ArrayRef;
        for column in [seconds(0), seconds(day), micros(0), micros(i64::from(day) * 1_000_000)] {
            check_column(&column).unwrap();
        }
        for column in [seconds(-1), seconds(day + 1), micros(-1), micros(i64::MIN), nanos(i64::MAX)]
        {
            assert_eq!(check_column(&column).unwrap_err().state().0, "22008");
        }
    }
}
