//! A pool of buffers.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::CHUNK_BYTES;

/// Room beyond a chunk, so that a message of a whole chunk fits with its prefix.
const SPARE_BYTES: usize = 1_024;

/// A pool of buffers that hold a chunk each. Clones share it.
///
/// A buffer returns when the last reader of its bytes is dropped, on any thread.
#[derive(Clone)]
pub struct Pool {
    shared: Arc<Shared>,
}

struct Shared {
    free: Mutex<Vec<Vec<u8>>>,
    chunk_bytes: usize,
    /// Number of idle buffers that are kept.
    free_max: usize,
}

/// A buffer that is being filled.
pub(super) struct Buffer {
    bytes: Vec<u8>,
    shared: Arc<Shared>,
}

impl Pool {
    /// A pool of buffers for chunks of [`CHUNK_BYTES`], of which at most so many are kept idle.
    #[must_use]
    pub fn new(free_max: usize) -> Pool {
        Pool::with_chunks_of(CHUNK_BYTES, free_max)
    }

    /// Like [`Self::new`], with chunks of another size. If thousands of answers are sent at once,
    /// chunks that are larger than the readers' windows only waste memory.
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
            // A buffer of another size is not returned to the pool.
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

    /// The written bytes, which can be shared.
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
