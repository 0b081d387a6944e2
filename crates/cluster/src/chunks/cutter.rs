//! Chunks into messages, where they lie.

use bytes::{Bytes, BytesMut};
use thalweg_protocol::{Malformed, PREFIX_BYTES};
use thalweg_types::{Error, Result, SqlState};

/// A message, as a view of what arrived.
#[derive(Clone, Copy)]
pub struct Message<'a> {
    bytes: &'a [u8],
    piece: &'a Bytes,
}

impl Message<'_> {
    /// The same bytes, to keep: not a copy.
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

/// Cuts messages out of pieces that know nothing of them.
pub struct Cutter {
    bytes_max: usize,
    /// The beginning of a message whose rest is still to come.
    begun: BytesMut,
}

impl Cutter {
    /// For messages of at most so many bytes.
    #[must_use]
    pub fn new(bytes_max: usize) -> Cutter {
        Cutter { bytes_max, begun: BytesMut::new() }
    }

    /// Hands over every message that is whole with this piece.
    ///
    /// # Errors
    /// The first error of `each`, or of a message that is compressed or too long. Nothing can be
    /// made of the rest after that.
    pub fn feed<E: From<Error>>(
        &mut self,
        piece: &Bytes,
        mut each: impl FnMut(Message<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut rest = &piece[..];
        if !self.begun.is_empty() {
            match self.complete(&mut rest)? {
                Some(whole) => each(Message { bytes: &whole[PREFIX_BYTES..], piece: &whole })?,
                None => return Ok(()),
            }
        }
        while let Some(length) = self.length(rest)? {
            let Some((bytes, behind)) = rest[PREFIX_BYTES..].split_at_checked(length) else {
                // What follows is copied once, into the place that it will have.
                self.begun.reserve(PREFIX_BYTES + length);
                break;
            };
            each(Message { bytes, piece })?;
            rest = behind;
        }
        self.begun.extend_from_slice(rest);
        Ok(())
    }

    /// Whether nothing of a message is waiting for its rest.
    #[must_use]
    pub fn is_between_messages(&self) -> bool {
        self.begun.is_empty()
    }

    /// Moves the rest of the message that has begun out of a piece. The message, if it is whole.
    fn complete(&mut self, rest: &mut &[u8]) -> Result<Option<Bytes>> {
        for _ in 0..2 {
            // The prefix first: it tells how much the rest is.
            let wanted = match self.length(&self.begun)? {
                None => PREFIX_BYTES,
                Some(length) => PREFIX_BYTES + length,
            };
            let missing = wanted.saturating_sub(self.begun.len());
            self.begun.reserve(missing);
            let (taken, behind) = rest.split_at(missing.min(rest.len()));
            self.begun.extend_from_slice(taken);
            *rest = behind;
        }
        match self.length(&self.begun)? {
            Some(length) if self.begun.len() == PREFIX_BYTES + length => {
                Ok(Some(self.begun.split().freeze()))
            }
            _ => Ok(None),
        }
    }

    /// The length of the message that begins here; `None` if not even that is there yet.
    #[inline]
    fn length(&self, bytes: &[u8]) -> Result<Option<usize>> {
        let Some((prefix, _)) = bytes.split_first_chunk::<PREFIX_BYTES>() else { return Ok(None) };
        let [compressed, length @ ..] = *prefix;
        let length = u32::from_be_bytes(length) as usize;
        if compressed != 0 {
            return Err(malformed("a message is compressed, which nobody offered"));
        }
        if length > self.bytes_max {
            return Err(malformed("a message is longer than is taken"));
        }
        Ok(Some(length))
    }
}

fn malformed(what: &'static str) -> Error {
    Error::new(SqlState::PROTOCOL_VIOLATION, Malformed(what).to_string())
}
