//! The memory of a statement, as its threads allocate it.
//!
//! Operators reserve the memory that they know of in memory pools. Functions, aggregate states,
//! hash tables and batches between operators allocate without telling the pools. So each piece of a
//! statement's work is measured from outside: by how much its thread's count of allocated bytes
//! ([`thread_net_bytes`]) changes in the meantime. A pool refuses to reserve more if a statement
//! has more than its limit, so that operators spill; if that does not help, the statement ends.
//!
//! In a process without a [`Metered`](thalweg_env::Metered) allocator all counts are 0: limits hold
//! for reservations, and for single values that functions make.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Waker};

use thalweg_env::{MemoryWatch, OverLimit, Purpose};

/// Minimum margin beyond a statement's limit, which is a tenth of the limit otherwise. It covers
/// batches on their way between operators, which no reservation counts.
const MARGIN_BYTES_MIN: i64 = 16 << 20;

/// All statements together grow by so many bytes before the process's memory is checked: batches
/// come and go all the time.
const UNREPORTED_BYTES: i64 = 16 << 20;

/// A limit that a statement ran into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exhausted {
    /// The name of the setting, without its section.
    pub setting: &'static str,
    /// Bytes in use, including the requested ones.
    pub used: u64,
    pub limit: u64,
}

impl fmt::Display for Exhausted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mebibytes = |bytes: u64| bytes.div_ceil(1 << 20);
        let (used, limit) = (mebibytes(self.used), mebibytes(self.limit));
        let who = match self.setting {
            PROCESS_LIMIT => "process",
            _ => "statement",
        };
        let setting = self.setting;
        write!(formatter, "the {who} has {used} MiB of memory, of which {limit} MiB are allowed")?;
        write!(formatter, " ({setting})")
    }
}

const PROCESS_LIMIT: &str = "process_memory_limit";

/// The memory of all statements that compute in one place.
#[derive(Debug, Default)]
pub struct StatementsMemory {
    watch: Option<Arc<MemoryWatch>>,
    net: AtomicI64,
    /// The part of their growth that was reported to the watch.
    reported: AtomicI64,
}

impl StatementsMemory {
    /// No statements yet. Without a watch, the process's memory is not limited.
    #[must_use]
    pub fn new(watch: Option<Arc<MemoryWatch>>) -> StatementsMemory {
        StatementsMemory { watch, ..StatementsMemory::default() }
    }

    /// Bytes that all statements have allocated and not freed.
    #[must_use]
    pub fn net_bytes(&self) -> i64 {
        self.net.load(Ordering::Relaxed)
    }

    fn add(&self, delta: i64) -> Result<(), OverLimit> {
        let net = self.net.fetch_add(delta, Ordering::Relaxed) + delta;
        let Some(watch) = &self.watch else { return Ok(()) };
        let reported = self.reported.load(Ordering::Relaxed);
        if net < reported - UNREPORTED_BYTES {
            self.reported.store(net + UNREPORTED_BYTES, Ordering::Relaxed);
        } else if net > reported {
            self.reported.store(net, Ordering::Relaxed);
            watch.took(usize::try_from(net - reported).unwrap_or(0));
            return watch.check(0, Purpose::Passing);
        }
        Ok(())
    }

    fn check(&self, bytes: usize) -> Result<(), OverLimit> {
        self.watch.as_ref().map_or(Ok(()), |watch| watch.check(bytes, Purpose::Passing))
    }
}

/// The memory that one statement has allocated, and its limit.
#[derive(Debug)]
pub struct StatementMemory {
    /// Bytes; `i64::MAX` for no limit.
    limit: i64,
    setting: &'static str,
    net: AtomicI64,
    all: Option<Arc<StatementsMemory>>,
    is_exhausted: AtomicBool,
    /// The first limit that was exceeded, and the task that ends the statement.
    exhausted: Mutex<(Option<Exhausted>, Option<Waker>)>,
}

impl Default for StatementMemory {
    fn default() -> StatementMemory {
        StatementMemory::new(None, "", None)
    }
}

