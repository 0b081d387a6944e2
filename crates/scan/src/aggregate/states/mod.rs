//! Aggregate states of all groups: a struct of arrays for each aggregate.
//!
//! States grow with the number of groups, are updated with blocks of rows, and can be merged. As
//! Arrow columns they travel to other threads and nodes, which merge them.

mod argument;
mod bits;
mod decimal_sums;
mod distinct;
mod extremes;
mod firsts;
mod seen;
mod spread;
mod sums;

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Int64Type};
use thalweg_types::Result;

pub(crate) use argument::{Argument, Ordered};
use argument::{each, each_valid};
pub use bits::BitOperator;
use bits::Bits;
use decimal_sums::DecimalSums;
use distinct::Distinct;
use extremes::{Extremes, TextExtremes};
use firsts::Firsts;
pub(crate) use seen::Seen;
pub use spread::Spread;
use spread::Spreads;
use sums::{FloatSums, IntSums};

use super::decimals::Decimals;
use super::floats::{comparable, ordered};
use super::kernels::count_by_code;
use super::keys::{Ids, each_run};
use super::number::Lane;
use super::vector::Rows;

/// The kind of an aggregate state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StateKind {
    Count,
    Sum(Lane),
    Extreme {
        lane: Lane,
        greatest: bool,
    },
    TextExtreme {
        greatest: bool,
    },
    Distinct {
        texts: bool,
    },
    Spread(Spread),
    Bits(BitOperator),
    /// First values: numbers of a lane, or texts without one.
    First {
        lane: Option<Lane>,
        skips_nulls: bool,
    },
}

pub(crate) enum State {
    Count(Vec<i64>),
    IntSum(IntSums),
    FloatSum(FloatSums),
    DecimalSum(DecimalSums),
    /// Integers, and floats mapped to integers.
    Extreme(Lane, Extremes<i64>),
    DecimalExtreme(Extremes<i128>),
    TextExtreme(TextExtremes),
    Distinct(Distinct),
    Spread(Spreads),
    Bits(Bits),
    First(Firsts),
}

impl State {
    /// A state without groups. `seen` tells if groups may have no value.
    pub fn new(kind: StateKind, seen: Seen) -> State {
        match kind {
            StateKind::Count => State::Count(Vec::new()),
            StateKind::Sum(Lane::Int) => State::IntSum(IntSums::new(seen)),
            StateKind::Sum(Lane::Float) => State::FloatSum(FloatSums::new(seen)),
            StateKind::Sum(Lane::Decimal) => State::DecimalSum(DecimalSums::new(seen)),
            StateKind::Extreme { lane: Lane::Decimal, greatest } => {
                State::DecimalExtreme(Extremes::new(greatest, seen))
            }
            StateKind::Extreme { lane, greatest } => {
                State::Extreme(lane, Extremes::new(greatest, seen))
            }
            StateKind::TextExtreme { greatest } => State::TextExtreme(TextExtremes::new(greatest)),
            StateKind::Distinct { texts } => State::Distinct(Distinct::new(texts)),
            StateKind::Spread(spread) => State::Spread(Spreads::new(spread)),
            StateKind::Bits(operator) => State::Bits(Bits::new(operator, seen)),
            StateKind::First { lane, skips_nulls } => State::First(Firsts::new(lane, skips_nulls)),
        }
    }

    /// Extends the state to `groups` groups; never shrinks it.
    pub fn grow(&mut self, groups: usize) {
        match self {
            State::Count(counts) => counts.resize(groups, 0),
            State::IntSum(state) => state.grow(groups),
            State::FloatSum(state) => state.grow(groups),
            State::DecimalSum(state) => state.grow(groups),
            State::Extreme(_, state) => state.grow(groups),
            State::DecimalExtreme(state) => state.grow(groups),
            State::TextExtreme(state) => state.grow(groups),
            State::Distinct(state) => state.grow(groups),
            State::Spread(state) => state.grow(groups),
            State::Bits(state) => state.grow(groups),
            State::First(state) => state.grow(groups),
        }
    }

