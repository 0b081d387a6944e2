//! The store's knowledge about a table, as statistics for DataFusion's planner.
//!
//! Exact statistics hold for the rows of the snapshot, and queries may be answered from them.
//! Inexact bounds must be bounds, too: DataFusion combines them with a filter, may conclude that a
//! column has only one value, and then drops it from sort keys. An open chunk has no zones, so its
//! bounds are computed for columns that a filter uses, and are unknown for others.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::compute::kernels::cmp::lt;
use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use thalweg_store::{ChunkView, TableState, Zone};

use super::values::{closed_chunks, value_count};

/// Assumed size of a value whose type has no fixed width.
const VALUE_BYTES: usize = 16;

/// The purpose of the statistics.
#[derive(Clone, Copy, Default)]
pub(super) struct Asked<'a> {
    /// The filter on rows, over all columns that could be read.
    pub(super) filter: Option<&'a Arc<dyn PhysicalExpr>>,
    /// True if the plan will be reused for other rows.
    pub(super) reusable: bool,
}

/// Statistics of all of a table's columns.
pub fn table_statistics(state: &TableState) -> Statistics {
    let all: Vec<usize> = (0..state.schema().columns.len()).collect();
    scan_statistics(state, state.arrow_schema(), &all, Asked::default())
}

/// Statistics of the columns at `projection`; inexact if some rows are left out.
pub(super) fn scan_statistics(
    state: &TableState,
    columns: &SchemaRef,
    projection: &[usize],
    asked: Asked<'_>,
) -> Statistics {
    let (rows, chunks) = (state.rows(), state.chunks().len());
    let some = closed_chunks(state);
    let filtered = asked.filter.map(collect_columns).unwrap_or_default();
    let filtered: HashSet<usize> = filtered.iter().map(Column::index).collect();
    let of_column = |index: &usize| {
        if *index >= state.schema().columns.len() {
            return ColumnStatistics::new_unknown();
        }
        // Reusable plans drop bounds below, so none are computed for them.
        let is_filtered = filtered.contains(index) && !asked.reusable;
        let mut statistics = column_statistics(state, *index, is_filtered);
        let count = value_count(&some, *index, chunks).map(|count| count.min(rows));
        if let Some(count @ 1..) = count {
            statistics.distinct_count = Precision::Inexact(count);
        }
        statistics
    };
    let mut column_statistics: Vec<ColumnStatistics> = projection.iter().map(of_column).collect();
    // Bounds that leave a column one value may not hold in the next run.
    if asked.reusable {
        column_statistics = without_bounds(column_statistics);
    }
    let statistics = Statistics {
        num_rows: Precision::Exact(rows),
        total_byte_size: Precision::Inexact(rows.saturating_mul(width(state, columns, projection))),
        column_statistics,
    };
    match asked.filter.is_none() && !asked.reusable {
        true => statistics,
        false => statistics.to_inexact(),
    }
}

/// Merges the zones of all chunks. Dead rows may have held the bounds, so the result is inexact if
/// there are any.
fn column_statistics(state: &TableState, index: usize, is_filtered: bool) -> ColumnStatistics {
    let is_looked_through = is_filtered && is_cheap(state.arrow_schema().field(index).data_type());
    let mut merged: Option<(ArrayRef, ArrayRef)> = None;
    let (mut nulls, mut is_exact, mut is_bounded, mut has_zones) = (0, true, true, false);
    for chunk in state.chunks().filter(|chunk| chunk.rows() > 0) {
        let looked_through;
        let zone = match chunk.zone(index) {
            Some(zone) => {
                is_exact &= chunk.live_rows() == chunk.rows();
                zone
            }
            None => {
                is_exact = false;
                if !is_looked_through {
                    is_bounded = false;
                    continue;
                }
                looked_through = zone_of(&chunk, index);
                &looked_through
            }
        };
        has_zones = true;
        nulls += zone.null_count;
        match &zone.range {
            Some((min, max)) => {
                merged = Some(match merged {
                    None => (Arc::clone(min), Arc::clone(max)),
                    Some((least, greatest)) => (lesser(least, min), greater(greatest, max)),
                });
            }
            // A chunk of NULLs has no bounds. Any other chunk without bounds makes the whole
            // unbounded.
            None => is_bounded &= zone.null_count == chunk.rows(),
        }
    }
    let mut statistics = ColumnStatistics::new_unknown();
    if is_exact || has_zones {
        statistics.null_count = precision(nulls, is_exact);
    }
    if let Some((min, max)) = merged.filter(|_| is_bounded) {
        let scalar = |array: &ArrayRef| ScalarValue::try_from_array(array, 0).ok();
        if let (Some(min), Some(max)) = (scalar(&min), scalar(&max))
            && !min.is_null()
            && !max.is_null()
            && !is_infinite(&min)
            && !is_infinite(&max)
        {
            statistics.min_value = precision(min, is_exact);
            statistics.max_value = precision(max, is_exact);
        }
    }
    statistics
}

