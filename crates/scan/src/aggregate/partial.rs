//! Partial aggregates: the result of an aggregation over some of the chunks.

use std::ops::AddAssign;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::DataType;
use thalweg_store::ChunkView;
use thalweg_types::Result;

use super::aggregation::{Aggregation, Input, KeyValue, Measure};
use super::early_partitions::EarlyPartitions;
use super::evaluate::{Evaluated, Wanted, gathers, key_values};
use super::keys::{Direct, Groups, Ids, KeyValues, Runs};
use super::number::Block;
use super::partition::{divided, wide};
use super::source::{Column, Source};
use super::states::{Seen, State, count};
use super::vector::{BLOCK_ROWS, Rows};

/// How much a scan read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadStatistics {
    pub chunks_read: usize,
    /// Chunks that were skipped because their zones exclude matches.
    pub chunks_pruned: usize,
    /// Live rows in the chunks that were read.
    pub rows_read: usize,
}

impl AddAssign for ReadStatistics {
    fn add_assign(&mut self, other: ReadStatistics) {
        self.chunks_read += other.chunks_read;
        self.chunks_pruned += other.chunks_pruned;
        self.rows_read += other.rows_read;
    }
}

/// The groups of some chunks, and the aggregate states of each.
pub struct Partial {
    pub(super) aggregation: Arc<Aggregation>,
    pub(super) groups: Groups,
    pub(super) states: Vec<State>,
    pub(super) early: EarlyPartitions,
    statistics: ReadStatistics,
}

impl Partial {
    /// An empty result that is never divided early.
    #[must_use]
    pub fn new(aggregation: &Arc<Aggregation>) -> Partial {
        Partial::sharing(aggregation, 1)
    }

    /// An empty result that divides its groups into `partitions` early if there are many.
    #[must_use]
    pub fn sharing(aggregation: &Arc<Aggregation>, partitions: usize) -> Partial {
        let mut partial = Partial {
            aggregation: Arc::clone(aggregation),
            groups: Groups::new(&aggregation.kinds),
            states: aggregation.states(),
            early: EarlyPartitions::new(partitions),
            statistics: ReadStatistics::default(),
        };
        partial.grow();
        partial
    }

    /// Number of groups. Groups that were divided early may count more than once.
    #[must_use]
    pub fn group_count(&self) -> usize {
        self.groups.len() + self.early.groups()
    }

    /// What was read so far.
    #[must_use]
    pub fn statistics(&self) -> ReadStatistics {
        self.statistics
    }

