//! The rows that a scan must look at, according to the indexes of its table.
//!
//! If a filter names keys of the table, they are looked up. Otherwise a search finds the ranges of
//! a filter in every chunk's index run by binary search and counts their rows; the index is used if
//! these are few of the table's rows. Both leave out only rows that the filter above the scan would
//! drop, and the filter still checks the others. In the same way an index finds the first rows of
//! an order, which the operator above the scan then sorts.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt16Array};
use arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use thalweg_store::{ChunkView, Hits, InOrder, TableState};
use thalweg_types::{Index, Key, RowId, TableSchema, ValueOrder};

use super::conditions::{Conditions, is_everything};
use super::states::States;
use crate::parameter_values;

/// Reading fewer rows than this is faster than searching an index.
const ROWS_MIN: usize = 4_096;

/// Finding one row by an index costs about as much as reading this many.
const SHARE: usize = 16;

/// Maximum number of keys that are looked up one by one.
const KEYS_MAX: usize = 65_536;

/// Number of rows that are checked together, at first and at most.
const BLOCK_MIN: usize = 64;
const BLOCK_MAX: usize = 4_096;

/// The request for the first rows of an order and no others.
#[derive(Clone)]
pub(crate) struct FirstRows {
    /// Columns of the table, with their order.
    pub(crate) order: Vec<(usize, ValueOrder)>,
    pub(crate) rows: usize,
    /// The filter that the rows must pass, over the columns that the scan reads.
    pub(crate) filter: Option<Arc<dyn PhysicalExpr>>,
}

/// The table and columns that a scan reads.
pub(super) struct Reads<'a> {
    pub(super) table: &'a TableSchema,
    pub(super) projection: &'a [usize],
    pub(super) output: &'a SchemaRef,
}

/// Chunks narrowed to the matching rows, and the index that found them.
type Narrowed = (Vec<ChunkView>, Arc<str>);

/// The matching rows; `None` if all rows match, or reading all of them is as good.
pub(super) fn choose(
    chunks: &[ChunkView],
    reads: &Reads<'_>,
    conditions: &Conditions,
    wanted: Option<&FirstRows>,
) -> Result<Option<Narrowed>> {
    let narrowed = narrow(chunks, reads.table, conditions);
    let Some(wanted) = wanted else { return Ok(narrowed) };
    let is_little = |narrowed: &Narrowed| live_rows(&narrowed.0) <= wanted.rows * SHARE + ROWS_MIN;
    if narrowed.as_ref().is_some_and(is_little) {
        return Ok(narrowed);
    }
    Ok(first(chunks, reads, conditions, wanted)?.or(narrowed))
}

/// The rows that a filter may accept; `None` if reading all rows is as good.
fn narrow(chunks: &[ChunkView], table: &TableSchema, conditions: &Conditions) -> Option<Narrowed> {
    let most = live_rows(chunks) / SHARE;
    if most < ROWS_MIN / SHARE {
        return None;
    }
    let mut best: Option<(usize, Vec<Vec<Hits>>, &Index)> = None;
    for index in &table.indexes {
        let most = best.as_ref().map_or(most, |(count, ..)| count.saturating_sub(1));
        if let Some((count, hits)) = find(chunks, table, index, conditions, most) {
            best = Some((count, hits, index));
        }
    }
    let (_, hits, index) = best?;
    let found = chunks.iter().zip(hits).map(|(chunk, hits)| (chunk, chunk.places(&hits)));
    let found = found.filter(|(_, places)| !places.is_empty());
    let narrowed = found.map(|(chunk, places)| chunk.narrowed(places)).collect();
    Some((narrowed, index.key.name.as_str().into()))
}

/// The rows of the keys that a filter names. `None` if it names none, or reading all rows is as
/// good, or the keys' index is not available.
pub(super) fn by_key(states: &States, conditions: &Conditions) -> Option<Narrowed> {
    let most = (states.rows() / SHARE).min(KEYS_MAX);
    if most < ROWS_MIN / SHARE {
        return None;
    }
    let table = states.first().schema();
    let (key, keys) = table
        .keys()
        .find_map(|key| Some((key, conditions.keys(&table.key_positions(key), most)?)))?;
    let mut narrowed = Vec::new();
    for state in states.each() {
        find_keys(state, key, &keys, &mut narrowed)?;
    }
    Some((narrowed, key.name.as_str().into()))
}

/// Adds the rows of one state that have these keys; `None` if its index is not available.
fn find_keys(
    state: &TableState,
    key: &Key,
    keys: &[ArrayRef],
    narrowed: &mut Vec<ChunkView>,
) -> Option<()> {
    let found = state.probe_quickly(key, keys)?;
    let mut rows: Vec<RowId> = found.into_iter().flatten().collect();
    rows.sort_unstable();
    for rows in rows.chunk_by(|row, next| row.chunk() == next.chunk()) {
        let places = rows.iter().map(|row| row.row() as u16).collect();
        narrowed.push(state.chunk(rows.first()?.chunk())?.narrowed(places));
    }
    Some(())
}

/// The entries of each chunk within the ranges of an index, if they are at most `most` rows in all.
fn find(
    chunks: &[ChunkView],
    table: &TableSchema,
    index: &Index,
    conditions: &Conditions,
    most: usize,
) -> Option<(usize, Vec<Vec<Hits>>)> {
    let ranges = conditions.ranges(index, table);
    if ranges.iter().any(is_everything) {
        return None;
    }
    let positions = table.key_positions(&index.key);
    let mut count = 0;
    let mut found = Vec::with_capacity(chunks.len());
    for chunk in chunks {
        let hits = ranges.iter().map(|range| chunk.find(index, &positions, range));
        let hits: Vec<Hits> = hits.filter(|hits| hits.count() > 0).collect();
        count += hits.iter().map(Hits::count).sum::<usize>();
        if count > most {
            return None;
        }
        found.push(hits);
    }
    Some((count, found))
}

