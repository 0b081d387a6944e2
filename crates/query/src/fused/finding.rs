//! What one of several workers finds, while it finds it: in memory, or on disk where there is none.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::error::Result;
use thalweg_dialect::errors::external;
use thalweg_scan::{Aggregation, Partial, ReadStatistics};

use super::gather::is_large;
use super::scheduler::{Found, Watch};
use super::spilled::Spills;

/// What all workers on a question have in common.
pub(super) struct Shared {
    aggregation: Arc<Aggregation>,
    /// Into how many partitions many groups are divided.
    partitions: usize,
    watch: Watch,
    spills: Spills,
    /// Whether some worker has found no memory.
    spilled: AtomicBool,
}

impl Shared {
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

    /// Writes what a worker has found to disk.
    fn on_disk(&self, mut partial: Partial) -> Result<Found> {
        let statistics = partial.statistics();
        let mut pieces = partial.take_pieces();
        pieces.push(partial.into_batches(self.partitions).map_err(external)?);
        let spilled = Some(self.spills.write(pieces)?);
        Ok(Found { batches: Vec::new(), spilled, statistics })
    }
}

/// The groups of one worker.
pub(super) struct Finding<'a> {
    shared: &'a Shared,
    worker: usize,
    partial: Partial,
    found: Vec<Found>,
}

impl<'a> Finding<'a> {
    pub fn new(shared: &'a Shared, worker: usize) -> Finding<'a> {
        Finding { shared, worker, partial: shared.fresh(), found: Vec::new() }
    }

    /// Takes in some rows.
    ///
    /// # Errors
    /// Where a number cannot be computed, nobody wants the answer any more, or it finds no room.
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

    /// What was found, once there are no more rows.
    ///
    /// # Errors
    /// Where it goes to disk, and cannot.
    pub fn end(self) -> Result<Vec<Found>> {
        let Finding { shared, worker, mut partial, mut found } = self;
        // Whoever merges needs the room.
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