    /// Aggregates the selected rows of a block.
    pub fn update(&mut self, argument: &Argument<'_>, ids: Ids<'_>, rows: Rows<'_>) {
        match (self, argument) {
            (State::Count(counts), argument) => count(counts, argument.nulls(), ids, rows),
            (State::IntSum(state), Argument::Ints { vector, small }) => {
                state.update(vector, *small, ids, rows);
            }
            (State::FloatSum(state), Argument::Floats(vector)) => state.update(vector, ids, rows),
            (State::DecimalSum(state), Argument::Decimals(decimals)) => {
                state.update(decimals, ids, rows);
            }
            (State::Extreme(_, state), Argument::Ints { vector, .. }) => {
                state.update(vector, ids, rows);
            }
            (State::Extreme(_, state), Argument::Floats(vector)) => {
                state.update(&vector.map(ordered), ids, rows);
            }
            (State::DecimalExtreme(state), Argument::Decimals(decimals)) => match decimals {
                Decimals::Narrow(narrow) => state.update(&narrow.vector, ids, rows),
                Decimals::Wide(vector) => state.update(vector, ids, rows),
            },
            (State::TextExtreme(state), Argument::Texts { column, start, nulls }) => {
                state.update((column, *start), nulls.as_ref(), ids, rows);
            }
            (State::Distinct(state), Argument::Ints { vector, .. }) => {
                state.update(vector, ids, rows);
            }
            (State::Distinct(state), Argument::Floats(vector)) => {
                state.update(&vector.map(comparable), ids, rows);
            }
            (State::Distinct(state), Argument::Texts { column, start, nulls }) => {
                state.update_texts((column, *start), nulls.as_ref(), ids, rows);
            }
            (State::Spread(state), Argument::Floats(vector)) => state.update(vector, ids, rows),
            (State::Bits(state), Argument::Ints { vector, .. }) => state.update(vector, ids, rows),
            (State::First(state), Argument::Ordered(given)) => state.update(given, ids, rows),
            _ => unreachable!("aggregates are given what they are made for"),
        }
    }

    /// Merges the groups of another state of the same kind; pairs are (group there, group here).
    pub fn merge(&mut self, other: &State, pairs: &[(u32, u32)]) {
        match (self, other) {
            (State::Count(own), State::Count(other)) => {
                for (from, to) in pairs {
                    own[*to as usize] += other[*from as usize];
                }
            }
            (State::IntSum(own), State::IntSum(other)) => own.merge(other, pairs),
            (State::FloatSum(own), State::FloatSum(other)) => own.merge(other, pairs),
            (State::DecimalSum(own), State::DecimalSum(other)) => own.merge(other, pairs),
            (State::Extreme(_, own), State::Extreme(_, other)) => own.merge(other, pairs),
            (State::DecimalExtreme(own), State::DecimalExtreme(other)) => own.merge(other, pairs),
            (State::TextExtreme(own), State::TextExtreme(other)) => own.merge(other, pairs),
            (State::Distinct(own), State::Distinct(other)) => own.merge(other, pairs),
            (State::Spread(own), State::Spread(other)) => own.merge(other, pairs),
            (State::Bits(own), State::Bits(other)) => own.merge(other, pairs),
            (State::First(own), State::First(other)) => own.merge(other, pairs),
            _ => unreachable!("states of one aggregate are of one kind"),
        }
    }

    /// The full state of all groups as an Arrow column, for [`State::of_array`] elsewhere.
    pub fn array(&self) -> Result<ArrayRef> {
        match self {
            State::IntSum(state) => Ok(state.state()),
            State::FloatSum(state) => Ok(state.state()),
            State::DecimalSum(state) => state.state(),
            State::Distinct(state) => state.state(),
            State::Spread(state) => Ok(state.state()),
            State::First(state) => Ok(state.state()),
            State::Count(_) | State::Extreme(Lane::Int, _) | State::Bits(_) => {
                self.finish(&DataType::Int64)
            }
            State::Extreme(..) => self.finish(&DataType::Float64),
            State::DecimalExtreme(_) => self.finish(&DataType::Decimal128(38, 0)),
            State::TextExtreme(_) => self.finish(&DataType::Utf8View),
        }
    }

