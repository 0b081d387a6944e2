//! The type bytes of the format. Numbers are never reused, since nodes of two versions may
//! communicate.

use thalweg_types::Result;

use super::bytes::Input;
use super::malformed;
use crate::aggregate::{BitOperator, Comparison, Lane, Operator, Spread, Width};

/// An enum that is encoded as one byte.
pub(super) trait Code: Copy {
    fn code(self) -> u8;

    fn of(code: u8) -> Option<Self>;

    fn read(input: &mut Input<'_>) -> Result<Self> {
        Self::of(input.byte()?).ok_or_else(|| malformed("it has something that is not known here"))
    }
}

macro_rules! codes {
    ($type:ident { $($name:ident = $code:literal),* $(,)? }) => {
        impl Code for $type {
            fn code(self) -> u8 {
                match self {
                    $($type::$name => $code,)*
                }
            }

            fn of(code: u8) -> Option<$type> {
                match code {
                    $($code => Some($type::$name),)*
                    _ => None,
                }
            }
        }
    };
}

/// Defines an enum for the variants of a type that has fields.
macro_rules! parts {
    ($type:ident { $($name:ident = $code:literal),* $(,)? }) => {
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub(super) enum $type {
            $($name,)*
        }

        codes! { $type { $($name = $code),* } }
    };
}

codes! { Lane { Int = 1, Float = 2, Decimal = 3 } }

codes! { Operator { Add = 1, Subtract = 2, Multiply = 3, Divide = 4, Modulo = 5 } }

codes! { Width { Int2 = 1, Int4 = 2, Int8 = 3 } }

codes! {
    Comparison {
        Equal = 1,
        NotEqual = 2,
        Less = 3,
        LessOrEqual = 4,
        Greater = 5,
        GreaterOrEqual = 6,
    }
}

codes! {
    Spread {
        VarianceOfSample = 1,
        VarianceOfPopulation = 2,
        DeviationOfSample = 3,
        DeviationOfPopulation = 4,
    }
}

codes! { BitOperator { And = 1, Or = 2, Xor = 3 } }

parts! {
    TypeCode {
        Boolean = 1,
        Int16 = 2,
        Int32 = 3,
        Int64 = 4,
        Float32 = 5,
        Float64 = 6,
        Decimal = 7,
        Text = 8,
        Date = 9,
        Time = 10,
        Micros = 11,
        Nanos = 12,
    }
}

parts! { KeyCode { Column = 1, Int = 2 } }

parts! {
    NumberCode {
        Column = 1,
        Int = 2,
        Float = 3,
        Decimal = 4,
        Integers = 5,
        Floats = 6,
        Decimals = 7,
        FloatOfInt = 8,
        DecimalOfInt = 9,
        Rescaled = 10,
        Narrowed = 11,
        IntOfFloat = 12,
        Real = 13,
        FloatOfDecimal = 14,
        Bucket = 15,
        Choice = 16,
    }
}

parts! {
    PredicateCode {
        And = 1,
        Or = 2,
        Compare = 3,
        Among = 4,
        AmongKeys = 5,
        TextCompare = 6,
        TextAmong = 7,
        TextLike = 8,
        IsNull = 9,
        Always = 10,
    }
}

parts! {
    MeasureCode {
        Rows = 1,
        Count = 2,
        CountNumber = 3,
        Sum = 4,
        Extreme = 5,
        TextExtreme = 6,
        CountDistinct = 7,
        TextCountDistinct = 8,
        Spread = 9,
        Bits = 10,
        Filtered = 11,
        First = 12,
    }
}
