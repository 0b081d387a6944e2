//! Gathers rows of the record API into one group.
//!
//! Rows arrive packed or as columns, for tables that the client has numbered. Consecutive rows of
//! one table and kind of change form a run, which becomes one batch. A row that cannot be decoded
//! or does not fit its table is reported with its index, and does not stop the others.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, FieldRef};
use thalweg_formats::rows::{RowsBuilder, Value};
use thalweg_txn::{AcknowledgeRows, Durability, Failing, KeyedRows, RowFailure, RowGroup};
use thalweg_types::{Error, Result, TableId, TableSchema};

use super::{RecordChange, RecordTable, Records};

/// A run of batches takes no more rows after this many.
const JOINED_ROWS_MAX: usize = 65_536;

/// Maximum number of rows of one group that are refused one by one before they are added. A row
/// without bytes takes two bytes of a message, and a refusal many times as much.
const REFUSED_MAX: usize = 65_536;

/// Gathers rows of tables that are named by small numbers. Rows are numbered from 0 in the order in
/// which they come, including refused ones.
#[derive(Default)]
pub struct RecordBatcher {
    runs: Vec<Run>,
    /// For each table's number, the run that its next row may join, counted from 1.
    last_runs: Vec<u32>,
    /// For each table, the number that its last row used. A table may have several numbers, with
    /// different columns each; their rows stay in order.
    last_numbers: HashMap<TableId, u32>,
    rows: u32,
    failures: Vec<RowFailure>,
    /// The reason why rows were refused, if these were too many to report one by one.
    too_many: Option<Error>,
}

/// Consecutive rows of one table with the same kind of change.
struct Run {
    table: Arc<RecordTable>,
    change: RecordChange,
    source: Source,
    places: Vec<u32>,
    /// True if each row has an expected version.
    expects: bool,
    expected: Vec<u64>,
}

/// The source of a run's rows.
enum Source {
    Rows(RowsBuilder),
    Batches(Vec<RecordBatch>),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Rows,
    Batches,
}

impl Source {
    fn form(&self) -> Form {
        match self {
            Source::Rows(_) => Form::Rows,
            Source::Batches(_) => Form::Batches,
        }
    }
}

/// The destination of rows: a table, its number, and the kind of change.
#[derive(Clone, Copy)]
pub struct RecordTarget<'a> {
    pub number: u32,
    pub table: &'a Arc<RecordTable>,
    pub change: RecordChange,
}

/// A group that is ready to be written, with the rows that failed already.
pub struct RecordWrite {
    group: Vec<KeyedRows>,
    /// The table of each change.
    tables: Vec<Arc<TableSchema>>,
    failures: Vec<RowFailure>,
    rows: u32,
}

