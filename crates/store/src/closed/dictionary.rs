//! Dictionary encoding of text columns with repeated values.

use std::hash::{BuildHasher, Hasher};
use std::ops::Range;

use arrow::array::{
    Array, ArrayRef, AsArray, StringViewArray, UInt8Array, UInt16Array, UInt32Array,
};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::compute::take;
use arrow::datatypes::DataType as ArrowType;
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::cell::Cell;

/// Number of rows after which a column without repetition is given up.
const TRIAL_ROWS: usize = 4_096;

/// A text column as codes into a list of its distinct values.
#[derive(Clone, Debug)]
pub struct Dictionary {
    pub codes: Codes,
    /// Rows that are NULL; their code is 0.
    pub nulls: Option<NullBuffer>,
    /// The distinct values, in the order in which they first appear. Never empty, never NULL.
    pub values: StringViewArray,
}

/// For each row, the position of its value in a dictionary.
#[derive(Clone, Debug)]
pub enum Codes {
    U8(ScalarBuffer<u8>),
    U16(ScalarBuffer<u16>),
}

impl Codes {
    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Codes::U8(codes) => codes.len(),
            Codes::U16(codes) => codes.len(),
        }
    }

    /// True if there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The position of a row's value in the dictionary. Panics if there is no such row.
    #[inline]
    #[must_use]
    pub fn get(&self, row: usize) -> usize {
        match self {
            Codes::U8(codes) => codes[row].into(),
            Codes::U16(codes) => codes[row].into(),
        }
    }

    fn memory_bytes(&self) -> usize {
        match self {
            Codes::U8(codes) => codes.inner().capacity(),
            Codes::U16(codes) => codes.inner().capacity(),
        }
    }
}

impl Dictionary {
    /// Builds the dictionary of an array. `None` unless it is a text array that takes less than
    /// three quarters of its memory that way.
    pub(super) fn of(array: &ArrayRef) -> Option<Dictionary> {
        if array.data_type() != &ArrowType::Utf8View || array.null_count() == array.len() {
            return None;
        }
        let texts = array.as_string_view();
        let (codes, firsts) = number_values(texts)?;
        let values =
            take(texts, &UInt32Array::from(firsts), None).expect("the places are within the array");
        let values = values.as_string_view().gc();
        let codes = if values.len() <= 1 << 8 {
            Codes::U8(codes.iter().map(|code| *code as u8).collect())
        } else {
            Codes::U16(codes.into())
        };
        let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0).cloned();
        let dictionary = Dictionary { codes, nulls, values };
        let plain = texts.views().len() * 16 + texts.total_buffer_bytes_used();
        (dictionary.memory_bytes() < plain / 4 * 3).then_some(dictionary)
    }

    /// Checks a decoded dictionary; `None` if it is inconsistent, for example if a code has no
    /// value.
    pub(crate) fn checked(
        codes: Codes,
        nulls: Option<NullBuffer>,
        values: &ArrayRef,
    ) -> Option<Dictionary> {
        let values = values.as_string_view_opt()?.clone();
        let greatest = match &codes {
            Codes::U8(codes) => codes.iter().max().copied().map(usize::from),
            Codes::U16(codes) => codes.iter().max().copied().map(usize::from),
        };
        let complete = greatest.is_none_or(|greatest| greatest < values.len())
            && !values.is_empty()
            && values.null_count() == 0
            && nulls.as_ref().is_none_or(|nulls| nulls.len() == codes.len());
        complete.then_some(Dictionary { codes, nulls, values })
    }

    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.codes.len()
    }

    /// True if there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.codes.is_empty()
    }

    /// A range of rows as a view array.
    pub(super) fn array(&self, rows: Range<usize>) -> ArrayRef {
        let (start, length) = (rows.start, rows.len());
        let nulls = self.nulls.as_ref().map(|nulls| nulls.slice(start, length));
        let taken = match &self.codes {
            Codes::U8(codes) => {
                take(&self.values, &UInt8Array::new(codes.slice(start, length), nulls), None)
            }
            Codes::U16(codes) => {
                take(&self.values, &UInt16Array::new(codes.slice(start, length), nulls), None)
            }
        };
        taken.expect("codes are places of values")
    }

    /// Gathers rows by their offsets as a view array.
    pub(super) fn take(&self, places: &UInt16Array) -> ArrayRef {
        let codes = places.values().iter().map(|place| {
            let row = usize::from(*place);
            let is_null = self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
            (!is_null).then(|| self.codes.get(row) as u16)
        });
        let codes: UInt16Array = codes.collect();
        take(&self.values, &codes, None).expect("codes are places of values")
    }

    pub(super) fn cell(&self, row: usize) -> Cell<'_> {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return Cell::Null;
        }
        Cell::Bytes(self.values.value(self.codes.get(row)).as_bytes())
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.codes.memory_bytes()
            + self.nulls.as_ref().map_or(0, |nulls| nulls.buffer().capacity())
            + self.values.get_buffer_memory_size()
    }
}

/// Assigns codes in order of appearance; returns each row's code and each code's first row.
///
/// `None` if hardly a value repeats.
fn number_values(texts: &StringViewArray) -> Option<(Vec<u16>, Vec<u32>)> {
    let state = FixedState::with_seed(0);
    let hash = |row: usize| -> u64 {
        let mut hasher = state.build_hasher();
        match texts.views()[row] as u32 {
            0..=12 => hasher.write_u128(texts.views()[row]),
            _ => hasher.write(texts.value(row).as_bytes()),
        }
        hasher.finish()
    };
    let mut seen: HashTable<u16> = HashTable::new();
    let mut firsts: Vec<u32> = Vec::new();
    let mut codes = vec![0_u16; texts.len()];
    for (row, code) in codes.iter_mut().enumerate() {
        if row == TRIAL_ROWS && firsts.len() > TRIAL_ROWS / 4 * 3 {
            return None;
        }
        if texts.is_null(row) {
            continue;
        }
        let first = |code: &u16| firsts[usize::from(*code)] as usize;
        let same = |code: &u16| same_text(texts, first(code), row);
        *code = match seen.entry(hash(row), same, |code| hash(first(code))) {
            Entry::Occupied(entry) => *entry.get(),
            Entry::Vacant(entry) => {
                let new = firsts.len() as u16;
                entry.insert(new);
                firsts.push(row as u32);
                new
            }
        };
    }
    Some((codes, firsts))
}

/// True if two rows, neither of them NULL, have the same text.
fn same_text(texts: &StringViewArray, left: usize, right: usize) -> bool {
    let (left_view, right_view) = (texts.views()[left], texts.views()[right]);
    // Compares length and first four bytes. Short texts lie in their views, padded with zeros.
    left_view as u64 == right_view as u64
        && (left_view == right_view || texts.value(left) == texts.value(right))
}
