//! The length of intervals, by which they are ordered: a month is 30 days and a day 24 hours.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Decimal128Array};
use arrow::datatypes::{DataType as ArrowType, IntervalMonthDayNano, IntervalMonthDayNanoType};

use crate::calendar::MICROS_PER_DAY;

/// Arrow's type of lengths, which are whole microseconds.
pub const LENGTH: ArrowType = ArrowType::Decimal128(30, 0);

/// The lengths of a column of intervals.
pub fn lengths(column: &ArrayRef) -> ArrayRef {
    let intervals = column.as_primitive::<IntervalMonthDayNanoType>();
    let lengths = intervals.iter().map(|interval| interval.map(micros_of));
    Arc::new(lengths.collect::<Decimal128Array>().with_data_type(LENGTH))
}

/// The length of an interval in microseconds.
pub fn micros_of(interval: IntervalMonthDayNano) -> i128 {
    let days = i128::from(interval.months) * 30 + i128::from(interval.days);
    days * i128::from(MICROS_PER_DAY) + i128::from(interval.nanoseconds / 1_000)
}
