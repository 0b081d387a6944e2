//! A set of integers to filter by: the keys of one side of a join, for a scan of the other side (a
//! semi-join filter).
//!
//! Dense keys are a bitmap, so that a lookup always takes the same time; others are in a hash
//! table.

use std::fmt;

use hashbrown::HashTable;
use thalweg_types::Result;

use super::number::{Block, Number};
use super::vector::{Mask, Vector};

/// A bitmap from the least to the greatest key is used if it takes at most this many bits for each
/// key ...
const BITS_OF_KEY: u64 = 64;
/// ... or this many bits in all, one mebibyte.
const BITS_MIN: u64 = 1 << 23;

/// Up to this many keys of a hash table are compared one by one with the bounds of a chunk.
const FEW: usize = 1024;

const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;
const SEED: u64 = 0x2545_F491_4F6C_DD1D;

/// A set of integers.
pub struct KeySet {
    /// Greater than the greatest key if the set is empty.
    least: i64,
    greatest: i64,
    form: Form,
}

enum Form {
    /// A bit for each number from the least key on. At least one more bit follows the greatest key;
    /// it is clear and stands for all numbers outside the range.
    Bits {
        words: Vec<u64>,
        end: u64,
    },
    Table(HashTable<i64>),
}

impl KeySet {
    /// Builds the set; duplicates are allowed.
    #[must_use]
    pub fn new(keys: &[i64]) -> KeySet {
        let (Some(least), Some(greatest)) = (keys.iter().min(), keys.iter().max()) else {
            let form = Form::Bits { words: vec![0], end: 0 };
            return KeySet { least: i64::MAX, greatest: i64::MIN, form };
        };
        let (least, greatest) = (*least, *greatest);
        let place = |key: i64| key.wrapping_sub(least) as u64;
        let room = (keys.len() as u64).saturating_mul(BITS_OF_KEY).max(BITS_MIN);
        let form = match place(greatest) < room {
            true => Form::bits(keys.iter().map(|key| place(*key)), place(greatest) + 1),
            false => Form::table(keys),
        };
        KeySet { least, greatest, form }
    }

    /// True if the number is in the set.
    #[must_use]
    pub fn has(&self, number: i64) -> bool {
        match &self.form {
            Form::Bits { words, end } => bit(words, self.least, *end, number) == 1,
            Form::Table(table) => table.find(hash(number), |key| *key == number).is_some(),
        }
    }

    /// The keys, ascending.
    #[must_use]
    pub fn numbers(&self) -> Vec<i64> {
        match &self.form {
            Form::Bits { words, .. } => {
                let places = words.iter().zip(0_u64..).flat_map(|(word, place)| {
                    let is_set = move |bit: &u64| (word >> bit) & 1 == 1;
                    (0..64).filter(is_set).map(move |bit| place * 64 + bit)
                });
                places.map(|place| self.least.wrapping_add(place as i64)).collect()
            }
            Form::Table(table) => {
                let mut numbers: Vec<i64> = table.iter().copied().collect();
                numbers.sort_unstable();
                numbers
            }
        }
    }

    /// True if a key may lie between two bounds, inclusive.
    #[must_use]
    pub fn is_possible(&self, least: i64, greatest: i64) -> bool {
        if greatest < self.least || self.greatest < least {
            return false;
        }
        let (least, greatest) = (least.max(self.least), greatest.min(self.greatest));
        let place = |number: i64| number.wrapping_sub(self.least) as u64;
        match &self.form {
            Form::Bits { words, .. } => has_bit(words, place(least), place(greatest)),
            Form::Table(table) if table.len() <= FEW => {
                table.iter().any(|key| (least..=greatest).contains(key))
            }
            Form::Table(_) => true,
        }
    }

    /// Keeps those rows of a block whose number is in the set; NULL never is.
    pub(crate) fn narrow(&self, number: &Number, block: &Block<'_>, mask: &mut Mask) -> Result<()> {
        match block.halves(number) {
            Some(halves) => self.keep(&halves, mask),
            None => self.keep(&number.ints(block, Some(mask))?, mask),
        }
        Ok(())
    }

