//! The argument of an aggregate for the rows of a block.

use arrow::buffer::NullBuffer;
use thalweg_types::RowId;

use crate::aggregate::decimals::Decimals;
use crate::aggregate::keys::{Ids, each_in_runs};
use crate::aggregate::order::Direction;
use crate::aggregate::source::Column;
use crate::aggregate::vector::{Rows, Vector};

pub(crate) enum Argument<'a> {
    /// Integers; `small` if a whole chunk of them adds up within 64 bits.
    Ints {
        vector: Vector<'a, i64>,
        small: bool,
    },
    Floats(Vector<'a, f64>),
    Decimals(Decimals<'a>),
    Texts {
        column: &'a Column,
        start: usize,
        nulls: Option<NullBuffer>,
    },
    /// An argument of which only the NULLs matter.
    Nulls(Option<NullBuffer>),
    Ordered(Box<Ordered<'a>>),
}

/// Values, with the sort keys of their rows.
pub(crate) struct Ordered<'a> {
    pub value: Argument<'a>,
    pub numbers: Vector<'a, i64>,
    pub direction: Direction,
    /// The first row of the block.
    pub first_row: RowId,
}

impl Argument<'_> {
    /// The validity of the rows; `None` if no row is NULL.
    pub fn nulls(&self) -> Option<&NullBuffer> {
        match self {
            Argument::Ints { vector, .. } => vector.nulls.as_ref(),
            Argument::Floats(vector) => vector.nulls.as_ref(),
            Argument::Decimals(decimals) => decimals.nulls(),
            Argument::Texts { nulls, .. } | Argument::Nulls(nulls) => nulls.as_ref(),
            Argument::Ordered(ordered) => ordered.value.nulls(),
        }
    }
}

/// Calls `visit` with each selected row that is not NULL, and its group.
#[inline(always)]
pub(crate) fn each_valid(
    ids: Ids<'_>,
    rows: Rows<'_>,
    nulls: Option<&NullBuffer>,
    mut visit: impl FnMut(usize, usize),
) {
    match nulls {
        None => each(ids, rows, visit),
        Some(nulls) => each(ids, rows, |row, group| {
            if nulls.is_valid(row) {
                visit(row, group);
            }
        }),
    }
}

/// Calls `visit` with each selected row and its group.
#[inline(always)]
pub(crate) fn each(ids: Ids<'_>, rows: Rows<'_>, mut visit: impl FnMut(usize, usize)) {
    match ids {
        Ids::One => rows.each(|row| visit(row, 0)),
        Ids::Bytes(ids) => rows.each(|row| visit(row, usize::from(ids[row]))),
        Ids::Shorts(ids) => rows.each(|row| visit(row, usize::from(ids[row]))),
        Ids::Words(ids) => rows.each(|row| visit(row, ids[row] as usize)),
        Ids::Runs(runs) => each_in_runs(runs, rows, visit),
    }
}
