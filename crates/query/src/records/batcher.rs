//! Rows on their way into one group.

use std::sync::Arc;

use thalweg_formats::rows::{RowsBuilder, Value};
use thalweg_txn::{
    AcknowledgeRows, Durability, Failing, KeyedChange, KeyedRows, RowFailure, RowGroup,
};
use thalweg_types::{Error, Result};

use super::{RecordChange, RecordTable, Records};

/// Gathers rows of tables that are named by small numbers. Rows are numbered from 0 in the order in
/// which they come, those that are refused included.
#[derive(Default)]
pub struct RecordBatcher {
    runs: Vec<Run>,
    /// For each table's number its last run, counted from 1.
    last_runs: Vec<u32>,
    rows: u32,
    failures: Vec<RowFailure>,
}

/// Rows of one table that change alike, one after the other.
struct Run {
    table: Arc<RecordTable>,
    change: RecordChange,
    builder: RowsBuilder,
    places: Vec<u32>,
    /// As many as places, once a version was expected.
    expected: Vec<u64>,
}

/// A group that is ready to be written, and what of it failed already.
pub struct RecordWrite {
    group: Vec<KeyedRows>,
    failures: Vec<RowFailure>,
    rows: u32,
}

impl RecordBatcher {
    /// How many rows came, whatever became of them.
    #[must_use]
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// Whether a row was refused.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        !self.failures.is_empty()
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
        let pushed = self.run(number, table, change).and_then(|run| run.builder.push_packed(row));
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
        let run = self.run(number, table, change);
        let pushed = run.and_then(|run| run.builder.push_values(values));
        self.note(number, expected, pushed);
    }

    /// Counts a row that was refused before it could be added.
    pub fn refuse(&mut self, error: Error) {
        self.failures.push(RowFailure { place: self.rows, error });
        self.rows += 1;
    }

    /// The run that takes the table's next row.
    #[inline]
    fn run(
        &mut self,
        number: u32,
        table: &Arc<RecordTable>,
        change: RecordChange,
    ) -> Result<&mut Run> {
        let number = number as usize;
        if number >= self.last_runs.len() {
            self.last_runs.resize(number + 1, 0);
        }
        let last = self.last_runs[number] as usize;
        let fits = last > 0 && {
            let run = &self.runs[last - 1];
            run.change == change && Arc::ptr_eq(&run.table, table)
        };
        if fits {
            return Ok(&mut self.runs[last - 1]);
        }
        table.permit(change)?;
        self.runs.push(Run {
            table: Arc::clone(table),
            change,
            builder: table.builder(change)?,
            places: Vec::new(),
            expected: Vec::new(),
        });
        self.last_runs[number] = self.runs.len() as u32;
        Ok(self.runs.last_mut().expect("it was pushed just now"))
    }

    #[inline]
    fn note(&mut self, number: u32, expected: Option<u64>, pushed: Result<()>) {
        if let Err(error) = pushed {
            return self.refuse(error);
        }
        let run = &mut self.runs[self.last_runs[number as usize] as usize - 1];
        run.places.push(self.rows);
        self.rows += 1;
        if let Some(expected) = expected {
            run.expected.push(expected);
        }
    }

    /// The rows so far as a group. The batcher starts over.
    ///
    /// # Errors
    /// Only for mistakes of the database's own.
    pub fn finish(&mut self) -> Result<RecordWrite> {
        let batcher = std::mem::take(self);
        let mut write =
            RecordWrite { group: Vec::new(), failures: batcher.failures, rows: batcher.rows };
        for run in batcher.runs {
            run.finish(&mut write)?;
        }
        Ok(write)
    }
}

impl Run {
    fn finish(mut self, write: &mut RecordWrite) -> Result<()> {
        if self.places.is_empty() {
            return Ok(());
        }
        let rows = self.table.batch(self.change, self.builder.finish(), self.places.len())?;
        let (rows, failed) = match self.change {
            RecordChange::Remove => (rows, Vec::new()),
            _ => self.table.shape(rows),
        };
        let (mut places, mut expected) = (self.places, self.expected);
        for (row, error) in failed.into_iter().rev() {
            write.failures.push(RowFailure { place: places.remove(row), error });
            if !expected.is_empty() {
                expected.remove(row);
            }
        }
        let change = self.change.put().map_or(KeyedChange::Remove, KeyedChange::Put);
        write.group.push(KeyedRows {
            table: self.table.schema.id,
            version: self.table.version,
            change,
            rows,
            places,
            expected: (!expected.is_empty()).then_some(expected),
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
    /// Writes a group. `acknowledge` is called once, from a thread of the database's: when what
    /// could be written is as durable as asked and visible, with the rows that failed; or with why
    /// none of them was written.
    pub fn write(
        &self,
        mut write: RecordWrite,
        failing: Failing,
        durability: Option<Durability>,
        acknowledge: AcknowledgeRows,
    ) {
        match failing {
            Failing::LeaveOut => {}
            Failing::Stop(_) => write.stop_at_failure(),
            Failing::Undo if write.failures.is_empty() => {}
            Failing::Undo => write.group.clear(),
        }
        let shared = &self.database.shared;
        let group = RowGroup { rows: write.group, failing };
        let early = write.failures;
        let acknowledge: AcknowledgeRows = match early.is_empty() {
            true => acknowledge,
            false => Box::new(move |written| {
                acknowledge(written.map(|mut written| {
                    written.failures.extend(early);
                    written.failures.sort_by_key(|failure| failure.place);
                    written
                }));
            }),
        };
        shared.engine.write_rows(group, durability.unwrap_or(shared.durability), acknowledge);
    }
}