impl RecordBatcher {
    /// Number of rows that came, including those that failed.
    #[must_use]
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// Adds packed rows, each with its expected version, if there is one. Refused rows are reported
    /// with the group.
    #[inline]
    pub fn push_packed<'r>(
        &mut self,
        into: RecordTarget<'_>,
        rows: impl Iterator<Item = &'r [u8]>,
        expected: Option<impl Iterator<Item = u64>>,
    ) {
        self.push_rows(into, rows, expected, RowsBuilder::push_packed);
    }

    /// Like [`push_packed`](Self::push_packed), for rows of single values.
    pub fn push_values<'v, V: Iterator<Item = Result<Value<'v>>>>(
        &mut self,
        into: RecordTarget<'_>,
        rows: impl Iterator<Item = V>,
        expected: Option<impl Iterator<Item = u64>>,
    ) {
        self.push_rows(into, rows, expected, RowsBuilder::push_values);
    }

    /// Adds the rows of a batch, whose columns are those of [`Records::table_for`], with the
    /// expected versions, or none.
    pub fn push_batch(
        &mut self,
        number: u32,
        table: &Arc<RecordTable>,
        change: RecordChange,
        batch: RecordBatch,
        expected: Vec<u64>,
    ) {
        let count = batch.num_rows();
        if let Err(error) = table.permit(change) {
            return self.refuse(count, &error);
        }
        let first = self.rows;
        self.rows += u32::try_from(count).expect("a message has less than 2^32 rows");
        let into = RecordTarget { number, table, change };
        let (form, places) = (Form::Batches, first..self.rows);
        // Removals stay apart: a key that does not fit fails its whole batch.
        let joins = change != RecordChange::Remove && is_joined(&batch);
        let run = match self.last_run(into, form, !expected.is_empty()) {
            Some(run) if joins && self.runs[run].places.len() < JOINED_ROWS_MAX => run,
            _ => self.begin(into, Source::Batches(Vec::new()), !expected.is_empty()),
        };
        let run = &mut self.runs[run];
        run.places.extend(places);
        run.expected.extend(expected);
        if let Source::Batches(batches) = &mut run.source {
            batches.push(batch);
        }
    }

    /// Counts rows that were refused before they could be added.
    pub fn refuse(&mut self, rows: usize, error: &Error) {
        let room = REFUSED_MAX.saturating_sub(self.failures.len());
        for _ in 0..rows.min(room) {
            self.failures.push(RowFailure { place: self.rows, error: error.clone() });
            self.rows += 1;
        }
        if rows > room {
            self.refuse_all(error);
        }
    }

    /// Takes no more rows of this group: so many were refused that its sender must end.
    fn refuse_all(&mut self, error: &Error) {
        self.too_many.get_or_insert_with(|| error.clone());
    }

    /// Adds rows one by one to the table's run, which is looked up once.
    #[inline]
    fn push_rows<R>(
        &mut self,
        into: RecordTarget<'_>,
        rows: impl Iterator<Item = R>,
        expected: Option<impl Iterator<Item = u64>>,
        push: impl Fn(&mut RowsBuilder, R) -> Result<()>,
    ) {
        let run = match self.run_of_rows(into, expected.is_some()) {
            Ok(run) => run,
            Err(error) => return self.refuse(rows.count(), &error),
        };
        let Run { source: Source::Rows(builder), places, expected: versions, .. } =
            &mut self.runs[run]
        else {
            unreachable!("it is a run of rows")
        };
        let (mut expected, mut first) = (expected, self.rows);
        for row in rows {
            let version = expected.as_mut().and_then(Iterator::next);
            match push(builder, row) {
                Ok(()) => versions.extend(version),
                Err(error) => {
                    places.extend(first..self.rows);
                    first = self.rows + 1;
                    if self.failures.len() >= REFUSED_MAX {
                        return self.refuse_all(&error);
                    }
                    self.failures.push(RowFailure { place: self.rows, error });
                }
            }
            self.rows += 1;
        }
        places.extend(first..self.rows);
    }

    /// The run that takes the table's next rows.
    #[inline]
    fn run_of_rows(&mut self, into: RecordTarget<'_>, expects: bool) -> Result<usize> {
        if let Some(run) = self.last_run(into, Form::Rows, expects) {
            return Ok(run);
        }
        into.table.permit(into.change)?;
        let builder = into.table.builder(into.change)?;
        Ok(self.begin(into, Source::Rows(builder), expects))
    }

    /// The table's last run, if it takes further rows of this form and change.
    #[inline]
    fn last_run(&self, into: RecordTarget<'_>, form: Form, expects: bool) -> Option<usize> {
        let last = self.last_runs.get(into.number as usize).copied().unwrap_or(0) as usize;
        let place = last.checked_sub(1)?;
        let run = &self.runs[place];
        let goes_on = run.change == into.change
            && run.expects == expects
            && Arc::ptr_eq(&run.table, into.table)
            && run.source.form() == form;
        goes_on.then_some(place)
    }

    /// Begins a run; returns its index.
    fn begin(&mut self, into: RecordTarget<'_>, source: Source, expects: bool) -> usize {
        let (table, change, place) = (Arc::clone(into.table), into.change, into.number as usize);
        if place >= self.last_runs.len() {
            self.last_runs.resize(place + 1, 0);
        }
        if let Some(before) = self.last_numbers.insert(table.schema.id, into.number) {
            self.last_runs[before as usize] = 0;
        }
        let (places, expected) = (Vec::new(), Vec::new());
        self.runs.push(Run { table, change, source, places, expects, expected });
        self.last_runs[place] = self.runs.len() as u32;
        self.runs.len() - 1
    }

    /// Returns the rows so far as a group, and starts over.
    ///
    /// # Errors
    /// The reason why rows were refused, if too many were: then none of the group may be written,
    /// and its sender must end. Otherwise only internal errors.
    pub fn finish(&mut self) -> Result<RecordWrite> {
        let batcher = std::mem::take(self);
        let RecordBatcher { runs, rows, failures, too_many, .. } = batcher;
        if let Some(error) = too_many {
            return Err(error);
        }
        let mut write = RecordWrite { group: Vec::new(), tables: Vec::new(), failures, rows };
        for run in runs {
            run.finish(&mut write)?;
        }
        Ok(write)
    }
}

/// True if a batch may be concatenated with those before it. Dictionaries, and the items of lists,
/// may be too many for one array, and Arrow does not always report that as an error.
fn is_joined(batch: &RecordBatch) -> bool {
    let is_plain = |field: &FieldRef| {
        let data_type = field.data_type();
        !data_type.is_nested() && !matches!(data_type, DataType::Dictionary(..))
    };
    batch.schema_ref().fields().iter().all(is_plain)
}

