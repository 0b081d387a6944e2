//! Completes partial rows with the stored values of their other columns.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::interleave_record_batch;
use arrow::error::ArrowError;
use thalweg_types::{Error, Result, RowId};

use super::Table;
use crate::Chunk;
use crate::cell::{KeyHashes, same_key};
use crate::state::StateKey;

impl Table {
    /// For each primary key, given as the key's columns in its order, the live row with it,
    /// published or not.
    ///
    /// # Errors
    /// If the columns do not match the key.
    pub fn holders(&self, columns: &[ArrayRef]) -> Result<Vec<Option<RowId>>> {
        let primary = self.primary_key(self.applied.keys())?;
        self.check_key(primary, columns)?;
        Ok(self.holders_of(primary, columns))
    }

    /// Like [`holders`](Self::holders), for the key at this position among the keys of the table's
    /// schema. `columns` are that key's columns.
    ///
    /// # Errors
    /// If the columns do not match the key.
    pub fn key_holders(&self, key: usize, columns: &[ArrayRef]) -> Result<Vec<Option<RowId>>> {
        let key = self.applied.keys().get(key).ok_or_else(|| self.wrong_columns())?;
        self.check_key(key, columns)?;
        Ok(self.holders_of(key, columns))
    }

    fn holders_of(&self, key: &StateKey, columns: &[ArrayRef]) -> Vec<Option<RowId>> {
        let hashes = KeyHashes::new(columns);
        let index = key.index.read();
        let holder = |row: usize| {
            let same = |stored: RowId| {
                same_key(columns, row, |column| self.cell(stored, key.positions[column]))
            };
            let found =
                if hashes.is_null(row) { None } else { index.find(hashes.hashes[row], same) };
            found.filter(|found| !self.applied.is_dead(*found))
        };
        (0..hashes.hashes.len()).map(holder).collect()
    }

    /// A hash for each key, given as the key's columns. Equal keys have equal hashes.
    #[must_use]
    pub fn key_hashes(columns: &[ArrayRef]) -> Vec<u32> {
        KeyHashes::new(columns).hashes
    }

    /// Builds whole rows: the columns at `places` from `given`, the others from the stored `rows`.
    ///
    /// # Errors
    /// If a row does not exist, or a given column has another type than the table's.
    pub fn completed(
        &self,
        given: &RecordBatch,
        places: &[usize],
        rows: &[RowId],
    ) -> Result<RecordBatch> {
        let stored = self.rows_now(rows)?;
        let mut columns = stored.columns().to_vec();
        for (column, place) in given.columns().iter().zip(places) {
            let there = columns.get_mut(*place).ok_or_else(|| self.wrong_columns())?;
            *there = Arc::clone(column);
        }
        let schema = Arc::clone(self.applied.arrow_schema());
        RecordBatch::try_new(schema, columns).map_err(|_| self.wrong_columns())
    }

    /// The current values of the rows. Unpublished rows may still be undone and are copied, because
    /// arrays that are shared with readers must never change.
    fn rows_now(&self, rows: &[RowId]) -> Result<RecordBatch> {
        let mut published = Vec::new();
        let mut copies: Vec<(u32, Range<usize>)> = Vec::new();
        let mut places = Vec::with_capacity(rows.len());
        for row in rows {
            let at = row.row() as usize;
            if self.is_published(*row) {
                places.push((0, published.len()));
                published.push(*row);
                continue;
            }
            let known = copies.iter_mut().position(|(chunk, _)| *chunk == row.chunk());
            let copy = known.unwrap_or(copies.len());
            match copies.get_mut(copy) {
                Some((_, part)) => *part = part.start.min(at)..part.end.max(at + 1),
                None => copies.push((row.chunk(), at..at + 1)),
            }
            places.push((copy + 1, at));
        }
        let mut sources = vec![self.applied.rows_at(&published)?];
        if copies.is_empty() {
            return Ok(sources.remove(0));
        }
        for (chunk, part) in &copies {
            let opened =
                self.opened(*chunk).expect("rows that are not published are in open chunks");
            let schema = Arc::clone(self.applied.arrow_schema());
            let copied = RecordBatch::try_new(schema, opened.appender.copy(part.clone()));
            sources.push(copied.map_err(not_picked)?);
        }
        for (source, place) in &mut places {
            *place -= source.checked_sub(1).map_or(0, |copy| copies[copy].1.start);
        }
        interleave_record_batch(&sources.iter().collect::<Vec<_>>(), &places).map_err(not_picked)
    }

    fn is_published(&self, row: RowId) -> bool {
        let slot = self.applied.slot(row.chunk()).expect("rows in indexes are in chunks");
        match &slot.chunk {
            Chunk::Closed(_) => true,
            Chunk::Open(chunk) => row.row() < chunk.published(),
        }
    }
}

fn not_picked(error: ArrowError) -> Error {
    Error::internal("rows cannot be picked").with_source(error)
}
