//! Scrollable cursors keep the rows that they have read.

use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use thalweg_types::{Error, Result};

use super::Source;
use super::motion::{Motion, Rows};

/// The rows that a cursor has read, and its place among them.
#[derive(Default)]
pub(super) struct Scroll {
    read: Vec<RecordBatch>,
    /// Number of rows in `read`.
    rows: u64,
    /// The present row, counted from 1. It is 0 before the first row, and the number of rows plus 1
    /// after the last.
    place: u64,
}

impl Scroll {
    pub(super) async fn go(
        &mut self,
        motion: Motion,
        source: &mut Source,
    ) -> Result<Vec<RecordBatch>> {
        match motion {
            Motion::Forward(rows) => self.forward(rows, source).await,
            Motion::Backward(rows) => self.backward(rows),
            Motion::Absolute(place @ 0..) => self.to(Some(place.unsigned_abs()), source).await,
            Motion::Absolute(from_end) => {
                self.read(Rows::All, source).await?;
                let place = (self.rows + 1).checked_sub(from_end.unsigned_abs());
                self.to(place, source).await
            }
            Motion::Relative(ahead) => self.to(self.place.checked_add_signed(ahead), source).await,
        }
    }

    /// Reads on until `rows` have been read in total, or the query ends.
    async fn read(&mut self, rows: Rows, source: &mut Source) -> Result<()> {
        let missing = match rows {
            Rows::Count(rows) => Rows::Count(rows.saturating_sub(self.rows)),
            Rows::All => Rows::All,
        };
        for batch in source.take(missing).await? {
            self.rows += batch.num_rows() as u64;
            self.read.push(batch);
        }
        Ok(())
    }

    async fn forward(&mut self, rows: Rows, source: &mut Source) -> Result<Vec<RecordBatch>> {
        let last = rows.count().map(|count| self.place.saturating_add(count));
        self.read(last.map_or(Rows::All, Rows::Count), source).await?;
        let first = self.place + 1;
        let last = last.filter(|last| *last <= self.rows);
        self.place = last.unwrap_or(self.rows + 1);
        Ok(self.between(first, last.unwrap_or(self.rows)))
    }

    fn backward(&mut self, rows: Rows) -> Result<Vec<RecordBatch>> {
        let Some(last) = self.place.checked_sub(1) else { return Ok(Vec::new()) };
        let first = rows.count().and_then(|count| self.place.checked_sub(count)).unwrap_or(0);
        self.place = first;
        let batches = self.between(first.max(1), last);
        batches.iter().rev().map(turned).collect()
    }

    /// Moves to one row; `None` means before the first row.
    async fn to(&mut self, place: Option<u64>, source: &mut Source) -> Result<Vec<RecordBatch>> {
        let place = place.unwrap_or(0);
        self.read(Rows::Count(place), source).await?;
        self.place = place.min(self.rows + 1);
        Ok(if place == 0 { Vec::new() } else { self.between(place, place) })
    }

    /// The rows from one place to another, as far as there are any.
    fn between(&self, first: u64, last: u64) -> Vec<RecordBatch> {
        let mut batches = Vec::new();
        let mut before = 0;
        for batch in &self.read {
            let rows = batch.num_rows() as u64;
            let (from, to) = (first.max(before + 1), last.min(before + rows));
            if from <= to {
                batches.push(batch.slice((from - before - 1) as usize, (to - from + 1) as usize));
            }
            before += rows;
        }
        batches
    }
}

/// The rows of a batch in reverse order.
fn turned(batch: &RecordBatch) -> Result<RecordBatch> {
    let rows = u32::try_from(batch.num_rows()).expect("batches have far fewer rows than 2^32");
    let places = UInt32Array::from_iter_values((0..rows).rev());
    take_record_batch(batch, &places)
        .map_err(|error| Error::internal("rows cannot be turned around").with_source(error))
}
