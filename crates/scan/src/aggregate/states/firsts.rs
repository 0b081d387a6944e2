//! First values in an order.
//!
//! A group keeps the rank of its first row and that row's value. All ranks of a block are compared
//! before any value is read, so that a text is copied only if its row is the first of its group in
//! the block.

use std::mem;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Float32Array, Float64Array, StringViewBuilder, StructArray,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Decimal128Type, Field, Fields, Int64Type};
use thalweg_types::RowId;

use super::argument::{Argument, Ordered, each, each_valid};
use crate::aggregate::decimals::Decimals;
use crate::aggregate::emit::{decimal_array, int_array};
use crate::aggregate::keys::Ids;
use crate::aggregate::number::Lane;
use crate::aggregate::order::{Direction, Rank};
use crate::aggregate::source::{Column, Data};
use crate::aggregate::vector::Rows;

const WIDE: DataType = DataType::Decimal128(38, 0);

pub(crate) struct Firsts {
    ranks: Vec<Rank>,
    best: BestValues,
    /// True if rows with a NULL value are skipped.
    skips_nulls: bool,
}

/// A value for each group; undefined for groups without one.
enum BestValues {
    /// Integers, and floats by their bits.
    Words(Vec<i64>),
    Decimals(Vec<i128>),
    Texts(Texts),
}

#[derive(Default)]
struct Texts {
    texts: Vec<Option<Box<str>>>,
    /// Length of all texts in bytes.
    bytes: usize,
}

impl Texts {
    fn put(&mut self, group: usize, text: Option<&str>) {
        self.bytes += text.map_or(0, str::len);
        let before = mem::replace(&mut self.texts[group], text.map(Box::from));
        self.bytes -= before.map_or(0, |before| before.len());
    }
}

impl Firsts {
    /// No groups yet. Values are numbers of a lane, or texts without one.
    pub fn new(lane: Option<Lane>, skips_nulls: bool) -> Firsts {
        let best = match lane {
            Some(Lane::Int | Lane::Float) => BestValues::Words(Vec::new()),
            Some(Lane::Decimal) => BestValues::Decimals(Vec::new()),
            None => BestValues::Texts(Texts::default()),
        };
        Firsts { ranks: Vec::new(), best, skips_nulls }
    }

    /// Extends the state to `groups` groups.
    pub fn grow(&mut self, groups: usize) {
        self.ranks.resize(groups, Rank::NONE);
        match &mut self.best {
            BestValues::Words(words) => words.resize(groups, 0),
            BestValues::Decimals(decimals) => decimals.resize(groups, 0),
            BestValues::Texts(texts) => texts.texts.resize(groups, None),
        }
    }

    /// Offers the rows of a block to their groups.
    pub fn update(&mut self, given: &Ordered<'_>, ids: Ids<'_>, rows: Rows<'_>) {
        let Ordered { value, numbers, direction, first_row } = given;
        let nulls = value.nulls();
        let ranks = &mut self.ranks;
        let mut are_changed = false;
        let offer = |row: usize, group: usize| {
            let number = (!numbers.is_null(row)).then(|| numbers.values.get(row));
            let has_value = nulls.is_none_or(|nulls| nulls.is_valid(row));
            let rank = direction.rank(number, behind(*first_row, row), has_value);
            if rank < ranks[group] {
                ranks[group] = rank;
                are_changed = true;
            }
        };
        match self.skips_nulls {
            true => each_valid(ids, rows, nulls, offer),
            false => each(ids, rows, offer),
        }
        if are_changed {
            self.take(given, ids, rows);
        }
    }

