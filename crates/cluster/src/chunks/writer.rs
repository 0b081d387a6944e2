//! Writes messages into chunks.

use std::collections::VecDeque;

use bytes::Bytes;
use thalweg_protocol::{PREFIX_BYTES, put_prefix};
use thalweg_types::Result;

use super::FIRST_CHUNK_BYTES;
use super::pool::{Buffer, Pool};

/// Size up to which a message is copied, in bytes. Copying is cheaper than two pieces: messages of
/// 21.7 KB took both sides twice as much time as separate pieces.
const COPIED_BYTES_MAX: usize = 64 << 10;

/// Writes messages one after the other, and returns chunks when they are full.
pub struct ChunkWriter {
    pool: Pool,
    open: Option<Buffer>,
    full: VecDeque<Bytes>,
    /// Length at which the open chunk counts as full.
    chunk_bytes: usize,
}

/// A message with its prefix, for sending it many times.
#[must_use]
pub fn framed(message: &[u8]) -> Bytes {
    [&put_prefix(message.len()), message].concat().into()
}

impl ChunkWriter {
    /// A writer that takes its buffers from `pool`. Its first chunk has [`FIRST_CHUNK_BYTES`].
    #[must_use]
    pub fn new(pool: Pool) -> ChunkWriter {
        ChunkWriter { pool, open: None, full: VecDeque::new(), chunk_bytes: FIRST_CHUNK_BYTES }
    }

    /// Writes a message that consists of these parts.
    pub fn message(&mut self, parts: &[&[u8]]) {
        let length = parts.iter().map(|part| part.len()).sum();
        self.message_with(length, |bytes| {
            for part in parts {
                bytes.extend_from_slice(part);
            }
        });
    }

    /// Writes a message of `length` bytes, which `write` appends.
    pub fn message_with(&mut self, length: usize, write: impl FnOnce(&mut Vec<u8>)) {
        let wanted = PREFIX_BYTES + length;
        if self.open.as_ref().is_some_and(|open| open.len() + wanted > open.capacity()) {
            self.close();
        }
        let open = self.open.get_or_insert_with(|| self.pool.take(wanted));
        let bytes = open.bytes();
        bytes.extend_from_slice(&put_prefix(length));
        let before = bytes.len();
        write(bytes);
        assert_eq!(bytes.len() - before, length, "a message is as long as was said");
        if open.len() >= self.chunk_bytes {
            self.close();
        }
    }

    /// Writes a message of unknown length. `write` appends it, and gets the length of the buffer at
    /// which the chunk is full and the message should end.
    ///
    /// # Errors
    /// If `write` fails. Then nothing is written.
    pub fn message_until(
        &mut self,
        write: impl FnOnce(&mut Vec<u8>, usize) -> Result<()>,
    ) -> Result<()> {
        let open = self.open.get_or_insert_with(|| self.pool.take(0));
        let bytes = open.bytes();
        let start = bytes.len();
        bytes.extend_from_slice(&[0; PREFIX_BYTES]);
        if let Err(error) = write(bytes, self.chunk_bytes) {
            bytes.truncate(start);
            return Err(error);
        }
        let length = bytes.len() - start - PREFIX_BYTES;
        bytes[start..][..PREFIX_BYTES].copy_from_slice(&put_prefix(length));
        if open.len() >= self.chunk_bytes {
            self.close();
        }
        Ok(())
    }

    /// Writes a message that consists of these parts. Large parts are sent without a copy.
    pub fn message_of(&mut self, parts: impl IntoIterator<Item = Bytes>) {
        let parts: Vec<Bytes> = parts.into_iter().collect();
        let length = parts.iter().map(Bytes::len).sum();
        let prefix = Bytes::copy_from_slice(&put_prefix(length));
        for part in std::iter::once(prefix).chain(parts) {
            self.append(part);
        }
        if self.open.as_ref().is_some_and(|open| open.len() >= self.chunk_bytes) {
            self.close();
        }
    }

    fn append(&mut self, part: Bytes) {
        if part.len() > COPIED_BYTES_MAX {
            self.close();
            self.full.push_back(part);
            self.chunk_bytes = self.pool.chunk_bytes();
            return;
        }
        if self.open.as_ref().is_some_and(|open| open.len() + part.len() > open.capacity()) {
            self.close();
        }
        let open = self.open.get_or_insert_with(|| self.pool.take(part.len()));
        open.bytes().extend_from_slice(&part);
    }

    /// Writes a message from shared bytes, without a copy if the message is large.
    ///
    /// A small message is copied without touching its reference count: if all threads send the same
    /// bytes, the count would move between cores with every message.
    pub fn shared(&mut self, message: &Bytes) {
        if message.len() <= COPIED_BYTES_MAX {
            return self.message(&[message]);
        }
        let prefix = put_prefix(message.len());
        match &mut self.open {
            Some(open) if open.len() + prefix.len() <= open.capacity() => {
                open.bytes().extend_from_slice(&prefix);
                self.close();
            }
            _ => {
                self.close();
                self.full.push_back(Bytes::copy_from_slice(&prefix));
            }
        }
        self.full.push_back(message.clone());
        self.chunk_bytes = self.pool.chunk_bytes();
    }

    /// Appends messages that have their prefixes already, without a copy.
    pub fn cached(&mut self, framed: Bytes) {
        self.close();
        self.full.push_back(framed);
        self.chunk_bytes = self.pool.chunk_bytes();
    }

    /// True if a chunk is full, and the source should pause.
    #[must_use]
    pub fn is_full(&self) -> bool {
        !self.full.is_empty()
    }

    /// Takes a full chunk.
    pub fn take_full(&mut self) -> Option<Bytes> {
        self.full.pop_front()
    }

    /// Takes a chunk, full or not.
    pub fn take_any(&mut self) -> Option<Bytes> {
        if self.full.is_empty() {
            self.close();
        }
        self.full.pop_front()
    }

    fn close(&mut self) {
        // The buffer is empty if its only message failed.
        if let Some(open) = self.open.take_if(|open| open.len() > 0) {
            self.full.push_back(open.freeze());
            self.chunk_bytes = self.pool.chunk_bytes();
        }
    }
}
