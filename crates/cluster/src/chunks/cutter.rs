//! Cuts chunks into messages, in place.

use bytes::{Bytes, BytesMut};
use thalweg_protocol::{Malformed, PREFIX_BYTES};
use thalweg_types::{Error, Result, SqlState};

/// A message, as a view of the piece in which it arrived.
#[derive(Clone, Copy)]
pub struct Message<'a> {
    bytes: &'a [u8],
    piece: &'a Bytes,
}

impl Message<'_> {
    /// The message as shared bytes, without a copy.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        self.piece.slice_ref(self.bytes)
    }
}

impl std::ops::Deref for Message<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes
    }
}

/// Cuts messages out of pieces, which may end anywhere.
pub struct Cutter {
    bytes_max: usize,
    /// The start of an incomplete prefix, or the whole prefix of an incomplete message.
    prefix: [u8; PREFIX_BYTES],
    prefix_bytes: usize,
    /// The start of that message.
    begun: BytesMut,
}

impl Cutter {
    /// A cutter for messages of at most so many bytes.
    #[must_use]
    pub fn new(bytes_max: usize) -> Cutter {
        Cutter { bytes_max, prefix: [0; PREFIX_BYTES], prefix_bytes: 0, begun: BytesMut::new() }
    }

    /// Calls `each` for every message that is complete with this piece.
    ///
    /// # Errors
    /// The first error of `each`, or of a message that is compressed or too long. The cutter cannot
    /// be used after an error.
    pub fn feed<E: From<Error>>(
        &mut self,
        piece: &Bytes,
        mut each: impl FnMut(Message<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut rest = &piece[..];
        if self.prefix_bytes > 0 {
            let taken = (PREFIX_BYTES - self.prefix_bytes).min(rest.len());
            let (prefix, behind) = rest.split_at(taken);
            self.prefix[self.prefix_bytes..][..taken].copy_from_slice(prefix);
            self.prefix_bytes += taken;
            rest = behind;
            if self.prefix_bytes < PREFIX_BYTES {
                return Ok(());
            }
            let length = self.length(self.prefix)?;
            let Some(whole) = self.complete(length, piece, &mut rest) else { return Ok(()) };
            self.prefix_bytes = 0;
            each(Message { bytes: &whole, piece: &whole })?;
        }
        while let Some((prefix, behind)) = rest.split_first_chunk::<PREFIX_BYTES>() {
            let length = self.length(*prefix)?;
            let Some((bytes, behind)) = behind.split_at_checked(length) else {
                self.begin(*prefix, behind, length);
                return Ok(());
            };
            each(Message { bytes, piece })?;
            rest = behind;
        }
        self.prefix[..rest.len()].copy_from_slice(rest);
        self.prefix_bytes = rest.len();
        Ok(())
    }

    /// True if no message is incomplete.
    #[must_use]
    pub fn is_between_messages(&self) -> bool {
        self.prefix_bytes == 0
    }

    /// Stores the start of a message.
    fn begin(&mut self, prefix: [u8; PREFIX_BYTES], beginning: &[u8], length: usize) {
        self.prefix = prefix;
        self.prefix_bytes = PREFIX_BYTES;
        if !beginning.is_empty() {
            // Reserves the whole length, so that the rest is copied only once.
            self.begun.reserve(length);
            self.begun.extend_from_slice(beginning);
        }
    }

    /// Completes the current message, if this piece has all the rest of it.
    fn complete(&mut self, length: usize, piece: &Bytes, rest: &mut &[u8]) -> Option<Bytes> {
        let missing = length - self.begun.len();
        // Only its prefix came before, so the message can stay in place.
        if self.begun.is_empty()
            && let Some((bytes, behind)) = rest.split_at_checked(missing)
        {
            *rest = behind;
            return Some(piece.slice_ref(bytes));
        }
        self.begun.reserve(missing);
        let (taken, behind) = rest.split_at(missing.min(rest.len()));
        self.begun.extend_from_slice(taken);
        *rest = behind;
        (taken.len() == missing).then(|| self.begun.split().freeze())
    }

    /// The length of the message after this prefix.
    #[inline]
    fn length(&self, prefix: [u8; PREFIX_BYTES]) -> Result<usize> {
        let [compressed, length @ ..] = prefix;
        let length = u32::from_be_bytes(length) as usize;
        if compressed != 0 {
            return Err(malformed("a message is compressed, which nobody offered"));
        }
        if length > self.bytes_max {
            return Err(malformed("a message is longer than is taken"));
        }
        Ok(length)
    }
}

fn malformed(what: &'static str) -> Error {
    Error::new(SqlState::PROTOCOL_VIOLATION, Malformed(what).to_string())
}
