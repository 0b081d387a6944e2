//! What the store knows about a table, in the form in which DataFusion's planner asks for it.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::compute::kernels::cmp::lt;
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};
use thalweg_store::TableState;

/// Statistics of all of a table's columns.
pub(crate) fn table_statistics(state: &TableState) -> Statistics {
    let all: Vec<usize> = (0..state.schema().columns.len()).collect();
    scan_statistics(state, &all, false)
}

/// Statistics of the columns at `projection`; inexact where some chunks are left out.
pub(super) fn scan_statistics(
    state: &TableState,
    projection: &[usize],
    filtered: bool,
) -> Statistics {
    let exact = !filtered;
    let rows = state.rows();
    let columns = projection
        .iter()
        .map(|index| {
            if *index < state.schema().columns.len() {
                column_statistics(state, *index)
            } else {
                ColumnStatistics::new_unknown()
            }
        })
        .collect();
    let statistics = Statistics {
        num_rows: Precision::Exact(rows),
        total_byte_size: Precision::Absent,
        column_statistics: columns,
    };
    if exact { statistics } else { statistics.to_inexact() }
}

/// Merges the zones of all chunks. Dead rows may have held the bounds, so they are inexact then.
fn column_statistics(state: &TableState, index: usize) -> ColumnStatistics {
    let mut merged: Option<(ArrayRef, ArrayRef)> = None;
    let mut nulls = 0;
    let mut exact = true;
    let mut distinct_max: Option<usize> = Some(0);
    for chunk in state.chunks() {
        let Some(zone) = chunk.zone(index) else { return ColumnStatistics::new_unknown() };
        exact &= chunk.live_rows() == chunk.rows();
        nulls += zone.null_count;
        distinct_max = match (distinct_max, chunk.dictionary(index)) {
            (Some(most), Some(dictionary)) => Some(most.max(dictionary.values.len())),
            _ => None,
        };
        let Some((min, max)) = &zone.range else {
            // A chunk of NULLs has no bounds; one whose bounds nobody knows spoils the whole.
            if zone.null_count == chunk.rows() {
                continue;
            }
            return ColumnStatistics::new_unknown();
        };
        merged = Some(match merged {
            None => (Arc::clone(min), Arc::clone(max)),
            Some((least, greatest)) => (lesser(least, min), greater(greatest, max)),
        });
    }
    let precision = |value| if exact { Precision::Exact(value) } else { Precision::Inexact(value) };
    let mut statistics = ColumnStatistics::new_unknown();
    statistics.null_count = if exact { Precision::Exact(nulls) } else { Precision::Inexact(nulls) };
    if let Some((min, max)) = merged {
        let scalar = |array: &ArrayRef| ScalarValue::try_from_array(array, 0).ok();
        if let (Some(min), Some(max)) = (scalar(&min), scalar(&max))
            && !min.is_null()
            && !max.is_null()
        {
            statistics.min_value = precision(min);
            statistics.max_value = precision(max);
        }
    }
    if let Some(most @ 1..) = distinct_max {
        statistics.distinct_count = Precision::Inexact(most);
    }
    statistics
}

pub(super) fn lesser(a: ArrayRef, b: &ArrayRef) -> ArrayRef {
    if is_less(b, &a) { Arc::clone(b) } else { a }
}

pub(super) fn greater(a: ArrayRef, b: &ArrayRef) -> ArrayRef {
    if is_less(&a, b) { Arc::clone(b) } else { a }
}

/// Whether the one value of `a` is less than that of `b`.
pub(super) fn is_less(a: &ArrayRef, b: &ArrayRef) -> bool {
    lt(a, b).is_ok_and(|less| less.is_valid(0) && less.value(0))
}
