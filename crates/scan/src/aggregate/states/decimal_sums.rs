//! Sums of decimals, in units of their last digit.
//!
//! Sums have 64 bits as long as the bounds of the added values prove that none overflows, and 128
//! from then on. The values of a block are bounded, so that single additions need no check.

use std::collections::BTreeSet;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Decimal128Type, Int64Type};
use thalweg_types::Result;

use super::argument::each_valid;
use super::sums::seen_of;
use super::{Seen, nulls_of};
use crate::aggregate::arithmetic::numeric_overflow;
use crate::aggregate::decimals::{Decimals, Narrow, narrowed};
use crate::aggregate::emit::{decimal_array, int_array};
use crate::aggregate::kernels::{add_by_code, total, total_by_run};
use crate::aggregate::keys::Ids;
use crate::aggregate::vector::{Rows, Values, Vector};

/// Digits of a `numeric` of 128 bits.
const DIGITS_MAX: u32 = 38;

/// Largest absolute value of a sum in 64 bits.
const LIMIT: u64 = i64::MAX as u64;

/// When 64-bit sums may have overflowed, their bound is recomputed. That pays if a block adds no
/// more than this, since it then happens once in a thousand blocks.
const ADDED_MAX: u64 = 1 << 52;

/// Sums beyond this would soon overflow 64 bits.
const BOUND_MAX: u64 = 1 << 62;

pub(crate) struct DecimalSums {
    sums: Sums,
    seen: Seen,
    /// Groups whose sum overflowed 128 bits.
    overflowed: BTreeSet<u32>,
}

enum Sums {
    /// `bound` limits the absolute value of all sums.
    Narrow {
        sums: Vec<i64>,
        bound: u64,
    },
    Wide(Vec<i128>),
}

impl Sums {
    fn len(&self) -> usize {
        match self {
            Sums::Narrow { sums, .. } => sums.len(),
            Sums::Wide(sums) => sums.len(),
        }
    }

    fn get(&self, group: usize) -> i128 {
        match self {
            Sums::Narrow { sums, .. } => sums[group].into(),
            Sums::Wide(sums) => sums[group],
        }
    }

    fn to_vec(&self) -> Vec<i128> {
        match self {
            Sums::Narrow { sums, .. } => sums.iter().map(|sum| i128::from(*sum)).collect(),
            Sums::Wide(sums) => sums.clone(),
        }
    }

    fn widen(&mut self) -> &mut Vec<i128> {
        if let Sums::Narrow { .. } = self {
            *self = Sums::Wide(self.to_vec());
        }
        match self {
            Sums::Wide(sums) => sums,
            Sums::Narrow { .. } => unreachable!("they were widened"),
        }
    }

    /// Ensures that each sum can grow by `added` within 64 bits, or widens all to 128.
    fn prepare(&mut self, added: u128) {
        let Sums::Narrow { sums, bound } = self else { return };
        let added = u64::try_from(added).unwrap_or(u64::MAX);
        if bound.saturating_add(added) <= LIMIT {
            *bound += added;
            return;
        }
        if added <= ADDED_MAX {
            *bound = sums.iter().map(|sum| sum.unsigned_abs()).max().unwrap_or(0);
            if *bound <= BOUND_MAX {
                *bound += added;
                return;
            }
        }
        self.widen();
    }
}

impl DecimalSums {
    /// No groups yet.
    pub fn new(seen: Seen) -> DecimalSums {
        let sums = Sums::Narrow { sums: Vec::new(), bound: 0 };
        DecimalSums { sums, seen, overflowed: BTreeSet::new() }
    }

    /// Extends the state to `groups` groups.
    pub fn grow(&mut self, groups: usize) {
        match &mut self.sums {
            Sums::Narrow { sums, .. } => sums.resize(groups, 0),
            Sums::Wide(sums) => sums.resize(groups, 0),
        }
    }

    /// Adds the rows of a block.
    pub fn update(&mut self, given: &Decimals<'_>, ids: Ids<'_>, rows: Rows<'_>) {
        let tells = self.seen.begin(self.sums.len(), given.nulls().is_some());
        match given {
            Decimals::Narrow(narrow) => self.add_narrow(narrow, tells, ids, rows),
            Decimals::Wide(vector) => {
                self.sums.widen();
                self.add_each(vector, ids, rows);
            }
        }
    }

