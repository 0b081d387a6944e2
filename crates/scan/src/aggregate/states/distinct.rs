//! Counts of distinct values.
//!
//! Values are integers, floats mapped to integers, or texts by the number that an interner
//! assigned. Each is stored once for each group. The serialized state has a list of values for each
//! group.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, ListArray};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use thalweg_types::{Error, Result};

use super::argument::{each, each_valid};
use crate::aggregate::keys::{Ids, Interner, mix};
use crate::aggregate::source::{Column, Data};
use crate::aggregate::vector::{Rows, Vector};

/// Up to this many pairs of group and dictionary code are deduplicated by a flag each.
const PAIRS_MAX: usize = 1 << 16;

/// A value of a group. The value is split in halves, so that the pair needs no padding.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Pair {
    group: u32,
    value: [u32; 2],
}

impl Pair {
    fn new(group: usize, value: i64) -> Pair {
        Pair { group: group as u32, value: [value as u32, (value >> 32) as u32] }
    }

    fn value(&self) -> i64 {
        i64::from(self.value[0]) | i64::from(self.value[1]) << 32
    }

    fn hash(&self) -> u64 {
        mix(mix(0, self.group.into()), self.value() as u64)
    }
}

pub(crate) struct Distinct {
    groups: usize,
    pairs: HashTable<Pair>,
    /// Numbers the texts; `None` for other values.
    interner: Option<Interner>,
}

impl Distinct {
    /// No groups yet. Values are texts or 64-bit integers.
    pub fn new(texts: bool) -> Distinct {
        let interner = texts.then(Interner::default);
        Distinct { groups: 0, pairs: HashTable::new(), interner }
    }

    /// Extends the state to `groups` groups.
    pub fn grow(&mut self, groups: usize) {
        self.groups = groups;
    }

    #[inline]
    fn insert(pairs: &mut HashTable<Pair>, pair: Pair) {
        let entry = pairs.entry(pair.hash(), |known| *known == pair, Pair::hash);
        if let Entry::Vacant(entry) = entry {
            entry.insert(pair);
        }
    }

    /// Adds the values of a block's rows.
    pub fn update(&mut self, given: &Vector<'_, i64>, ids: Ids<'_>, rows: Rows<'_>) {
        let pairs = &mut self.pairs;
        each_valid(ids, rows, given.nulls.as_ref(), |row, group| {
            Distinct::insert(pairs, Pair::new(group, given.values.get(row)));
        });
    }

    /// Adds the texts of a block's rows; the block starts at row `start` of the column.
    pub fn update_texts(
        &mut self,
        (column, start): (&Column, usize),
        nulls: Option<&NullBuffer>,
        ids: Ids<'_>,
        rows: Rows<'_>,
    ) {
        let Distinct { groups, pairs, interner } = self;
        let interner = interner.as_mut().expect("texts have an interner");
        match &column.data {
            Data::Text(texts) => {
                let mut numbers = vec![0; rows.count()];
                interner.intern_rows((texts, start), rows, |place, _, n| numbers[place] = n);
                let mut next = numbers.into_iter();
                each(ids, rows, |row, group| {
                    let number = next.next().expect("a number for each row");
                    if nulls.is_none_or(|nulls| nulls.is_valid(row)) {
                        Distinct::insert(pairs, Pair::new(group, number.into()));
                    }
                });
            }
            Data::Dictionary(dictionary) => {
                let codes = dictionary.values.len();
                let mut intern =
                    |code| i64::from(interner.intern(dictionary.values.value(code).as_bytes()));
                let mut met =
                    vec![false; Some(codes * *groups).filter(|n| *n <= PAIRS_MAX).unwrap_or(0)];
                each_valid(ids, rows, nulls, |row, group| {
                    let code = dictionary.codes.get(start + row);
                    match met.get_mut(group * codes + code) {
                        Some(true) => return,
                        Some(met) => *met = true,
                        None => {}
                    }
                    Distinct::insert(pairs, Pair::new(group, intern(code)));
                });
            }
            _ => unreachable!("the column holds texts"),
        }
    }

    /// Merges the groups of another state; pairs are (group there, group here).
    pub fn merge(&mut self, other: &Distinct, pairs: &[(u32, u32)]) {
        let mut group_of = vec![None; other.groups];
        pairs.iter().for_each(|(from, to)| group_of[*from as usize] = Some(*to));
        for pair in &other.pairs {
            let Some(group) = group_of[pair.group as usize] else { continue };
            let value = match (&mut self.interner, &other.interner) {
                (Some(own), Some(other)) => {
                    other.with_text(pair.value() as u32, |text| own.intern(text)).into()
                }
                _ => pair.value(),
            };
            Distinct::insert(&mut self.pairs, Pair::new(group as usize, value));
        }
    }

    fn counts(&self) -> Vec<i64> {
        let mut counts = vec![0; self.groups];
        self.pairs.iter().for_each(|pair| counts[pair.group as usize] += 1);
        counts
    }

    /// The number of distinct values of each group as `Int64`.
    pub fn finish(&self) -> ArrayRef {
        Arc::new(Int64Array::from(self.counts()))
    }

    fn field(texts: bool) -> FieldRef {
        let item = if texts { DataType::Utf8View } else { DataType::Int64 };
        Arc::new(Field::new_list_field(item, false))
    }

    /// The values of each group as a list.
    ///
    /// # Errors
    /// If there are more values than a list column can hold.
    pub fn state(&self) -> Result<ArrayRef> {
        if i32::try_from(self.pairs.len()).is_err() {
            return Err(Error::internal("more distinct values than can be handed on"));
        }
        let counts = self.counts();
        let offsets = OffsetBuffer::from_lengths(counts.iter().map(|count| *count as usize));
        let mut next: Vec<i32> = offsets[..self.groups].to_vec();
        let mut values = vec![0; self.pairs.len()];
        for pair in &self.pairs {
            let place = &mut next[pair.group as usize];
            values[*place as usize] = pair.value();
            *place += 1;
        }
        let values: ArrayRef = match &self.interner {
            Some(interner) => {
                interner.array(values.iter().map(|number| *number as u32).collect(), None)
            }
            None => Arc::new(Int64Array::from(values)),
        };
        let field = Distinct::field(self.interner.is_some());
        Ok(Arc::new(ListArray::new(field, offsets, values, None)))
    }

    /// Restores the state from a column of a partial result.
    pub fn of_state(array: &ArrayRef, texts: bool) -> Distinct {
        let mut distinct = Distinct::new(texts);
        distinct.grow(array.len());
        let lists = array.as_list::<i32>();
        for group in 0..lists.len() {
            let values = lists.value(group);
            for place in 0..values.len() {
                let value = match &mut distinct.interner {
                    Some(interner) => {
                        interner.intern(values.as_string_view().value(place).as_bytes()).into()
                    }
                    None => values.as_primitive::<Int64Type>().value(place),
                };
                Distinct::insert(&mut distinct.pairs, Pair::new(group, value));
            }
        }
        distinct
    }

    /// Bytes allocated for values and texts.
    pub fn memory_bytes(&self) -> usize {
        let texts = self.interner.as_ref().map_or(0, Interner::memory_bytes);
        self.pairs.capacity() * (size_of::<Pair>() + 1) + texts
    }
}
