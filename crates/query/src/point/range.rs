//! A query for a few adjacent rows of an index.
//!
//! The index counts rows before any row is read. If there are many, the ordinary way runs the
//! query, since it streams rows and accounts for their memory. It also does if a large run of the
//! index would have to be built first. The range expresses the whole condition, so that no row
//! needs a filter.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use arrow::array::{ArrayRef, UInt16Array};
use arrow::compute::interleave;
use arrow::datatypes::{DataType as ArrowType, SchemaRef};
use arrow::record_batch::RecordBatch;
use datafusion::common::ScalarValue;
use thalweg_store::{ChunkView, Hits, InOrder, KeyRange, TableState};
use thalweg_types::{Error, Index, Result};

use super::batch;
use super::operands::{Operands, rescaled};
use crate::outcome::{Outcome, Tag};

/// For more rows than this, the ordinary way runs the query.
const ROWS_MAX: usize = 4_096;

/// Maximum number of index entries of dead rows that are passed on the way to a limit's rows.
const PASSED_MAX: usize = 65_536;

/// A query for the rows within a range of an index. Its values are given by operands.
pub(super) struct Range {
    pub(super) index: Index,
    /// The positions of the index's columns in the table, and their types.
    pub(super) positions: Vec<usize>,
    pub(super) types: Vec<ArrowType>,
    /// The values of the index's first columns.
    pub(super) equal: Vec<usize>,
    /// Bounds of the next column.
    pub(super) from: Bound<usize>,
    pub(super) to: Bound<usize>,
    /// True if the rows come in backward index order, false if in forward order; `None` if no order
    /// was asked for.
    pub(super) order: Option<bool>,
    pub(super) limit: Option<usize>,
    pub(super) columns: Vec<usize>,
    pub(super) schema: SchemaRef,
}

impl Range {
    /// The rows; `None` if the ordinary way must find them.
    pub(super) fn select(
        &self,
        state: &TableState,
        given: &Operands<'_>,
    ) -> Result<Option<Outcome>> {
        let Some(limit) = self.limit(given) else { return Ok(None) };
        // A comparison with NULL is true for no row.
        let mut compared = self.equal.iter().chain(operand(&self.from)).chain(operand(&self.to));
        if limit == 0 || compared.any(|at| given.value(*at).is_null()) {
            return Ok(Some(self.outcome(Vec::new())));
        }
        let Some(range) = self.range(given) else { return Ok(None) };
        let chunks: Vec<ChunkView> = state.chunks().collect();
        let Some(rows) = self.rows(&chunks, &range, limit) else { return Ok(None) };
        let batches = match rows.is_empty() {
            true => Vec::new(),
            false => vec![batch(&self.schema, read(&chunks, &rows, &self.columns)?, rows.len())?],
        };
        Ok(Some(self.outcome(batches)))
    }

    fn outcome(&self, batches: Vec<RecordBatch>) -> Outcome {
        Outcome::batches(Arc::clone(&self.schema), batches, Tag::Select)
    }

    /// Maximum number of rows; `None` if the value cannot be a limit.
    fn limit(&self, given: &Operands<'_>) -> Option<usize> {
        let Some(at) = self.limit else { return Some(usize::MAX) };
        match given.value(at) {
            ScalarValue::Int64(Some(rows)) => usize::try_from(*rows).ok(),
            ScalarValue::Int32(Some(rows)) => usize::try_from(*rows).ok(),
            ScalarValue::Int16(Some(rows)) => usize::try_from(*rows).ok(),
            _ => None,
        }
    }

