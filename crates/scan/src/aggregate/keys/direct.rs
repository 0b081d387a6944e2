//! Groups of one chunk by direct addressing, without a hash lookup for each row.
//!
//! If all key columns have few values in a chunk, because they are dictionary-encoded or lie in a
//! small range, a row's group is computed from its codes. At the end of the chunk the results are
//! added to the groups with the same keys.

use arrow::array::Array;
use thalweg_store::Codes;

use super::groups::{Groups, KeyValues, Part};
use super::runs::{Run, group_at};
use crate::aggregate::source::{Column, Data};
use crate::aggregate::vector::Mask;
use crate::simd::widest;

/// Most groups of a chunk that are addressed directly.
const GROUPS_MAX: usize = 4_096;

/// With fewer rows than this for each possible group, hash lookups are no slower.
const ROWS_A_GROUP: usize = 8;

/// The group of each row of a block.
#[derive(Clone, Copy)]
pub(crate) enum Ids<'a> {
    /// All rows belong to one group.
    One,
    Bytes(&'a [u8]),
    Shorts(&'a [u16]),
    Words(&'a [u32]),
    /// Consecutive rows with one group each.
    Runs(&'a [Run]),
}

/// The groups of gathered rows, in their order.
pub(crate) enum Gathered {
    One,
    Bytes(Vec<u8>),
    Shorts(Vec<u16>),
    Words(Vec<u32>),
}

impl Ids<'_> {
    /// The groups of the rows at these offsets of the block.
    pub fn at(self, places: &[u16]) -> Gathered {
        fn at<N: Copy>(ids: &[N], places: &[u16]) -> Vec<N> {
            places.iter().map(|place| ids[usize::from(*place)]).collect()
        }
        match self {
            Ids::One => Gathered::One,
            Ids::Bytes(ids) => Gathered::Bytes(at(ids, places)),
            Ids::Shorts(ids) => Gathered::Shorts(at(ids, places)),
            Ids::Words(ids) => Gathered::Words(at(ids, places)),
            Ids::Runs(runs) => {
                let groups = places.iter().map(|place| group_at(runs, usize::from(*place)));
                Gathered::Words(groups.collect())
            }
        }
    }
}

impl Gathered {
    /// Borrows the groups.
    pub fn ids(&self) -> Ids<'_> {
        match self {
            Gathered::One => Ids::One,
            Gathered::Bytes(ids) => Ids::Bytes(ids),
            Gathered::Shorts(ids) => Ids::Shorts(ids),
            Gathered::Words(ids) => Ids::Words(ids),
        }
    }
}

/// A numbering of the groups of a chunk.
pub(crate) struct Direct<'a> {
    columns: Vec<Codebook<'a>>,
    groups: usize,
    bytes: Vec<u8>,
    shorts: Vec<u16>,
}

struct Codebook<'a> {
    column: &'a Column,
    /// The least value, if codes are differences from it.
    least: i64,
    /// Number of codes; the last one is that of NULL, if the column has any.
    size: usize,
}

impl<'a> Direct<'a> {
    /// Plans a numbering of a chunk's groups; `None` if there may be too many.
    pub fn plan(keys: &[KeyValues<'a>], rows: usize) -> Option<Direct<'a>> {
        let mut groups = 1_usize;
        let mut columns = Vec::with_capacity(keys.len());
        for key in keys {
            let KeyValues::Stored { column, .. } = key else { return None };
            let book = Codebook::of(column)?;
            groups = groups.checked_mul(book.size)?;
            columns.push(book);
        }
        let fits = groups <= 256 || (groups <= GROUPS_MAX && groups <= rows / ROWS_A_GROUP);
        fits.then_some(Direct { columns, groups, bytes: Vec::new(), shorts: Vec::new() })
    }

    /// Number of possible groups.
    pub fn groups(&self) -> usize {
        self.groups
    }

    /// The groups of a block's rows. Rows outside the mask get a group of their own after all
    /// others.
    pub fn ids(&mut self, start: usize, length: usize, mask: Option<&Mask>) -> Ids<'_> {
        let Direct { columns, groups, bytes, shorts } = self;
        match (columns.as_slice(), mask) {
            ([], None) => return Ids::One,
            ([book], None) if let Some(ids) = book.stored(start, length) => return ids,
            _ => {}
        }
        if *groups < 1 << 8 {
            number_rows(columns, start, length, mask, *groups as u8, bytes);
            Ids::Bytes(bytes)
        } else {
            number_rows(columns, start, length, mask, *groups as u16, shorts);
            Ids::Shorts(shorts)
        }
    }

    /// The number among all groups of a group of this chunk.
    pub fn group(&self, local: usize, groups: &mut Groups) -> u32 {
        let mut rest = local;
        let mut parts = vec![Part::Null; self.columns.len()];
        for (place, book) in self.columns.iter().enumerate().rev() {
            parts[place] = book.part(rest % book.size, place, groups);
            rest /= book.size;
        }
        groups.find_parts(&parts)
    }
}

impl<'a> Codebook<'a> {
    fn of(column: &'a Column) -> Option<Codebook<'a>> {
        let (least, values) = match &column.data {
            Data::Dictionary(dictionary) => (0, dictionary.values.len()),
            Data::Bits(_) => (0, 2),
            Data::Int16(_) | Data::Int32(_) | Data::Int64(_) => {
                let (least, greatest) = column.range?;
                let distance = greatest.checked_sub(least)?;
                (least, usize::try_from(distance).ok()?.checked_add(1)?)
            }
            _ => return None,
        };
        let size = values + usize::from(column.nulls.is_some());
        (size <= GROUPS_MAX).then_some(Codebook { column, least, size })
    }

    /// The codes of some rows, if the chunk stores them in this form.
    fn stored(&self, start: usize, length: usize) -> Option<Ids<'a>> {
        match &self.column.data {
            Data::Dictionary(dictionary) if self.column.nulls.is_none() => {
                Some(match &dictionary.codes {
                    Codes::U8(codes) => Ids::Bytes(&codes[start..start + length]),
                    Codes::U16(codes) => Ids::Shorts(&codes[start..start + length]),
                })
            }
            _ => None,
        }
    }