    /// Copies the values of those rows of a block that became first.
    fn take(&mut self, given: &Ordered<'_>, ids: Ids<'_>, rows: Rows<'_>) {
        let first = First { ranks: &self.ranks, direction: given.direction, row: given.first_row };
        match (&mut self.best, &given.value) {
            (BestValues::Words(words), Argument::Ints { vector, .. }) => {
                first.each(ids, rows, |row, group| words[group] = vector.values.get(row));
            }
            (BestValues::Words(words), Argument::Floats(vector)) => {
                first.each(ids, rows, |row, group| {
                    words[group] = vector.values.get(row).to_bits() as i64;
                });
            }
            (BestValues::Decimals(best), Argument::Decimals(Decimals::Narrow(narrow))) => {
                let values = &narrow.vector.values;
                first.each(ids, rows, |row, group| best[group] = values.get(row).into());
            }
            (BestValues::Decimals(best), Argument::Decimals(Decimals::Wide(vector))) => {
                first.each(ids, rows, |row, group| best[group] = vector.values.get(row));
            }
            (BestValues::Texts(texts), Argument::Texts { column, start, nulls }) => {
                first.each(ids, rows, |row, group| {
                    let is_null = nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
                    texts.put(group, (!is_null).then(|| text(column, start + row)));
                });
            }
            _ => unreachable!("values are given as they are kept"),
        }
    }

    /// Merges the groups of another state; pairs are (group there, group here).
    pub fn merge(&mut self, other: &Firsts, pairs: &[(u32, u32)]) {
        for (from, to) in pairs {
            let (from, to) = (*from as usize, *to as usize);
            if other.ranks[from] >= self.ranks[to] {
                continue;
            }
            self.ranks[to] = other.ranks[from];
            match (&mut self.best, &other.best) {
                (BestValues::Words(own), BestValues::Words(other)) => own[to] = other[from],
                (BestValues::Decimals(own), BestValues::Decimals(other)) => own[to] = other[from],
                (BestValues::Texts(own), BestValues::Texts(other)) => {
                    own.put(to, other.texts[from].as_deref())
                }
                _ => unreachable!("states of one aggregate are of one kind"),
            }
        }
    }

    /// The values as an array of their type.
    pub fn finish(&self, data_type: &DataType) -> ArrayRef {
        let nulls = self.nulls();
        match (&self.best, data_type) {
            (BestValues::Words(words), DataType::Float32) => {
                let values: Vec<f32> = floats(words).map(|value| value as f32).collect();
                Arc::new(Float32Array::new(values.into(), nulls))
            }
            (BestValues::Words(words), DataType::Float64) => {
                Arc::new(Float64Array::new(floats(words).collect::<Vec<f64>>().into(), nulls))
            }
            (BestValues::Words(words), data_type) => int_array(words.clone(), nulls, data_type),
            (BestValues::Decimals(decimals), _) => {
                decimal_array(decimals.clone(), nulls, data_type)
            }
            (BestValues::Texts(best), _) => {
                let mut texts = StringViewBuilder::new();
                best.texts.iter().for_each(|text| texts.append_option(text.as_deref()));
                Arc::new(texts.finish())
            }
        }
    }

    fn nulls(&self) -> Option<NullBuffer> {
        let nulls: NullBuffer = self.ranks.iter().map(|rank| rank.has_value()).collect();
        (nulls.null_count() > 0).then_some(nulls)
    }

    /// A struct of the values (floats by their bits) and the ranks of their rows. Groups without a
    /// row have no rank.
    pub fn state(&self) -> ArrayRef {
        let data_type = match &self.best {
            BestValues::Words(_) => DataType::Int64,
            BestValues::Decimals(_) => WIDE,
            BestValues::Texts(_) => DataType::Utf8View,
        };
        let values = self.finish(&data_type);
        let has_row: NullBuffer = self.ranks.iter().map(|rank| *rank != Rank::NONE).collect();
        let ranks = self.ranks.iter().map(|rank| if *rank == Rank::NONE { 0 } else { rank.0 });
        let ranks = decimal_array(ranks.collect(), Some(has_row), &WIDE);
        let value = Field::new("value", data_type, true);
        let fields = Fields::from(vec![value, Field::new("rank", WIDE, true)]);
        Arc::new(StructArray::new(fields, vec![values, ranks], None))
    }