    /// The range with its values; `None` if a value is not valid for its column.
    fn range(&self, given: &Operands<'_>) -> Option<KeyRange> {
        let value = |at: usize, column: usize| -> Option<ArrayRef> {
            let data_type = self.types.get(column)?;
            let value = given.value(at);
            if value.data_type() == *data_type {
                return value.to_array().ok();
            }
            let value = match data_type {
                ArrowType::Decimal128(..) => rescaled(value, data_type)?,
                _ => value.cast_to(data_type).ok()?,
            };
            value.to_array().ok()
        };
        let bound = |bound: &Bound<usize>| {
            Some(match bound {
                Bound::Included(at) => Bound::Included(value(*at, self.equal.len())?),
                Bound::Excluded(at) => Bound::Excluded(value(*at, self.equal.len())?),
                Bound::Unbounded => Bound::Unbounded,
            })
        };
        let equal = self.equal.iter().enumerate().map(|(column, at)| value(*at, column));
        let equal = equal.collect::<Option<Vec<_>>>()?;
        Some(KeyRange { equal, from: bound(&self.from)?, to: bound(&self.to)? })
    }

    /// The chunks and offsets of the rows, in the order of the result. `None` if there are too many
    /// rows, or finding them takes too long.
    fn rows(
        &self,
        chunks: &[ChunkView],
        range: &KeyRange,
        limit: usize,
    ) -> Option<Vec<(usize, u16)>> {
        let mut found: Vec<(usize, Hits)> = Vec::new();
        let (mut count, mut dead) = (0, 0);
        for (number, chunk) in chunks.iter().enumerate() {
            let hits = chunk.find_soon(&self.index, &self.positions, range)?;
            if hits.count() > 0 {
                count += hits.count();
                dead += chunk.rows() - chunk.live_rows();
                found.push((number, hits));
            }
        }
        let Some(backward) = self.order else {
            return (count <= ROWS_MAX).then(|| in_place(chunks, &found, limit));
        };
        if count.min(limit) > ROWS_MAX || count.min(dead) > PASSED_MAX {
            return None;
        }
        let rows = InOrder::new(chunks, &self.index, &self.positions, &found, backward);
        Some(rows.take(limit).collect())
    }
}

fn operand(bound: &Bound<usize>) -> Option<&usize> {
    match bound {
        Bound::Included(at) | Bound::Excluded(at) => Some(at),
        Bound::Unbounded => None,
    }
}

/// Rows in the order of the table, as a scan returns them.
fn in_place(chunks: &[ChunkView], found: &[(usize, Hits)], limit: usize) -> Vec<(usize, u16)> {
    let rows = found.iter().flat_map(|(number, hits)| {
        let places = chunks[*number].places(std::slice::from_ref(hits));
        places.into_iter().map(move |place| (*number, place))
    });
    rows.take(limit).collect()
}

/// Some columns of some rows.
fn read(chunks: &[ChunkView], rows: &[(usize, u16)], columns: &[usize]) -> Result<Vec<ArrayRef>> {
    // For each chunk, the offsets in it; for each row, its position among the rows of its chunk.
    let mut places: BTreeMap<usize, Vec<u16>> = BTreeMap::new();
    let mut picked = Vec::with_capacity(rows.len());
    for (chunk, place) in rows {
        let of_chunk = places.entry(*chunk).or_default();
        picked.push((*chunk, of_chunk.len()));
        of_chunk.push(*place);
    }
    let numbers: Vec<usize> = places.keys().copied().collect();
    let sources: Vec<Vec<ArrayRef>> = places
        .into_iter()
        .map(|(chunk, places)| chunks[chunk].take(columns, &UInt16Array::from(places)))
        .collect();
    if let [source] = sources.as_slice() {
        return Ok(source.clone());
    }
    for (chunk, _) in &mut picked {
        *chunk = numbers.partition_point(|number| *number < *chunk);
    }
    let pick = |column: usize| {
        let arrays: Vec<_> = sources.iter().map(|source| source[column].as_ref()).collect();
        interleave(&arrays, &picked)
    };
    let columns = (0..columns.len()).map(pick).collect::<std::result::Result<_, _>>();
    columns.map_err(|error| Error::internal("rows cannot be picked").with_source(error))
}

#[cfg(test)]
mod tests;
