//! Encodings of chunks, kept to be sent again.
//!
//! A closed chunk of which no row is dead is the same bytes for every client that reads it in the
//! same form, and making PostgreSQL's messages of its values takes longer than sending them. A
//! worker's process keeps what it made within a budget; whoever asks next gets it as it lies.
//!
//! Promises: what was changed is never sent, since the chunk is what is looked for, and one that
//! has lost a row is not whole. What nobody asked for lately makes place for others, which find
//! none otherwise: a table that is read again and again stays, also where it does not fit as a
//! whole. Where the process runs out of memory, all of it goes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use std::vec;

use arrow::record_batch::RecordBatch;
use bytes::Bytes;
use parking_lot::Mutex;
use prost::Message as _;
use thalweg_cluster::chunks::{CHUNK_BYTES, ChunkWriter, Pool};
use thalweg_env::{Clock, Spare};
use thalweg_protocol::cluster as wire;
use thalweg_query::{ChunkIdentity, WholeChunk};
use thalweg_types::Result;

use super::told;
use crate::encoding::Encoding;

/// How long what nobody asks for keeps its place from others.
const KEPT_FOR: Duration = Duration::from_secs(10);

/// Those of a process, for all of its workers.
pub(super) struct Encodings {
    /// One for all workers: what they have of their own do not agree.
    clock: Arc<dyn Clock>,
    budget_bytes: usize,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    encodings: HashMap<Key, Encoded>,
    bytes: usize,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    chunk: ChunkIdentity,
    /// The form as it travels, with the types that the rows are told to have.
    form: Arc<[u8]>,
}

struct Encoded {
    pieces: Arc<[Bytes]>,
    bytes: usize,
    last_asked: Duration,
}

impl Encodings {
    pub(super) fn new(clock: &Arc<dyn Clock>, budget_bytes: usize) -> Encodings {
        Encodings { clock: Arc::clone(clock), budget_bytes, kept: Mutex::default() }
    }

    fn find(&self, key: &Key) -> Option<Arc<[Bytes]>> {
        let mut kept = self.kept.lock();
        let found = kept.encodings.get_mut(key)?;
        found.last_asked = self.clock.monotonic();
        Some(Arc::clone(&found.pieces))
    }

    /// Whether there is any room, once what has no right to its place any more is gone.
    fn has_room(&self) -> bool {
        let mut kept = self.kept.lock();
        if kept.bytes >= self.budget_bytes {
            kept.forget_unasked(self.clock.monotonic());
        }
        kept.bytes < self.budget_bytes
    }

    /// Keeps an encoding, if there is room for all of it.
    fn keep(&self, key: Key, pieces: Vec<Bytes>) {
        let now = self.clock.monotonic();
        let pieces: Arc<[Bytes]> = pieces.into_iter().map(in_its_size).collect();
        let bytes = pieces.iter().map(Bytes::len).sum();
        let mut kept = self.kept.lock();
        if kept.bytes + bytes > self.budget_bytes {
            kept.forget_unasked(now);
        }
        if kept.bytes + bytes <= self.budget_bytes {
            kept.insert(key, Encoded { pieces, bytes, last_asked: now });
        }
    }
}

impl Spare for Encodings {
    fn let_go(&self) {
        *self.kept.lock() = Kept::default();
    }
}

impl Kept {
    fn insert(&mut self, key: Key, encoded: Encoded) {
        self.bytes += encoded.bytes;
        // Somebody else may have made the same meanwhile.
        self.bytes -= self.encodings.insert(key, encoded).map_or(0, |before| before.bytes);
    }

    /// Drops what is of no chunk any more, and what nobody asked for lately.
    fn forget_unasked(&mut self, now: Duration) {
        let is_used = |key: &Key, encoded: &Encoded| {
            !key.chunk.is_gone() && now.saturating_sub(encoded.last_asked) < KEPT_FOR
        };
        self.encodings.retain(|key, encoded| is_used(key, encoded));
        self.bytes = self.encodings.values().map(|encoded| encoded.bytes).sum();
    }
}

/// A piece that does not hold a whole buffer for a few bytes.
fn in_its_size(piece: Bytes) -> Bytes {
    match piece.len() < CHUNK_BYTES / 2 {
        true => Bytes::copy_from_slice(&piece),
        false => piece,
    }
}

/// The rows of whole chunks in a client's form, as they were kept, or as they are made.
pub(super) struct WholeChunks {
    chunks: vec::IntoIter<WholeChunk>,
    form: Arc<[u8]>,
    encodings: Arc<Encodings>,
    pool: Pool,
    current: Current,
}

/// What the rows of the next chunk come from.
enum Current {
    None,
    Kept(Arc<[Bytes]>, usize),
    Made(Box<Making>),
}

impl WholeChunks {
    pub(super) fn new(
        chunks: Vec<WholeChunk>,
        form: &wire::RowForm,
        encodings: &Arc<Encodings>,
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

    /// Writes a piece of the rows; false where all are written.
    ///
    /// # Errors
    /// Where a row cannot be in this form.
    pub(super) fn write(&mut self, encoding: &mut Encoding, out: &mut ChunkWriter) -> Result<bool> {
        loop {
            match &mut self.current {
                Current::None => match self.chunks.next() {
                    Some(chunk) => self.current = self.begin(chunk),
                    None => return Ok(false),
                },
                Current::Kept(pieces, next) => {
                    if let Some(piece) = pieces.get(*next) {
                        *next += 1;
                        out.kept(piece.clone());
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
            return Current::Kept(pieces, 0);
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
    /// Its own, so that pieces have messages of this chunk only.
    writer: ChunkWriter,
    /// What was written, where it is going to be kept.
    pieces: Option<Vec<Bytes>>,
}

impl Making {
    /// Writes the next piece; false where there is none.
    fn write(&mut self, encoding: &mut Encoding, out: &mut ChunkWriter) -> Result<bool> {
        while !self.writer.is_full() {
            if encoding.write(&mut self.writer)? {
                continue;
            }
            let Some(batch) = self.batches.next() else { break };
            encoding.take(batch.map_err(told)?)?;
        }
        let Some(piece) = self.writer.take_any() else { return Ok(false) };
        if let Some(pieces) = &mut self.pieces {
            pieces.push(piece.clone());
        }
        out.kept(piece);
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
