//! Cuts an answer into parts, which are forwarded as a whole.
//!
//! Each message begins with its number of rows, and the rest is opaque. Several answers can be
//! merged for one client only between such messages. A part is forwarded when it is complete, so
//! that an error that comes instead of its rest can still be sent in the client's protocol.

use std::collections::VecDeque;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use thalweg_protocol::PREFIX_BYTES;
use thalweg_types::{Error, Result, SqlState};

use crate::chunks::MESSAGE_BYTES_MAX;
use crate::link::{Answer, damaged};

/// Length of the number of rows, in bytes.
pub const COUNT_BYTES: usize = 4;
const HEAD_BYTES: usize = PREFIX_BYTES + COUNT_BYTES;

/// The contents of a message.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Part {
    pub rows: u64,
    pub bytes: usize,
    /// The bytes without the head, in pieces as they arrived.
    pub pieces: VecDeque<Bytes>,
}

/// The parts of one answer.
pub struct Parts {
    answer: Answer,
    cut: Cut,
}

impl Parts {
    /// The parts of `answer`, whose messages must begin with a number of rows.
    #[must_use]
    pub fn new(answer: Answer) -> Parts {
        Parts { answer, cut: Cut::default() }
    }

    /// The next part. `None` means that the answer ended without an error.
    pub fn poll_part(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Part>>> {
        loop {
            if let Some(part) = self.cut.whole.pop_front() {
                return Poll::Ready(Some(Ok(part)));
            }
            let fed = match ready!(self.answer.poll_piece(context)) {
                Some(Ok(piece)) => self.cut.feed(piece),
                Some(Err(error)) => Err(error),
                None if self.cut.is_between() => return Poll::Ready(None),
                None => Err(malformed("it ends within a message")),
            };
            if let Err(error) = fed {
                return Poll::Ready(Some(Err(damaged(error, self.answer.from()))));
            }
        }
    }
}

/// Cuts pieces at the ends of messages.
#[derive(Default)]
struct Cut {
    head: Vec<u8>,
    /// The current message, and the number of bytes still missing.
    part: Part,
    missing: usize,
    whole: VecDeque<Part>,
}

impl Cut {
    fn feed(&mut self, mut piece: Bytes) -> Result<()> {
        while !piece.is_empty() {
            if self.missing == 0 {
                let taken = (HEAD_BYTES - self.head.len()).min(piece.len());
                self.head.extend_from_slice(&piece[..taken]);
                piece.advance(taken);
                if self.head.len() < HEAD_BYTES {
                    return Ok(());
                }
                self.begin()?;
            }
            let taken = self.missing.min(piece.len());
            if taken > 0 {
                self.part.pieces.push_back(piece.split_to(taken));
                self.missing -= taken;
            }
            if self.missing == 0 {
                self.whole.push_back(std::mem::take(&mut self.part));
            }
        }
        Ok(())
    }

    fn begin(&mut self) -> Result<()> {
        let mut head = self.head.as_slice();
        let (compressed, length) = (head.get_u8(), head.get_u32() as usize);
        let rows = u64::from(head.get_u32());
        self.head.clear();
        if compressed != 0 {
            return Err(malformed("a message is compressed, which nobody offered"));
        }
        if !(COUNT_BYTES..=MESSAGE_BYTES_MAX).contains(&length) {
            return Err(malformed("a message has a length that none has"));
        }
        self.missing = length - COUNT_BYTES;
        self.part = Part { rows, bytes: self.missing, pieces: VecDeque::new() };
        Ok(())
    }

    fn is_between(&self) -> bool {
        self.missing == 0 && self.head.is_empty()
    }
}

fn malformed(what: &'static str) -> Error {
    Error::new(SqlState::PROTOCOL_VIOLATION, what)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::chunks::framed;

    proptest! {
        #[test]
        fn parts_come_out_however_the_body_is_cut(
            messages in prop::collection::vec(
                (any::<u32>(), prop::collection::vec(any::<u8>(), 0..40)), 0..20),
            cuts in prop::collection::vec(1..30_usize, 1..8),
        ) {
            let framed = messages.iter().map(|(rows, content)| {
                framed(&[&rows.to_be_bytes(), content.as_slice()].concat())
            });
            let mut body = Bytes::from(framed.collect::<Vec<_>>().concat());
            let mut cut = Cut::default();
            for length in cuts.iter().cycle() {
                cut.feed(body.split_to((*length).min(body.len()))).unwrap();
                if body.is_empty() {
                    break;
                }
            }
            prop_assert!(cut.is_between());
            let found = cut.whole.iter().map(|part| {
                let content: Vec<u8> = part.pieces.iter().flatten().copied().collect();
                assert_eq!(content.len(), part.bytes);
                (u32::try_from(part.rows).unwrap(), content)
            });
            prop_assert!(found.eq(messages));
        }
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for head in [
            [1, 0, 0, 0, 9, 0, 0, 0, 1],
            [0, 0, 0, 0, 3, 0, 0, 0, 1],
            [0, 255, 0, 0, 0, 0, 0, 0, 1],
        ] {
            assert!(Cut::default().feed(Bytes::copy_from_slice(&head)).is_err(), "{head:?}");
        }
        let mut cut = Cut::default();
        cut.feed(Bytes::from_static(&[0, 0, 0, 0, 6, 0, 0, 0, 1, 7])).unwrap();
        assert!(!cut.is_between());
    }
}
