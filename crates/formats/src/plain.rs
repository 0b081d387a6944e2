//! Rows as plain columns, the encoding between nodes.
//!
//! Both sides know the schema, so only values are sent: the number of rows in four bytes, then one
//! column after another. A column is a byte that says if it has NULLs, then a bit for each row if
//! it does, and its values: numbers in their memory layout, booleans as bits, texts as their
//! lengths in four bytes each followed by all their bytes, lists as their lengths followed by their
//! items as a column.
//!
//! The encoder picks rows out of batches while it writes. The decoder copies: its result does not
//! keep the input alive. It never panics, whatever the bytes, and allocates at most a few times
//! their size.

mod decode;
mod encode;

#[cfg(test)]
mod tests;

pub use decode::decode;
pub use encode::{Picked, encode};

/// An upper bound for the rows of a batch.
const ROWS_MAX: usize = 1 << 24;

/// Calls `$function::<T>($arguments)` for the array type of a type of fixed width.
macro_rules! by_width {
    ($data_type:expr, $function:ident($($argument:expr),*), $($other:tt)*) => {
        match $data_type {
            ArrowType::Int16 => $function::<Int16Type>($($argument),*),
            ArrowType::Int32 => $function::<Int32Type>($($argument),*),
            ArrowType::Int64 => $function::<Int64Type>($($argument),*),
            ArrowType::Float32 => $function::<Float32Type>($($argument),*),
            ArrowType::Float64 => $function::<Float64Type>($($argument),*),
            ArrowType::Decimal128(..) => $function::<Decimal128Type>($($argument),*),
            ArrowType::Decimal256(..) => $function::<Decimal256Type>($($argument),*),
            ArrowType::Date32 => $function::<Date32Type>($($argument),*),
            ArrowType::Time64(TimeUnit::Microsecond) => {
                $function::<Time64MicrosecondType>($($argument),*)
            }
            ArrowType::Timestamp(TimeUnit::Microsecond, _) => {
                $function::<TimestampMicrosecondType>($($argument),*)
            }
            ArrowType::Interval(IntervalUnit::MonthDayNano) => {
                $function::<IntervalMonthDayNanoType>($($argument),*)
            }
            $($other)*
        }
    };
}
use by_width;