fn live_rows(chunks: &[ChunkView]) -> usize {
    chunks.iter().map(ChunkView::live_rows).sum()
}

/// The first rows of an order that pass their filter, and perhaps some more. `None` if no index has
/// the order, or too many rows would have to be checked.
fn first(
    chunks: &[ChunkView],
    reads: &Reads<'_>,
    conditions: &Conditions,
    first: &FirstRows,
) -> Result<Option<Narrowed>> {
    let rows = live_rows(chunks);
    if rows < ROWS_MIN || first.rows > rows / SHARE {
        return Ok(None);
    }
    for index in &reads.table.indexes {
        let is_constant = |column| conditions.is_constant(column);
        let Some(backward) = direction(reads.table, index, is_constant, &first.order) else {
            continue;
        };
        let most = first.rows + rows / (SHARE * SHARE);
        if let Some(narrowed) = walk(chunks, reads, conditions, first, (index, backward), most)? {
            return Ok(Some((narrowed, index.key.name.as_str().into())));
        }
    }
    Ok(None)
}

/// True if an index has the order backward, false if forward; `None` if it has neither. Columns
/// with one value in all rows do not matter.
pub fn direction(
    table: &TableSchema,
    index: &Index,
    is_constant: impl Fn(usize) -> bool,
    order: &[(usize, ValueOrder)],
) -> Option<bool> {
    let positions = table.key_positions(&index.key);
    let mut columns = positions.into_iter().zip(&index.orders);
    let mut backward = None;
    for (sought, sought_order) in order.iter().filter(|(at, _)| !is_constant(*at)) {
        let (_, own) = columns
            .find(|(column, _)| column == sought || !is_constant(*column))
            .filter(|(column, _)| column == sought)?;
        let nullable = table.columns[*sought].nullable;
        let same = |own: ValueOrder| {
            let nulls = !nullable || own.nulls_first == sought_order.nulls_first;
            own.descending == sought_order.descending && nulls
        };
        let is_backward = match (same(*own), same(own.reversed())) {
            (true, _) => false,
            (false, true) => true,
            (false, false) => return None,
        };
        if backward.is_some_and(|known| known != is_backward) {
            return None;
        }
        backward = Some(is_backward);
    }
    backward
}

/// Walks an index until there are enough rows; `None` if `most` were not enough.
fn walk(
    chunks: &[ChunkView],
    reads: &Reads<'_>,
    conditions: &Conditions,
    first: &FirstRows,
    (index, backward): (&Index, bool),
    most: usize,
) -> Result<Option<Vec<ChunkView>>> {
    let positions = reads.table.key_positions(&index.key);
    let ranges = conditions.ranges(index, reads.table);
    let mut found = Vec::new();
    for (number, chunk) in chunks.iter().enumerate() {
        found.extend(ranges.iter().map(|range| (number, chunk.find(index, &positions, range))));
    }
    let mut rows = InOrder::new(chunks, index, &positions, &found, backward);
    let filter = first.filter.as_ref().map(parameter_values::bound).transpose()?;
    let mut chosen: BTreeMap<usize, Vec<u16>> = BTreeMap::new();
    let (mut passed, mut looked_at) = (0, 0);
    let mut length = if filter.is_some() { first.rows.max(BLOCK_MIN) } else { first.rows };
    while passed < first.rows {
        let mut block: BTreeMap<usize, Vec<u16>> = BTreeMap::new();
        let mut count = 0;
        for (chunk, place) in rows.by_ref().take(length) {
            block.entry(chunk).or_default().push(place);
            count += 1;
        }
        for (chunk, places) in block {
            let places = passing(&chunks[chunk], places, reads, filter.as_ref())?;
            passed += places.len();
            chosen.entry(chunk).or_default().extend(places);
        }
        if count < length {
            break;
        }
        looked_at += count;
        if passed < first.rows && looked_at >= most {
            return Ok(None);
        }
        length = (length * 2).min(BLOCK_MAX);
    }
    let narrowed = chosen.into_iter().filter(|(_, places)| !places.is_empty());
    let narrowed = narrowed.map(|(chunk, mut places)| {
        places.sort_unstable();
        chunks[chunk].narrowed(places)
    });
    Ok(Some(narrowed.collect()))
}

/// The rows at these offsets that pass a filter.
fn passing(
    chunk: &ChunkView,
    places: Vec<u16>,
    reads: &Reads<'_>,
    filter: Option<&Arc<dyn PhysicalExpr>>,
) -> Result<Vec<u16>> {
    let Some(filter) = filter else { return Ok(places) };
    let places = UInt16Array::from(places);
    let columns = chunk.take(reads.projection, &places);
    let options = RecordBatchOptions::new().with_row_count(Some(places.len()));
    let output = Arc::clone(reads.output);
    let rows = RecordBatch::try_new_with_options(output, columns, &options)?;
    let passes = filter.evaluate(&rows)?.into_array(places.len())?;
    let passes = datafusion::common::cast::as_boolean_array(&passes)?;
    let is_true = |at: &usize| passes.is_valid(*at) && BooleanArray::value(passes, *at);
    Ok((0..places.len()).filter(is_true).map(|at| places.value(at)).collect())
}
