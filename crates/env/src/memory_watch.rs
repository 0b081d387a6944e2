//! Enforces a memory limit of the process.
//!
//! Code that is about to use much memory announces it, and is refused if the limit would be
//! exceeded. After enough announcements the system is asked for the actual use, so that unaccounted
//! memory counts too: buffers of libraries, fragmentation, stacks. Caches are emptied before a
//! request is refused.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::Memory;

/// Announced bytes after which the system is asked again; asking costs tens of microseconds.
const ASK_EVERY_BYTES: u64 = 4 << 20;

/// The memory limit of a process and its current use. Shared by all threads.
pub struct MemoryWatch {
    memory: Arc<dyn Memory>,
    limit: u64,
    /// Use in bytes that the system last reported.
    last_reported: AtomicU64,
    /// Bytes announced since then.
    taken: AtomicU64,
    spares: Mutex<Vec<Weak<dyn ReclaimableMemory>>>,
}

/// A cache that can be emptied when memory is short.
pub trait ReclaimableMemory: Send + Sync {
    /// Frees as much as possible.
    fn let_go(&self);
}

/// The purpose of a memory request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Memory that lives as long as a statement.
    Passing,
    /// Rows that stay. They may use only seven eighths of the limit, so that statements can still
    /// read and delete rows when the rest is full.
    Rows,
}

/// A refused memory request; both numbers are bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverLimit {
    pub used: u64,
    pub limit: u64,
}

impl fmt::Display for OverLimit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mebibytes = |bytes: u64| bytes.div_ceil(1 << 20);
        let (used, limit) = (mebibytes(self.used), mebibytes(self.limit));
        write!(formatter, "the process has {used} MiB of memory, of which {limit} MiB are allowed")
    }
}

impl fmt::Debug for MemoryWatch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("MemoryWatch").field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl MemoryWatch {
    /// A limit in bytes for the process whose use `memory` reports.
    #[must_use]
    pub fn new(memory: Arc<dyn Memory>, limit: u64) -> MemoryWatch {
        // Makes the first check ask the system.
        let taken = AtomicU64::new(ASK_EVERY_BYTES);
        MemoryWatch {
            memory,
            limit,
            last_reported: AtomicU64::new(0),
            taken,
            spares: Mutex::default(),
        }
    }

    /// Registers a cache that is emptied before requests are refused.
    pub fn register_reclaimable(&self, spare: Weak<dyn ReclaimableMemory>) {
        self.spares.lock().push(spare);
    }

