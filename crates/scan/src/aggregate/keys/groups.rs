//! The groups that were met: their numbers by their keys, and their keys by their numbers.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, Decimal128Array, Float32Array, Float64Array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;

use super::hash::{hash_bytes, mix};
use super::interner::Interner;
use super::layout::{Field, Kind, Layout};
use super::table::Table;
use crate::aggregate::emit::int_array;
use crate::aggregate::floats::canonical;
use crate::aggregate::source::{Column, Data};
use crate::aggregate::vector::{Rows, Vector};

/// A word that stands for NULL in hashes.
const NULL_WORD: u64 = 0xA5A5_5A5A_0F0F_F0F0;

/// The values of one column of the keys, for the rows of a block.
pub(crate) enum KeyValues<'a> {
    /// A column of a chunk, from a row on.
    Stored {
        column: &'a Column,
        start: usize,
    },
    Computed(Vector<'a, i64>),
}

/// One column's part of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Null,
    /// The bits of the value, and those above the 64th.
    Bits(u64, u64),
}

macro_rules! with_table {
    ($tables:expr, $table:ident => $work:expr) => {
        match $tables {
            Tables::One($table) => $work,
            Tables::Two($table) => $work,
            Tables::Three($table) => $work,
            Tables::Four($table) => $work,
        }
    };
}

enum Tables {
    One(Table<1>),
    Two(Table<2>),
    Three(Table<3>),
    Four(Table<4>),
}

/// The most words that a key may have.
pub(crate) const WORDS_MAX: usize = 4;

pub(crate) struct Groups {
    layout: Layout,
    tables: Tables,
    /// For columns of texts.
    interners: Vec<Interner>,
    null_group: Option<u32>,
}

impl Groups {
    /// No groups yet. Without columns there is one group, which is there from the beginning.
    pub fn new(kinds: &[Kind]) -> Groups {
        let layout = Layout::new(kinds);
        let mut tables = match layout.words {
            1 => Tables::One(Table::default()),
            2 => Tables::Two(Table::default()),
            3 => Tables::Three(Table::default()),
            4 => Tables::Four(Table::default()),
            words => unreachable!("keys of {words} words are refused before"),
        };
        if kinds.is_empty() {
            with_table!(&mut tables, table => table.reserve());
        }
        let interners = kinds.iter().map(|_| Interner::default()).collect();
        Groups { layout, tables, interners, null_group: None }
    }

    pub fn len(&self) -> usize {
        with_table!(&self.tables, table => table.len())
    }

    pub fn interner(&mut self, column: usize) -> &mut Interner {
        &mut self.interners[column]
    }

