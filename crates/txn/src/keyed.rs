//! Rows that are written individually by primary key: the write sets of the record API.
//!
//! A group holds the rows of one read from the network. It is applied, logged, made durable and
//! published as one, but each of its rows is written or left out separately.

mod patch;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::{ArrayRef, RecordBatch};
use thalweg_store::{Demands, Effect, Put, Refusal, Refused, Table, codec, key_text};
use thalweg_types::{Error, Lsn, Result, SqlState, TableId};

use crate::catalog::{altered_meanwhile, table_is_gone};
use crate::foreign_keys::apply_checked;
use crate::published::{GroupEffects, Step};
use crate::record::{GroupEncoder, Placement};
use crate::transaction_stage::TransactionStage;
pub use patch::{Patch, RowCheck};

/// Rows of some tables. The rows of one table are written in their order.
pub struct RowGroup {
    pub rows: Vec<KeyedRows>,
    pub failing: Failing,
    /// True if a row that is not in this group but follows all of its rows has failed already.
    pub has_failed: bool,
}

impl RowGroup {
    pub(crate) fn row_count(&self) -> usize {
        self.rows.iter().map(|rows| rows.rows.num_rows()).sum()
    }

    pub(crate) fn adds_rows(&self) -> bool {
        self.rows.iter().any(|rows| !matches!(rows.change, KeyedChange::Remove))
    }
}

/// Treatment of a group when a row cannot be written.
#[derive(Clone)]
pub enum Failing {
    /// Only the failed row is left out.
    LeaveOut,
    /// The failed row and all after it are left out, and so are later groups with the same mark.
    Stop(Arc<AtomicBool>),
    /// No row of the group is written, nor of later groups with the same mark, if there is one.
    Undo(Option<Arc<AtomicBool>>),
}

impl Failing {
    fn mark(&self) -> Option<&AtomicBool> {
        match self {
            Failing::LeaveOut => None,
            Failing::Stop(mark) => Some(mark),
            Failing::Undo(mark) => mark.as_deref(),
        }
    }
}

/// Kind of change to the rows.
#[derive(Clone)]
pub enum KeyedChange {
    Put(Put),
    /// Updates some columns of rows, which must exist.
    Patch(Arc<Patch>),
    /// Inserts whole rows. If a row exists, only the patch's columns are updated.
    Merge(Arc<Patch>),
    Remove,
}

/// Rows of one table with the same kind of change.
pub struct KeyedRows {
    pub table: TableId,
    /// The table's version that the rows were made for.
    pub version: Lsn,
    pub change: KeyedChange,
    /// Whole rows; for a patch, its columns; for a removal, the columns of the primary key in key
    /// order.
    pub rows: RecordBatch,
    /// The index of each row in its group, ascending.
    pub places: Vec<u32>,
    /// For each row, the number of the [`RowId`](thalweg_types::RowId) that it must replace; 0 for
    /// no condition.
    pub expected: Option<Vec<u64>>,
}

/// A row that was not written.
#[derive(Debug)]
pub struct RowFailure {
    /// The row's index in its group.
    pub place: u32,
    pub error: Error,
}

/// Outcome of a group's rows.
#[derive(Debug)]
pub struct Written {
    pub lsn: Lsn,
    /// Number of rows that were written.
    pub rows: u64,
    /// The failed rows, by index. Rows after the one that stopped the group are not listed.
    pub failures: Vec<RowFailure>,
}

/// Callback that is called once with the group's outcome.
pub type AcknowledgeRows = Box<dyn FnOnce(Result<Written>) + Send>;

/// Applies a group. Returns the number of rows written, and the failed rows.
pub(crate) fn apply(
    stage: &mut TransactionStage,
    group: &RowGroup,
    effects: &mut GroupEffects,
    encoder: &mut GroupEncoder,
) -> (u64, Vec<RowFailure>) {
    let mark = group.failing.mark();
    let whole = matches!(group.failing, Failing::Undo(_));
    if mark.is_some_and(|mark| mark.load(Ordering::Relaxed)) {
        return (0, Vec::new());
    }
    let (rows, failures) = match whole && group.has_failed {
        true => (0, Vec::new()),
        false => apply_rows_of(stage, group, effects, encoder),
    };
    if let Some(mark) = mark
        && (group.has_failed || !failures.is_empty())
    {
        mark.store(true, Ordering::Relaxed);
    }
    (rows, failures)
}

