//! Numeric expressions over the columns of a row.

use std::cell::RefCell;

use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::DataType;
use thalweg_types::Result;

use super::arithmetic::{buckets, floats, integers, narrowed, real, rounded};
use super::case::chosen;
use super::decimals::{Decimals, Narrow, decimals};
use super::predicate::Predicate;
use super::source::{Data, Source};
use super::vector::{Mask, Values, Vector};

/// The representation in which numbers are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Integers, dates, times and booleans, in 64 bits.
    Int,
    /// `real` and `double precision`.
    Float,
    /// `numeric` as an integer in units of its last digit.
    Decimal,
}

impl Lane {
    /// The representation of a type; `None` for types that are not numeric.
    #[must_use]
    pub fn of(data_type: &DataType) -> Option<Lane> {
        Some(match data_type {
            DataType::Boolean
            | DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::Date32
            | DataType::Time64(_)
            | DataType::Timestamp(..) => Lane::Int,
            DataType::Float32 | DataType::Float64 => Lane::Float,
            DataType::Decimal128(..) => Lane::Decimal,
            _ => return None,
        })
    }
}

/// A binary operator. Integer division and modulo by zero fail (`22012`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    Add,
    Subtract,
    Multiply,
    /// Truncates integers towards zero; not supported for decimals.
    Divide,
    /// The remainder of an integer division, with the sign of the dividend.
    Modulo,
}

/// The integer type into which a result must fit.
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

    /// -1 if a number does not fit the type, otherwise 0.
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

/// A number computed from a row. Columns are positions among those of the aggregation.
#[derive(Clone, Debug, PartialEq)]
pub enum Number {
    Column(usize),
    Int(i64),
    Float(f64),
    Decimal(i128),
    /// Integer arithmetic; fails (`22003`) if the result does not fit its type.
    Integers {
        operator: Operator,
        width: Width,
        operands: Box<(Number, Number)>,
    },
    Floats {
        operator: Operator,
        operands: Box<(Number, Number)>,
    },
    /// Decimal arithmetic. Operands of additions and subtractions have the same scale.
    Decimals {
        operator: Operator,
        operands: Box<(Number, Number)>,
    },
    FloatOfInt(Box<Number>),
    /// An integer as a decimal; `units` is ten to the power of its scale.
    DecimalOfInt {
        operand: Box<Number>,
        units: i128,
    },
    /// A decimal with a larger scale; `units` is the factor.
    Rescaled {
        operand: Box<Number>,
        units: i128,
    },
    /// An integer as another type; fails (`22003`) if it does not fit.
    Narrowed {
        operand: Box<Number>,
        width: Width,
    },
    /// A float rounded to the nearest integer, ties to even.
    IntOfFloat {
        operand: Box<Number>,
        width: Width,
    },
    /// A float rounded to `real`.
    Real(Box<Number>),
    /// A decimal as a float; `units` is ten to the power of its scale.
    FloatOfDecimal {
        operand: Box<Number>,
        units: i128,
    },
    /// The start of the bucket that contains an integer. Buckets have the width `unit`, which is
    /// positive, and one of them starts at `origin`. For example, the hour that contains a time.
    Bucket {
        operand: Box<Number>,
        unit: i64,
        origin: i64,
    },
    /// The number of the first condition that is true, or else `otherwise`. `None` is NULL. A
    /// number is computed only for rows that take it.
    Choice {
        cases: Vec<(Predicate, Option<Number>)>,
        otherwise: Option<Box<Number>>,
    },
}

/// Some rows of a chunk, the unit of evaluation.
pub(crate) struct Block<'a> {
    pub source: &'a Source,
    pub start: usize,
    pub length: usize,
    /// The offsets of the rows from `start`, unless the block has all `length` rows from there on.
    places: Option<&'a [u16]>,
    /// Decimals that were computed before. They are valid for all rows, wanted or not.
    computed: RefCell<Vec<(Number, Narrow<'a>)>>,
}