    /// Finds the groups of some rows, new ones where they were not met before. What `ids` holds
    /// for other rows means nothing.
    pub fn find(&mut self, columns: &[KeyValues<'_>], rows: Rows<'_>, ids: &mut [u32]) {
        if self.layout.lone_null {
            return self.find_single(&columns[0], rows, ids);
        }
        let Groups { layout, tables, interners, .. } = self;
        with_table!(tables, table => find_rows(table, layout, interners, columns, rows, ids));
    }

    /// As [`Groups::find`] for keys of one column, where NULL has a group of its own.
    fn find_single(&mut self, column: &KeyValues<'_>, rows: Rows<'_>, ids: &mut [u32]) {
        let Groups { layout, tables, interners, null_group } = self;
        let field = &layout.fields[0];
        let nulls = nulls_of(column, ids.len());
        let is_null = |row: usize| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
        match tables {
            Tables::One(table) => {
                each_value(column, field.kind, &mut interners[0], rows, |row, low, _| {
                    ids[row] = match is_null(row) {
                        true => *null_group.get_or_insert_with(|| table.reserve()),
                        false => table.find([low]),
                    };
                });
            }
            Tables::Two(table) => {
                each_value(column, field.kind, &mut interners[0], rows, |row, low, high| {
                    ids[row] = match is_null(row) {
                        true => *null_group.get_or_insert_with(|| table.reserve()),
                        false => table.find([low, high]),
                    };
                });
            }
            _ => unreachable!("one column takes two words at most"),
        }
    }

    /// The group of one key.
    pub fn find_parts(&mut self, parts: &[Part]) -> u32 {
        if parts.is_empty() {
            return 0;
        }
        if self.layout.lone_null && parts[0] == Part::Null {
            let tables = &mut self.tables;
            return *self
                .null_group
                .get_or_insert_with(|| with_table!(tables, table => table.reserve()));
        }
        let mut words = [0; WORDS_MAX];
        for (part, field) in parts.iter().zip(&self.layout.fields) {
            write_part(&mut words, field, *part);
        }
        match &mut self.tables {
            Tables::One(table) => table.find([words[0]]),
            Tables::Two(table) => table.find([words[0], words[1]]),
            Tables::Three(table) => table.find([words[0], words[1], words[2]]),
            Tables::Four(table) => table.find(words),
        }
    }

    /// What a whole number is in a column of keys.
    pub fn int_part(&self, column: usize, value: i64) -> Part {
        match self.layout.fields[column].kind {
            Kind::Int { bits } if bits < 64 => Part::Bits(value as u64 & ((1 << bits) - 1), 0),
            _ => Part::Bits(value as u64, 0),
        }
    }

    fn part(&self, group: usize, column: usize) -> Part {
        let field = &self.layout.fields[column];
        let word = |word| with_table!(&self.tables, table => table.word(group, word));
        let is_null = match field.null {
            Some(null) => word(null.word) >> null.shift & 1 == 1,
            None => self.null_group == Some(group as u32),
        };
        if is_null {
            return Part::Null;
        }
        let low = word(field.value.word) >> field.value.shift;
        match field.kind {
            Kind::Int { bits } if bits < 64 => Part::Bits(low & ((1 << bits) - 1), 0),
            Kind::Int { .. } | Kind::Float64 => Part::Bits(low, 0),
            Kind::Float32 | Kind::Text => Part::Bits(low & 0xFFFF_FFFF, 0),
            Kind::Decimal => Part::Bits(low, word(field.value.word + 1)),
        }
    }

    /// A hash of each group's key that is the same wherever the key is met.
    pub fn content_hashes(&self) -> Vec<u64> {
        let mut hashes = vec![0; self.len()];
        for (column, field) in self.layout.fields.iter().enumerate() {
            for (group, hash) in hashes.iter_mut().enumerate() {
                *hash = match self.part(group, column) {
                    Part::Null => mix(*hash, NULL_WORD),
                    Part::Bits(number, _) if field.kind == Kind::Text => {
                        mix(*hash, hash_bytes(self.interners[column].text(number as u32)))
                    }
                    Part::Bits(low, high) => mix(mix(*hash, low), high),
                };
            }
        }
        hashes
    }

    /// One column of the keys of all groups.
    pub fn array(&self, column: usize, data_type: &DataType) -> ArrayRef {
        let parts = (0..self.len()).map(|group| self.part(group, column));
        let numbers = parts.map(|part| match part {
            Part::Null => None,
            Part::Bits(low, high) => Some((low, high)),
        });
        match self.layout.fields[column].kind {
            Kind::Text => {
                self.interners[column].array(numbers.map(|n| n.map(|(number, _)| number as u32)))
            }
            Kind::Float32 => Arc::new(Float32Array::from_iter(
                numbers.map(|n| n.map(|(bits, _)| f32::from_bits(bits as u32))),
            )),
            Kind::Float64 => Arc::new(Float64Array::from_iter(
                numbers.map(|n| n.map(|(bits, _)| f64::from_bits(bits))),
            )),
            Kind::Decimal => {
                let values = numbers.map(|n| {
                    n.map(|(low, high)| (i128::from(high as i64) << 64) | i128::from(low))
                });
                Arc::new(Decimal128Array::from_iter(values).with_data_type(data_type.clone()))
            }
            Kind::Int { bits: 1 } => {
                Arc::new(BooleanArray::from_iter(numbers.map(|n| n.map(|(bit, _)| bit == 1))))
            }
            Kind::Int { bits } => {
                let unused = 64 - bits;
                let signed = |(low, _): (u64, u64)| (low << unused) as i64 >> unused;
                let (mut values, mut valid) = (Vec::new(), Vec::new());
                for number in numbers {
                    values.push(number.map_or(0, signed));
                    valid.push(number.is_some());
                }
                let nulls = Some(NullBuffer::from(valid)).filter(|nulls| nulls.null_count() > 0);
                int_array(values, nulls, data_type)
            }
        }
    }

    pub fn memory_bytes(&self) -> usize {
        let tables = with_table!(&self.tables, table => table.memory_bytes());
        tables + self.interners.iter().map(Interner::memory_bytes).sum::<usize>()
    }
}

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

fn find_rows<const W: usize>(
    table: &mut Table<W>,
    layout: &Layout,
    interners: &mut [Interner],
    columns: &[KeyValues<'_>],
    rows: Rows<'_>,
    ids: &mut [u32],
) {
    let mut keys = vec![[0_u64; W]; ids.len()];
    for ((column, field), interner) in columns.iter().zip(&layout.fields).zip(interners) {
        let nulls = nulls_of(column, ids.len());
        each_value(column, field.kind, interner, rows, |row, low, high| {
            let part = match &nulls {
                Some(nulls) if nulls.is_null(row) => Part::Null,
                _ => Part::Bits(low, high),
            };
            write_part(&mut keys[row], field, part);
        });
    }
    rows.each(|row| ids[row] = table.find(keys[row]));
}

fn nulls_of(column: &KeyValues<'_>, rows: usize) -> Option<NullBuffer> {
    match column {
        KeyValues::Stored { column, start } => column.nulls_of(*start, rows),
        KeyValues::Computed(vector) => vector.nulls.clone(),
    }
}

/// Calls `take` with each row, and the low and high bits of its value.
#[inline(always)]
fn each_value(
    column: &KeyValues<'_>,
    kind: Kind,
    interner: &mut Interner,
    rows: Rows<'_>,
    mut take: impl FnMut(usize, u64, u64),
) {
    let mask = match kind {
        Kind::Int { bits } if bits < 64 => (1_u64 << bits) - 1,
        _ => u64::MAX,
    };
    let (column, start) = match column {
        KeyValues::Stored { column, start } => (*column, *start),
        KeyValues::Computed(vector) => {
            rows.each(|row| take(row, vector.values.get(row) as u64 & mask, 0));
            return;
        }
    };
    match &column.data {
        Data::Int16(values) => {
            rows.each(|row| take(row, i64::from(values[start + row]) as u64 & mask, 0));
        }
        Data::Int32(values) => {
            rows.each(|row| take(row, i64::from(values[start + row]) as u64 & mask, 0));
        }
        Data::Int64(values) => rows.each(|row| take(row, values[start + row] as u64 & mask, 0)),
        Data::Bits(bits) => rows.each(|row| take(row, bits.value(start + row).into(), 0)),
        Data::Float32(values) => rows.each(|row| {
            let value = canonical(f64::from(values[start + row])) as f32;
            take(row, value.to_bits().into(), 0);
        }),
        Data::Float64(values) => {
            rows.each(|row| take(row, canonical(values[start + row]).to_bits(), 0));
        }
        Data::Decimal(values) => rows.each(|row| {
            let value = values[start + row];
            take(row, value as u64, (value >> 64) as u64);
        }),
        Data::Text(texts) => rows.each(|row| {
            let number = match texts.is_null(start + row) {
                true => 0,
                false => interner.intern_row(texts, start + row),
            };
            take(row, number.into(), 0);
        }),
        Data::Dictionary(dictionary) => {
            let mut numbers = vec![u32::MAX; dictionary.values.len()];
            rows.each(|row| {
                let code = dictionary.codes.get(start + row);
                if numbers[code] == u32::MAX {
                    numbers[code] = interner.intern(dictionary.values.value(code).as_bytes());
                }
                take(row, numbers[code].into(), 0);
            });
        }
        Data::Opaque => unreachable!("keys of this type are refused before"),
    }
}
