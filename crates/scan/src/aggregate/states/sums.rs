//! Sums of integers and of floats.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Decimal128Type, Float64Type, Int64Type};
use thalweg_types::{Error, Result, SqlState};

use super::argument::each_valid;
use super::{Seen, nulls_of};
use crate::aggregate::emit::{decimal_array, int_array};
use crate::aggregate::kernels::{add_by_code, are_small, total, total_by_run};
use crate::aggregate::keys::Ids;
use crate::aggregate::vector::{Rows, Values, Vector};

/// Exact sums of integers of any size, with 64 bits for each group.
pub(crate) struct IntSums {
    low: Vec<i64>,
    /// For groups whose sum overflowed: the multiple of 2^64 to add to it.
    carries: BTreeMap<u32, i64>,
    seen: Seen,
}

impl IntSums {
    /// No groups yet.
    pub fn new(seen: Seen) -> IntSums {
        IntSums { low: Vec::new(), carries: BTreeMap::new(), seen }
    }

    /// Extends the state to `groups` groups.
    pub fn grow(&mut self, groups: usize) {
        self.low.resize(groups, 0);
    }

    /// Adds a block. `small`: the groups have rows of this chunk alone, and these add up within 64
    /// bits.
    pub fn update(&mut self, given: &Vector<'_, i64>, small: bool, ids: Ids<'_>, rows: Rows<'_>) {
        let tells = self.seen.begin(self.low.len(), given.nulls.is_some());
        let plain = !matches!(given.values, Values::Constant(_)) && given.nulls.is_none();
        if plain && self.add_runs(given, small, ids, rows) {
            return;
        }
        if let Rows::All(count) = rows
            && (small && plain && !tells)
        {
            let values = given.values.slice(count);
            match ids {
                Ids::One => self.low[0] = self.low[0].wrapping_add(total(&values)),
                Ids::Bytes(codes) => add_by_code(codes, &values, &mut self.low),
                Ids::Shorts(ids) => {
                    for (id, value) in ids.iter().zip(values.iter()) {
                        let total = &mut self.low[usize::from(*id)];
                        *total = total.wrapping_add(*value);
                    }
                }
                Ids::Words(_) | Ids::Runs(_) => {
                    unreachable!("groups of all chunks do not know their rows, and runs are added")
                }
            }
            return;
        }
        let IntSums { low, carries, seen } = self;
        each_valid(ids, rows, given.nulls.as_ref(), |row, group| {
            add(low, carries, group, given.values.get(row));
            seen.mark(group);
        });
    }

    /// Adds a block of runs if the rows of each add up within 64 bits; otherwise returns false.
    fn add_runs(
        &mut self,
        given: &Vector<'_, i64>,
        small: bool,
        ids: Ids<'_>,
        rows: Rows<'_>,
    ) -> bool {
        let (Ids::Runs(runs), Rows::All(count)) = (ids, rows) else { return false };
        let values = given.values.slice(count);
        let are_small = small || are_small(&values);
        if are_small {
            let IntSums { low, carries, seen } = self;
            total_by_run(runs, &values, |group, total| {
                add(low, carries, group, total);
                seen.mark(group);
            });
        }
        are_small
    }

    fn total(&self, group: usize) -> i128 {
        let carry = self.carries.get(&(group as u32)).copied().unwrap_or(0);
        i128::from(self.low[group]) + (i128::from(carry) << 64)
    }

    /// Merges the groups of another state; pairs are (group there, group here).
    pub fn merge(&mut self, other: &IntSums, pairs: &[(u32, u32)]) {
        self.seen.begin(self.low.len(), other.seen.may_lack());
        for (from, to) in pairs {
            if other.seen.has(*from as usize) {
                add_wide(&mut self.low, &mut self.carries, *to, other.total(*from as usize));
                self.seen.mark(*to as usize);
            }
        }
    }

    /// The sums for a partial result, in 64 bits if all of them fit.
    pub fn state(&self) -> ArrayRef {
        let nulls = nulls_of(&self.seen, self.low.len());
        if self.carries.values().all(|carry| *carry == 0) {
            return int_array(self.low.clone(), nulls, &DataType::Int64);
        }
        let totals = (0..self.low.len()).map(|group| self.total(group)).collect();
        decimal_array(totals, nulls, &DataType::Decimal128(38, 0))
    }

    /// Restores the state from a column of a partial result.
    pub fn of_state(array: &ArrayRef) -> IntSums {
        if let Some(totals) = array.as_primitive_opt::<Int64Type>() {
            let seen = seen_of(totals.nulls(), totals.len());
            return IntSums { low: totals.values().to_vec(), carries: BTreeMap::new(), seen };
        }
        let totals = array.as_primitive::<Decimal128Type>();
        let mut sums = IntSums::new(Seen::none());
        sums.grow(totals.len());
        sums.seen.begin(totals.len(), true);
        for (group, total) in totals.iter().enumerate() {
            if let Some(total) = total {
                add_wide(&mut sums.low, &mut sums.carries, group as u32, total);
                sums.seen.mark(group);
            }
        }
        sums
    }

