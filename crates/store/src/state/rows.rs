//! Reads single rows of a state by their ids.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, new_empty_array};
use arrow::compute::interleave;
use thalweg_types::{Error, Result, RowId};

use super::TableState;
use crate::ChunkView;

/// Below this many rows, each is read alone. Building arrays of whole chunks, from dictionaries and
/// NULL bits, would take longer.
const FEW_ROWS: usize = 64;

/// Columns of several sources, and for each row its source and its offset there.
type Picked = (Vec<Vec<ArrayRef>>, Vec<(usize, usize)>);

impl TableState {
    /// Projected columns of one row of this state, dead or alive, as arrays of length 1.
    ///
    /// # Errors
    /// If the state has no such row.
    pub fn row_at(&self, row: RowId, projection: &[usize]) -> Result<Vec<ArrayRef>> {
        let slot = self.slot(row.chunk()).filter(|slot| row.row() < slot.length);
        let slot = slot.ok_or_else(|| gone(row))?;
        let place = row.row() as usize;
        Ok(slot.chunk.columns(projection, place..place + 1))
    }

    /// The given rows of this state, dead or alive, in the given order.
    ///
    /// # Errors
    /// If the state lacks one of the rows.
    pub fn rows_at(&self, rows: &[RowId]) -> Result<RecordBatch> {
        let all: Vec<usize> = (0..self.schema().columns.len()).collect();
        let schema = Arc::clone(self.arrow_schema());
        if rows.is_empty() {
            return Ok(RecordBatch::new_empty(schema));
        }
        RecordBatch::try_new(schema, self.columns_at(rows, &all)?).map_err(not_picked)
    }

    /// Projected columns of the given rows, dead or alive, in the given order.
    ///
    /// # Errors
    /// If the state lacks one of the rows.
    pub fn columns_at(&self, rows: &[RowId], projection: &[usize]) -> Result<Vec<ArrayRef>> {
        if rows.is_empty() {
            let fields = projection.iter().map(|at| self.arrow_schema().field(*at));
            return Ok(fields.map(|field| new_empty_array(field.data_type())).collect());
        }
        let (sources, places) = match rows.len() {
            ..FEW_ROWS => self.rows_alone(rows, projection)?,
            _ => self.rows_in_chunks(rows, projection)?,
        };
        let pick = |column: usize| {
            let arrays: Vec<_> = sources.iter().map(|source| source[column].as_ref()).collect();
            interleave(&arrays, &places)
        };
        (0..projection.len()).map(|column| pick(column).map_err(not_picked)).collect()
    }

    /// Reads each row alone, which avoids reading the rest of its chunk.
    fn rows_alone(&self, rows: &[RowId], columns: &[usize]) -> Result<Picked> {
        let sources = rows.iter().map(|row| self.row_at(*row, columns));
        let places = (0..rows.len()).map(|source| (source, 0)).collect();
        Ok((sources.collect::<Result<_>>()?, places))
    }

    /// Reads whole chunks, each once.
    fn rows_in_chunks(&self, rows: &[RowId], columns: &[usize]) -> Result<Picked> {
        let mut sources = Vec::new();
        let mut numbers: Vec<u32> = Vec::new();
        let mut places = Vec::with_capacity(rows.len());
        for row in rows {
            let known = numbers.iter().position(|number| *number == row.chunk());
            let source = match known {
                Some(source) => source,
                None => {
                    sources.push(self.view_of(*row)?.columns(columns));
                    numbers.push(row.chunk());
                    numbers.len() - 1
                }
            };
            places.push((source, row.row() as usize));
        }
        Ok((sources, places))
    }

    fn view_of(&self, row: RowId) -> Result<ChunkView> {
        self.chunk(row.chunk()).ok_or_else(|| gone(row))
    }
}

fn not_picked(error: arrow::error::ArrowError) -> Error {
    Error::internal("rows cannot be picked").with_source(error)
}

fn gone(row: RowId) -> Error {
    Error::internal(format!("no row {row:?} in this snapshot"))
}

#[cfg(test)]
mod tests {
    use arrow::array::{UInt16Array, UInt32Array};
    use arrow::compute::{concat_batches, take_record_batch};

    use super::*;
    use crate::tests::random::{Random, all_types, batch};
    use crate::{ClosedChunk, Effect, Table};

    /// A state of an open and a closed chunk, and all of its rows.
    fn two_chunks(random: &mut Random) -> (TableState, Vec<RowId>, RecordBatch) {
        let schema = Arc::new(all_types());
        let (open, closed) = (batch(&schema, 700, 3, random), batch(&schema, 900, 5, random));
        let (mut table, mut state) = Table::new(Arc::clone(&schema));
        let mut effect = Effect::new();
        table.append(&open, &mut effect).unwrap();
        effect.publish(&mut state);
        let mut state = Arc::unwrap_or_clone(state);
        let first = state.chunks().next().unwrap().number();
        let second = state.add_private_chunk(Arc::new(ClosedChunk::build(&schema, &closed)));
        let ids = (0..700).map(|row| RowId::new(first, row));
        let ids = ids.chain((0..900).map(|row| RowId::new(second, row))).collect();
        let all = concat_batches(state.arrow_schema(), [&open, &closed]).unwrap();
        (state, ids, all)
    }

    #[test]
    fn few_rows_and_many_are_those_that_were_appended() {
        let mut random = Random(11);
        let (state, ids, all) = two_chunks(&mut random);
        for wanted in [0, 1, 2, FEW_ROWS - 1, FEW_ROWS, 500] {
            let places: Vec<u32> =
                (0..wanted).map(|_| random.below(ids.len() as u64) as u32).collect();
            let rows: Vec<RowId> = places.iter().map(|place| ids[*place as usize]).collect();
            let expected = take_record_batch(&all, &UInt32Array::from(places)).unwrap();
            assert_eq!(state.rows_at(&rows).unwrap(), expected, "{wanted} rows");
        }
        assert!(state.rows_at(&[RowId::new(7, 0)]).is_err());
    }

    #[test]
    fn rows_that_are_taken_from_a_chunk_are_those_that_were_named() {
        let mut random = Random(12);
        let (state, ..) = two_chunks(&mut random);
        let all: Vec<usize> = (0..state.schema().columns.len()).collect();
        for chunk in state.chunks() {
            let columns = chunk.columns(&all);
            let whole = RecordBatch::try_new(Arc::clone(state.arrow_schema()), columns).unwrap();
            for places in [vec![], vec![5], vec![699, 3, 640, 3]] {
                let expected = take_record_batch(&whole, &UInt16Array::from(places.clone()));
                let taken = chunk.take(&all, &UInt16Array::from(places));
                assert_eq!(taken, expected.unwrap().columns());
            }
        }
    }
}
