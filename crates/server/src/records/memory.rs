//! Limits on the memory of all record streams and HTTP uploads together, and on the bytes in flight
//! per stream.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum memory for one byte of requests: the byte itself, the columns decoded from it, and the
/// columns as encoded for the log.
const BYTES_A_BYTE: usize = 4;

/// One stream may hold at most this fraction of all memory: 1/8.
const STREAMS_MIN: usize = 8;

/// Bytes in flight of a stream while others are active, small enough that others are served soon.
const WAITING_BYTES_BESIDE_OTHERS: usize = 32 << 10;
/// Bytes in flight of a stream that is alone: enough to keep the stages busy during a disk sync.
const WAITING_BYTES_ALONE: usize = 1 << 20;

/// A memory budget in bytes, granted in order of requests.
#[derive(Clone)]
pub(crate) struct Memory {
    free: Arc<Semaphore>,
    bytes: usize,
    streams: Arc<Streams>,
}

/// The streams that use the memory, numbered from 1.
#[derive(Default)]
struct Streams {
    entered: AtomicU64,
    /// The number of the stream that handed over data last.
    last: AtomicU64,
}

/// The share of one stream.
///
/// It grows while no other stream hands data over, and falls back when one does. It needs no clock,
/// and a stream that seldom sends does not slow the others down.
pub(super) struct Share {
    memory: Memory,
    stream: u64,
    /// Bytes that this stream handed over since another one last did.
    alone_bytes: usize,
}

/// Granted memory, released on drop.
pub(crate) type Held = OwnedSemaphorePermit;

impl Memory {
    pub(crate) fn new(bytes: usize) -> Memory {
        let bytes = bytes.clamp(1, u32::MAX as usize);
        Memory { free: Arc::new(Semaphore::new(bytes)), bytes, streams: Arc::default() }
    }

    /// Waits for the memory that this many bytes of requests need. A request larger than the whole
    /// budget waits until all of it is free. The caller must not hold memory while it waits, since
    /// others may be waiting for that.
    pub(crate) async fn hold(&self, bytes: usize) -> Held {
        let wanted = self.wanted(bytes) as u32;
        let held = Arc::clone(&self.free).acquire_many_owned(wanted).await;
        held.expect("memory is never closed")
    }

    /// Splits the memory for a part of the bytes from the memory held for all of them.
    pub(super) fn part(&self, held: &mut Held, bytes: usize) -> Held {
        let part = self.wanted(bytes).min(held.num_permits());
        held.split(part).expect("it is no more than is held")
    }

    fn wanted(&self, bytes: usize) -> usize {
        bytes.saturating_mul(BYTES_A_BYTE).min(self.bytes)
    }

    /// The share of a new stream.
    pub(super) fn share(&self) -> Share {
        let stream = self.streams.entered.fetch_add(1, Ordering::Relaxed) + 1;
        Share { memory: self.clone(), stream, alone_bytes: 0 }
    }
}

impl Share {
    pub(super) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Records that the stream hands over this many bytes.
    pub(super) fn note(&mut self, bytes: usize) {
        let before = self.memory.streams.last.swap(self.stream, Ordering::Relaxed);
        self.alone_bytes = match before == self.stream {
            true => self.alone_bytes.saturating_add(bytes),
            false => 0,
        };
    }

    /// True if another stream handed data over recently.
    pub(super) fn has_others(&self) -> bool {
        self.alone_bytes < WAITING_BYTES_ALONE
    }

    /// True if the stream may read more while this many of its bytes wait to be written.
    pub(super) fn may_read(&self, waiting_bytes: usize) -> bool {
        let fair = WAITING_BYTES_BESIDE_OTHERS.saturating_add(self.alone_bytes);
        let most = self.memory.bytes / STREAMS_MIN / BYTES_A_BYTE;
        waiting_bytes < fair.min(WAITING_BYTES_ALONE).min(most).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_that_is_alone_may_have_more_under_way() {
        let memory = Memory::new(1 << 30);
        let (mut one, mut other) = (memory.share(), memory.share());
        let most =
            |share: &Share| (0..=1 << 21).rev().step_by(1 << 10).find(|b| share.may_read(*b));
        let beside = Some(WAITING_BYTES_BESIDE_OTHERS - (1 << 10));
        assert_eq!(most(&one), beside);
        for _ in 0..100 {
            one.note(64 << 10);
        }
        assert_eq!((most(&one), one.has_others()), (Some(WAITING_BYTES_ALONE - (1 << 10)), false));
        other.note(1);
        one.note(64 << 10);
        assert_eq!((most(&one), one.has_others()), (beside, true));
    }

    #[test]
    fn no_stream_may_have_more_under_way_than_its_part_of_all_memory() {
        let share = Memory::new(STREAMS_MIN * BYTES_A_BYTE * 1_000).share();
        assert!(share.may_read(999) && !share.may_read(1_000));
        assert!(Memory::new(1).share().may_read(0));
    }

    #[tokio::test]
    async fn what_is_too_large_comes_in_alone_and_in_parts() {
        let memory = Memory::new(100);
        let mut held = memory.hold(1_000).await;
        assert_eq!(memory.free.available_permits(), 0);
        let parts = [10, 10, 10].map(|bytes| memory.part(&mut held, bytes));
        assert_eq!(parts.map(|part| part.num_permits()), [40, 40, 20]);
        drop(held);
        assert_eq!(memory.free.available_permits(), 100);
        let _all = memory.hold(25).await;
        assert_eq!(memory.hold(0).await.num_permits(), 0);
    }
}
