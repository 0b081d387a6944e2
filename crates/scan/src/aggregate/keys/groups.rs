//! The groups found so far: their numbers by key, and their keys by number.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanBufferBuilder, Float32Array, Float64Array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;

use super::hash::mix;
use super::interner::Interner;
use super::layout::{Field, Kind, Layout};
use super::numbers::Numbers;
use super::runs::find_by_runs;
use super::table::Table;
use crate::aggregate::emit::{decimal_array, int_array};
use crate::aggregate::floats::canonical;
use crate::aggregate::source::{Column, Data};
use crate::aggregate::vector::{Rows, Vector};

/// The word that represents NULL in hashes.
const NULL_WORD: u64 = 0xA5A5_5A5A_0F0F_F0F0;

/// Number of groups of which all columns are read before the next ones, so that their keys stay in
/// the cache.
const AT_ONCE: usize = 1_024;

/// The values of one key column for the rows of a block.
pub(crate) enum KeyValues<'a> {
    /// A column of a chunk, from row `start` on.
    Stored {
        column: &'a Column,
        start: usize,
    },
    Computed(Vector<'a, i64>),
}

/// One column's part of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Null,
    /// The low and high 64 bits of the value.
    Bits(u64, u64),
}

/// Dispatches to the table in use; integer keys are handled differently from packed keys.
macro_rules! with_keys {
    ($tables:expr, $numbers:ident => $lone:expr, $table:ident => $work:expr) => {
        match $tables {
            Tables::Numbers($numbers) => $lone,
            Tables::One($table) => $work,
            Tables::Two($table) => $work,
            Tables::Three($table) => $work,
            Tables::Four($table) => $work,
            Tables::Six($table) => $work,
            Tables::Eight($table) => $work,
            Tables::Twelve($table) => $work,
        }
    };
}

macro_rules! with_table {
    ($tables:expr, $table:ident => $work:expr) => {
        with_keys!($tables, $table => $work, $table => $work)
    };
}

/// Tables by the number of words of their keys; keys are padded to the next size.
enum Tables {
    /// A single integer, or a single text's number.
    Numbers(Numbers),
    One(Table<1>),
    Two(Table<2>),
    Three(Table<3>),
    Four(Table<4>),
    Six(Table<6>),
    Eight(Table<8>),
    Twelve(Table<12>),
}

/// Most words of a key.
pub(crate) const WORDS_MAX: usize = 12;

impl Tables {
    fn new(layout: &Layout) -> Tables {
        if layout.lone_null && matches!(layout.fields[0].kind, Kind::Int { .. } | Kind::Text) {
            return Tables::Numbers(Numbers::default());
        }
        match layout.words {
            1 => Tables::One(Table::default()),
            2 => Tables::Two(Table::default()),
            3 => Tables::Three(Table::default()),
            4 => Tables::Four(Table::default()),
            5..=6 => Tables::Six(Table::default()),
            7..=8 => Tables::Eight(Table::default()),
            9..=WORDS_MAX => Tables::Twelve(Table::default()),
            words => unreachable!("keys of {words} words are refused before"),
        }
    }
}

pub(crate) struct Groups {
    layout: Layout,
    tables: Tables,
    /// Numbers the texts of a column; unused for other columns.
    interners: Vec<Interner>,
    null_group: Option<u32>,
    /// True if a column may be NULL in a group. Most never are, which saves the check.
    may_be_null: Vec<bool>,
}

impl Groups {
    /// No groups. Without key columns there is one group from the start.
    pub fn new(kinds: &[Kind]) -> Groups {
        let layout = Layout::new(kinds);
        let mut tables = Tables::new(&layout);
        if kinds.is_empty() {
            with_table!(&mut tables, table => table.reserve());
        }
        let interners = kinds.iter().map(|_| Interner::default()).collect();
        let may_be_null = vec![false; kinds.len()];
        Groups { layout, tables, interners, null_group: None, may_be_null }
    }

    /// Reserves space for `groups` more groups in the index.
    pub fn make_room(&mut self, groups: usize) {
        with_table!(&mut self.tables, table => table.make_room(groups));
    }

    /// Number of groups.
    pub fn len(&self) -> usize {
        with_table!(&self.tables, table => table.len())
    }

    /// The interner of a text column.
    pub fn interner(&mut self, column: usize) -> &mut Interner {
        &mut self.interners[column]
    }

