//! Filters that return row offsets, for callers that read the rows' columns themselves.

use std::sync::Arc;

use thalweg_store::ChunkView;
use thalweg_types::Result;

use super::key_set::KeySet;
use super::number::{Block, Number};
use super::predicate::Predicate;
use super::source::Source;
use super::vector::{BLOCK_ROWS, Mask};

/// A filter on the rows of a chunk.
#[derive(Debug)]
pub struct RowFilter {
    /// Positions in the table of the columns that the filter reads.
    columns: Vec<usize>,
    filter: Predicate,
}

impl RowFilter {
    /// `columns` are the table's columns that the filter calls columns 0, 1 and so on.
    #[must_use]
    pub fn new(columns: Vec<usize>, filter: Predicate) -> RowFilter {
        RowFilter { columns, filter }
    }

    /// Restricts a filter, if there is one, to rows that have one of the keys in the table's column
    /// at `place`.
    #[must_use]
    pub fn among(row_filter: Option<&RowFilter>, place: usize, keys: &Arc<KeySet>) -> RowFilter {
        let mut columns =
            row_filter.map(|row_filter| row_filter.columns.clone()).unwrap_or_default();
        let number = Number::Column(columns.len());
        columns.push(place);
        let mut parts = vec![Predicate::AmongKeys { number, keys: Arc::clone(keys) }];
        parts.extend(row_filter.map(|row_filter| row_filter.filter.clone()));
        RowFilter { columns, filter: Predicate::And(parts) }
    }

    /// False if the chunk's zones exclude that a row passes.
    #[must_use]
    pub fn may_concern(&self, chunk: &ChunkView) -> bool {
        self.filter.is_possible(chunk, &self.columns)
    }

    /// The offsets of the live rows that pass, ascending; `None` if there are more than `most`.
    ///
    /// # Errors
    /// If an expression fails in a row.
    pub fn passing(&self, chunk: &ChunkView, most: usize) -> Result<Option<Vec<u16>>> {
        if !self.may_concern(chunk) {
            return Ok(Some(Vec::new()));
        }
        let source = Source::open(chunk, &self.columns);
        let live = chunk.live_mask();
        let mut passing = Vec::new();
        for start in (0..source.rows).step_by(BLOCK_ROWS) {
            let block = Block::new(&source, start, BLOCK_ROWS.min(source.rows - start));
            let mut mask = Mask::live(live.as_ref(), start, block.length);
            self.filter.narrow(&block, &mut mask)?;
            // Row offsets within a chunk fit 16 bits.
            passing.extend(mask.places().into_iter().map(|place| start as u16 + place));
            if passing.len() > most {
                return Ok(None);
            }
        }
        Ok(Some(passing))
    }
}