    /// Bytes of groups and states.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let states: usize = self.states.iter().map(State::memory_bytes).sum();
        self.groups.memory_bytes() + states + self.early.memory_bytes()
    }

    /// Aggregates the live rows of a chunk, unless its zones exclude matches.
    ///
    /// # Errors
    /// If an expression fails in a wanted row.
    pub fn add_chunk(&mut self, chunk: &ChunkView) -> Result<()> {
        if chunk.live_rows() == 0 {
            return Ok(());
        }
        let aggregation = Arc::clone(&self.aggregation);
        if !aggregation.may_concern(chunk) {
            self.statistics.chunks_pruned += 1;
            return Ok(());
        }
        self.statistics.chunks_read += 1;
        self.statistics.rows_read += chunk.live_rows();
        let source = Source::open(chunk, &aggregation.columns);
        let live = chunk.live_mask();
        match plan_direct(&aggregation, &source) {
            Some(direct) => self.add_directly(&aggregation, &source, live.as_ref(), direct),
            None => {
                self.add_looked_up(&aggregation, &source, live.as_ref())?;
                self.divide_early()
            }
        }
    }

    /// Aggregates the rows of a batch, whose columns are those of the aggregation in their order.
    ///
    /// # Errors
    /// If an expression fails in a wanted row.
    pub fn add_batch(&mut self, batch: &RecordBatch) -> Result<()> {
        let aggregation = Arc::clone(&self.aggregation);
        self.statistics.rows_read += batch.num_rows();
        self.add_looked_up(&aggregation, &Source::of_batch(batch), None)?;
        self.divide_early()
    }

    /// Groups rows by codes of the chunk, and merges the result into the groups at the end.
    fn add_directly(
        &mut self,
        aggregation: &Aggregation,
        source: &Source,
        live: Option<&BooleanBuffer>,
        mut direct: Direct<'_>,
    ) -> Result<()> {
        // Unwanted rows get a group of their own.
        let is_filtered = live.is_some() || aggregation.filter.is_some();
        let groups = direct.groups() + usize::from(is_filtered);
        let mut rows_of = vec![0; groups];
        let mut states = local_states(aggregation, source, groups);
        let (gathers, mut runs) = (gathers(aggregation), Runs::default());
        for start in (0..source.rows).step_by(BLOCK_ROWS) {
            let block = Block::new(source, start, BLOCK_ROWS.min(source.rows - start));
            let wanted = Wanted::of(aggregation, &block, live)?;
            let mask = match &wanted {
                Wanted::None => continue,
                Wanted::All => None,
                Wanted::Some { mask, .. } => Some(mask),
            };
            let places = wanted.few_places();
            if let Some(places) = places.as_ref().filter(|_| gathers) {
                let few = Block::of_places(source, start, places);
                let given = Evaluated::of(aggregation, &few, None, true)?;
                let ids = direct.ids(start, block.length, None).at(places);
                let rows = Rows::All(few.length);
                count(&mut rows_of, None, ids.ids(), rows);
                update_all(aggregation, &mut states, &given, ids.ids(), rows);
                continue;
            }
            let given = Evaluated::of(aggregation, &block, mask, true)?;
            let (ids, rows) = match &places {
                Some(places) => (direct.ids(start, block.length, None), Rows::Some(places)),
                None => (direct.ids(start, block.length, mask), Rows::All(block.length)),
            };
            let ids = runs.of(ids, rows);
            count(&mut rows_of, None, ids, rows);
            update_all(aggregation, &mut states, &given, ids, rows);
        }
        rows_of.truncate(direct.groups());
        self.take_over(&direct, rows_of, states);
        Ok(())
    }

    fn take_over(&mut self, direct: &Direct<'_>, rows_of: Vec<i64>, mut states: Vec<State>) {
        let met = rows_of.iter().enumerate().filter(|(_, rows)| **rows > 0);
        let pairs: Vec<(u32, u32)> =
            met.map(|(local, _)| (local as u32, direct.group(local, &mut self.groups))).collect();
        let measures = states.iter_mut().zip(&self.aggregation.measures);
        for (state, _) in measures.filter(|(_, measure)| **measure == Measure::Rows) {
            *state = State::Count(rows_of.clone());
        }
        self.grow();
        for (own, found) in self.states.iter_mut().zip(&states) {
            own.merge(found, &pairs);
        }
    }

    /// Aggregates rows, looking up the group of each.
    fn add_looked_up(
        &mut self,
        aggregation: &Aggregation,
        source: &Source,
        live: Option<&BooleanBuffer>,
    ) -> Result<()> {
        let (mut ids, mut runs) = (vec![0; BLOCK_ROWS], Runs::default());
        for start in (0..source.rows).step_by(BLOCK_ROWS) {
            let block = Block::new(source, start, BLOCK_ROWS.min(source.rows - start));
            let wanted = Wanted::of(aggregation, &block, live)?;
            let (mask, places) = match &wanted {
                Wanted::None => continue,
                Wanted::All => (None, None),
                Wanted::Some { mask, .. } => (Some(mask), Some(mask.places())),
            };
            let rows = places.as_deref().map_or(Rows::All(block.length), Rows::Some);
            let keys = key_values(aggregation, &block, mask)?;
            let given = Evaluated::of(aggregation, &block, mask, false)?;
            self.groups.find(&keys, rows, &mut ids[..block.length]);
            self.early.count(rows.count());
            self.grow();
            let ids = runs.of(Ids::Words(&ids), rows);
            for (measure, state) in self.states.iter_mut().enumerate() {
                let (argument, rows) = given.of_measure(aggregation, measure, rows);
                state.update(argument, ids, rows);
            }
        }
        Ok(())
    }

    pub(super) fn grow(&mut self) {
        let groups = self.groups.len();
        self.states.iter_mut().for_each(|state| state.grow(groups));
    }

    /// Converts the groups to record batches, one for each partition: the keys, then one or more
    /// columns for the state of each measure. Equal keys of different partial results are in the
    /// same partition.
    ///
    /// Memory is duplicated only while one column is divided, and each batch has its own memory.
    ///
    /// Includes the groups that were divided early, unless `take_pieces` removed them.
    ///
    /// # Errors
    /// If a sum exceeds the range of its state.
    pub fn into_batches(mut self, partitions: usize) -> Result<Vec<RecordBatch>> {
        self.take_back();
        divided(&self.aggregation, self.groups, self.states, partitions)
    }

    /// Merges the groups of a record batch from [`into_batches`](Self::into_batches).
    pub fn absorb(&mut self, batch: &RecordBatch) {
        let aggregation = Arc::clone(&self.aggregation);
        let (keys, states) = batch.columns().split_at(aggregation.keys.len());
        let keys: Vec<Column> = keys.iter().map(Column::of_array).collect();
        let mut ids = vec![0_u32; batch.num_rows()];
        if self.groups.len() == 0 {
            self.groups.make_room(batch.num_rows());
        }
        for start in (0..batch.num_rows()).step_by(BLOCK_ROWS) {
            let length = BLOCK_ROWS.min(batch.num_rows() - start);
            let ids = &mut ids[start..start + length];
            if !keys.is_empty() {
                let keys: Vec<KeyValues<'_>> =
                    keys.iter().map(|column| KeyValues::Stored { column, start }).collect();
                self.groups.find(&keys, Rows::All(length), ids);
            }
        }
        self.grow();
        let pairs: Vec<(u32, u32)> = (0..).zip(ids).collect();
        for (measure, (own, array)) in self.states.iter_mut().zip(states).enumerate() {
            own.merge(&State::of_array(aggregation.kind_of(measure), &wide(array)), &pairs);
        }
    }

    /// Merges early divided groups and frees the indexes.
    #[must_use]
    pub fn finish(mut self) -> Finished {
        self.take_back();
        self.groups.close();
        Finished(self)
    }
}