impl StatementMemory {
    /// At most `limit` bytes, the value of `setting`, and at most the memory that the process has
    /// room for.
    #[must_use]
    pub fn new(
        limit: Option<usize>,
        setting: &'static str,
        all: Option<Arc<StatementsMemory>>,
    ) -> StatementMemory {
        let limit = limit.and_then(|limit| i64::try_from(limit).ok()).unwrap_or(i64::MAX);
        StatementMemory {
            limit,
            setting,
            net: AtomicI64::new(0),
            all,
            is_exhausted: AtomicBool::new(false),
            exhausted: Mutex::default(),
        }
    }

    /// Bytes that the statement has allocated and not freed, as far as it was counted.
    #[must_use]
    pub fn net_bytes(&self) -> i64 {
        self.net.load(Ordering::Relaxed)
    }

    /// True if the statement has more than its limit, not counting the margin.
    #[must_use]
    pub fn is_short(&self) -> bool {
        self.net_bytes() > self.limit
    }

    /// True if the statement exceeded a limit and must end.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        self.is_exhausted.load(Ordering::Relaxed)
    }

    /// The limit that ends the statement. If there is none yet, the task of the context is woken
    /// once there is; only one task may wait.
    pub fn exhausted(&self, context: &Context<'_>) -> Option<Exhausted> {
        let mut exhausted = self.exhausted.lock().unwrap_or_else(PoisonError::into_inner);
        if exhausted.0.is_none() {
            exhausted.1 = Some(context.waker().clone());
        }
        exhausted.0
    }

    /// Prepares a second attempt, with less memory, after the limit was exceeded.
    pub fn begin_again(&self) {
        let mut exhausted = self.exhausted.lock().unwrap_or_else(PoisonError::into_inner);
        exhausted.0 = None;
        self.is_exhausted.store(false, Ordering::Relaxed);
    }

    /// Counts a change that is settled.
    pub fn add(&self, delta: i64) {
        let net = self.net.fetch_add(delta, Ordering::Relaxed) + delta;
        let process = self.all.as_ref().map_or(Ok(()), |all| all.add(delta));
        if net > self.limit.saturating_add(self.margin() / 4 * 3) {
            self.exhaust(self.own(net));
        } else if let Err(over) = process
            && delta > 0
        {
            self.exhaust(of_process(over));
        }
    }

    /// Takes bytes off the statement's count, at most as many as it has: some of the memory that it
    /// hands over may never have counted as its own, such as rows of tables.
    pub fn hand_over(&self, bytes: i64) {
        let counted = self.net_bytes().clamp(0, bytes);
        self.add(-counted);
    }

    /// Bytes beyond the limit that a statement may have at its end.
    fn margin(&self) -> i64 {
        (self.limit / 10).max(MARGIN_BYTES_MIN)
    }

    /// Checks that more memory may be reserved. Operators that can spill do so if it may not.
    ///
    /// # Errors
    /// If the statement has more than its limit and half of the margin.
    pub fn check_reserving(&self, unsettled: i64) -> Result<(), Exhausted> {
        let net = self.net_bytes().saturating_add(unsettled);
        match net > self.limit.saturating_add(self.margin() / 2) {
            true => Err(self.own(net)),
            false => Ok(()),
        }
    }

    /// Checks that an operator that has reserved so many bytes may reserve more, rather than spill.
    /// Sorting the rows to spill takes about as much again for a moment.
    ///
    /// # Errors
    /// If the statement has more than half of its limit, and the operator more than a quarter of
    /// it.
    pub fn check_spilling(&self, reserved: usize, unsettled: i64) -> Result<(), Exhausted> {
        let net = self.net_bytes().saturating_add(unsettled);
        let reserved = i64::try_from(reserved).unwrap_or(i64::MAX);
        match net > self.limit / 2 && reserved > self.limit / 4 {
            true => Err(self.own(net)),
            false => Ok(()),
        }
    }

    /// Checks that a value of so many bytes may be made, for which nothing has been allocated yet.
    /// `together` are the bytes of this and others which are in memory together.
    pub fn check_value(
        &self,
        bytes: usize,
        together: usize,
        unsettled: i64,
    ) -> Result<(), Exhausted> {
        let signed = |bytes: usize| i64::try_from(bytes).unwrap_or(i64::MAX);
        let counted = self.net_bytes().saturating_add(unsettled).saturating_add(signed(bytes));
        let wanted = counted.max(signed(together));
        if wanted > self.limit.saturating_add(self.margin() / 2) {
            return Err(self.own(wanted));
        }
        self.all.as_ref().map_or(Ok(()), |all| all.check(bytes)).map_err(of_process)
    }

    fn own(&self, net: i64) -> Exhausted {
        let bytes = |bytes: i64| u64::try_from(bytes).unwrap_or(0);
        Exhausted { setting: self.setting, used: bytes(net), limit: bytes(self.limit) }
    }

    #[cold]
    fn exhaust(&self, by: Exhausted) {
        let mut exhausted = self.exhausted.lock().unwrap_or_else(PoisonError::into_inner);
        exhausted.0.get_or_insert(by);
        self.is_exhausted.store(true, Ordering::Relaxed);
        if let Some(waker) = exhausted.1.take() {
            waker.wake();
        }
    }
}

