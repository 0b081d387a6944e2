//! Which rows of a chunk pass a filter, for those who read the rest of these rows by other ways.

use std::sync::Arc;

use thalweg_store::ChunkView;
use thalweg_types::Result;

use super::key_set::KeySet;
use super::number::{Block, Number};
use super::predicate::Predicate;
use super::source::Source;
use super::vector::{BLOCK_ROWS, Mask};

#[derive(Debug)]
pub struct Sieve {
    /// The places in the table of the columns that the filter reads.
    columns: Vec<usize>,
    filter: Predicate,
}

impl Sieve {
    /// `columns` are the places in the table of what the filter calls columns 0, 1 and so on.
    #[must_use]
    pub fn new(columns: Vec<usize>, filter: Predicate) -> Sieve {
        Sieve { columns, filter }
    }

    /// The same for rows that have one of these keys in a column, given by its place in the table,
    /// besides passing what `sieve` has.
    #[must_use]
    pub fn among(sieve: Option<&Sieve>, place: usize, keys: &Arc<KeySet>) -> Sieve {
        let mut columns = sieve.map(|sieve| sieve.columns.clone()).unwrap_or_default();
        let number = Number::Column(columns.len());
        columns.push(place);
        let mut parts = vec![Predicate::AmongKeys { number, keys: Arc::clone(keys) }];
        parts.extend(sieve.map(|sieve| sieve.filter.clone()));
        Sieve { columns, filter: Predicate::And(parts) }
    }

    /// Whether a chunk may have rows that pass, by what it says of itself.
    #[must_use]
    pub fn may_concern(&self, chunk: &ChunkView) -> bool {
        self.filter.is_possible(chunk, &self.columns)
    }

    /// The places of the live rows that pass, ascending; `None` where there are more than `most`.
    ///
    /// # Errors
    /// Where a number of some row cannot be computed.
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
            // No chunk has more rows than 16 bits can count.
            passing.extend(mask.places().into_iter().map(|place| start as u16 + place));
            if passing.len() > most {
                return Ok(None);
            }
        }
        Ok(Some(passing))
    }
}