    /// The sums as `bigint`, or as decimals of scale 0. Fails if a sum does not fit `bigint`.
    pub fn finish(&self, data_type: &DataType) -> Result<ArrayRef> {
        let nulls = nulls_of(&self.seen, self.low.len());
        if let DataType::Decimal128(..) = data_type {
            let totals = (0..self.low.len()).map(|group| self.total(group)).collect();
            return Ok(decimal_array(totals, nulls, data_type));
        }
        if self.carries.values().any(|carry| *carry != 0) {
            let error = Error::new(SqlState::NUMERIC_OUT_OF_RANGE, "bigint out of range");
            return Err(error.with_hint("Sum the values as numeric: sum(column::numeric)."));
        }
        Ok(int_array(self.low.clone(), nulls, data_type))
    }

    /// Bytes allocated for sums and marks.
    pub fn memory_bytes(&self) -> usize {
        self.low.capacity() * 8 + self.carries.len() * 24 + self.seen.memory_bytes()
    }
}

#[inline(always)]
fn add(low: &mut [i64], carries: &mut BTreeMap<u32, i64>, group: usize, value: i64) {
    let (sum, wrapped) = low[group].overflowing_add(value);
    low[group] = sum;
    if wrapped {
        carry(carries, group as u32, if value < 0 { -1 } else { 1 });
    }
}

fn add_wide(low: &mut [i64], carries: &mut BTreeMap<u32, i64>, group: u32, total: i128) {
    let part = total as i64;
    let rest = ((total - i128::from(part)) >> 64) as i64;
    if rest != 0 {
        carry(carries, group, rest);
    }
    add(low, carries, group as usize, part);
}

#[cold]
fn carry(carries: &mut BTreeMap<u32, i64>, group: u32, times: i64) {
    *carries.entry(group).or_default() += times;
}

/// Sums of floats.
pub(crate) struct FloatSums {
    sums: Vec<f64>,
    seen: Seen,
}

impl FloatSums {
    /// No groups yet.
    pub fn new(seen: Seen) -> FloatSums {
        FloatSums { sums: Vec::new(), seen }
    }

    /// Extends the state to `groups` groups.
    pub fn grow(&mut self, groups: usize) {
        self.sums.resize(groups, 0.0);
    }

    /// Adds the rows of a block.
    pub fn update(&mut self, given: &Vector<'_, f64>, ids: Ids<'_>, rows: Rows<'_>) {
        let tells = self.seen.begin(self.sums.len(), given.nulls.is_some());
        let FloatSums { sums, seen } = self;
        if let (Rows::All(count), None) = (rows, &given.nulls) {
            let values = || given.values.slice(count);
            match ids {
                Ids::One if !tells => return sums[0] += total(&values()),
                Ids::Bytes(codes) if !tells => return add_by_code(codes, &values(), sums),
                Ids::Runs(runs) => {
                    return total_by_run(runs, &values(), |group, total| {
                        sums[group] += total;
                        seen.mark(group);
                    });
                }
                _ => {}
            }
        }
        each_valid(ids, rows, given.nulls.as_ref(), |row, group| {
            sums[group] += given.values.get(row);
            seen.mark(group);
        });
    }

    /// Merges the groups of another state; pairs are (group there, group here).
    pub fn merge(&mut self, other: &FloatSums, pairs: &[(u32, u32)]) {
        self.seen.begin(self.sums.len(), other.seen.may_lack());
        for (from, to) in pairs {
            if other.seen.has(*from as usize) {
                self.sums[*to as usize] += other.sums[*from as usize];
                self.seen.mark(*to as usize);
            }
        }
    }

    /// The sums as `Float64`; NULL for groups without a value.
    pub fn state(&self) -> ArrayRef {
        let nulls = nulls_of(&self.seen, self.sums.len());
        Arc::new(Float64Array::new(self.sums.clone().into(), nulls))
    }

    /// Restores the state from a column of a partial result.
    pub fn of_state(array: &ArrayRef) -> FloatSums {
        let totals = array.as_primitive::<Float64Type>();
        let seen = seen_of(totals.nulls(), totals.len());
        FloatSums { sums: totals.values().to_vec(), seen }
    }

    /// Bytes allocated for sums and marks.
    pub fn memory_bytes(&self) -> usize {
        self.sums.capacity() * 8 + self.seen.memory_bytes()
    }
}

/// Marks the groups that have a value in an array.
pub(super) fn seen_of(nulls: Option<&NullBuffer>, groups: usize) -> Seen {
    let Some(nulls) = nulls.filter(|nulls| nulls.null_count() > 0) else {
        let mut seen = Seen::by_rows();
        seen.begin(groups, false);
        return seen;
    };
    let mut seen = Seen::none();
    seen.begin(groups, true);
    (0..groups).filter(|group| nulls.is_valid(*group)).for_each(|group| seen.mark(group));
    seen
}