    /// Finds or creates the groups of some rows. The elements of `ids` for other rows are
    /// undefined.
    pub fn find(&mut self, columns: &[KeyValues<'_>], rows: Rows<'_>, ids: &mut [u32]) {
        if !self.layout.lone_null {
            return self.find_rows(columns, rows, ids);
        }
        let Some(nulls) = nulls_of(&columns[0], ids.len()) else {
            return self.find_rows(columns, rows, ids);
        };
        let mut valid = Vec::with_capacity(rows.count());
        rows.each(|row| match nulls.is_valid(row) {
            true => valid.push(row as u16),
            false => ids[row] = self.null_group(),
        });
        self.find_rows(columns, Rows::Some(&valid), ids);
    }

    /// The group of NULL in a single key column.
    fn null_group(&mut self) -> u32 {
        let Groups { tables, null_group, may_be_null, .. } = self;
        may_be_null[0] = true;
        *null_group.get_or_insert_with(|| with_table!(tables, table => table.reserve()))
    }

    fn find_rows(&mut self, columns: &[KeyValues<'_>], rows: Rows<'_>, ids: &mut [u32]) {
        for (column, may_be_null) in columns.iter().zip(&mut self.may_be_null) {
            *may_be_null |= !self.layout.lone_null && all_nulls(column).is_some();
        }
        let Groups { layout, tables, interners, .. } = self;
        let mut find = |find_all: &mut dyn FnMut(&mut [u32])| match rows {
            Rows::All(rows) => find_all(&mut ids[..rows]),
            Rows::Some(places) => {
                let mut numbers = vec![0; places.len()];
                find_all(&mut numbers);
                for (row, number) in places.iter().zip(numbers) {
                    ids[usize::from(*row)] = number;
                }
            }
        };
        with_keys!(tables,
            numbers => {
                let keys = whole_numbers(layout, interners, &columns[0], rows);
                find(&mut |found| {
                    find_by_runs(&keys, found, |keys, found| numbers.find_all(keys, found));
                });
            },
            table => {
                let keys = packed(layout, interners, columns, rows);
                find(&mut |found| {
                    find_by_runs(&keys, found, |keys, found| table.find_all(keys, found));
                });
            }
        );
    }

    /// Finds or creates the group of one key, given by the parts of its columns.
    pub fn find_parts(&mut self, parts: &[Part]) -> u32 {
        if parts.is_empty() {
            return 0;
        }
        if self.layout.lone_null && parts[0] == Part::Null {
            return self.null_group();
        }
        let Groups { layout, tables, may_be_null, .. } = self;
        let mut words = [0; WORDS_MAX];
        for ((part, field), may_be_null) in parts.iter().zip(&layout.fields).zip(may_be_null) {
            *may_be_null |= *part == Part::Null;
            write_part(&mut words, field, *part);
        }
        with_keys!(tables,
            numbers => numbers.find(layout.fields[0].kind.signed(words[0])),
            table => table.find(first_words(&words))
        )
    }

    /// The key part of an integer, truncated to the width of the column.
    pub fn int_part(&self, column: usize, value: i64) -> Part {
        match self.layout.fields[column].kind {
            Kind::Int { bits } if bits < 64 => Part::Bits(value as u64 & ((1 << bits) - 1), 0),
            _ => Part::Bits(value as u64, 0),
        }
    }

    /// Calls `take` with one column's part of the key of each group in a range.
    fn each_part(&self, column: usize, groups: Range<usize>, mut take: impl FnMut(usize, Part)) {
        let field = &self.layout.fields[column];
        with_table!(&self.tables, table => {
            for group in groups {
                let is_null = match field.null {
                    Some(null) => table.word(group, null.word) >> null.shift & 1 == 1,
                    None => self.null_group == Some(group as u32),
                };
                let part = match is_null {
                    true => Part::Null,
                    false => read_part(field, |word| table.word(group, word)),
                };
                take(group, part);
            }
        });
    }

    /// A hash of each group's key that depends on its content alone, so that it is equal in all
    /// partial results.
    pub fn content_hashes(&self) -> Vec<u64> {
        let texts: Vec<Vec<u64>> = self.interners.iter().map(Interner::content_hashes).collect();
        let mut hashes = vec![0; self.len()];
        for start in (0..self.len()).step_by(AT_ONCE) {
            let groups = start..self.len().min(start + AT_ONCE);
            for (column, field) in self.layout.fields.iter().enumerate() {
                let texts = &texts[column];
                self.each_part(column, groups.clone(), |group, part| {
                    hashes[group] = match part {
                        Part::Null => mix(hashes[group], NULL_WORD),
                        Part::Bits(number, _) if field.kind == Kind::Text => {
                            mix(hashes[group], texts[number as usize])
                        }
                        Part::Bits(low, high) => mix(mix(hashes[group], low), high),
                    };
                });
            }
        }
        hashes
    }

    /// Frees the indexes. No group can be looked up afterwards.
    pub fn close(&mut self) {
        with_table!(&mut self.tables, table => table.close());
        self.interners.iter_mut().for_each(Interner::close);
    }

    /// One key column of all groups.
    pub fn array(&self, column: usize, data_type: &DataType) -> ArrayRef {
        let nulls = self.nulls(column);
        match self.layout.fields[column].kind {
            Kind::Text => {
                self.interners[column].array(self.values(column, |low, _| low as u32), nulls)
            }
            Kind::Float32 => {
                let values = self.values(column, |bits, _| f32::from_bits(bits as u32));
                Arc::new(Float32Array::new(values.into(), nulls))
            }
            Kind::Float64 => {
                let values = self.values(column, |bits, _| f64::from_bits(bits));
                Arc::new(Float64Array::new(values.into(), nulls))
            }
            Kind::Decimal => {
                let wide = |low: u64, high: u64| i128::from(high as i64) << 64 | i128::from(low);
                decimal_array(self.values(column, wide), nulls, data_type)
            }
            kind @ Kind::Int { .. } => {
                int_array(self.values(column, |low, _| kind.signed(low)), nulls, data_type)
            }
        }
    }

    /// One key column's values of all groups; NULL yields the default.
    fn values<T: Default>(&self, column: usize, of: impl Fn(u64, u64) -> T) -> Vec<T> {
        let mut values = Vec::with_capacity(self.len());
        self.each_part(column, 0..self.len(), |_, part| {
            values.push(match part {
                Part::Null => T::default(),
                Part::Bits(low, high) => of(low, high),
            });
        });
        values
    }

    fn nulls(&self, column: usize) -> Option<NullBuffer> {
        if !self.may_be_null[column] {
            return None;
        }
        let mut null_groups = Vec::new();
        self.each_part(column, 0..self.len(), |group, part| {
            if part == Part::Null {
                null_groups.push(group);
            }
        });
        if null_groups.is_empty() {
            return None;
        }
        let mut valid = BooleanBufferBuilder::new(self.len());
        valid.append_n(self.len(), true);
        null_groups.into_iter().for_each(|group| valid.set_bit(group, false));
        Some(NullBuffer::new(valid.finish()))
    }

    /// Bytes of tables and texts.
    pub fn memory_bytes(&self) -> usize {
        let tables = with_table!(&self.tables, table => table.memory_bytes());
        tables + self.interners.iter().map(Interner::memory_bytes).sum::<usize>()
    }
}

/// Reads a field that is not NULL from the words of a key.
#[inline(always)]
fn read_part(field: &Field, word: impl Fn(usize) -> u64) -> Part {
    let low = word(field.value.word) >> field.value.shift;
    match field.kind {
        Kind::Int { bits } if bits < 64 => Part::Bits(low & ((1 << bits) - 1), 0),
        Kind::Int { .. } | Kind::Float64 => Part::Bits(low, 0),
        Kind::Float32 | Kind::Text => Part::Bits(low & 0xFFFF_FFFF, 0),
        Kind::Decimal => Part::Bits(low, word(field.value.word + 1)),
    }
}

#[inline(always)]
fn write_part(words: &mut [u64], field: &Field, part: Part) {
    match part {
        Part::Null => {
            let null = field.null.expect("a lone NULL has no key");
            words[null.word] |= 1 << null.shift;
        }
        Part::Bits(low, high) => {
            words[field.value.word] |= low << field.value.shift;
            if field.kind == Kind::Decimal {
                words[field.value.word + 1] |= high;
            }
        }
    }
}

fn first_words<const W: usize>(words: &[u64; WORDS_MAX]) -> [u64; W] {
    *words.first_chunk().expect("no key has more words than the most")
}

/// Packs the keys of some rows into words.
fn packed<const W: usize>(
    layout: &Layout,
    interners: &mut [Interner],
    columns: &[KeyValues<'_>],
    rows: Rows<'_>,
) -> Vec<[u64; W]> {
    let mut keys = vec![[0_u64; W]; rows.count()];
    for ((column, field), interner) in columns.iter().zip(&layout.fields).zip(interners) {
        // The rows of a single nullable column have no NULLs here.
        let nulls = field.null.and_then(|_| all_nulls(column));
        each_value(column, field.kind, interner, rows, |place, row, low, high| {
            let part = match &nulls {
                Some((nulls, start)) if nulls.is_null(start + row) => Part::Null,
                _ => Part::Bits(low, high),
            };
            write_part(&mut keys[place], field, part);
        });
    }
    keys
}

/// The keys of some rows as integers: values, or the numbers of texts.
fn whole_numbers<'a>(
    layout: &Layout,
    interners: &mut [Interner],
    column: &'a KeyValues<'_>,
    rows: Rows<'_>,
) -> Cow<'a, [i64]> {
    if let (KeyValues::Stored { column, start }, Rows::All(rows)) = (column, rows)
        && let Data::Int64(values) = &column.data
    {
        return Cow::Borrowed(&values[*start..*start + rows]);
    }
    let mut keys = vec![0; rows.count()];
    let kind = layout.fields[0].kind;
    each_value(column, kind, &mut interners[0], rows, |place, _, low, _| {
        keys[place] = kind.signed(low);
    });
    Cow::Owned(keys)
}

/// The NULLs of a column, and the offset at which those of the block start.
fn all_nulls<'a>(column: &'a KeyValues<'_>) -> Option<(&'a NullBuffer, usize)> {
    match column {
        KeyValues::Stored { column, start } => Some((column.nulls.as_ref()?, *start)),
        KeyValues::Computed(vector) => Some((vector.nulls.as_ref()?, 0)),
    }
}

