//! Rows that change in some columns. The values of the other columns are read here, in the
//! transaction stage, where no other group can come between reading and writing.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use arrow::compute::{interleave_record_batch, take_record_batch};
use arrow::error::ArrowError;
use thalweg_store::{Demands, Put, Refusal, Table};
use thalweg_types::{Error, Result, RowId};

use super::{Changing, Outcome, describe_refusal};

/// Checks whole rows; fails with the error of a row that violates a constraint.
pub type RowCheck = Arc<dyn Fn(&RecordBatch) -> Result<()> + Send + Sync>;

/// The columns that get new values, including those of the primary key.
pub struct Patch {
    /// Indexes of the columns in the table.
    pub columns: Vec<usize>,
    /// Constraints on whole rows; `None` if there are none.
    pub check: Option<RowCheck>,
}

/// Rows that patch existing ones.
struct PatchRows<'a> {
    rows: &'a RecordBatch,
    /// The index of each of the patch's columns among theirs.
    columns: Vec<usize>,
    patch: &'a Patch,
    /// True if the rows are whole and are inserted if no row has their key.
    whole: bool,
    /// Their columns of the primary key, in key order.
    key: Vec<ArrayRef>,
}

impl Changing<'_> {
    /// Updates rows that must exist.
    pub(super) fn patch(
        self,
        rows: &RecordBatch,
        patch: &Patch,
        demands: Demands<'_>,
    ) -> Result<Outcome> {
        let place = |position| patch.columns.iter().position(|column| *column == position);
        let key = self.key_of(rows, place)?;
        let columns = (0..patch.columns.len()).collect();
        self.change(&PatchRows { rows, columns, patch, whole: false, key }, demands)
    }

    /// Updates rows that exist, and inserts the others.
    pub(super) fn merge(
        self,
        rows: &RecordBatch,
        patch: &Patch,
        demands: Demands<'_>,
    ) -> Result<Outcome> {
        let key = self.key_of(rows, Some)?;
        let columns = patch.columns.clone();
        self.change(&PatchRows { rows, columns, patch, whole: true, key }, demands)
    }

    /// Applies rows in runs without repeated keys, so that each row sees the result of an earlier
    /// row of its key.
    fn change(mut self, given: &PatchRows<'_>, demands: Demands<'_>) -> Result<Outcome> {
        let (mut written, mut refused) = (0, Vec::new());
        let hashes = Table::key_hashes(&given.key);
        let mut next = 0;
        while next < hashes.len() && (refused.is_empty() || !demands.stop) {
            let run = run_length(&hashes[next..]);
            let key: Vec<ArrayRef> =
                given.key.iter().map(|column| column.slice(next, run)).collect();
            let holders = self.table.holders(&key)?;
            written += self.change_run(given, demands, (next, &holders[..]), &mut refused)?;
            next += run;
        }
        Ok((written, refused))
    }

    /// Changes rows from `first` on, which have distinct keys. Returns the number of rows written.
    fn change_run(
        &mut self,
        given: &PatchRows<'_>,
        demands: Demands<'_>,
        (first, holders): (usize, &[Option<RowId>]),
        refused: &mut Vec<(usize, Error)>,
    ) -> Result<u64> {
        let (mut places, mut kept_holders, mut versions) = (Vec::new(), Vec::new(), Vec::new());
        for (row, holder) in (first..).zip(holders) {
            let expected = demands.expected.map(|expected| expected[row]);
            let refusal = match (holder, expected) {
                (Some(_), _) => None,
                (None, None | Some(0)) if given.whole => None,
                (None, None | Some(0)) => Some(Refusal::Missing),
                (None, Some(_)) => Some(Refusal::Changed),
            };
            if let Some(refusal) = refusal {
                refused.push((row, describe_refusal(self.table, 0, &given.key, row, refusal)));
                if demands.stop {
                    break;
                }
                continue;
            }
            places.push(row as u32);
            kept_holders.push(*holder);
            versions.extend(expected);
        }
        let whole = self.whole_rows(given, &places, &kept_holders)?;
        let kept = checked(&whole, given.patch, demands.stop, &places, refused);
        let of_kept = |of: &[u64]| kept.iter().map(|at| of[*at as usize]).collect::<Vec<_>>();
        let versions = demands.expected.map(|_| of_kept(&versions));
        let whole = picked(&whole, kept.clone())?;
        let demands = Demands { expected: versions.as_deref(), stop: demands.stop };
        let put = if given.whole { Put::Upsert } else { Put::Update };
        let (written, others) = self.put_rows(&whole, put, demands)?;
        for (row, refusal) in others {
            let place = places[kept[row] as usize] as usize;
            refused.push((place, self.told_of(&whole, row, refusal)));
        }
        Ok(written)
    }

    /// The rows at `places` as they will be stored: merged with the existing row if there is one,
    /// or else unchanged.
    fn whole_rows(
        &self,
        given: &PatchRows<'_>,
        places: &[u32],
        holders: &[Option<RowId>],
    ) -> Result<RecordBatch> {
        let there: Vec<RowId> = holders.iter().copied().flatten().collect();
        let of_there = places.iter().zip(holders).filter(|(_, holder)| holder.is_some());
        let changes = picked(given.rows, of_there.map(|(place, _)| *place).collect())?;
        let changes = changes.project(&given.columns).map_err(unpicked)?;
        let changed = self.table.completed(&changes, &given.patch.columns, &there)?;
        if there.len() == places.len() {
            return Ok(changed);
        }
        let mut next = 0..there.len();
        let from = places.iter().zip(holders).map(|(place, holder)| {
            let changed = holder.and_then(|_| next.next());
            changed.map_or((1, *place as usize), |row| (0, row))
        });
        interleave_record_batch(&[&changed, given.rows], &from.collect::<Vec<_>>())
            .map_err(unpicked)
    }

    /// The rows' columns of the primary key, in key order. `place` maps a column of the table to a
    /// column of `rows`.
    fn key_of(
        &self,
        rows: &RecordBatch,
        place: impl Fn(usize) -> Option<usize>,
    ) -> Result<Vec<ArrayRef>> {
        let schema = self.table.schema();
        let no_key = || Error::internal("a patch has no primary key");
        let key = schema.primary_key.as_ref().ok_or_else(no_key)?;
        let columns = schema.key_positions(key).into_iter().map(|position| {
            let column = place(position).and_then(|place| rows.columns().get(place));
            column.map(Arc::clone).ok_or_else(no_key)
        });
        columns.collect()
    }
}

fn picked(rows: &RecordBatch, places: Vec<u32>) -> Result<RecordBatch> {
    take_record_batch(rows, &UInt32Array::from(places)).map_err(unpicked)
}

fn unpicked(error: ArrowError) -> Error {
    Error::internal("rows cannot be picked").with_source(error)
}

/// Number of rows before the first whose key hash repeats an earlier one.
fn run_length(hashes: &[u32]) -> usize {
    let mut seen = HashSet::new();
    hashes.iter().position(|hash| !seen.insert(*hash)).unwrap_or(hashes.len())
}

/// The rows that satisfy the constraints. Indexes and errors of the others go to `refused`.
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
