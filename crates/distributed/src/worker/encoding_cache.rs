//! The encoding cache: closed chunks as they were encoded for clients.
//!
//! A closed chunk without dead rows has the same bytes for every client that reads it in the same
//! format, and encoding its values as PostgreSQL messages takes longer than sending them. A
//! worker's process caches encodings within a budget and sends them again without a copy.
//!
//! Invariants: stale rows are never sent, since the key is the chunk itself and a chunk with a dead
//! row does not count as whole. An entry is evicted only if it was not used lately; otherwise new
//! encodings are not cached. So a table that is read again and again stays cached, even if it does
//! not fit as a whole. If the process runs out of memory, the cache is emptied.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use std::vec;

use arrow::record_batch::RecordBatch;
use bytes::Bytes;
use parking_lot::Mutex;
use prost::Message as _;
use thalweg_cluster::chunks::{CHUNK_BYTES, ChunkWriter, Pool};
use thalweg_env::{Clock, ReclaimableMemory};
use thalweg_execution::scan::{ChunkIdentity, WholeChunk};
use thalweg_protocol::cluster as wire;
use thalweg_types::Result;

use super::translate_error;
use crate::encoding::Encoding;

/// Time after its last use for which an entry cannot be evicted.
const KEPT_FOR: Duration = Duration::from_secs(10);

/// The cache of a process, for all of its workers.
pub(super) struct EncodingCache {
    /// One clock for all workers, since the clocks of workers do not agree.
    clock: Arc<dyn Clock>,
    budget_bytes: usize,
    cached: Mutex<CachedEncodings>,
}

#[derive(Default)]
struct CachedEncodings {
    encodings: HashMap<Key, Encoded>,
    bytes: usize,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    chunk: ChunkIdentity,
    /// The wire form of the format, with the types that the client was told.
    form: Arc<[u8]>,
}

struct Encoded {
    pieces: Arc<[Bytes]>,
    bytes: usize,
    last_asked: Duration,
}

impl EncodingCache {
    pub(super) fn new(clock: &Arc<dyn Clock>, budget_bytes: usize) -> EncodingCache {
        EncodingCache { clock: Arc::clone(clock), budget_bytes, cached: Mutex::default() }
    }

    fn find(&self, key: &Key) -> Option<Arc<[Bytes]>> {
        let mut cached = self.cached.lock();
        let found = cached.encodings.get_mut(key)?;
        found.last_asked = self.clock.monotonic();
        Some(Arc::clone(&found.pieces))
    }

    /// True if there is any room, after evicting unused entries.
    fn has_room(&self) -> bool {
        let mut cached = self.cached.lock();
        if cached.bytes >= self.budget_bytes {
            cached.forget_unasked(self.clock.monotonic());
        }
        cached.bytes < self.budget_bytes
    }

    /// Caches an encoding, if there is room for all of it.
    fn keep(&self, key: Key, pieces: Vec<Bytes>) {
        let now = self.clock.monotonic();
        let pieces: Arc<[Bytes]> = pieces.into_iter().map(in_its_size).collect();
        let bytes = pieces.iter().map(Bytes::len).sum();
        let mut cached = self.cached.lock();
        if cached.bytes + bytes > self.budget_bytes {
            cached.forget_unasked(now);
        }
        if cached.bytes + bytes <= self.budget_bytes {
            cached.insert(key, Encoded { pieces, bytes, last_asked: now });
        }
    }
}

impl ReclaimableMemory for EncodingCache {
    fn let_go(&self) {
        *self.cached.lock() = CachedEncodings::default();
    }
}

impl CachedEncodings {
    fn insert(&mut self, key: Key, encoded: Encoded) {
        self.bytes += encoded.bytes;
        // Another stream may have encoded the same chunk meanwhile.
        self.bytes -= self.encodings.insert(key, encoded).map_or(0, |before| before.bytes);
    }