fn apply_rows_of(
    stage: &mut TransactionStage,
    group: &RowGroup,
    effects: &mut GroupEffects,
    encoder: &mut GroupEncoder,
) -> (u64, Vec<RowFailure>) {
    let mut limit = u32::MAX;
    let mut refused: Option<RowFailure> = None;
    loop {
        let (rows, mut failures) = apply_below(stage, group, limit, effects, encoder);
        failures.sort_by_key(|failure| failure.place);
        if failures.is_empty() {
            // Only the rows before the one that stopped the group remain.
            return (rows, refused.into_iter().collect());
        }
        match group.failing {
            Failing::LeaveOut => return (rows, failures),
            Failing::Undo(_) => {
                take_back(stage, effects, encoder);
                return (0, failures);
            }
            Failing::Stop(_) => failures.truncate(1),
        }
        if let [_] = group.rows.as_slice() {
            return (rows, failures);
        }
        // Later rows of other tables may have been written, so start over below the limit.
        take_back(stage, effects, encoder);
        limit = failures[0].place;
        refused = failures.pop();
    }
}

fn take_back(stage: &mut TransactionStage, effects: &mut GroupEffects, encoder: &mut GroupEncoder) {
    stage.undo(std::mem::take(effects));
    *encoder = GroupEncoder::default();
}

/// Applies the rows whose index is below a limit.
fn apply_below(
    stage: &mut TransactionStage,
    group: &RowGroup,
    limit: u32,
    effects: &mut GroupEffects,
    encoder: &mut GroupEncoder,
) -> (u64, Vec<RowFailure>) {
    let stop = !matches!(group.failing, Failing::LeaveOut);
    let (mut written, mut failures) = (0, Vec::new());
    for rows in parents_first(stage, group) {
        let count = rows.places.partition_point(|place| *place < limit);
        let places = &rows.places[..count];
        match apply_rows(stage, rows, count, stop, effects, encoder) {
            Ok((done, refused)) => {
                written += done;
                let failed = |(row, error)| RowFailure { place: places[row], error };
                failures.extend(refused.into_iter().map(failed));
            }
            Err(error) => failures.extend(
                places.iter().map(|place| RowFailure { place: *place, error: error.clone() }),
            ),
        }
    }
    (written, failures)
}

/// The rows by table, those of tables without foreign keys first: others may refer to them.
fn parents_first<'g>(
    stage: &TransactionStage,
    group: &'g RowGroup,
) -> impl Iterator<Item = &'g KeyedRows> + use<'g> {
    let mut rows: Vec<&KeyedRows> = group.rows.iter().collect();
    if stage.catalog.has_foreign_keys() {
        let refers = |rows: &&KeyedRows| {
            let entry = stage.catalog.table(rows.table);
            entry.is_some_and(|entry| !entry.schema.foreign_keys.is_empty())
        };
        rows.sort_by_key(refers);
    }
    rows.into_iter()
}

/// Applies the first `count` rows. Returns the number of rows written, and the failed rows with
/// their errors.
///
/// # Errors
/// If the table was altered since the rows were made.
fn apply_rows(
    stage: &mut TransactionStage,
    rows: &KeyedRows,
    count: usize,
    stop: bool,
    effects: &mut GroupEffects,
    encoder: &mut GroupEncoder,
) -> Result<Outcome> {
    let entry = stage.catalog.table(rows.table).ok_or_else(table_is_gone)?;
    if rows.version != entry.version {
        return Err(altered_meanwhile(&entry.schema.name));
    }
    apply_checked(stage, rows, count, stop, |stage, rows, count| {
        apply_to_table(stage, rows, count, stop, effects, encoder)
    })
}