    /// Restores the state from a column of a partial result.
    pub fn of_state(array: &ArrayRef, lane: Option<Lane>, skips_nulls: bool) -> Firsts {
        let columns = array.as_struct();
        let mut firsts = Firsts::new(lane, skips_nulls);
        firsts.grow(array.len());
        let ranks = columns.column(1).as_primitive::<Decimal128Type>();
        for (own, rank) in firsts.ranks.iter_mut().zip(ranks) {
            *own = rank.map_or(Rank::NONE, Rank);
        }
        let values = columns.column(0);
        match &mut firsts.best {
            BestValues::Words(words) => {
                words.copy_from_slice(values.as_primitive::<Int64Type>().values());
            }
            BestValues::Decimals(decimals) => {
                decimals.copy_from_slice(values.as_primitive::<Decimal128Type>().values());
            }
            BestValues::Texts(texts) => {
                let values = values.as_string_view().iter().enumerate();
                values.for_each(|(group, text)| texts.put(group, text));
            }
        }
        firsts
    }

    /// Bytes allocated for ranks and values.
    pub fn memory_bytes(&self) -> usize {
        let best = match &self.best {
            BestValues::Words(words) => words.capacity() * 8,
            BestValues::Decimals(decimals) => decimals.capacity() * 16,
            BestValues::Texts(texts) => {
                texts.texts.capacity() * size_of::<Option<Box<str>>>() + texts.bytes
            }
        };
        self.ranks.capacity() * size_of::<Rank>() + best
    }
}

/// Finds the first rows of groups in a block that starts at `row`.
struct First<'a> {
    ranks: &'a [Rank],
    direction: Direction,
    row: RowId,
}

impl First<'_> {
    /// Calls `visit` with each row that is the first of its group, and the group.
    #[inline(always)]
    fn each(&self, ids: Ids<'_>, rows: Rows<'_>, mut visit: impl FnMut(usize, usize)) {
        each(ids, rows, |row, group| {
            let bits = self.direction.bits_of(behind(self.row, row));
            if self.ranks[group].row_bits() == bits {
                visit(row, group);
            }
        });
    }
}

/// The row `row` rows after another one of its chunk.
#[inline(always)]
fn behind(first: RowId, row: usize) -> RowId {
    RowId(first.0 + row as u64)
}

fn floats(words: &[i64]) -> impl Iterator<Item = f64> + '_ {
    words.iter().map(|bits| f64::from_bits(*bits as u64))
}

fn text(column: &Column, row: usize) -> &str {
    match &column.data {
        Data::Text(texts) => texts.value(row),
        Data::Dictionary(dictionary) => dictionary.values.value(dictionary.codes.get(row)),
        _ => unreachable!("the column holds texts"),
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::StringViewArray;

    use super::*;
    use crate::aggregate::vector::{Values, Vector};

    /// Rows of one group, each in a block of its own, by their places in descending order.
    fn last_of(texts: &[Option<&str>], skips_nulls: bool) -> Firsts {
        let array: ArrayRef = Arc::new(StringViewArray::from(texts.to_vec()));
        let column = Column::of_array(&array);
        let mut firsts = Firsts::new(None, skips_nulls);
        firsts.grow(1);
        for row in 0..texts.len() {
            let nulls = column.nulls_of(row, 1);
            let numbers = Vector { values: Values::Owned(vec![row as i64]), nulls: None };
            let given = Ordered {
                value: Argument::Texts { column: &column, start: row, nulls },
                numbers,
                direction: Direction { descending: true, nulls_first: false, from_end: false },
                first_row: RowId::new(0, row as u32),
            };
            firsts.update(&given, Ids::One, Rows::All(1));
        }
        firsts
    }

    #[test]
    fn the_memory_of_a_text_that_another_one_comes_before_is_given_back() {
        let texts = [Some("a long text that comes first"), Some("the last text"), None];
        for (skips_nulls, expected) in [(true, Some("the last text")), (false, None)] {
            let firsts = last_of(&texts, skips_nulls);
            let array = firsts.finish(&DataType::Utf8View);
            assert_eq!(array.as_string_view().iter().next().unwrap(), expected);
            let BestValues::Texts(best) = &firsts.best else { panic!("texts are kept") };
            assert_eq!(best.bytes, expected.map_or(0, str::len));
            let back = Firsts::of_state(&firsts.state(), None, skips_nulls);
            assert_eq!(back.ranks, firsts.ranks);
            assert_eq!(back.finish(&DataType::Utf8View).as_ref(), array.as_ref());
        }
    }
}
