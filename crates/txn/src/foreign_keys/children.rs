//! Finds the rows that refer to keys.

use std::ops::Bound;

use arrow::array::{Array, ArrayRef};
use thalweg_store::{KeyRange, TableState, arrow_type};
use thalweg_types::{ColumnId, Index, Result, RowId};

use super::as_type;

/// Maximum number of keys that are searched one by one in an index. One scan finds more keys.
const SEARCHES_MAX: usize = 4_096;

/// Fails if the work is not wanted any more: the statement was canceled.
pub type CancelCheck<'a> = &'a (dyn Fn() -> Result<()> + 'a);

/// The live rows with given values in some columns, each with the position of its values. `columns`
/// name the columns, `keys` are their values. No row matches values of which one is NULL.
///
/// A unique key or an index of the columns finds the rows. Without one, the table is scanned.
/// `check` runs now and then, and may end the search.
///
/// # Errors
/// Errors of `check`; internal errors: values of other types.
pub fn find_children(
    state: &TableState,
    columns: &[ColumnId],
    keys: &[ArrayRef],
    check: CancelCheck<'_>,
) -> Result<Vec<(RowId, usize)>> {
    check()?;
    let schema = state.schema();
    let positions: Vec<usize> = columns.iter().filter_map(|id| schema.position(*id)).collect();
    let wanted = positions.iter().map(|at| arrow_type(&schema.columns[*at].data_type));
    // A value that the columns cannot have becomes NULL, which no row matches.
    let keys: Vec<ArrayRef> =
        keys.iter().zip(wanted).map(|(key, to)| as_type(key, &to)).collect::<Result<_>>()?;
    let rows = keys.first().map_or(0, |key| key.len());
    let valid: Vec<usize> =
        (0..rows).filter(|row| keys.iter().all(|key| key.is_valid(*row))).collect();
    if valid.is_empty() || positions.len() != columns.len() {
        return Ok(Vec::new());
    }
    let offset_of = |id: &ColumnId| columns.iter().position(|column| column == id);
    if let Some((_, key)) = schema.key_of_columns(columns) {
        let ordered = key.columns.iter().filter_map(offset_of).map(|at| ArrayRef::clone(&keys[at]));
        let holders = state.probe(key, &ordered.collect::<Vec<_>>());
        let found = holders.into_iter().enumerate();
        return Ok(found.filter_map(|(row, holder)| Some((holder?, row))).collect());
    }
    let leads = |index: &&Index| {
        let first = index.key.columns.get(..columns.len());
        first.is_some_and(|first| first.iter().all(|id| columns.contains(id)))
    };
    match schema.indexes.iter().find(leads) {
        Some(index) if valid.len() <= SEARCHES_MAX => {
            let order = index.key.columns[..columns.len()].iter().filter_map(offset_of);
            let keys: Vec<ArrayRef> = order.map(|at| ArrayRef::clone(&keys[at])).collect();
            search(state, index, &keys, &valid, check)
        }
        // Values are compared as in the checks by key: 0.0 is -0.0, and a day is 24 hours.
        _ => state.rows_with_keys(&positions, &keys, check),
    }
}

/// Finds rows by the first columns of an index.
fn search(
    state: &TableState,
    index: &Index,
    keys: &[ArrayRef],
    valid: &[usize],
    check: CancelCheck<'_>,
) -> Result<Vec<(RowId, usize)>> {
    let positions = state.schema().key_positions(&index.key);
    let mut found = Vec::new();
    for chunk in state.chunks() {
        check()?;
        for row in valid {
            let equal = keys.iter().map(|key| key.slice(*row, 1)).collect();
            let range = KeyRange { equal, from: Bound::Unbounded, to: Bound::Unbounded };
            let hits = chunk.find(index, &positions, &range);
            let offsets = chunk.places(std::slice::from_ref(&hits)).into_iter();
            let row_id = |offset: u16| RowId::new(chunk.number(), u32::from(offset));
            found.extend(offsets.map(|offset| (row_id(offset), *row)));
        }
    }
    Ok(found)
}