fn apply_to_table(
    stage: &mut TransactionStage,
    rows: &KeyedRows,
    count: usize,
    stop: bool,
    effects: &mut GroupEffects,
    encoder: &mut GroupEncoder,
) -> Result<Outcome> {
    let table = &mut stage.tables.get_mut(&rows.table).ok_or_else(table_is_gone)?.table;
    let batch = rows.rows.slice(0, count);
    let expected = rows.expected.as_ref().map(|expected| &expected[..count]);
    let demands = Demands { expected, stop };
    let mut effect = Effect::default();
    let changing = Changing { table, id: rows.table, effect: &mut effect, encoder };
    let applied = match &rows.change {
        KeyedChange::Put(put) => changing.put(&batch, *put, demands),
        KeyedChange::Patch(patch) => changing.patch(&batch, patch, demands),
        KeyedChange::Merge(patch) => changing.merge(&batch, patch, demands),
        KeyedChange::Remove => changing.remove(&batch, demands),
    };
    effects.steps.push(Step::Changed(rows.table, effect));
    applied
}

/// The number of rows written, and the failed rows with their errors.
pub(crate) type Outcome = (u64, Vec<(usize, Error)>);

/// A table that is being changed, with the encoder of its log record.
struct Changing<'a> {
    table: &'a mut Table,
    id: TableId,
    effect: &'a mut Effect,
    encoder: &'a mut GroupEncoder,
}

impl Changing<'_> {
    fn put(mut self, rows: &RecordBatch, put: Put, demands: Demands<'_>) -> Result<Outcome> {
        let (written, refused) = self.put_rows(rows, put, demands)?;
        let tell = |(row, refusal)| (row, self.told_of(rows, row, refusal));
        Ok((written, refused.into_iter().map(tell).collect()))
    }

    fn put_rows(
        &mut self,
        rows: &RecordBatch,
        put: Put,
        demands: Demands<'_>,
    ) -> Result<(u64, Vec<Refused>)> {
        let (pieces, refused) = self.table.put(rows, put, demands, self.effect)?;
        let mut written = rows.num_rows() as u64;
        if demands.stop
            && let Some((first, _)) = refused.first()
        {
            written = *first as u64;
        } else {
            written -= refused.len() as u64;
        }
        for piece in &pieces {
            if !piece.killed.is_empty() {
                self.encoder.kill(self.id, &piece.killed);
            }
            let length = piece.rows.num_rows() as u32;
            let placement = Placement { chunk: piece.chunk, row: piece.row, length };
            self.encoder.append(self.id, &[placement], &codec::encode_batch(&piece.rows));
        }
        Ok((written, refused))
    }

    fn remove(self, keys: &RecordBatch, demands: Demands<'_>) -> Result<Outcome> {
        let (killed, refused) = self.table.remove(keys.columns(), demands, self.effect)?;
        if !killed.is_empty() {
            self.encoder.kill(self.id, &killed);
        }
        let tell =
            |(row, refusal)| (row, describe_refusal(self.table, 0, keys.columns(), row, refusal));
        Ok((killed.len() as u64, refused.into_iter().map(tell).collect()))
    }

    /// The error of a whole row that was left out.
    fn told_of(&self, rows: &RecordBatch, row: usize, refusal: Refusal) -> Error {
        let number = if let Refusal::Exists { key } = refusal { key } else { 0 };
        let schema = self.table.schema();
        let key = schema.keys().nth(number).expect("a row is refused for one of its keys");
        let positions = schema.key_positions(key);
        let columns: Vec<_> = positions.iter().map(|at| Arc::clone(rows.column(*at))).collect();
        describe_refusal(self.table, number, &columns, row, refusal)
    }
}

/// The error of a row that was left out. `columns` are those of the table's key number `number`.
fn describe_refusal(
    table: &Table,
    number: usize,
    columns: &[ArrayRef],
    row: usize,
    refusal: Refusal,
) -> Error {
    let schema = table.schema();
    let key = schema.keys().nth(number).expect("rows are refused for one of the table's keys");
    let text = || key_text(schema, &schema.key_positions(key), columns, row);
    match refusal {
        Refusal::Exists { .. } => table.duplicate(number, columns, row),
        Refusal::Missing => {
            let message = format!("no row of relation \"{}\" has this key", schema.name);
            Error::new(SqlState::NO_DATA_FOUND, message)
                .with_detail(format!("Key {} is not there.", text()))
        }
        Refusal::Changed => {
            let message = format!(
                "a row of relation \"{}\" does not have the version that was expected",
                schema.name
            );
            Error::new(SqlState::SERIALIZATION_FAILURE, message)
                .with_detail(format!("Key {} has another one, or is not there.", text()))
                .with_hint("Look the row up again.")
        }
    }
}