impl<'a> Block<'a> {
    /// A block of `length` adjacent rows.
    pub fn new(source: &'a Source, start: usize, length: usize) -> Block<'a> {
        Block { source, start, length, places: None, computed: RefCell::default() }
    }

    /// A block of selected rows, given by their offsets from `start`. Texts cannot be read from it.
    pub fn of_places(source: &'a Source, start: usize, places: &'a [u16]) -> Block<'a> {
        Block { places: Some(places), ..Block::new(source, start, places.len()) }
    }

    /// The values of the block's rows in a column.
    fn values<T: Copy>(&self, column: &'a [T]) -> Values<'a, T> {
        let behind = &column[self.start..];
        match self.places {
            None => Values::Slice(&behind[..self.length]),
            Some(places) => {
                Values::Owned(places.iter().map(|place| behind[usize::from(*place)]).collect())
            }
        }
    }

    fn bits(&self, column: &BooleanBuffer) -> Vec<i64> {
        match self.places {
            None => column.slice(self.start, self.length).iter().map(i64::from).collect(),
            Some(places) => {
                let bit = |place: &u16| column.value(self.start + usize::from(*place)).into();
                places.iter().map(bit).collect()
            }
        }
    }

    /// The validity of the block's rows in a column; `None` if no row is NULL.
    pub fn nulls(&self, column: usize) -> Option<NullBuffer> {
        let column = &self.source.columns[column];
        let Some(places) = self.places else { return column.nulls_of(self.start, self.length) };
        let nulls = column.nulls.as_ref()?;
        let is_valid = |place: &u16| nulls.is_valid(self.start + usize::from(*place));
        let nulls: NullBuffer = places.iter().map(is_valid).collect();
        (nulls.null_count() > 0).then_some(nulls)
    }

    /// The numbers without widening, if they are a 32-bit column or a constant that fits.
    pub fn halves(&self, number: &Number) -> Option<Vector<'a, i32>> {
        match number {
            Number::Int(value) => Some(Vector::constant(i32::try_from(*value).ok()?)),
            Number::Column(column) => match &self.source.columns[*column].data {
                Data::Int32(values) => {
                    Some(Vector { values: self.values(values), nulls: self.nulls(*column) })
                }
                _ => None,
            },
            _ => None,
        }
    }
}

impl Number {
    /// True if the number may be NULL in some row. `column` tells this for columns.
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

    /// True if the number contains a [`Number::Choice`].
    pub(crate) fn has_choice(&self) -> bool {
        match self {
            Number::Choice { .. } => true,
            Number::Column(_) | Number::Int(_) | Number::Float(_) | Number::Decimal(_) => false,
            Number::Integers { operands, .. }
            | Number::Floats { operands, .. }
            | Number::Decimals { operands, .. } => {
                operands.0.has_choice() || operands.1.has_choice()
            }
            Number::FloatOfInt(operand)
            | Number::Real(operand)
            | Number::DecimalOfInt { operand, .. }
            | Number::Rescaled { operand, .. }
            | Number::Narrowed { operand, .. }
            | Number::IntOfFloat { operand, .. }
            | Number::FloatOfDecimal { operand, .. }
            | Number::Bucket { operand, .. } => operand.has_choice(),
        }
    }

    /// Computes integers for a block. Unwanted rows cannot fail.
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