    /// Multiplies each row's number by the number of codes and adds this column's code.
    #[inline(always)]
    fn append_codes<N: Code>(&self, start: usize, ids: &mut [N]) {
        let (size, least) = (N::of(self.size as i64), self.least);
        let end = start + ids.len();
        let nulls = self.column.nulls_of(start, ids.len());
        let before: Vec<N> = nulls.iter().flat_map(|_| ids.iter().copied()).collect();
        macro_rules! append {
            ($values:expr) => {
                for (id, value) in ids.iter_mut().zip(&$values[start..end]) {
                    *id = id.append(size, N::of(i64::from(*value).wrapping_sub(least)));
                }
            };
        }
        match &self.column.data {
            Data::Dictionary(dictionary) => match &dictionary.codes {
                Codes::U8(codes) => append!(codes),
                Codes::U16(codes) => append!(codes),
            },
            // Values under NULLs may be out of range; they are overwritten below.
            Data::Int16(values) => append!(values),
            Data::Int32(values) => append!(values),
            Data::Int64(values) => append!(values),
            Data::Bits(bits) => {
                for (id, bit) in ids.iter_mut().zip(bits.slice(start, end - start).iter()) {
                    *id = id.append(size, N::of(i64::from(bit)));
                }
            }
            _ => unreachable!("columns of other types have no codes"),
        }
        if let Some(nulls) = nulls {
            let null = N::of(self.size as i64 - 1);
            for row in (0..ids.len()).filter(|row| nulls.is_null(*row)) {
                ids[row] = before[row].append(size, null);
            }
        }
    }

    /// The key part that a code represents.
    fn part(&self, code: usize, place: usize, groups: &mut Groups) -> Part {
        if self.column.nulls.is_some() && code == self.size - 1 {
            return Part::Null;
        }
        match &self.column.data {
            Data::Dictionary(dictionary) => {
                let text = dictionary.values.value(code).as_bytes();
                Part::Bits(groups.interner(place).intern(text).into(), 0)
            }
            _ => groups.int_part(place, self.least + code as i64),
        }
    }
}

/// The number of a group within a chunk.
trait Code: Copy + Default {
    /// Truncates the number; numbers that are used fit.
    fn of(number: i64) -> Self;

    /// The group's number extended by one more column, which has `size` codes.
    fn append(self, size: Self, code: Self) -> Self;
}

macro_rules! code {
    ($type:ty) => {
        impl Code for $type {
            #[inline(always)]
            fn of(number: i64) -> $type {
                number as $type
            }

            #[inline(always)]
            fn append(self, size: $type, code: $type) -> $type {
                self.wrapping_mul(size).wrapping_add(code)
            }
        }
    };
}

code!(u8);
code!(u16);

fn number_rows<N: Code>(
    columns: &[Codebook<'_>],
    start: usize,
    length: usize,
    mask: Option<&Mask>,
    unwanted: N,
    ids: &mut Vec<N>,
) {
    ids.clear();
    ids.resize(length, N::default());
    for book in columns {
        widest(|| book.append_codes(start, ids));
    }
    if let Some(mask) = mask {
        widest(|| {
            for (id, wanted) in ids.iter_mut().zip(&mask.0) {
                *id = if *wanted == 1 { *id } else { unwanted };
            }
        });
    }
}
