//! Buffers that are used again.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::CHUNK_BYTES;

/// A message of a whole chunk fits with its prefix.
const BUFFER_BYTES: usize = CHUNK_BYTES + 1_024;

/// Buffers that hold a chunk of [`CHUNK_BYTES`]. Clones share them.
///
/// A buffer comes back when the last reader of its bytes is gone, on whatever thread that is.
#[derive(Clone)]
pub struct Pool {
    shared: Arc<Shared>,
}

struct Shared {
    free: Mutex<Vec<Vec<u8>>>,
    /// How many are kept for the next one who wants one.
    free_max: usize,
}

/// A buffer that is being filled.
pub(super) struct Buffer {
    bytes: Vec<u8>,
    shared: Arc<Shared>,
}

impl Pool {
    /// Keeps at most so many buffers that nobody uses.
    #[must_use]
    pub fn new(free_max: usize) -> Pool {
        Pool { shared: Arc::new(Shared { free: Mutex::default(), free_max }) }
    }

    /// An empty buffer with room for so many bytes.
    pub(super) fn take(&self, bytes: usize) -> Buffer {
        let free = match bytes <= BUFFER_BYTES {
            true => self.shared.free.lock().pop(),
            // It would never come back.
            false => None,
        };
        let bytes = free.unwrap_or_else(|| Vec::with_capacity(bytes.max(BUFFER_BYTES)));
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
        if bytes.capacity() != BUFFER_BYTES {
            return;
        }
        bytes.clear();
        let mut free = self.shared.free.lock();
        if free.len() < self.shared.free_max {
            free.push(bytes);
        }
    }
}
