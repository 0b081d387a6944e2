//! Leaves out chunks whose zones show that no row can pass a filter.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, UInt64Array, new_null_array};
use arrow::compute::{SortOptions, concat, sort_to_indices};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::{Column, ScalarValue};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::pruning::{PruningPredicate, PruningPredicateBuilder};
use thalweg_store::ChunkView;

/// The chunks that may hold rows for which `filter` over `schema` is true.
pub(super) fn keep(
    chunks: Vec<ChunkView>,
    filter: &Arc<dyn PhysicalExpr>,
    schema: &SchemaRef,
) -> Result<Vec<ChunkView>> {
    if chunks.len() < 2 {
        return Ok(chunks);
    }
    let Some(predicate) = predicate(filter, schema) else { return Ok(chunks) };
    // A zone may hold a value of a deleted row, for which the predicate fails: then zones cannot
    // decide. A row for which the filter itself fails is still read, and fails.
    let Ok(unpruned) = predicate.prune(&Zones { chunks: &chunks, schema }) else {
        return Ok(chunks);
    };
    debug_assert_eq!(unpruned.len(), chunks.len());
    Ok(chunks.into_iter().zip(unpruned).filter_map(|(chunk, keep)| keep.then_some(chunk)).collect())
}

/// A predicate on a chunk's zones that is true if some of its rows may pass the filter; `None` if
/// zones cannot decide.
pub(super) fn predicate(
    filter: &Arc<dyn PhysicalExpr>,
    schema: &SchemaRef,
) -> Option<Arc<PruningPredicate>> {
    let builder = PruningPredicateBuilder::new().with_file_schema(Arc::clone(schema));
    builder.build(Arc::clone(filter))
}

/// True if a chunk may hold rows that pass.
pub(super) fn may_pass(
    predicate: &PruningPredicate,
    chunk: &ChunkView,
    schema: &SchemaRef,
) -> bool {
    let passing = predicate.prune(&Zones { chunks: std::slice::from_ref(chunk), schema });
    !passing.is_ok_and(|passing| passing.contains(&false))
}

/// Chunks in the order of a column, as far as their zones show it. Chunks with unknown bounds come
/// first, since they must be read anyhow.
pub(super) fn in_order(
    chunks: &[ChunkView],
    schema: &SchemaRef,
    column: usize,
    descending: bool,
) -> Vec<ChunkView> {
    let (zones, column) =
        (Zones { chunks, schema }, Column::from_name(schema.field(column).name()));
    let bounds = match descending {
        true => zones.max_values(&column),
        false => zones.min_values(&column),
    };
    let options = Some(SortOptions { descending, nulls_first: true });
    let order = bounds.and_then(|bounds| sort_to_indices(&bounds, options, None).ok());
    match order {
        Some(order) => order.values().iter().map(|at| chunks[*at as usize].clone()).collect(),
        None => chunks.to_vec(),
    }
}

struct Zones<'a> {
    chunks: &'a [ChunkView],
    schema: &'a SchemaRef,
}

impl Zones<'_> {
    /// One value for each chunk; NULL, which excludes nothing, if a chunk has no zone.
    fn bounds(
        &self,
        column: &Column,
        bound: impl Fn(&ChunkView, usize) -> Option<ArrayRef>,
    ) -> Option<ArrayRef> {
        let (index, field) = self.schema.column_with_name(&column.name)?;
        if matches!(field.data_type(), DataType::List(_)) {
            return None;
        }
        let unknown = new_null_array(field.data_type(), 1);
        let values: Vec<ArrayRef> = self
            .chunks
            .iter()
            .map(|chunk| bound(chunk, index).unwrap_or_else(|| Arc::clone(&unknown)))
            .collect();
        let values: Vec<&dyn Array> = values.iter().map(AsRef::as_ref).collect();
        concat(&values).ok()
    }
}

impl PruningStatistics for Zones<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds(column, |chunk, index| Some(Arc::clone(&chunk.zone(index)?.range.as_ref()?.0)))
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds(column, |chunk, index| Some(Arc::clone(&chunk.zone(index)?.range.as_ref()?.1)))
    }

    fn num_containers(&self) -> usize {
        self.chunks.len()
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        let (index, _) = self.schema.column_with_name(&column.name)?;
        let counts = self.chunks.iter().map(|chunk| Some(chunk.zone(index)?.null_count as u64));
        Some(Arc::new(counts.collect::<UInt64Array>()))
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        let counts = self.chunks.iter().map(|chunk| Some(chunk.rows() as u64));
        Some(Arc::new(counts.collect::<UInt64Array>()))
    }

    fn contained(&self, _: &Column, _: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}