    fn keep<T: Copy + Into<i64>>(&self, numbers: &Vector<'_, T>, mask: &mut Mask) {
        let values = numbers.values.slice(mask.0.len());
        let rows = mask.0.iter_mut().zip(values.iter());
        match &self.form {
            Form::Bits { words, end } => rows.for_each(|(kept, value)| {
                *kept &= bit(words, self.least, *end, (*value).into());
            }),
            Form::Table(_) => rows.filter(|(kept, _)| **kept == 1).for_each(|(kept, value)| {
                *kept = u8::from(self.has((*value).into()));
            }),
        }
        mask.keep_nulls(numbers.nulls.as_ref(), false);
    }
}

impl Form {
    fn bits(places: impl Iterator<Item = u64>, end: u64) -> Form {
        let mut words = vec![0; (end / 64) as usize + 1];
        places.for_each(|place| words[(place / 64) as usize] |= 1_u64 << (place % 64));
        Form::Bits { words, end }
    }

    fn table(keys: &[i64]) -> Form {
        let mut table = HashTable::new();
        for key in keys {
            table.entry(hash(*key), |known| known == key, |known| hash(*known)).or_insert(*key);
        }
        Form::Table(table)
    }
}

/// Looks up a number without a branch.
#[inline(always)]
fn bit(words: &[u64], least: i64, end: u64, number: i64) -> u8 {
    let place = (number.wrapping_sub(least) as u64).min(end);
    ((words[(place / 64) as usize] >> (place % 64)) & 1) as u8
}

/// True if a bit from `first` to `last`, inclusive, is set.
fn has_bit(words: &[u64], first: u64, last: u64) -> bool {
    let (from, to) = ((first / 64) as usize, (last / 64) as usize);
    let (head, tail) = (u64::MAX << (first % 64), u64::MAX >> (63 - last % 64));
    match from == to {
        true => words[from] & head & tail != 0,
        false => {
            let between = &words[from + 1..to];
            words[from] & head != 0
                || words[to] & tail != 0
                || between.iter().any(|word| *word != 0)
        }
    }
}

fn hash(key: i64) -> u64 {
    let product = u128::from(key as u64 ^ SEED) * u128::from(MULTIPLIER);
    product as u64 ^ (product >> 64) as u64
}

impl PartialEq for KeySet {
    fn eq(&self, other: &KeySet) -> bool {
        (self.least, self.greatest) == (other.least, other.greatest)
            && self.numbers() == other.numbers()
    }
}

impl Eq for KeySet {}