/// The final result, one row for each group.
pub struct Finished(Partial);

impl Finished {
    /// Number of groups.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.0.groups.len()
    }

    /// The key column at `place`.
    #[must_use]
    pub fn key(&self, place: usize) -> ArrayRef {
        self.0.groups.array(place, &self.0.aggregation.keys[place].data_type)
    }

    /// A measure as a column of the given type, which must suit its values: sums of integers as
    /// `Int64` or as decimals of scale 0, sums of decimals as decimals of their scale.
    ///
    /// # Errors
    /// If a sum does not fit the type (`22003`).
    pub fn measure(&self, place: usize, data_type: &DataType) -> Result<ArrayRef> {
        self.0.states[place].finish(data_type)
    }
}

/// Updates the states of a chunk's groups with a block. [`Measure::Rows`] is counted elsewhere.
fn update_all(
    aggregation: &Aggregation,
    states: &mut [State],
    given: &Evaluated<'_>,
    ids: Ids<'_>,
    rows: Rows<'_>,
) {
    for (measure, state) in states.iter_mut().enumerate() {
        if aggregation.measures[measure] != Measure::Rows {
            let (argument, rows) = given.of_measure(aggregation, measure, rows);
            state.update(argument, ids, rows);
        }
    }
}

/// Local states for the groups of one chunk. Groups without rows are not merged, so they need no
/// marks.
fn local_states(aggregation: &Aggregation, source: &Source, groups: usize) -> Vec<State> {
    let states = (0..aggregation.measures.len()).map(|measure| {
        let input = aggregation.input_of[measure].map(|input| &aggregation.inputs[input].input);
        let with_nulls = input.is_some_and(|input| reads_nulls(input, source));
        let all_have_values = !with_nulls && aggregation.filter_of[measure].is_none();
        let seen = if all_have_values { Seen::by_rows() } else { Seen::none() };
        let mut state = State::new(aggregation.kind_of(measure), seen);
        state.grow(groups);
        state
    });
    states.collect()
}

fn reads_nulls(input: &Input, source: &Source) -> bool {
    match input {
        Input::Number(_, number) => {
            number.may_be_null(&|column| source.columns[column].nulls.is_some())
        }
        Input::Text(column) | Input::Nulls(column) => source.columns[*column].nulls.is_some(),
        // A first value's state records by itself which groups have a row.
        Input::Ordered(..) => true,
    }
}

fn plan_direct<'a>(aggregation: &Aggregation, source: &'a Source) -> Option<Direct<'a>> {
    let keys = aggregation.keys.iter().map(|key| match key.value {
        KeyValue::Column(column) => {
            Some(KeyValues::Stored { column: &source.columns[column], start: 0 })
        }
        KeyValue::Int(_) => None,
    });
    Direct::plan(&keys.collect::<Option<Vec<_>>>()?, source.rows)
}