impl Drop for StatementMemory {
    /// Takes the statement's remaining bytes off the total. Memory that it did not see freed
    /// belongs to others from now on.
    fn drop(&mut self) {
        if let Some(all) = &self.all {
            let _ = all.add(-self.net_bytes());
        }
    }
}

fn of_process(over: OverLimit) -> Exhausted {
    Exhausted { setting: PROCESS_LIMIT, used: over.used, limit: over.limit }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use thalweg_env::Memory;

    use super::*;

    #[test]
    fn a_statement_is_exhausted_beyond_its_margin() {
        let memory = StatementMemory::new(Some(100 << 20), "query_memory_limit", None);
        let context = Context::from_waker(Waker::noop());
        memory.add(107 << 20);
        assert!(memory.check_reserving(0).is_ok() && !memory.is_exhausted());
        memory.add(4 << 20);
        let refused = memory.check_reserving(0).unwrap_err();
        assert_eq!(refused.setting, "query_memory_limit");
        let error_text = "the statement has 111 MiB of memory, of which 100 MiB are allowed \
                    (query_memory_limit)";
        assert_eq!(refused.to_string(), error_text);
        assert_eq!(memory.exhausted(&context), None);
        memory.add(10 << 20);
        assert_eq!(memory.exhausted(&context).unwrap().used, 121 << 20);
        memory.add(-(100 << 20));
        assert!(memory.is_exhausted());
        memory.begin_again();
        assert_eq!(memory.exhausted(&context), None);
    }

    #[test]
    fn values_count_before_they_are_made() {
        let memory = StatementMemory::new(Some(10 << 20), "query_memory_limit", None);
        assert!(memory.check_value(17 << 20, 17 << 20, 0).is_ok());
        assert!(memory.check_value(19 << 20, 19 << 20, 0).is_err());
        assert!(memory.check_value(1 << 20, 19 << 20, 0).is_err());
        assert!(memory.check_value(10 << 20, 10 << 20, 9 << 20).is_err());
        memory.add(9 << 20);
        assert!(memory.check_value(10 << 20, 10 << 20, 0).is_err());
        let unlimited = StatementMemory::default();
        assert!(unlimited.check_value(1 << 40, 1 << 40, 1 << 40).is_ok());
    }

    struct Process(AtomicU64);

    impl Memory for Process {
        fn give_back(&self) {}

        fn used_bytes(&self) -> Option<u64> {
            Some(self.0.load(Ordering::Relaxed))
        }
    }

    #[test]
    fn statements_that_grow_are_held_to_the_limit_of_the_process() {
        let process = Arc::new(Process(AtomicU64::new(50 << 20)));
        let watch = Arc::new(MemoryWatch::new(Arc::clone(&process) as _, 80 << 20));
        let all = Arc::new(StatementsMemory::new(Some(watch)));
        let of = || StatementMemory::new(None, "", Some(Arc::clone(&all)));
        let (one, other) = (of(), of());
        one.add(10 << 20);
        other.add(15 << 20);
        assert!(!one.is_exhausted() && !other.is_exhausted());
        process.0.store(85 << 20, Ordering::Relaxed);
        other.add(5 << 20);
        assert!(!one.is_exhausted() && other.is_exhausted());
        assert_eq!(all.net_bytes(), 30 << 20);
        drop(other);
        assert_eq!(all.net_bytes(), 10 << 20);
    }
}
