//! Rows as plain columns, on their way from one node to another.
//!
//! Both sides know the schema, so that nothing but values travels: the number of rows in four
//! bytes, then one column after the other. A column is a byte that says whether some are NULL, a
//! bit for each row if so, and its values: numbers as they lie in memory, truth values as bits,
//! texts as their lengths in four bytes each and then all their bytes, lists as their lengths and
//! then their items as a column.
//!
//! Rows are picked out of batches while they are written. Decoding copies: what it returns does not
//! keep the input alive. It never panics, whatever the bytes, and asks for no more memory than a
//! few times what there are of them.

mod decode;
mod encode;

#[cfg(test)]
mod tests;

pub use decode::decode;
pub use encode::{Picked, encode};

/// More rows than any batch has.
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
