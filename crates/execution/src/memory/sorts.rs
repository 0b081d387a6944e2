//! Memory reserved for sorts, which other operators cannot take.
//!
//! One of DataFusion's sorts releases its memory for merging while it writes a run, and needs it
//! again afterwards. An operator beside it may have taken it by then, and a statement would fail
//! whose sorts could both have finished. A sort that has not begun fails likewise when another sort
//! merges with all memory that is left. So this pool reserves the memory once, for all sorts of a
//! plan.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use datafusion::error::Result as PlanResult;
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};
use parking_lot::Mutex;

/// DataFusion's name for the consumer with which a sort merges.
const MERGE: &str = "ExternalSorterMerge";

/// DataFusion's name for the consumer in which a sort gathers rows.
const SORT: &str = "ExternalSorter";

/// A sort begins with one part in this many of its memory for merging.
const BEGINNINGS: usize = 4;

#[derive(Debug)]
pub(super) struct SortRoom {
    pool: Arc<dyn MemoryPool>,
    /// Bytes that one merge has without a reservation of its own.
    merge: usize,
    /// Bytes that each sort and merge has, by its number as a consumer.
    had: Mutex<HashMap<usize, usize>>,
    _kept: MemoryReservation,
}

impl SortRoom {
    pub(super) fn new(pool: Arc<dyn MemoryPool>, merge: usize, sorts: usize) -> SortRoom {
        let kept = MemoryConsumer::new("room of sorts").register(&pool);
        // Grown without a check: memory of the plan's first run is released by threads that may
        // still be running.
        kept.grow((merge + merge / BEGINNINGS) * sorts);
        SortRoom { pool, merge, had: Mutex::default(), _kept: kept }
    }

    /// Bytes that a consumer has without a reservation; `None` if it is not a sort.
    fn of(&self, consumer: &MemoryConsumer) -> Option<usize> {
        match consumer.name() {
            name if name.starts_with(MERGE) => Some(self.merge),
            name if name.starts_with(SORT) => Some(self.merge / BEGINNINGS),
            _ => None,
        }
    }

    /// Grows a sort by `additional` bytes. Bytes beyond its reserved room come from `grow`.
    fn grow_sort(
        &self,
        sort: &MemoryReservation,
        room: usize,
        additional: usize,
        grow: impl FnOnce(usize) -> PlanResult<()>,
    ) -> PlanResult<()> {
        let mut had = self.had.lock();
        let bytes = had.entry(sort.consumer().id()).or_default();
        let grown = *bytes + additional;
        let asked = grown.saturating_sub(room) - bytes.saturating_sub(room);
        if asked > 0 {
            grow(asked)?;
        }
        *bytes = grown;
        Ok(())
    }
}

impl fmt::Display for SortRoom {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.pool, formatter)
    }
}

impl MemoryPool for SortRoom {
    fn name(&self) -> &str {
        "room_of_sorts"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.pool.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.had.lock().remove(&consumer.id());
        self.pool.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        let Some(room) = self.of(reservation.consumer()) else {
            return self.pool.grow(reservation, additional);
        };
        let grown = self.grow_sort(reservation, room, additional, |asked| {
            self.pool.grow(reservation, asked);
            Ok(())
        });
        debug_assert!(grown.is_ok(), "growing without asking is not refused");
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        let Some(room) = self.of(reservation.consumer()) else {
            return self.pool.shrink(reservation, shrink);
        };
        let mut had = self.had.lock();
        let Some(bytes) = had.get_mut(&reservation.consumer().id()) else { return };
        let shrunk = bytes.saturating_sub(shrink);
        let given_back = bytes.saturating_sub(room) - shrunk.saturating_sub(room);
        *bytes = shrunk;
        if given_back > 0 {
            self.pool.shrink(reservation, given_back);
        }
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> PlanResult<()> {
        match self.of(reservation.consumer()) {
            None => self.pool.try_grow(reservation, additional),
            Some(room) => self.grow_sort(reservation, room, additional, |asked| {
                self.pool.try_grow(reservation, asked)
            }),
        }
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
        let room: Arc<dyn MemoryPool> = Arc::new(SortRoom::new(Arc::clone(&pool), 100, 2));
        let other = consumer("other", &room);
        assert!(other.try_grow(751).is_err());
        other.try_grow(750).unwrap();
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
    fn sorts_begin_whatever_merges_take() {
        let pool: Arc<dyn MemoryPool> = Arc::new(FairSpillPool::new(1000));
        let room: Arc<dyn MemoryPool> = Arc::new(SortRoom::new(Arc::clone(&pool), 100, 2));
        let merge = consumer("ExternalSorterMerge[0]", &room);
        merge.try_grow(850).unwrap();
        assert!(merge.try_grow(1).is_err());
        let sort = consumer("ExternalSorter[1]", &room);
        sort.try_grow(20).unwrap();
        assert!(sort.try_grow(6).is_err());
        merge.shrink(10);
        sort.try_grow(15).unwrap();
        assert_eq!(pool.reserved(), 1000);
        sort.free();
        assert_eq!(pool.reserved(), 990);
    }

    #[test]
    fn merges_that_take_more_give_it_back() {
        let pool: Arc<dyn MemoryPool> = Arc::new(FairSpillPool::new(1000));
        let room: Arc<dyn MemoryPool> = Arc::new(SortRoom::new(Arc::clone(&pool), 100, 1));
        let mut merge = consumer("ExternalSorterMerge[0]", &room);
        merge.try_grow(90).unwrap();
        merge.try_grow(300).unwrap();
        assert_eq!(pool.reserved(), 415);
        let moved = merge.take();
        moved.grow(10);
        assert_eq!(pool.reserved(), 425);
        moved.shrink(350);
        assert_eq!(pool.reserved(), 125);
        drop((moved, merge, room));
        assert_eq!(pool.reserved(), 0);
    }
}