    /// Computes floats for a block. Unwanted rows cannot fail.
    pub(crate) fn floats<'a>(
        &self,
        block: &Block<'a>,
        wanted: Option<&Mask>,
    ) -> Result<Vector<'a, f64>> {
        match self {
            Number::Column(column) => {
                let values = match &block.source.columns[*column].data {
                    Data::Float64(values) => block.values(values),
                    Data::Float32(values) => block.values(values).map(|value: f32| value.into()),
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
                Ok(match operand.decimals(block, wanted)? {
                    Decimals::Narrow(narrow) => narrow.vector.map(|value| value as f64 / units),
                    Decimals::Wide(vector) => vector.map(|value| value as f64 / units),
                })
            }
            Number::Choice { cases, otherwise } => {
                chosen((cases, otherwise.as_deref()), block, wanted, Number::floats)
            }
            other => unreachable!("{other:?} is no floating point number"),
        }
    }

    /// Computes decimals for a block. Unwanted rows cannot fail.
    pub(crate) fn decimals<'a>(
        &self,
        block: &Block<'a>,
        wanted: Option<&Mask>,
    ) -> Result<Decimals<'a>> {
        if !self.is_of_columns() {
            return self.compute_decimals(block, wanted);
        }
        let is_it = |(known, _): &&(Number, Narrow<'a>)| known == self;
        if let Some((_, known)) = block.computed.borrow().iter().find(is_it) {
            return Ok(Decimals::Narrow(known.clone()));
        }
        let found = self.compute_decimals(block, wanted)?;
        // A result in 64 bits is valid for all rows, not only for the wanted ones.
        if let Decimals::Narrow(narrow) = &found {
            block.computed.borrow_mut().push((self.clone(), narrow.clone()));
        }
        Ok(found)
    }

    /// True if the number consists of decimal columns and constants, so that it can be reused.
    fn is_of_columns(&self) -> bool {
        match self {
            Number::Column(_) => true,
            Number::Decimals { operands, .. } => [&operands.0, &operands.1]
                .into_iter()
                .all(|operand| matches!(operand, Number::Decimal(_)) || operand.is_of_columns()),
            Number::Rescaled { operand, .. } => operand.is_of_columns(),
            _ => false,
        }
    }

    fn compute_decimals<'a>(
        &self,
        block: &Block<'a>,
        wanted: Option<&Mask>,
    ) -> Result<Decimals<'a>> {
        let constant = |value| Decimals::of(Vector::constant(value));
        match self {
            Number::Column(column) => {
                let Data::Decimal(values) = &block.source.columns[*column].data else {
                    unreachable!("the column holds decimals")
                };
                let values = block.values(values);
                Ok(Decimals::of(Vector { values, nulls: block.nulls(*column) }))
            }
            Number::Decimal(value) => Ok(constant(*value)),
            Number::DecimalOfInt { operand, units } => {
                // An integer times a power of ten within a decimal's precision fits 128 bits; other
                // products fail below.
                let operand = Decimals::of_ints(operand.ints(block, wanted)?);
                decimals(Operator::Multiply, operand, constant(*units), wanted)
            }
            Number::Rescaled { operand, units } => {
                let operand = operand.decimals(block, wanted)?;
                decimals(Operator::Multiply, operand, constant(*units), wanted)
            }
            Number::Decimals { operator, operands } => {
                let left = operands.0.decimals(block, wanted)?;
                let right = operands.1.decimals(block, wanted)?;
                decimals(*operator, left, right, wanted)
            }
            Number::Choice { cases, otherwise } => {
                let wide = |number: &Number, block: &Block<'a>, wanted: Option<&Mask>| {
                    Ok(number.decimals(block, wanted)?.into_wide())
                };
                chosen((cases, otherwise.as_deref()), block, wanted, wide).map(Decimals::of)
            }
            other => unreachable!("{other:?} is no decimal"),
        }
    }
}

fn int_column<'a>(block: &Block<'a>, column: usize) -> Vector<'a, i64> {
    let values = match &block.source.columns[column].data {
        Data::Int64(values) => block.values(values),
        Data::Int32(values) => block.values(values).map(|value: i32| value.into()),
        Data::Int16(values) => block.values(values).map(|value: i16| value.into()),
        Data::Bits(bits) => Values::Owned(block.bits(bits)),
        _ => unreachable!("the column holds whole numbers"),
    };
    Vector { values, nulls: block.nulls(column) }
}