    fn add_narrow(&mut self, given: &Narrow<'_>, tells: bool, ids: Ids<'_>, rows: Rows<'_>) {
        let Narrow { vector, bound } = given;
        let added = u128::from(*bound) * rows.count() as u128;
        self.sums.prepare(added);
        let has_values = !matches!(vector.values, Values::Constant(_));
        if let (Rows::All(count), Ids::One | Ids::Bytes(_) | Ids::Runs(_)) = (rows, ids)
            && (has_values && vector.nulls.is_none() && !tells && added <= LIMIT.into())
        {
            let values = vector.values.slice(count);
            match (&mut self.sums, ids) {
                (Sums::Narrow { sums, .. }, ids) => add_block(&values, ids, sums),
                // A block may have runs of few out of very many groups, so no array of all groups
                // is used.
                (Sums::Wide(sums), Ids::Runs(runs)) => {
                    total_by_run(runs, &values, |group, total| {
                        add(sums, &mut self.overflowed, group, total.into());
                    });
                }
                (Sums::Wide(sums), ids) => {
                    let mut of_block = vec![0; sums.len()];
                    add_block(&values, ids, &mut of_block);
                    for (group, added) in of_block.into_iter().enumerate() {
                        add(sums, &mut self.overflowed, group, added.into());
                    }
                }
            }
            return;
        }
        let DecimalSums { sums: Sums::Narrow { sums, .. }, seen, .. } = self else {
            return self.add_each(vector, ids, rows);
        };
        each_valid(ids, rows, vector.nulls.as_ref(), |row, group| {
            sums[group] = sums[group].wrapping_add(vector.values.get(row));
            seen.mark(group);
        });
    }

