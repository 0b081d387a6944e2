//! Rows on their way into one group.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use thalweg_formats::rows::{RowsBuilder, Value};
use thalweg_txn::{AcknowledgeRows, Durability, Failing, KeyedRows, RowFailure, RowGroup};
use thalweg_types::{Error, Result, TableId, TableSchema};

use super::{RecordChange, RecordTable, Records};

/// Gathers rows of tables that are named by small numbers. Rows are numbered from 0 in the order in
/// which they come, those that are refused included.
#[derive(Default)]
pub struct RecordBatcher {
    runs: Vec<Run>,
    /// For each table's number the run that its next row may join, counted from 1.
    last_runs: Vec<u32>,
    /// The number that each table's last row came under. A table may have several, with other
    /// columns each: rows of one do not pass those of another.
    last_numbers: HashMap<TableId, u32>,
    rows: u32,
    failures: Vec<RowFailure>,
}

/// Rows of one table that change alike, one after the other.
struct Run {
    table: Arc<RecordTable>,
    change: RecordChange,
    source: Source,
    places: Vec<u32>,
    /// Whether each row has a version that is expected.
    expects: bool,
    expected: Vec<u64>,
}

/// What a run's rows are made of.
enum Source {
    Rows(RowsBuilder),
    Batch(RecordBatch),
}

/// A group that is ready to be written, and what of it failed already.
pub struct RecordWrite {
    group: Vec<KeyedRows>,
    /// The table of each of them.
    tables: Vec<Arc<TableSchema>>,
    failures: Vec<RowFailure>,
    rows: u32,
}

impl RecordBatcher {
    /// How many rows came, whatever became of them.
    #[must_use]
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// Adds a packed row. Where it is refused, that is told with the group.
    #[inline]
    pub fn push_packed(
        &mut self,
        number: u32,
        table: &Arc<RecordTable>,
        change: RecordChange,
        row: &[u8],
        expected: Option<u64>,
    ) {
        let rows = self.builder(number, table, change, expected.is_some());
        let pushed = rows.and_then(|rows| rows.push_packed(row));
        self.note(number, expected, pushed);
    }

    /// Adds a row of single values.
    pub fn push_values<'v>(
        &mut self,
        number: u32,
        table: &Arc<RecordTable>,
        change: RecordChange,
        values: impl Iterator<Item = Result<Value<'v>>>,
        expected: Option<u64>,
    ) {
        let rows = self.builder(number, table, change, expected.is_some());
        let pushed = rows.and_then(|rows| rows.push_values(values));
        self.note(number, expected, pushed);
    }

    /// Adds the rows of a batch, whose columns are those of [`Records::table_for`].
    pub fn push_batch(
        &mut self,
        number: u32,
        table: &Arc<RecordTable>,
        change: RecordChange,
        batch: RecordBatch,
        expected: Vec<u64>,
    ) {
        let count = batch.num_rows() as u32;
        if let Err(error) = table.permit(change) {
            return (0..count).for_each(|_| self.refuse(error.clone()));
        }
        let places = (self.rows..self.rows + count).collect();
        self.rows += count;
        let (table, expects) = (Arc::clone(table), !expected.is_empty());
        let source = Source::Batch(batch);
        self.begin(number, Run { table, change, source, places, expects, expected });
    }

    /// Counts a row that was refused before it could be added.
    pub fn refuse(&mut self, error: Error) {
        self.failures.push(RowFailure { place: self.rows, error });
        self.rows += 1;
    }

    /// What takes the table's next row.
    #[inline]
    fn builder(
        &mut self,
        number: u32,
        table: &Arc<RecordTable>,
        change: RecordChange,
        expects: bool,
    ) -> Result<&mut RowsBuilder> {
        if !self.goes_on(number, table, change, expects) {
            table.permit(change)?;
            let (table, source) = (Arc::clone(table), Source::Rows(table.builder(change)?));
            let (places, expected) = (Vec::new(), Vec::new());
            self.begin(number, Run { table, change, source, places, expects, expected });
        }
        let last = self.last_runs[number as usize] as usize;
        match &mut self.runs[last - 1].source {
            Source::Rows(rows) => Ok(rows),
            Source::Batch(_) => Err(Error::internal("a batch takes no further rows")),
        }
    }

    /// Whether the table's last run takes further rows of this change.
    #[inline]
    fn goes_on(
        &self,
        number: u32,
        table: &Arc<RecordTable>,
        change: RecordChange,
        expects: bool,
    ) -> bool {
        let last = self.last_runs.get(number as usize).copied().unwrap_or(0) as usize;
        let Some(run) = last.checked_sub(1).map(|last| &self.runs[last]) else { return false };
        run.change == change
            && run.expects == expects
            && Arc::ptr_eq(&run.table, table)
            && matches!(run.source, Source::Rows(_))
    }

    fn begin(&mut self, number: u32, run: Run) {
        let place = number as usize;
        if place >= self.last_runs.len() {
            self.last_runs.resize(place + 1, 0);
        }
        if let Some(before) = self.last_numbers.insert(run.table.schema.id, number) {
            self.last_runs[before as usize] = 0;
        }
        self.runs.push(run);
        self.last_runs[place] = self.runs.len() as u32;
    }

    #[inline]
    fn note(&mut self, number: u32, expected: Option<u64>, pushed: Result<()>) {
        if let Err(error) = pushed {
            return self.refuse(error);
        }
        let run = &mut self.runs[self.last_runs[number as usize] as usize - 1];
        run.places.push(self.rows);
        run.expected.extend(expected);
        self.rows += 1;
    }

    /// The rows so far as a group. The batcher starts over.
    ///
    /// # Errors
    /// Only for mistakes of the database's own.
    pub fn finish(&mut self) -> Result<RecordWrite> {
        let batcher = std::mem::take(self);
        let RecordBatcher { runs, rows, failures, .. } = batcher;
        let mut write = RecordWrite { group: Vec::new(), tables: Vec::new(), failures, rows };
        for run in runs {
            run.finish(&mut write)?;
        }
        Ok(write)
    }
}

impl Run {
    fn finish(self, write: &mut RecordWrite) -> Result<()> {
        let Run { table, change, source, mut places, expects, mut expected } = self;
        if places.is_empty() {
            return Ok(());
        }
        let shaped = match source {
            Source::Rows(mut builder) => {
                let rows = table.batch(change, builder.finish(), places.len())?;
                match change {
                    RecordChange::Remove => Ok((rows, Vec::new())),
                    _ => Ok(table.shape(change, rows)),
                }
            }
            Source::Batch(batch) if change == RecordChange::Remove => {
                table.keys_of(&batch).map(|keys| (keys, Vec::new()))
            }
            Source::Batch(batch) => Ok(table.shape(change, batch)),
        };
        let (rows, failed) = match shaped {
            Ok(shaped) => shaped,
            Err(error) => {
                let failure = |place| RowFailure { place, error: error.clone() };
                write.failures.extend(places.into_iter().map(failure));
                return Ok(());
            }
        };
        for (row, error) in failed.into_iter().rev() {
            write.failures.push(RowFailure { place: places.remove(row), error });
            if expects {
                expected.remove(row);
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
}

impl RecordWrite {
    /// How many rows came, whatever became of them.
    #[must_use]
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// Takes back all rows from the first that was refused on.
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
    /// Writes a group. `acknowledge` is called once, from a thread of the database's or by this
    /// function: when what could be written is as durable as asked and visible, with the rows that
    /// failed; or with why none of them was written.
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

/// Tells of rows that have failed already together with the others.
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