impl fmt::Debug for KeySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "keys from {} to {}", self.least, self.greatest)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int16Array, Int32Array, Int64Array, RecordBatch};
    use thalweg_store::{ClosedChunk, Effect, Table, TableState, arrow_schema};
    use thalweg_types::DataType;

    use super::*;
    use crate::RowFilter;
    use crate::aggregate::tests::{Random, schema};

    const FAR: [i64; 6] = [i64::MIN, i64::MIN + 1, i64::MAX, i64::MAX - 1, 0, 1 << 40];

    fn some(random: &mut Random) -> Vec<i64> {
        let spread = random.pick(&[10, 1000, 1 << 20, 1 << 30, u64::MAX]);
        let base = random.pick(&[0, -500, i64::MIN, i64::MAX - 1_000_000]);
        let count = random.pick(&[0, 1, 2, 100, 3000]);
        let near = |random: &mut Random| base.wrapping_add(random.below(spread) as i64);
        let mut keys: Vec<i64> = (0..count).map(|_| near(random)).collect();
        if random.one_in(3) {
            keys.push(random.pick(&FAR));
        }
        keys
    }

    #[test]
    fn numbers_are_those_of_the_model() {
        let mut random = Random(7);
        for _ in 0..300 {
            let keys = some(&mut random);
            let model: BTreeSet<i64> = keys.iter().copied().collect();
            let set = KeySet::new(&keys);
            assert!(set.numbers().iter().eq(&model));
            assert_eq!(set, KeySet::new(&set.numbers()));
            let near = keys.iter().flat_map(|key| [key.wrapping_sub(1), *key, key.wrapping_add(1)]);
            for number in near.chain(FAR).chain(some(&mut random)) {
                assert_eq!(set.has(number), model.contains(&number), "{number} of {set:?}");
            }
        }
    }

    #[test]
    fn bounds_with_keys_between_them_are_possible() {
        let (mut random, mut impossible) = (Random(8), 0);
        for _ in 0..300 {
            let keys = some(&mut random);
            let model: BTreeSet<i64> = keys.iter().copied().collect();
            let set = KeySet::new(&keys);
            let mut bounds = some(&mut random);
            bounds.extend(FAR);
            bounds.extend(keys.iter().take(50).flat_map(|key| [*key, key.saturating_add(70)]));
            for pair in bounds.windows(2) {
                let (least, greatest) = (pair[0].min(pair[1]), pair[0].max(pair[1]));
                let is_met = model.range(least..=greatest).next().is_some();
                let is_exact = keys.len() <= FEW || matches!(set.form, Form::Bits { .. });
                match is_exact {
                    true => assert_eq!(set.is_possible(least, greatest), is_met),
                    false => assert!(set.is_possible(least, greatest) || !is_met),
                }
                impossible += usize::from(!is_met);
            }
        }
        assert!(impossible > 100);
    }

    /// A table of columns in 16, 32 and 64 bits with the same values.
    fn table(values: &[Option<i16>]) -> Arc<TableState> {
        let mut schema = schema();
        schema.columns.truncate(3);
        let types = [DataType::Int2, DataType::Int4, DataType::Int8];
        schema.columns.iter_mut().zip(types).for_each(|(column, wide)| column.data_type = wide);
        let wide = |value: &Option<i16>| value.map(i64::from);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int16Array::from(values.to_vec())),
            Arc::new(Int32Array::from_iter(values.iter().map(|value| value.map(i32::from)))),
            Arc::new(Int64Array::from_iter(values.iter().map(wide))),
        ];
        let batch = RecordBatch::try_new(arrow_schema(&schema), columns).unwrap();
        let chunk = Arc::new(ClosedChunk::build(&schema, &batch));
        let (mut table, mut state) = Table::new(Arc::new(schema));
        let mut effect = Effect::new();
        table.append_chunk(chunk, &mut effect).unwrap();
        effect.publish(&mut state);
        state
    }

    #[test]
    fn columns_of_all_widths_are_sieved_alike() {
        let values: Vec<Option<i16>> =
            (-200..200).map(|value| (value % 7 != 0).then_some(value * 100)).collect();
        let state = table(&values);
        let chunk = state.chunks().next().unwrap();
        let near: Vec<i64> = (-40..-20).map(|key| key * 100).collect();
        let far: Vec<i64> = near.iter().copied().chain([i64::MIN, i64::MAX]).collect();
        for keys in [near, far] {
            let keys = Arc::new(KeySet::new(&keys));
            let passes = |place: &usize| values[*place].is_some_and(|value| keys.has(value.into()));
            let expected: Vec<u16> =
                (0..values.len()).filter(passes).map(|place| place as u16).collect();
            assert!(expected.len() > 10 && expected.len() < 20);
            for column in 0..3 {
                let row_filter = RowFilter::among(None, column, &keys);
                assert_eq!(row_filter.passing(&chunk, 400).unwrap(), Some(expected.clone()));
                assert_eq!(row_filter.passing(&chunk, 5).unwrap(), None);
            }
        }
    }

    #[test]
    fn chunks_without_keys_are_left_out() {
        let state = table(&[Some(5), None, Some(900)]);
        let chunk = state.chunks().next().unwrap();
        let concern = |keys: &[i64]| {
            RowFilter::among(None, 1, &Arc::new(KeySet::new(keys))).may_concern(&chunk)
        };
        assert!(concern(&[900]) && concern(&[5, i64::MAX]) && concern(&[6]));
        assert!(!concern(&[]) && !concern(&[4, 901]) && !concern(&[i64::MIN, i64::MAX]));
    }
}
