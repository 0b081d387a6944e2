//! Comparison of the keys of new rows with each other and with those of stored rows.

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray};
use thalweg_types::RowId;

use crate::cell::{cell, same_key};
use crate::state::Slot;
use crate::table::Table;

/// The keys of the rows of a batch.
pub(super) trait NewKeys {
    /// True if two of the rows have the same key.
    fn are_same(&self, row: usize, other: usize) -> bool;
    /// True if a row of the table, in its slot, has the key of the batch's row `row`.
    fn has(&self, table: &Table, slot: &Slot, stored: RowId, row: usize) -> bool;
}

/// Keys of arbitrary columns.
pub(super) struct Cells<'a> {
    pub columns: &'a [ArrayRef],
    /// The columns' positions in the table.
    pub positions: &'a [usize],
}

/// Keys of one integer column without NULLs, the most common kind. They are compared without an
/// array access for each.
pub(super) struct Integers<'a, T: ArrowPrimitiveType> {
    values: &'a [T::Native],
    position: usize,
}

impl<'a, T: ArrowPrimitiveType> Integers<'a, T> {
    /// Takes the key's column, which must have no NULLs, and its position in the table.
    pub fn new(column: &'a ArrayRef, position: usize) -> Integers<'a, T> {
        debug_assert_eq!(column.null_count(), 0, "the caller looked for NULLs");
        Integers { values: column.as_primitive::<T>().values(), position }
    }
}

impl NewKeys for Cells<'_> {
    fn are_same(&self, row: usize, other: usize) -> bool {
        same_key(self.columns, row, |column| cell(&self.columns[column], other))
    }

    fn has(&self, table: &Table, slot: &Slot, stored: RowId, row: usize) -> bool {
        same_key(self.columns, row, |column| table.cell_in(slot, stored, self.positions[column]))
    }
}

impl<T: ArrowPrimitiveType<Native: Into<i64>>> NewKeys for Integers<'_, T> {
    #[inline]
    fn are_same(&self, row: usize, other: usize) -> bool {
        self.values[row] == self.values[other]
    }

    #[inline]
    fn has(&self, table: &Table, slot: &Slot, stored: RowId, row: usize) -> bool {
        let key: i64 = self.values[row].into();
        table.integer_in::<T>(slot, stored, self.position) == key
    }
}
