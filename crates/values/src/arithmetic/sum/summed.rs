//! The types whose sums are checked.

use std::fmt::Debug;

use arrow::array::ArrowNativeTypeOp;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType as ArrowType, Decimal128Type, Decimal256Type, DecimalType,
    Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, i256,
};
use datafusion::common::{Result as PlanResult, ScalarValue};
use datafusion::error::DataFusionError;
use thalweg_types::{Error, SqlState};

use crate::errors::external;

/// Types whose values have a sum.
pub trait Summed: ArrowPrimitiveType + Debug + Send + Sync + Sized {
    /// The type in which a total is computed. If it is wider than a value, only the final total can
    /// overflow, whatever was added and subtracted before.
    type Wide: ArrowNativeTypeOp;

    fn wide(value: Self::Native) -> Self::Wide;

    /// The total in the type of the values; `None` if it does not fit.
    fn narrow(total: Self::Wide) -> Option<Self::Native>;

    fn out_of_range() -> Error;

    /// The total of values without NULLs.
    fn total(values: &[Self::Native]) -> Option<Self::Wide> {
        let add =
            |total: Self::Wide, value: &Self::Native| total.add_checked(Self::wide(*value)).ok();
        values.iter().try_fold(Self::Wide::ZERO, add)
    }

    fn scalar(value: Option<Self::Native>, data_type: &ArrowType) -> PlanResult<ScalarValue> {
        ScalarValue::new_primitive::<Self>(value, data_type)
    }
}

pub(super) fn out_of_range<T: Summed>() -> DataFusionError {
    external(T::out_of_range())
}

impl Summed for Int64Type {
    type Wide = i128;

    fn wide(value: i64) -> i128 {
        value.into()
    }

    fn narrow(total: i128) -> Option<i64> {
        i64::try_from(total).ok()
    }

    fn out_of_range() -> Error {
        Error::new(SqlState::NUMERIC_OUT_OF_RANGE, "bigint out of range")
            .with_hint("Sum the values as numeric: sum(column::numeric).")
    }

    /// Upper and lower halves are summed apart: neither sum can overflow in fewer than 2^31 rows,
    /// and both loops are vectorised.
    fn total(values: &[i64]) -> Option<i128> {
        let total = values.chunks(1 << 20).map(|chunk| {
            let upper: i64 = chunk.iter().map(|value| value >> 32).sum();
            let lower: i64 = chunk.iter().map(|value| value & 0xFFFF_FFFF).sum();
            (i128::from(upper) << 32) + i128::from(lower)
        });
        Some(total.sum())
    }

    fn scalar(value: Option<i64>, _data_type: &ArrowType) -> PlanResult<ScalarValue> {
        Ok(ScalarValue::Int64(value))
    }
}

fn numeric_out_of_range() -> Error {
    Error::new(SqlState::NUMERIC_OUT_OF_RANGE, "value overflows numeric format")
}

/// True if a number has no more digits than the widest decimal of its bits.
fn is_decimal<T: DecimalType>(number: T::Native) -> bool {
    T::is_valid_decimal_precision(number, T::MAX_PRECISION)
}

impl Summed for Decimal128Type {
    type Wide = i256;

    fn wide(value: i128) -> i256 {
        i256::from_i128(value)
    }

    fn narrow(total: i256) -> Option<i128> {
        total.to_i128().filter(|total| is_decimal::<Decimal128Type>(*total))
    }

    fn out_of_range() -> Error {
        numeric_out_of_range()
    }
}

impl Summed for Decimal256Type {
    type Wide = i256;

    fn wide(value: i256) -> i256 {
        value
    }

    fn narrow(total: i256) -> Option<i256> {
        Some(total).filter(|total| is_decimal::<Decimal256Type>(*total))
    }

    fn out_of_range() -> Error {
        numeric_out_of_range()
    }
}

impl Summed for IntervalMonthDayNanoType {
    type Wide = IntervalMonthDayNano;

    fn wide(value: IntervalMonthDayNano) -> IntervalMonthDayNano {
        value
    }

    fn narrow(total: IntervalMonthDayNano) -> Option<IntervalMonthDayNano> {
        Some(total)
    }

    fn out_of_range() -> Error {
        Error::new(SqlState::DATETIME_OVERFLOW, "interval out of range")
    }
}
