//! Bitwise aggregates of integers: `bit_and`, `bit_or`, `bit_xor`.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Int64Type};

use super::argument::each_valid;
use super::sums::seen_of;
use super::{Seen, nulls_of};
use crate::aggregate::emit::int_array;
use crate::aggregate::keys::Ids;
use crate::aggregate::vector::{Rows, Vector};

/// The operator of a bitwise aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BitOperator {
    And,
    Or,
    Xor,
}

impl BitOperator {
    #[inline(always)]
    fn combine(self, left: i64, right: i64) -> i64 {
        match self {
            BitOperator::And => left & right,
            BitOperator::Or => left | right,
            BitOperator::Xor => left ^ right,
        }
    }

    /// The neutral element of the operator.
    fn identity_value(self) -> i64 {
        match self {
            BitOperator::And => -1,
            BitOperator::Or | BitOperator::Xor => 0,
        }
    }
}

pub(crate) struct Bits {
    operator: BitOperator,
    values: Vec<i64>,
    seen: Seen,
}

impl Bits {
    /// No groups yet.
    pub fn new(operator: BitOperator, seen: Seen) -> Bits {
        Bits { operator, values: Vec::new(), seen }
    }

    /// Extends the state to `groups` groups.
    pub fn grow(&mut self, groups: usize) {
        self.values.resize(groups, self.operator.identity_value());
    }

    /// Aggregates the rows of a block.
    pub fn update(&mut self, given: &Vector<'_, i64>, ids: Ids<'_>, rows: Rows<'_>) {
        self.seen.begin(self.values.len(), given.nulls.is_some());
        let Bits { operator, values, seen } = self;
        each_valid(ids, rows, given.nulls.as_ref(), |row, group| {
            values[group] = operator.combine(values[group], given.values.get(row));
            seen.mark(group);
        });
    }

    /// Merges the groups of another state; pairs are (group there, group here).
    pub fn merge(&mut self, other: &Bits, pairs: &[(u32, u32)]) {
        self.seen.begin(self.values.len(), other.seen.may_lack());
        for (from, to) in pairs {
            if other.seen.has(*from as usize) {
                let value = &mut self.values[*to as usize];
                *value = self.operator.combine(*value, other.values[*from as usize]);
                self.seen.mark(*to as usize);
            }
        }
    }

    /// The result as an array of an integer type; NULL for groups without a value.
    pub fn finish(&self, data_type: &DataType) -> ArrayRef {
        int_array(self.values.clone(), nulls_of(&self.seen, self.values.len()), data_type)
    }

    /// Restores the state from a column of a partial result.
    pub fn of_state(operator: BitOperator, array: &ArrayRef) -> Bits {
        let values = array.as_primitive::<Int64Type>();
        let seen = seen_of(values.nulls(), values.len());
        Bits { operator, values: values.values().to_vec(), seen }
    }

    /// Bytes allocated for values and marks.
    pub fn memory_bytes(&self) -> usize {
        self.values.capacity() * 8 + self.seen.memory_bytes()
    }
}
