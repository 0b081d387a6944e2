//! How much memory all streams together may hold.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What a byte on the wire takes at most on its way: itself, the columns made of it, and these once
/// more as the log has them.
const BYTES_A_BYTE: usize = 4;

/// The part of all memory that one stream may hold.
const STREAMS_MIN: usize = 8;

/// So many bytes of one stream keep the stages busy while the disk syncs. More of them would only
/// make others wait longer: whoever comes next is served behind all that are there.
const WAITING_BYTES: usize = 256 << 10;

/// Memory that is given out in bytes, first come, first served.
#[derive(Clone)]
pub(super) struct Memory {
    free: Arc<Semaphore>,
    bytes: usize,
}

/// Memory that is given back when it is dropped.
pub(super) type Held = OwnedSemaphorePermit;

impl Memory {
    pub(super) fn new(bytes: usize) -> Memory {
        let bytes = bytes.clamp(1, u32::MAX as usize);
        Memory { free: Arc::new(Semaphore::new(bytes)), bytes }
    }

    /// Waits for the memory that so many bytes of requests take.
    pub(super) async fn hold(&self, bytes: usize) -> Held {
        let wanted = self.wanted(bytes) as u32;
        let held = Arc::clone(&self.free).acquire_many_owned(wanted).await;
        held.expect("memory is never closed")
    }

    fn wanted(&self, bytes: usize) -> usize {
        bytes.saturating_mul(BYTES_A_BYTE).min(self.bytes / STREAMS_MIN).max(1)
    }

    /// Whether a stream that waits for so many bytes of requests to be written may read more.
    pub(super) fn may_read(&self, waiting_bytes: usize) -> bool {
        waiting_bytes < WAITING_BYTES.min(self.bytes / STREAMS_MIN / BYTES_A_BYTE).max(1)
    }
}
