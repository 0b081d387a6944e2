//! Buffers that are used again.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::CHUNK_BYTES;

/// A message of a whole chunk fits with its prefix.
const SPARE_BYTES: usize = 1_024;

/// Buffers that hold a chunk each. Clones share them.
///
/// A buffer comes back when the last reader of its bytes is gone, on whatever thread that is.
#[derive(Clone)]
pub struct Pool {
    shared: Arc<Shared>,
}

struct Shared {
    free: Mutex<Vec<Vec<u8>>>,
    chunk_bytes: usize,
    /// How many are kept for the next one who wants one.
    free_max: usize,
}

/// A buffer that is being filled.
pub(super) struct Buffer {
    bytes: Vec<u8>,
    shared: Arc<Shared>,
}

impl Pool {
    /// Buffers for chunks of [`CHUNK_BYTES`], of which at most so many are kept that nobody uses.
    #[must_use]
    pub fn new(free_max: usize) -> Pool {
        Pool::with_chunks_of(CHUNK_BYTES, free_max)
    }

    /// The same for chunks of another size: where thousands of answers go out at once, a chunk that
    /// is larger than what a reader takes ahead only lies about.
    #[must_use]
    pub fn with_chunks_of(chunk_bytes: usize, free_max: usize) -> Pool {
        Pool { shared: Arc::new(Shared { free: Mutex::default(), chunk_bytes, free_max }) }
    }

    pub(super) fn chunk_bytes(&self) -> usize {
        self.shared.chunk_bytes
    }

    /// An empty buffer with room for so many bytes.
    pub(super) fn take(&self, bytes: usize) -> Buffer {
        let buffer_bytes = self.shared.chunk_bytes + SPARE_BYTES;
        let free = match bytes <= buffer_bytes {
            true => self.shared.free.lock().pop(),
            // It would never come back.
            false => None,
        };
        let bytes = free.unwrap_or_else(|| Vec::with_capacity(bytes.max(buffer_bytes)));
        debug_assert!(bytes.is_empty());
        Buffer { bytes, shared: Arc::clone(&self.shared) }
    }

    #[cfg(test)]
    pub(super) fn free(&self) -> usize {
        self.shared.free.lock().len()
    }
}

impl Buffer {
    pub(super) fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// What was written, to be read by many.
    pub(super) fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut bytes = std::mem::take(&mut self.bytes);
        if bytes.capacity() != self.shared.chunk_bytes + SPARE_BYTES {
            return;
        }
        bytes.clear();
        let mut free = self.shared.free.lock();
        if free.len() < self.shared.free_max {
            free.push(bytes);
        }
    }
}