    /// Drops encodings of dropped chunks, and those that were not used lately.
    fn forget_unasked(&mut self, now: Duration) {
        let is_used = |key: &Key, encoded: &Encoded| {
            !key.chunk.is_gone() && now.saturating_sub(encoded.last_asked) < KEPT_FOR
        };
        self.encodings.retain(|key, encoded| is_used(key, encoded));
        self.bytes = self.encodings.values().map(|encoded| encoded.bytes).sum();
    }
}

/// Copies a small piece, so that it does not hold a whole buffer.
fn in_its_size(piece: Bytes) -> Bytes {
    match piece.len() < CHUNK_BYTES / 2 {
        true => Bytes::copy_from_slice(&piece),
        false => piece,
    }
}

/// The rows of whole chunks in a client's format, from the cache or newly encoded.
pub(super) struct WholeChunks {
    chunks: vec::IntoIter<WholeChunk>,
    form: Arc<[u8]>,
    encodings: Arc<EncodingCache>,
    pool: Pool,
    current: Current,
}

/// The source of the current chunk's rows.
enum Current {
    None,
    Cached(Arc<[Bytes]>, usize),
    Made(Box<Making>),
}

impl WholeChunks {
    pub(super) fn new(
        chunks: Vec<WholeChunk>,
        form: &wire::RowForm,
        encodings: &Arc<EncodingCache>,
        pool: &Pool,
    ) -> WholeChunks {
        WholeChunks {
            chunks: chunks.into_iter(),
            form: form.encode_to_vec().into(),
            encodings: Arc::clone(encodings),
            pool: pool.clone(),
            current: Current::None,
        }
    }

    /// Writes the next piece of the rows. Returns false after the last one.
    ///
    /// # Errors
    /// If a row cannot be encoded.
    pub(super) fn write(&mut self, encoding: &mut Encoding, out: &mut ChunkWriter) -> Result<bool> {
        loop {
            match &mut self.current {
                Current::None => match self.chunks.next() {
                    Some(chunk) => self.current = self.begin(chunk),
                    None => return Ok(false),
                },
                Current::Cached(pieces, next) => {
                    if let Some(piece) = pieces.get(*next) {
                        *next += 1;
                        out.cached(piece.clone());
                        return Ok(true);
                    }
                    self.current = Current::None;
                }
                Current::Made(making) => {
                    if making.write(encoding, out)? {
                        return Ok(true);
                    }
                    if let Current::Made(made) = std::mem::replace(&mut self.current, Current::None)
                        && let Some(pieces) = made.pieces
                    {
                        self.encodings.keep(made.key, pieces);
                    }
                }
            }
        }
    }

    fn begin(&self, chunk: WholeChunk) -> Current {
        let key = Key { chunk: chunk.identity(), form: Arc::clone(&self.form) };
        if let Some(pieces) = self.encodings.find(&key) {
            return Current::Cached(pieces, 0);
        }
        let pieces = self.encodings.has_room().then(Vec::new);
        let (batches, writer) = (Box::new(chunk.batches()), ChunkWriter::new(self.pool.clone()));
        Current::Made(Box::new(Making { key, batches, writer, pieces }))
    }
}

/// A chunk that is being encoded.
struct Making {
    key: Key,
    batches: Box<dyn Iterator<Item = datafusion::error::Result<RecordBatch>> + Send>,
    /// A separate writer, so that pieces have messages of this chunk only.
    writer: ChunkWriter,
    /// The pieces written so far, if they are to be cached.
    pieces: Option<Vec<Bytes>>,
}

impl Making {
    /// Writes the next piece. Returns false after the last one.
    fn write(&mut self, encoding: &mut Encoding, out: &mut ChunkWriter) -> Result<bool> {
        while !self.writer.is_full() {
            if encoding.write(&mut self.writer)? {
                continue;
            }
            let Some(batch) = self.batches.next() else { break };
            encoding.take(batch.map_err(translate_error)?)?;
        }
        let Some(piece) = self.writer.take_any() else { return Ok(false) };
        if let Some(pieces) = &mut self.pieces {
            pieces.push(piece.clone());
        }
        out.cached(piece);
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
