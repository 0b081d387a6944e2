//! Numbers computed from the columns of a row.

use std::ops::Range;

use arrow::buffer::NullBuffer;
use thalweg_types::Result;

use super::arithmetic::{buckets, decimals, floats, integers, narrowed, real, rounded};
use super::choice::chosen;
use super::predicate::Predicate;
use super::source::{Data, Source};
use super::vector::{Mask, Values, Vector};

/// In what form numbers are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Whole numbers, dates, times and truth, in 64 bits.
    Int,
    /// `real` and `double precision`.
    Float,
    /// `numeric` as a whole number of its last digit's units.
    Decimal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    Add,
    Subtract,
    Multiply,
    /// Of whole numbers towards zero; not of decimals.
    Divide,
    /// What division leaves, of whole numbers only: it has the sign of the dividend.
    Modulo,
}

/// The type of whole numbers that a result must fit into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    Int2,
    Int4,
    Int8,
}

impl Width {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Width::Int2 => "smallint",
            Width::Int4 => "integer",
            Width::Int8 => "bigint",
        }
    }

    /// Not zero in its sign bit where a number does not fit.
    #[inline(always)]
    pub(crate) fn excess(self, value: i64) -> i64 {
        let fitting = match self {
            Width::Int2 => i64::from(value as i16),
            Width::Int4 => i64::from(value as i32),
            Width::Int8 => value,
        };
        -i64::from(fitting != value)
    }
}

/// A number computed from a row. Columns are places among those of the aggregation.
#[derive(Clone, Debug, PartialEq)]
pub enum Number {
    Column(usize),
    Int(i64),
    Float(f64),
    Decimal(i128),
    /// Whole numbers, refused (22003) where the result does not fit into its type.
    Integers {
        operator: Operator,
        width: Width,
        operands: Box<(Number, Number)>,
    },
    Floats {
        operator: Operator,
        operands: Box<(Number, Number)>,
    },
    /// Decimals. To be added or subtracted they have equally many digits behind the point.
    Decimals {
        operator: Operator,
        operands: Box<(Number, Number)>,
    },
    FloatOfInt(Box<Number>),
    /// A whole number as so many of a decimal's units.
    DecimalOfInt {
        operand: Box<Number>,
        units: i128,
    },
    /// A decimal with more digits behind the point.
    Rescaled {
        operand: Box<Number>,
        units: i128,
    },
    /// A whole number as one of another type, refused (22003) where it does not fit.
    Narrowed {
        operand: Box<Number>,
        width: Width,
    },
    /// A float rounded to the next whole number, to the even one of two that are as near.
    IntOfFloat {
        operand: Box<Number>,
        width: Width,
    },
    /// A float as `real` has it.
    Real(Box<Number>),
    /// A decimal of so many units.
    FloatOfDecimal {
        operand: Box<Number>,
        units: i128,
    },
    /// The start of the part of a line that a whole number lies in; parts are of `unit`, which is
    /// above zero, and one of them starts at `origin`. Of a time, the second, hour or day.
    Bucket {
        operand: Box<Number>,
        unit: i64,
        origin: i64,
    },
    /// The number of the first condition that is true, or else the last one. `None` is NULL.
    /// Numbers are computed for the rows that take them alone.
    Choice {
        cases: Vec<(Predicate, Option<Number>)>,
        otherwise: Option<Box<Number>>,
    },
}

/// Some rows of a chunk, of which those in the mask are wanted.
pub(crate) struct Block<'a> {
    pub source: &'a Source,
    pub start: usize,
    pub length: usize,
}

impl Block<'_> {
    fn range(&self) -> Range<usize> {
        self.start..self.start + self.length
    }

    pub fn nulls(&self, column: usize) -> Option<NullBuffer> {
        self.source.columns[column].nulls_of(self.start, self.length)
    }
}

impl Number {
    /// Whether there may be rows in which the number is NULL, if that is known of columns.
    pub(crate) fn may_be_null(&self, column: &impl Fn(usize) -> bool) -> bool {
        match self {
            Number::Column(place) => column(*place),
            Number::Choice { .. } => true,
            Number::Int(_) | Number::Float(_) | Number::Decimal(_) => false,
            Number::Integers { operands, .. }
            | Number::Floats { operands, .. }
            | Number::Decimals { operands, .. } => {
                operands.0.may_be_null(column) || operands.1.may_be_null(column)
            }
            Number::FloatOfInt(operand)
            | Number::Real(operand)
            | Number::DecimalOfInt { operand, .. }
            | Number::Rescaled { operand, .. }
            | Number::Narrowed { operand, .. }
            | Number::IntOfFloat { operand, .. }
            | Number::FloatOfDecimal { operand, .. }
            | Number::Bucket { operand, .. } => operand.may_be_null(column),
        }
    }