impl Run {
    fn finish(mut self, write: &mut RecordWrite) -> Result<()> {
        let joined = match &self.source {
            Source::Batches(batches) if batches.len() > 1 => {
                Some(concat_batches(batches[0].schema_ref(), batches))
            }
            _ => None,
        };
        match joined {
            None => {}
            Some(Ok(one)) => self.source = Source::Batches(vec![one]),
            // Texts may be too large for one array.
            Some(Err(_)) => return self.parts().try_for_each(|run| run.finish(write)),
        }
        let Run { table, change, source, mut places, expects, mut expected } = self;
        if places.is_empty() {
            return Ok(());
        }
        let (rows, failed) = match shaped(&table, change, source, places.len())? {
            Ok(shaped) => shaped,
            Err(error) => {
                let failure = |place| RowFailure { place, error: error.clone() };
                write.failures.extend(places.into_iter().map(failure));
                return Ok(());
            }
        };
        if !failed.is_empty() {
            let mut kept = vec![true; places.len()];
            for (row, error) in failed {
                kept[row] = false;
                write.failures.push(RowFailure { place: places[row], error });
            }
            keep(&mut places, &kept);
            if expects {
                keep(&mut expected, &kept);
            }
        }
        write.tables.push(Arc::clone(&table.schema));
        write.group.push(KeyedRows {
            table: table.schema.id,
            version: table.version,
            change: table.keyed(change),
            rows,
            places,
            expected: expects.then_some(expected),
        });
        Ok(())
    }

    /// A run for each of its batches.
    fn parts(self) -> impl Iterator<Item = Run> {
        let Run { table, change, source, mut places, expects, mut expected } = self;
        let batches = match source {
            Source::Batches(batches) => batches,
            Source::Rows(_) => Vec::new(),
        };
        batches.into_iter().map(move |batch| {
            let rows = batch.num_rows();
            Run {
                table: Arc::clone(&table),
                change,
                places: places.drain(..rows).collect(),
                expects,
                expected: expected.drain(..if expects { rows } else { 0 }).collect(),
                source: Source::Batches(vec![batch]),
            }
        })
    }
}

/// Rows as a change needs them, and the errors of those that failed; or one error for all.
type Shaped = Result<(RecordBatch, Vec<(usize, Error)>)>;

/// # Errors
/// Only internal errors.
fn shaped(
    table: &RecordTable,
    change: RecordChange,
    source: Source,
    rows: usize,
) -> Result<Shaped> {
    let removes = change == RecordChange::Remove;
    Ok(match source {
        Source::Rows(mut builder) => {
            let columns = builder.finish();
            let columns = if removes { table.kept_keys(columns)? } else { columns };
            let rows = table.batch(change, columns, rows)?;
            Ok(if removes { (rows, Vec::new()) } else { table.shape(change, rows) })
        }
        Source::Batches(mut batches) => {
            let batch = batches.pop().ok_or_else(|| Error::internal("a run has no batch"))?;
            match removes {
                true => table.keys_of(&batch).map(|keys| (keys, Vec::new())),
                false => Ok(table.shape(change, batch)),
            }
        }
    })
}

/// Keeps the values whose marks are set.
fn keep<T>(values: &mut Vec<T>, kept: &[bool]) {
    let mut marks = kept.iter();
    values.retain(|_| *marks.next().expect("there is a mark for each"));
}

impl RecordWrite {
    /// Number of rows that came, including those that failed.
    #[must_use]
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// Removes all rows from the first refused one on.
    fn stop_at_failure(&mut self) {
        self.failures.sort_by_key(|failure| failure.place);
        self.failures.truncate(1);
        let Some(first) = self.failures.first() else { return };
        for rows in &mut self.group {
            let count = rows.places.partition_point(|place| *place < first.place);
            rows.places.truncate(count);
            rows.rows = rows.rows.slice(0, count);
            rows.expected.iter_mut().for_each(|expected| expected.truncate(count));
        }
    }
}

impl Records {
    /// Writes a group. `acknowledge` is called once, from a thread of the database or by this
    /// function: with the rows that failed, once the others are visible and as durable as asked; or
    /// with the error because of which no row was written.
    pub fn write(
        &self,
        mut write: RecordWrite,
        failing: Failing,
        durability: Option<Durability>,
        acknowledge: AcknowledgeRows,
    ) {
        if matches!(failing, Failing::Stop(_)) {
            write.stop_at_failure();
        }
        let shared = &self.database.shared;
        let has_failed = !write.failures.is_empty();
        let group = RowGroup { rows: write.group, failing, has_failed };
        let acknowledge = with_failures(write.failures, acknowledge);
        let durability = durability.unwrap_or(shared.durability);
        match &self.on_workers {
            None => shared.engine.write_rows(group, durability, acknowledge),
            Some(writer) => writer.write(write.tables, group, durability, acknowledge),
        }
    }
}

/// Reports rows that failed already together with the others.
pub(crate) fn with_failures(
    early: Vec<RowFailure>,
    acknowledge: AcknowledgeRows,
) -> AcknowledgeRows {
    if early.is_empty() {
        return acknowledge;
    }
    Box::new(move |written| {
        acknowledge(written.map(|mut written| {
            written.failures.extend(early);
            written.failures.sort_by_key(|failure| failure.place);
            written
        }));
    })
}