    /// Restores a state from a column of a partial result, which must have the kind's type.
    pub fn of_array(kind: StateKind, array: &ArrayRef) -> State {
        match kind {
            StateKind::Count => State::Count(array.as_primitive::<Int64Type>().values().to_vec()),
            StateKind::Sum(Lane::Int) => State::IntSum(IntSums::of_state(array)),
            StateKind::Sum(Lane::Float) => State::FloatSum(FloatSums::of_state(array)),
            StateKind::Sum(Lane::Decimal) => State::DecimalSum(DecimalSums::of_state(array)),
            StateKind::Extreme { lane: Lane::Decimal, greatest } => {
                State::DecimalExtreme(Extremes::<i128>::of_state(array, greatest))
            }
            StateKind::Extreme { lane, greatest } => {
                State::Extreme(lane, Extremes::<i64>::of_state(array, greatest))
            }
            StateKind::TextExtreme { greatest } => {
                State::TextExtreme(TextExtremes::of_state(array, greatest))
            }
            StateKind::Distinct { texts } => State::Distinct(Distinct::of_state(array, texts)),
            StateKind::Spread(spread) => State::Spread(Spreads::of_state(spread, array)),
            StateKind::Bits(operator) => State::Bits(Bits::of_state(operator, array)),
            StateKind::First { lane, skips_nulls } => {
                State::First(Firsts::of_state(array, lane, skips_nulls))
            }
        }
    }

    /// The aggregates of all groups as an array of the requested type.
    ///
    /// # Errors
    /// If a value does not fit the type.
    pub fn finish(&self, data_type: &DataType) -> Result<ArrayRef> {
        Ok(match self {
            State::Count(counts) => {
                Arc::new(Int64Array::new(counts.clone().into(), None)) as ArrayRef
            }
            State::IntSum(state) => return state.finish(data_type),
            State::FloatSum(state) => state.state(),
            State::DecimalSum(state) => return state.finish(data_type),
            State::Extreme(lane, state) => state.finish(*lane, data_type),
            State::DecimalExtreme(state) => state.finish(data_type),
            State::TextExtreme(state) => state.finish(),
            State::Distinct(state) => state.finish(),
            State::Spread(state) => state.finish(),
            State::Bits(state) => state.finish(data_type),
            State::First(state) => state.finish(data_type),
        })
    }

    /// Bytes allocated for the state.
    pub fn memory_bytes(&self) -> usize {
        match self {
            State::Count(counts) => counts.capacity() * 8,
            State::IntSum(state) => state.memory_bytes(),
            State::FloatSum(state) => state.memory_bytes(),
            State::DecimalSum(state) => state.memory_bytes(),
            State::Extreme(_, state) => state.memory_bytes(),
            State::DecimalExtreme(state) => state.memory_bytes(),
            State::TextExtreme(state) => state.memory_bytes(),
            State::Distinct(state) => state.memory_bytes(),
            State::Spread(state) => state.memory_bytes(),
            State::Bits(state) => state.memory_bytes(),
            State::First(state) => state.memory_bytes(),
        }
    }
}

/// Counts the selected rows of each group that are not NULL.
pub(crate) fn count(counts: &mut [i64], nulls: Option<&NullBuffer>, ids: Ids<'_>, rows: Rows<'_>) {
    match (nulls, ids, rows) {
        (None, Ids::One, rows) => counts[0] += rows.count() as i64,
        (None, Ids::Bytes(codes), Rows::All(_)) => count_by_code(codes, counts),
        (None, Ids::Runs(runs), Rows::All(_)) => {
            each_run(runs, |group, rows| counts[group] += rows.len() as i64);
        }
        (None, ids, rows) => each(ids, rows, |_, group| counts[group] += 1),
        (nulls, ids, rows) => each_valid(ids, rows, nulls, |_, group| counts[group] += 1),
    }
}

/// NULL for the groups without a value, if there are any.
fn nulls_of(seen: &Seen, groups: usize) -> Option<NullBuffer> {
    if !seen.may_lack() {
        return None;
    }
    let nulls: NullBuffer = (0..groups).map(|group| seen.has(group)).collect();
    (nulls.null_count() > 0).then_some(nulls)
}
