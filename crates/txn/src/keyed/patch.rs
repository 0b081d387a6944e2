//! Rows that change in some columns. What is in the others is known only here, where no other
//! group comes between looking and writing.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use thalweg_store::{Demands, Put, Refusal};
use thalweg_types::{Error, Result, RowId};

use super::{Changing, Outcome, told};

/// Says of whole rows why one of them may not be as it is.
pub type RowCheck = Arc<dyn Fn(&RecordBatch) -> Result<()> + Send + Sync>;

/// Which columns of a table rows have values for, those of the primary key among them.
pub struct Patch {
    /// The columns' places in the table.
    pub columns: Vec<usize>,
    /// What must hold of a row once it is whole.
    pub check: Option<RowCheck>,
}

impl Changing<'_> {
    /// Rows of one key follow each other: each finds what the one before has left.
    pub(super) fn patch(
        mut self,
        given: &RecordBatch,
        patch: &Patch,
        demands: Demands<'_>,
    ) -> Result<Outcome> {
        let key = self.key_of(given, patch)?;
        let (mut written, mut refused) = (0, Vec::new());
        let mut next = 0;
        // Patches leave keys as they are: who has the same row now has it later, too.
        let at_first = self.table.holders(&key)?;
        while next < given.num_rows() && (refused.is_empty() || !demands.stop) {
            let run = run_length(&at_first[next..]);
            let of_run: Vec<ArrayRef> = key.iter().map(|column| column.slice(next, run)).collect();
            let holders = self.table.holders(&of_run)?;
            let run = (next, &holders[..]);
            written += self.patch_run(given, patch, demands, &key, run, &mut refused)?;
            next += holders.len();
        }
        Ok((written, refused))
    }

    /// Patches rows from `first` on, no two of which are the same; returns how many were written.
    fn patch_run(
        &mut self,
        given: &RecordBatch,
        patch: &Patch,
        demands: Demands<'_>,
        key: &[ArrayRef],
        (first, holders): (usize, &[Option<RowId>]),
        refused: &mut Vec<(usize, Error)>,
    ) -> Result<u64> {
        let (mut places, mut rows, mut versions) = (Vec::new(), Vec::new(), Vec::new());
        for (row, holder) in (first..).zip(holders) {
            let expected = demands.expected.map(|expected| expected[row]);
            let Some(holder) = holder else {
                let refusal = match expected {
                    None | Some(0) => Refusal::Missing,
                    Some(_) => Refusal::Changed,
                };
                refused.push((row, told(self.table, 0, key, row, refusal)));
                if demands.stop {
                    break;
                }
                continue;
            };
            places.push(row as u32);
            rows.push(*holder);
            versions.extend(expected);
        }
        let given = take_record_batch(given, &UInt32Array::from(places.clone()))
            .map_err(|error| Error::internal("rows cannot be picked").with_source(error))?;
        let whole = self.table.completed(&given, &patch.columns, &rows)?;
        let kept = checked(&whole, patch, demands.stop, &places, refused);
        let of_kept = |of: &[u64]| kept.iter().map(|at| of[*at as usize]).collect::<Vec<_>>();
        let versions = demands.expected.map(|_| of_kept(&versions));
        let whole = take_record_batch(&whole, &UInt32Array::from(kept.clone()))
            .map_err(|error| Error::internal("rows cannot be picked").with_source(error))?;
        let demands = Demands { expected: versions.as_deref(), stop: demands.stop };
        let (written, others) = self.put_rows(&whole, Put::Update, demands)?;
        for (row, refusal) in others {
            let place = places[kept[row] as usize] as usize;
            refused.push((place, self.told_of(&whole, row, refusal)));
        }
        Ok(written)
    }

    /// The columns of the primary key among the given ones, in its order.
    fn key_of(&self, given: &RecordBatch, patch: &Patch) -> Result<Vec<ArrayRef>> {
        let schema = self.table.schema();
        let no_key = || Error::internal("a patch has no primary key");
        let key = schema.primary_key.as_ref().ok_or_else(no_key)?;
        let positions = schema.key_positions(key);
        let place = |position| patch.columns.iter().position(|column| *column == position);
        let columns = positions.into_iter().map(|position| {
            let place = place(position).ok_or_else(no_key)?;
            Ok(Arc::clone(given.column(place)))
        });
        columns.collect()
    }
}

/// How many rows there are before one that comes a second time.
fn run_length(holders: &[Option<RowId>]) -> usize {
    let mut seen = HashSet::with_capacity(holders.len());
    let again = holders.iter().position(|holder| holder.is_some_and(|row| !seen.insert(row)));
    again.unwrap_or(holders.len())
}

/// Which rows may be as they are; of the others, `refused` gets the places and why.
fn checked(
    whole: &RecordBatch,
    patch: &Patch,
    stop: bool,
    places: &[u32],
    refused: &mut Vec<(usize, Error)>,
) -> Vec<u32> {
    let all = || (0..whole.num_rows() as u32).collect();
    let Some(check) = &patch.check else { return all() };
    if check(whole).is_ok() {
        return all();
    }
    let mut kept = Vec::new();
    for (row, place) in places.iter().enumerate() {
        match check(&whole.slice(row, 1)) {
            Ok(()) => kept.push(row as u32),
            Err(error) => {
                refused.push((*place as usize, error));
                if stop {
                    break;
                }
            }
        }
    }
    kept
}