    /// Announces that `bytes` are being used, which [`check`](Self::check) allowed.
    pub fn took(&self, bytes: usize) {
        self.taken.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Checks if `bytes` more may be used.
    ///
    /// # Errors
    /// If the process would exceed its limit.
    #[inline]
    pub fn check(&self, bytes: usize, purpose: Purpose) -> Result<(), OverLimit> {
        let limit = match purpose {
            Purpose::Passing => self.limit,
            Purpose::Rows => self.limit - self.limit / 8,
        };
        let taken = self.taken.load(Ordering::Relaxed);
        let wanted = self.last_reported.load(Ordering::Relaxed) + taken + bytes as u64;
        if taken < ASK_EVERY_BYTES && wanted <= limit {
            return Ok(());
        }
        self.ask(bytes as u64, limit)
    }

    #[cold]
    fn ask(&self, bytes: u64, limit: u64) -> Result<(), OverLimit> {
        if self.used() + bytes <= limit {
            return Ok(());
        }
        self.spares.lock().iter().filter_map(Weak::upgrade).for_each(|spare| spare.let_go());
        // Freed memory may still belong to the process.
        self.memory.give_back();
        let used = self.used();
        match used + bytes <= limit {
            true => Ok(()),
            false => Err(OverLimit { used, limit }),
        }
    }

    /// The current use as the system reports it; 0, which allows everything, if it does not.
    fn used(&self) -> u64 {
        self.taken.store(0, Ordering::Relaxed);
        let used = self.memory.used_bytes().unwrap_or(0);
        self.last_reported.store(used, Ordering::Relaxed);
        used
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the system says, and how much of it was freed.
    struct ReportedMemory(AtomicU64, AtomicU64);

    impl Memory for ReportedMemory {
        fn give_back(&self) {
            self.0.fetch_sub(self.1.swap(0, Ordering::Relaxed), Ordering::Relaxed);
        }

        fn used_bytes(&self) -> Option<u64> {
            Some(self.0.load(Ordering::Relaxed))
        }
    }

    fn reports(bytes: u64) -> Arc<ReportedMemory> {
        Arc::new(ReportedMemory(AtomicU64::new(bytes), AtomicU64::default()))
    }

    #[test]
    fn what_was_freed_is_given_back_before_anybody_is_refused() {
        let reports = reports(90 << 20);
        reports.1.store(30 << 20, Ordering::Relaxed);
        let watch = MemoryWatch::new(Arc::clone(&reports) as _, 80 << 20);
        assert_eq!(watch.check(20 << 20, Purpose::Passing), Ok(()));
        assert!(watch.check(21 << 20, Purpose::Passing).is_err());
    }

    /// Frees what it has for the system to take back.
    struct FreeableMemory(Arc<ReportedMemory>, AtomicU64);

    impl ReclaimableMemory for FreeableMemory {
        fn let_go(&self) {
            self.0.1.fetch_add(self.1.swap(0, Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    #[test]
    fn what_is_spare_goes_before_anybody_is_refused() {
        let reports = reports(75 << 20);
        let watch = MemoryWatch::new(Arc::clone(&reports) as _, 80 << 20);
        let kept = Arc::new(FreeableMemory(Arc::clone(&reports), AtomicU64::new(30 << 20)));
        let spare: Weak<FreeableMemory> = Arc::downgrade(&kept);
        watch.register_reclaimable(spare);
        assert_eq!(watch.check(5 << 20, Purpose::Passing), Ok(()));
        assert_eq!(kept.1.load(Ordering::Relaxed), 30 << 20);
        assert_eq!(watch.check(30 << 20, Purpose::Passing), Ok(()));
        assert_eq!(kept.1.load(Ordering::Relaxed), 0);
        drop(kept);
        assert!(watch.check(40 << 20, Purpose::Passing).is_err());
    }

    #[test]
    fn the_system_has_the_last_word() {
        let reports = reports(50 << 20);
        let watch = MemoryWatch::new(Arc::clone(&reports) as _, 80 << 20);
        assert_eq!(watch.check(20 << 20, Purpose::Rows), Ok(()));
        watch.took(20 << 20);
        reports.0.store(71 << 20, Ordering::Relaxed);
        let refused = OverLimit { used: 71 << 20, limit: 70 << 20 };
        assert_eq!(watch.check(1, Purpose::Rows), Err(refused));
        assert_eq!(watch.check(1 << 20, Purpose::Passing), Ok(()));
        assert!(watch.check(10 << 20, Purpose::Passing).is_err());
        // What was freed counts at once for those who were refused.
        reports.0.store(60 << 20, Ordering::Relaxed);
        assert_eq!(watch.check(1, Purpose::Rows), Ok(()));
    }

    #[test]
    fn what_was_taken_counts_before_the_system_is_asked() {
        let reports = reports(68 << 20);
        let watch = MemoryWatch::new(Arc::clone(&reports) as _, 80 << 20);
        assert_eq!(watch.check(1, Purpose::Rows), Ok(()));
        watch.took(3 << 20);
        // It says that the memory has not been touched yet.
        assert_eq!(watch.check(1, Purpose::Rows), Ok(()));
        reports.0.store(71 << 20, Ordering::Relaxed);
        watch.took(3 << 20);
        assert!(watch.check(1, Purpose::Rows).is_err());
    }
}