    /// Adds values to sums of 128 bits.
    fn add_each<V>(&mut self, given: &Vector<'_, V>, ids: Ids<'_>, rows: Rows<'_>)
    where
        V: Copy + Into<i128>,
    {
        let DecimalSums { sums, seen, overflowed } = self;
        let sums = sums.widen();
        each_valid(ids, rows, given.nulls.as_ref(), |row, group| {
            add(sums, overflowed, group, given.values.get(row).into());
            seen.mark(group);
        });
    }

    /// Merges the groups of another state; pairs are (group there, group here).
    pub fn merge(&mut self, other: &DecimalSums, pairs: &[(u32, u32)]) {
        self.seen.begin(self.sums.len(), other.seen.may_lack());
        for (from, to) in pairs {
            if other.seen.has(*from as usize) {
                self.add_one(*to as usize, other.sums.get(*from as usize));
                if other.overflowed.contains(from) {
                    self.overflowed.insert(*to);
                }
                self.seen.mark(*to as usize);
            }
        }
    }

    fn add_one(&mut self, group: usize, added: i128) {
        if let Sums::Narrow { sums, bound } = &mut self.sums
            && let Ok(added) = i64::try_from(added)
            && let Some(sum) = sums[group].checked_add(added)
            && sum.unsigned_abs() <= LIMIT
        {
            sums[group] = sum;
            *bound = sum.unsigned_abs().max(*bound);
            return;
        }
        add(self.sums.widen(), &mut self.overflowed, group, added);
    }

    /// The sums as a decimal type of their scale.
    ///
    /// # Errors
    /// If a sum exceeds 38 digits.
    pub fn finish(&self, data_type: &DataType) -> Result<ArrayRef> {
        let limit = 10_u128.pow(DIGITS_MAX);
        let is_beyond = match &self.sums {
            Sums::Narrow { .. } => false,
            Sums::Wide(sums) => sums.iter().any(|sum| sum.unsigned_abs() >= limit),
        };
        if is_beyond || !self.overflowed.is_empty() {
            return Err(numeric_overflow());
        }
        let nulls = nulls_of(&self.seen, self.sums.len());
        Ok(decimal_array(self.sums.to_vec(), nulls, data_type))
    }

    /// The sums for a partial result, in 64 bits if all of them fit.
    pub fn state(&self) -> Result<ArrayRef> {
        match &self.sums {
            Sums::Narrow { sums, .. } if self.overflowed.is_empty() => {
                let nulls = nulls_of(&self.seen, sums.len());
                Ok(int_array(sums.clone(), nulls, &DataType::Int64))
            }
            _ => self.finish(&DataType::Decimal128(38, 0)),
        }
    }

    /// Restores the state from a column of a partial result.
    pub fn of_state(array: &ArrayRef) -> DecimalSums {
        if let Some(totals) = array.as_primitive_opt::<Int64Type>() {
            let seen = seen_of(totals.nulls(), totals.len());
            // The bound is computed when more is added.
            let sums = Sums::Narrow { sums: totals.values().to_vec(), bound: u64::MAX };
            return DecimalSums { sums, seen, overflowed: BTreeSet::new() };
        }
        let totals = array.as_primitive::<Decimal128Type>();
        let seen = seen_of(totals.nulls(), totals.len());
        let sums = match narrowed(totals.values()) {
            Some((sums, bound)) => Sums::Narrow { sums, bound },
            None => Sums::Wide(totals.values().to_vec()),
        };
        DecimalSums { sums, seen, overflowed: BTreeSet::new() }
    }

    /// Bytes allocated for sums and marks.
    pub fn memory_bytes(&self) -> usize {
        let sums = match &self.sums {
            Sums::Narrow { sums, .. } => sums.capacity() * 8,
            Sums::Wide(sums) => sums.capacity() * 16,
        };
        sums + self.seen.memory_bytes()
    }
}

/// Adds the values of a block, whose sums fit 64 bits.
fn add_block(values: &[i64], ids: Ids<'_>, sums: &mut [i64]) {
    match ids {
        Ids::One => sums[0] = sums[0].wrapping_add(total(values)),
        Ids::Bytes(codes) => add_by_code(codes, values, sums),
        Ids::Runs(runs) => total_by_run(runs, values, |group, total| {
            sums[group] = sums[group].wrapping_add(total);
        }),
        Ids::Shorts(_) | Ids::Words(_) => unreachable!("there are too many groups"),
    }
}

#[inline(always)]
fn add(sums: &mut [i128], overflowed: &mut BTreeSet<u32>, group: usize, added: i128) {
    let (sum, wrapped) = sums[group].overflowing_add(added);
    sums[group] = sum;
    if wrapped {
        overflowed.insert(group as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::tests::Random;

    const TYPE: DataType = DataType::Decimal128(38, 0);

    /// The value of a row, of up to so many bits.
    fn value(random: &mut Random, bits: u32) -> i128 {
        let all = i128::MAX >> (127 - bits);
        let size = match random.one_in(3) {
            true => all,
            false => (i128::from(random.next()) << 64 | i128::from(random.next())) & all,
        };
        if random.one_in(3) { -size } else { size }
    }

    /// Random blocks, whose sums are those of a plain loop in the end, or leave their digits.
    fn check(seed: u64) -> bool {
        let random = &mut Random(seed);
        let groups = random.pick(&[1, 3, 200, 300]);
        let bits = random.pick(&[8, 40, 50, 51, 52, 53, 62, 63, 64, 100]);
        let mut sums = DecimalSums::new(Seen::none());
        sums.grow(groups);
        let mut expected = vec![None::<i128>; groups];
        for _ in 0..random.pick(&[1, 5, 40]) {
            let rows = 1 + random.below(4_096) as usize;
            let of = |random: &mut Random| random.below(groups as u64) as usize;
            let ids: Vec<usize> = (0..rows).map(|_| of(random)).collect();
            let values: Vec<i128> = (0..rows).map(|_| value(random, bits)).collect();
            let nulls = random.one_in(4).then(|| (0..rows).map(|row| row % 5 != 1).collect());
            let places: Vec<u16> = (0..rows as u16).filter(|row| row % 2 == 0).collect();
            let wanted = match random.one_in(3) {
                true => Rows::Some(&places),
                false => Rows::All(rows),
            };
            let vector = Vector { values: Values::Owned(values.clone()), nulls };
            wanted.each(|row| {
                if !vector.is_null(row) {
                    let sum = expected[ids[row]].get_or_insert(0);
                    *sum = sum.saturating_add(values[row]);
                }
            });
            let bytes: Vec<u8> = ids.iter().map(|id| *id as u8).collect();
            let words: Vec<u32> = ids.iter().map(|id| *id as u32).collect();
            let given = Decimals::of(vector);
            match groups {
                1 => sums.update(&given, Ids::One, wanted),
                300 => sums.update(&given, Ids::Words(&words), wanted),
                _ => sums.update(&given, Ids::Bytes(&bytes), wanted),
            }
            if random.one_in(3) {
                sums = DecimalSums::of_state(&sums.state().unwrap());
            }
            if random.one_in(3) {
                let mut merged = DecimalSums::new(Seen::none());
                merged.grow(groups);
                let pairs: Vec<(u32, u32)> = (0..groups as u32).map(|to| (to, to)).collect();
                merged.merge(&sums, &pairs);
                sums = merged;
            }
        }
        let found = sums.finish(&TYPE).unwrap();
        let found = found.as_primitive::<Decimal128Type>();
        assert_eq!(found.iter().collect::<Vec<_>>(), expected, "seed {seed}");
        matches!(sums.sums, Sums::Narrow { .. })
    }

    #[test]
    fn sums_are_those_of_128_bits() {
        let narrow = (0..300).filter(|seed| check(*seed)).count();
        assert!((30..270).contains(&narrow), "{narrow} of 300 took 64 bits");
    }

    #[test]
    fn small_sums_stay_in_64_bits_however_many_rows_there_are() {
        let mut sums = DecimalSums::new(Seen::by_rows());
        sums.grow(1);
        let values = |sign: i64| {
            let all = Values::Owned(vec![i128::from(sign << 39); 4_096]);
            Decimals::of(Vector { values: all, nulls: None })
        };
        for sign in [1, -1].repeat(3_000) {
            sums.update(&values(sign), Ids::One, Rows::All(4_096));
        }
        assert!(matches!(sums.sums, Sums::Narrow { .. }));
        assert_eq!(sums.sums.get(0), 0);
    }

    #[test]
    fn a_sum_of_more_digits_than_there_are_is_refused() {
        let large = 10_i128.pow(38) - 1;
        let mut sums = DecimalSums::new(Seen::by_rows());
        sums.grow(1);
        let add = |sums: &mut DecimalSums, value| {
            let vector = Vector { values: Values::Owned(vec![value]), nulls: None };
            sums.update(&Decimals::of(vector), Ids::One, Rows::All(1));
        };
        add(&mut sums, large);
        assert_eq!(sums.finish(&TYPE).unwrap().len(), 1);
        add(&mut sums, 1);
        assert!(sums.finish(&TYPE).is_err());
        add(&mut sums, -1);
        assert_eq!(DecimalSums::of_state(&sums.state().unwrap()).sums.get(0), large);
    }
}