    /// Computes whole numbers for a block. Rows that `wanted` leaves out cannot fail.
    pub(crate) fn ints<'a>(
        &self,
        block: &Block<'a>,
        wanted: Option<&Mask>,
    ) -> Result<Vector<'a, i64>> {
        match self {
            Number::Column(column) => Ok(int_column(block, *column)),
            Number::Int(value) => Ok(Vector::constant(*value)),
            Number::Integers { operator, width, operands } => {
                let left = operands.0.ints(block, wanted)?;
                let right = operands.1.ints(block, wanted)?;
                integers(*operator, *width, &left, &right, wanted)
            }
            Number::Narrowed { operand, width } => {
                narrowed(operand.ints(block, wanted)?, *width, wanted)
            }
            Number::IntOfFloat { operand, width } => {
                rounded(&operand.floats(block, wanted)?, *width, wanted)
            }
            Number::Bucket { operand, unit, origin } => {
                buckets(&operand.ints(block, wanted)?, *unit, *origin, wanted)
            }
            Number::Choice { cases, otherwise } => {
                chosen((cases, otherwise.as_deref()), block, wanted, Number::ints)
            }
            other => unreachable!("{other:?} is no whole number"),
        }
    }

    /// Computes floating point numbers for a block.
    pub(crate) fn floats<'a>(
        &self,
        block: &Block<'a>,
        wanted: Option<&Mask>,
    ) -> Result<Vector<'a, f64>> {
        match self {
            Number::Column(column) => {
                let values = match &block.source.columns[*column].data {
                    Data::Float64(values) => Values::Slice(&values[block.range()]),
                    Data::Float32(values) => {
                        Values::Slice(&values[block.range()]).map(|value: f32| f64::from(value))
                    }
                    _ => unreachable!("the column holds floats"),
                };
                Ok(Vector { values, nulls: block.nulls(*column) })
            }
            Number::Float(value) => Ok(Vector::constant(*value)),
            Number::FloatOfInt(operand) => {
                Ok(operand.ints(block, wanted)?.map(|value| value as f64))
            }
            Number::Floats { operator, operands } => {
                let left = operands.0.floats(block, wanted)?;
                let right = operands.1.floats(block, wanted)?;
                floats(*operator, &left, &right, wanted)
            }
            Number::Real(operand) => real(&operand.floats(block, wanted)?, wanted),
            Number::FloatOfDecimal { operand, units } => {
                let units = *units as f64;
                Ok(operand.decimals(block, wanted)?.map(|value| value as f64 / units))
            }
            Number::Choice { cases, otherwise } => {
                chosen((cases, otherwise.as_deref()), block, wanted, Number::floats)
            }
            other => unreachable!("{other:?} is no floating point number"),
        }
    }

    /// Computes decimals for a block, as whole numbers of their last digit's units.
    pub(crate) fn decimals<'a>(
        &self,
        block: &Block<'a>,
        wanted: Option<&Mask>,
    ) -> Result<Vector<'a, i128>> {
        match self {
            Number::Column(column) => {
                let Data::Decimal(values) = &block.source.columns[*column].data else {
                    unreachable!("the column holds decimals")
                };
                let values = Values::Slice(&values[block.range()]);
                Ok(Vector { values, nulls: block.nulls(*column) })
            }
            Number::Decimal(value) => Ok(Vector::constant(*value)),
            Number::DecimalOfInt { operand, units } => {
                // 64 bits times a power of ten that a decimal has room for stay in 128 bits, or
                // are refused below like any other product.
                let operand = operand.ints(block, wanted)?.map(i128::from);
                decimals(Operator::Multiply, &operand, &Vector::constant(*units), wanted)
            }
            Number::Rescaled { operand, units } => {
                let operand = operand.decimals(block, wanted)?;
                decimals(Operator::Multiply, &operand, &Vector::constant(*units), wanted)
            }
            Number::Decimals { operator, operands } => {
                let left = operands.0.decimals(block, wanted)?;
                let right = operands.1.decimals(block, wanted)?;
                decimals(*operator, &left, &right, wanted)
            }
            Number::Choice { cases, otherwise } => {
                chosen((cases, otherwise.as_deref()), block, wanted, Number::decimals)
            }
            other => unreachable!("{other:?} is no decimal"),
        }
    }
}

fn int_column<'a>(block: &Block<'a>, column: usize) -> Vector<'a, i64> {
    let range = block.range();
    let values = match &block.source.columns[column].data {
        Data::Int64(values) => Values::Slice(&values[range]),
        Data::Int32(values) => Values::Slice(&values[range]).map(|value: i32| i64::from(value)),
        Data::Int16(values) => Values::Slice(&values[range]).map(|value: i16| i64::from(value)),
        Data::Bits(bits) => {
            let bits = bits.slice(block.start, block.length);
            Values::Owned(bits.iter().map(i64::from).collect())
        }
        _ => unreachable!("the column holds whole numbers"),
    };
    Vector { values, nulls: block.nulls(column) }
}
