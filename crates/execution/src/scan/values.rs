//! Estimates the number of distinct values of columns from a few of a table's chunks: from their
//! dictionaries, and the bounds of integers. Planning needs only the order of magnitude.

use arrow::array::{Array as _, ArrayRef, AsArray as _};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use thalweg_store::{Chunk, ChunkView, TableState};

use super::statistics::{greater, is_less, lesser};

/// Number of chunks that are inspected. It is small since this runs now and then for all tables.
const CHUNKS_LOOKED_AT: usize = 4;

/// Estimated number of distinct values of each column of a table; `None` if unknown.
pub fn value_counts(state: &TableState) -> Vec<Option<usize>> {
    let (columns, chunks) = (0..state.schema().columns.len(), state.chunks().len());
    let some = closed_chunks(state);
    columns.map(|column| value_count(&some, column, chunks)).collect()
}

/// Some closed chunks of a table. Open chunks have no dictionaries and no zones.
pub(super) fn closed_chunks(state: &TableState) -> Vec<ChunkView> {
    let step = state.chunks().len().div_ceil(CHUNKS_LOOKED_AT).max(1);
    let is_closed = |chunk: &ChunkView| matches!(chunk.chunk(), Chunk::Closed(_));
    state.chunks().step_by(step).filter(is_closed).collect()
}

/// Estimated number of distinct values of a column, from some of its table's chunks.
pub(super) fn value_count(some: &[ChunkView], column: usize, chunks: usize) -> Option<usize> {
    if some.is_empty() {
        return None;
    }
    let bounds = Bounds::of(some, column);
    let of_range = bounds.as_ref().and_then(Bounds::whole_numbers);
    let dictionaries = some.iter().map(|chunk| Some(chunk.dictionary(column)?.values.len()));
    let Some(counts) = dictionaries.collect::<Option<Vec<usize>>>() else { return of_range };
    // If the chunks' value ranges do not overlap, each chunk has distinct values of its own.
    let of_dictionaries = match bounds.is_some_and(|bounds| bounds.all_overlap()) {
        true => counts.iter().copied().max().unwrap_or_default(),
        false => counts.iter().sum::<usize>().saturating_mul(chunks) / counts.len(),
    };
    Some(of_range.map_or(of_dictionaries, |range| range.min(of_dictionaries)))
}

/// Bounds of a column over some chunks.
struct Bounds {
    least: ArrayRef,
    greatest: ArrayRef,
    /// The greatest of the chunks' minima, and the least of their maxima.
    last_begin: ArrayRef,
    first_end: ArrayRef,
}

impl Bounds {
    /// `None` if a chunk with values has no bounds.
    fn of(some: &[ChunkView], column: usize) -> Option<Bounds> {
        let mut all: Option<Bounds> = None;
        for chunk in some {
            let zone = chunk.zone(column)?;
            let Some((min, max)) = &zone.range else {
                if zone.null_count == chunk.rows() {
                    continue;
                }
                return None;
            };
            let (min, max) = (|| ArrayRef::clone(min), || ArrayRef::clone(max));
            all = Some(match all {
                None => {
                    Bounds { least: min(), greatest: max(), last_begin: min(), first_end: max() }
                }
                Some(all) => Bounds {
                    least: lesser(all.least, &min()),
                    greatest: greater(all.greatest, &max()),
                    last_begin: greater(all.last_begin, &min()),
                    first_end: lesser(all.first_end, &max()),
                },
            });
        }
        all
    }

    fn all_overlap(&self) -> bool {
        !is_less(&self.first_end, &self.last_begin)
    }

    /// Number of integers between the bounds.
    fn whole_numbers(&self) -> Option<usize> {
        let number = |array: &ArrayRef| match array.data_type() {
            DataType::Int16 | DataType::Int32 | DataType::Int64 | DataType::Date32 => {
                let wide = cast(array, &DataType::Int64).ok()?;
                Some(wide.as_primitive::<Int64Type>().value(0))
            }
            _ => None,
        };
        let distance = number(&self.greatest)?.checked_sub(number(&self.least)?)?;
        usize::try_from(distance).ok()?.checked_add(1)
    }
}
