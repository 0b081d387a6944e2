//! Room that sorts have for merging, and nobody else can take.
//!
//! One of DataFusion's sorts gives back what it keeps for merging while it writes a run, and wants
//! it again afterwards. What reads beside it may have taken it by then, and a statement would fail
//! whose sorts could both have gone on. Here that room is taken once, for all sorts of a plan.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use datafusion::error::{DataFusionError, Result as PlanResult};
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};
use parking_lot::Mutex;

/// How DataFusion calls what a sort merges with.
const MERGE: &str = "ExternalSorterMerge";

/// What is beyond so many times its room, a merge has only where others keep something.
const ROOMS: usize = 2;

#[derive(Debug)]
pub(super) struct MergeRoom {
    pool: Arc<dyn MemoryPool>,
    /// What one merge has without asking, in bytes.
    each: usize,
    /// What each merge has, by its number as a consumer.
    had: Mutex<HashMap<usize, usize>>,
    _kept: MemoryReservation,
}

impl MergeRoom {
    pub(super) fn new(pool: Arc<dyn MemoryPool>, each: usize, sorts: usize) -> MergeRoom {
        let kept = MemoryConsumer::new("room of merges").register(&pool);
        // Not asked for: what the plan's first run held is given back by threads that may still
        // be at it.
        kept.grow(each * sorts);
        MergeRoom { pool, each, had: Mutex::default(), _kept: kept }
    }

    /// Has a merge grow by `additional` bytes, of which those beyond its room are had by `grow`.
    /// That is told how many the merge will have in all, and how many of them it shall get.
    fn grow_merge(
        &self,
        merge: &MemoryReservation,
        additional: usize,
        grow: impl FnOnce(usize, usize) -> PlanResult<()>,
    ) -> PlanResult<()> {
        let mut had = self.had.lock();
        let bytes = had.entry(merge.consumer().id()).or_default();
        let grown = *bytes + additional;
        let asked = self.beyond(grown) - self.beyond(*bytes);
        if asked > 0 {
            grow(grown, asked)?;
        }
        *bytes = grown;
        Ok(())
    }

    /// Refuses what would leave nothing to sorts beside it, which would fail. A merge that is
    /// refused merges fewer runs at once.
    fn check(&self, merge: &MemoryReservation, grown: usize, asked: usize) -> PlanResult<()> {
        let MemoryLimit::Finite(limit) = self.pool.memory_limit() else { return Ok(()) };
        let left = limit.saturating_sub(self.pool.reserved());
        if grown <= ROOMS * self.each || left >= asked + self.each {
            return Ok(());
        }
        let operator = merge.consumer().name();
        Err(DataFusionError::ResourcesExhausted(format!(
            "Failed to allocate {asked} bytes for {operator}: others need the {left} bytes left"
        )))
    }

    fn beyond(&self, bytes: usize) -> usize {
        bytes.saturating_sub(self.each)
    }
}

fn is_merge(consumer: &MemoryConsumer) -> bool {
    consumer.name().starts_with(MERGE)
}

impl fmt::Display for MergeRoom {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.pool, formatter)
    }
}

impl MemoryPool for MergeRoom {
    fn name(&self) -> &str {
        "merge_room"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.pool.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.had.lock().remove(&consumer.id());
        self.pool.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        if !is_merge(reservation.consumer()) {
            return self.pool.grow(reservation, additional);
        }
        let grown = self.grow_merge(reservation, additional, |_, asked| {
            self.pool.grow(reservation, asked);
            Ok(())
        });
        debug_assert!(grown.is_ok(), "growing without asking is not refused");
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        if !is_merge(reservation.consumer()) {
            return self.pool.shrink(reservation, shrink);
        }
        let mut had = self.had.lock();
        let Some(bytes) = had.get_mut(&reservation.consumer().id()) else { return };
        let shrunk = bytes.saturating_sub(shrink);
        let given_back = self.beyond(*bytes) - self.beyond(shrunk);
        *bytes = shrunk;
        if given_back > 0 {
            self.pool.shrink(reservation, given_back);
        }
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> PlanResult<()> {
        if !is_merge(reservation.consumer()) {
            return self.pool.try_grow(reservation, additional);
        }
        self.grow_merge(reservation, additional, |grown, asked| {
            self.check(reservation, grown, asked)?;
            self.pool.try_grow(reservation, asked)
        })
    }

    fn reserved(&self) -> usize {
        self.pool.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.pool.memory_limit()
    }
}

#[cfg(test)]
mod tests {
    use datafusion::execution::memory_pool::FairSpillPool;

    use super::*;

    fn consumer(name: &str, room: &Arc<dyn MemoryPool>) -> MemoryReservation {
        MemoryConsumer::new(name).register(room)
    }

    #[test]
    fn what_merges_have_nobody_else_takes() {
        let pool: Arc<dyn MemoryPool> = Arc::new(FairSpillPool::new(1000));
        let room: Arc<dyn MemoryPool> = Arc::new(MergeRoom::new(Arc::clone(&pool), 100, 2));
        let other = consumer("other", &room);
        assert!(other.try_grow(801).is_err());
        other.try_grow(800).unwrap();
        let (first, second) =
            (consumer("ExternalSorterMerge[0]", &room), consumer("ExternalSorterMerge[1]", &room));
        for _ in 0..3 {
            first.try_grow(100).unwrap();
            second.try_grow(60).unwrap();
            assert!(first.new_empty().try_grow(1).is_err());
            second.new_empty().try_grow(41).unwrap_err();
            first.free();
            second.shrink(60);
            assert_eq!(pool.reserved(), 1000);
        }
    }

    #[test]
    fn merges_leave_something_to_sorts() {
        let pool: Arc<dyn MemoryPool> = Arc::new(FairSpillPool::new(1000));
        let room: Arc<dyn MemoryPool> = Arc::new(MergeRoom::new(Arc::clone(&pool), 100, 2));
        let merge = consumer("ExternalSorterMerge[0]", &room);
        merge.try_grow(800).unwrap();
        assert!(merge.try_grow(1).is_err());
        let sort = consumer("ExternalSorter[1]", &room);
        sort.try_grow(100).unwrap();
        // As much as twice its room, a merge has of what nobody holds.
        let second = consumer("ExternalSorterMerge[1]", &room);
        second.try_grow(100).unwrap();
        assert!(second.try_grow(1).is_err());
        sort.shrink(50);
        second.try_grow(50).unwrap();
    }

    #[test]
    fn merges_that_take_more_give_it_back() {
        let pool: Arc<dyn MemoryPool> = Arc::new(FairSpillPool::new(1000));
        let room: Arc<dyn MemoryPool> = Arc::new(MergeRoom::new(Arc::clone(&pool), 100, 1));
        let mut merge = consumer("ExternalSorterMerge[0]", &room);
        merge.try_grow(90).unwrap();
        merge.try_grow(300).unwrap();
        assert_eq!(pool.reserved(), 390);
        let moved = merge.take();
        moved.grow(10);
        assert_eq!(pool.reserved(), 400);
        moved.shrink(350);
        assert_eq!(pool.reserved(), 100);
        drop((moved, merge, room));
        assert_eq!(pool.reserved(), 0);
    }
}