/// True for infinite days and moments, also of deleted rows. DataFusion fails to convert them to
/// other types while it combines bounds with a filter.
fn is_infinite(bound: &ScalarValue) -> bool {
    match bound {
        ScalarValue::Date32(Some(day)) => matches!(*day, i32::MIN | i32::MAX),
        ScalarValue::TimestampMicrosecond(Some(at), _) => matches!(*at, i64::MIN | i64::MAX),
        _ => false,
    }
}

/// Types whose bounds in a chunk are computed in tens of microseconds.
fn is_cheap(data_type: &DataType) -> bool {
    data_type.is_numeric() || data_type.is_temporal()
}

/// The zone of a column, computed for a chunk without one.
fn zone_of(chunk: &ChunkView, index: usize) -> Zone {
    Zone::of(chunk.columns(&[index])[0].as_ref())
}

fn precision<T>(value: T, is_exact: bool) -> Precision<T>
where
    T: std::fmt::Debug + Clone + PartialEq + Eq + PartialOrd,
{
    if is_exact { Precision::Exact(value) } else { Precision::Inexact(value) }
}

fn without_bounds(mut statistics: Vec<ColumnStatistics>) -> Vec<ColumnStatistics> {
    for of_column in &mut statistics {
        of_column.min_value = Precision::Absent;
        of_column.max_value = Precision::Absent;
    }
    statistics
}

/// Estimated bytes of a row in these columns. The memory of a few chunks, minus the fixed-width
/// columns, is divided among the columns without a fixed width.
fn width(state: &TableState, columns: &Schema, projection: &[usize]) -> usize {
    let own = |data_type: &DataType| match data_type {
        DataType::Boolean => Some(1),
        data_type => data_type.primitive_width(),
    };
    let mut some = closed_chunks(state);
    if some.is_empty() {
        some = state.chunks().collect();
    }
    let rows: usize = some.iter().map(ChunkView::rows).sum();
    let bytes: usize = some.iter().map(|chunk| chunk.chunk().memory_bytes()).sum();
    let widths = || state.arrow_schema().fields().iter().map(|field| own(field.data_type()));
    let known: usize = widths().flatten().sum();
    let others = widths().filter(Option::is_none).count();
    let rest = (bytes / rows.max(1)).saturating_sub(known) / others.max(1);
    let of_column = |index: &usize| {
        own(columns.field(*index).data_type()).unwrap_or_else(|| rest.max(VALUE_BYTES))
    };
    projection.iter().map(of_column).sum()
}

pub(super) fn lesser(a: ArrayRef, b: &ArrayRef) -> ArrayRef {
    if is_less(b, &a) { Arc::clone(b) } else { a }
}

pub(super) fn greater(a: ArrayRef, b: &ArrayRef) -> ArrayRef {
    if is_less(&a, b) { Arc::clone(b) } else { a }
}

/// True if the one value of `a` is less than that of `b`.
pub(super) fn is_less(a: &ArrayRef, b: &ArrayRef) -> bool {
    lt(a, b).is_ok_and(|less| less.is_valid(0) && less.value(0))
}