fn nulls_of(column: &KeyValues<'_>, rows: usize) -> Option<NullBuffer> {
    match column {
        KeyValues::Stored { column, start } => column.nulls_of(*start, rows),
        KeyValues::Computed(vector) => vector.nulls.clone(),
    }
}

/// Calls `take` with the position of each row in `rows`, the row, and the low and high bits of its
/// value.
#[inline(always)]
fn each_value(
    column: &KeyValues<'_>,
    kind: Kind,
    interner: &mut Interner,
    rows: Rows<'_>,
    mut take: impl FnMut(usize, usize, u64, u64),
) {
    let mask = match kind {
        Kind::Int { bits } if bits < 64 => (1_u64 << bits) - 1,
        _ => u64::MAX,
    };
    let (column, start) = match column {
        KeyValues::Stored { column, start } => (*column, *start),
        KeyValues::Computed(vector) => {
            rows.each_placed(|place, row| {
                take(place, row, vector.values.get(row) as u64 & mask, 0)
            });
            return;
        }
    };
    match &column.data {
        Data::Int16(values) => {
            rows.each_placed(|place, row| {
                take(place, row, i64::from(values[start + row]) as u64 & mask, 0)
            });
        }
        Data::Int32(values) => {
            rows.each_placed(|place, row| {
                take(place, row, i64::from(values[start + row]) as u64 & mask, 0)
            });
        }
        Data::Int64(values) => {
            rows.each_placed(|place, row| take(place, row, values[start + row] as u64 & mask, 0))
        }
        Data::Bits(bits) => {
            rows.each_placed(|place, row| take(place, row, bits.value(start + row).into(), 0))
        }
        Data::Float32(values) => rows.each_placed(|place, row| {
            let value = canonical(f64::from(values[start + row])) as f32;
            take(place, row, value.to_bits().into(), 0);
        }),
        Data::Float64(values) => {
            rows.each_placed(|place, row| {
                take(place, row, canonical(values[start + row]).to_bits(), 0)
            });
        }
        Data::Decimal(values) => rows.each_placed(|place, row| {
            let value = values[start + row];
            take(place, row, value as u64, (value >> 64) as u64);
        }),
        Data::Text(texts) => interner.intern_rows((texts, start), rows, |place, row, number| {
            take(place, row, number.into(), 0);
        }),
        Data::Dictionary(dictionary) => {
            let mut numbers = vec![u32::MAX; dictionary.values.len()];
            rows.each_placed(|place, row| {
                let code = dictionary.codes.get(start + row);
                if numbers[code] == u32::MAX {
                    numbers[code] = interner.intern(dictionary.values.value(code).as_bytes());
                }
                take(place, row, numbers[code].into(), 0);
            });
        }
        Data::Opaque => unreachable!("keys of this type are refused before"),
    }
}
