//! Converts rows to columns: one function for each type of a column.

use std::fmt::{Display, Write as _};
use std::sync::Arc;

use arrow::array::{ArrayRef, Date32Array, Decimal128Array, Int32Array, Int64Array, StringBuilder};
use tpchgen::dates::TPCHDate;

/// A column of 64-bit integers.
pub fn bigint<T>(rows: &[T], value: impl Fn(&T) -> i64) -> ArrayRef {
    Arc::new(rows.iter().map(|row| Some(value(row))).collect::<Int64Array>())
}

/// A column of 32-bit integers.
pub fn integer<T>(rows: &[T], value: impl Fn(&T) -> i32) -> ArrayRef {
    Arc::new(rows.iter().map(|row| Some(value(row))).collect::<Int32Array>())
}

/// Amounts, given in hundredths.
pub fn money<T>(rows: &[T], hundredths: impl Fn(&T) -> i64) -> ArrayRef {
    let values = rows.iter().map(|row| i128::from(hundredths(row)));
    let amounts = Decimal128Array::from_iter_values(values).with_precision_and_scale(15, 2);
    Arc::new(amounts.expect("the generator's amounts have at most 15 digits"))
}

/// A column of dates.
pub fn date<T>(rows: &[T], value: impl Fn(&T) -> TPCHDate) -> ArrayRef {
    Arc::new(rows.iter().map(|row| Some(value(row).to_unix_epoch())).collect::<Date32Array>())
}

/// A column of the values' display forms.
pub fn text<T, D: Display>(rows: &[T], value: impl Fn(&T) -> D) -> ArrayRef {
    let mut texts = StringBuilder::new();
    for row in rows {
        write!(texts, "{}", value(row)).expect("memory takes every write");
        texts.append_value("");
    }
    Arc::new(texts.finish())
}
