//! The groups that one of several workers is building, in memory or spilled to disk.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::error::Result;
use thalweg_scan::{Aggregation, Partial, ReadStatistics};
use thalweg_values::errors::external;

use super::merge_partials::is_large;
use super::scheduler::{Found, Watch};
use super::spilled::Spills;

/// State that all workers of one aggregate share.
pub(super) struct Shared {
    aggregation: Arc<Aggregation>,
    /// Number of partitions that many groups are divided into.
    partitions: usize,
    watch: Watch,
    spills: Spills,
    /// True once some worker ran out of memory and spilled.
    spilled: AtomicBool,
}

impl Shared {
    /// State of workers that divide many groups into `partitions` partitions.
    pub fn new(
        aggregation: &Arc<Aggregation>,
        partitions: usize,
        watch: &Watch,
        spills: &Spills,
    ) -> Shared {
        Shared {
            aggregation: Arc::clone(aggregation),
            partitions,
            watch: watch.clone(),
            spills: spills.clone(),
            spilled: AtomicBool::new(false),
        }
    }

    fn fresh(&self) -> Partial {
        Partial::sharing(&self.aggregation, self.partitions)
    }

    /// Spills a worker's groups to disk.
    fn on_disk(&self, mut partial: Partial) -> Result<Found> {
        let statistics = partial.statistics();
        let mut pieces = partial.take_pieces();
        pieces.push(partial.into_batches(self.partitions).map_err(external)?);
        let spilled = Some(self.spills.write(pieces)?);
        Ok(Found { batches: Vec::new(), spilled, statistics })
    }
}

/// The groups of one worker.
pub(super) struct PartialState<'a> {
    shared: &'a Shared,
    worker: usize,
    partial: Partial,
    found: Vec<Found>,
}

impl<'a> PartialState<'a> {
    /// Starts worker number `worker` with no groups.
    pub fn new(shared: &'a Shared, worker: usize) -> PartialState<'a> {
        PartialState { shared, worker, partial: shared.fresh(), found: Vec::new() }
    }

    /// Adds rows: `rows` puts them into the worker's groups.
    ///
    /// # Errors
    /// If a value cannot be computed, the statement was stopped, or neither memory nor disk has
    /// room.
    pub fn add(
        &mut self,
        rows: impl FnOnce(&mut Partial) -> thalweg_types::Result<()>,
    ) -> Result<()> {
        let Shared { aggregation, watch, spills, spilled, .. } = self.shared;
        rows(&mut self.partial).map_err(external)?;
        let bytes = self.partial.memory_bytes();
        match watch.look(self.worker, bytes) {
            Err(refused) if aggregation.has_keys() && spills.may_take(bytes, &refused) => {
                spilled.store(true, Ordering::Relaxed);
                let full = mem::replace(&mut self.partial, self.shared.fresh());
                self.found.push(self.shared.on_disk(full)?);
                watch.look(self.worker, self.partial.memory_bytes())
            }
            looked => looked,
        }
    }

    /// Ends the input and returns the worker's groups.
    ///
    /// # Errors
    /// If the groups must spill and the disk refuses them.
    pub fn end(self) -> Result<Vec<Found>> {
        let PartialState { shared, worker, mut partial, mut found } = self;
        // Merging needs the memory, so once one worker has spilled, all spill their rest.
        if shared.spilled.load(Ordering::Relaxed) {
            found.push(shared.on_disk(partial)?);
            shared.watch.look(worker, 0)?;
            return Ok(found);
        }
        let statistics = partial.statistics();
        let partitions = if is_large(partial.group_count()) { shared.partitions } else { 1 };
        let none = ReadStatistics::default();
        let pieces = partial.take_pieces().into_iter();
        found.extend(pieces.map(|batches| Found::in_memory(batches, none)));
        let batches = partial.into_batches(partitions).map_err(external)?;
        found.push(Found::in_memory(batches, statistics));
        Ok(found)
    }
}
