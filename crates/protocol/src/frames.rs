//! Messages in a gRPC body: a byte that says whether the message is compressed, its length in four
//! bytes, itself. A body arrives in pieces that know nothing of messages.

use crate::Malformed;

/// Length of the prefix of each message, in bytes.
pub const PREFIX_BYTES: usize = 5;

/// The prefix of a message of `length` bytes.
#[must_use]
pub fn put_prefix(length: usize) -> [u8; PREFIX_BYTES] {
    let length = u32::try_from(length).expect("a message is shorter than 4 GiB").to_be_bytes();
    [0, length[0], length[1], length[2], length[3]]
}

/// Cuts messages out of a body.
pub struct Messages {
    bytes_max: usize,
    /// The beginning of a message whose rest is still to come.
    begun: Vec<u8>,
}

impl Messages {
    /// For messages of at most so many bytes.
    #[must_use]
    pub fn new(bytes_max: usize) -> Messages {
        Messages { bytes_max, begun: Vec::new() }
    }

    /// Hands over every message that is whole with this piece.
    ///
    /// # Errors
    /// The first error of `each`, or of a message that is compressed or too long. Nothing can be
    /// made of the body after that.
    pub fn feed<E: From<Malformed>>(
        &mut self,
        mut piece: &[u8],
        mut each: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        if !self.begun.is_empty() {
            self.complete(&mut piece)?;
            let Some(length) = self.length(&self.begun)? else { return Ok(()) };
            if self.begun.len() < PREFIX_BYTES + length {
                return Ok(());
            }
            let whole = std::mem::take(&mut self.begun);
            each(&whole[PREFIX_BYTES..])?;
            self.begun = whole;
            self.begun.clear();
        }
        while let Some(length) = self.length(piece)? {
            let Some((message, rest)) = piece[PREFIX_BYTES..].split_at_checked(length) else {
                break;
            };
            each(message)?;
            piece = rest;
        }
        self.begun.extend_from_slice(piece);
        Ok(())
    }

    /// Bytes of a message that is not whole yet.
    #[must_use]
    pub fn begun_bytes(&self) -> usize {
        self.begun.len()
    }

    /// Number of bytes in whole messages once `bytes` more of the body have come: 0 if these do
    /// not complete the message that has begun.
    #[must_use]
    pub fn whole_bytes_with(&self, bytes: usize) -> usize {
        let there = self.begun.len() + bytes;
        match self.length(&self.begun) {
            Ok(Some(length)) if there < PREFIX_BYTES + length => 0,
            _ => there,
        }
    }

    /// Moves the rest of the message that has begun, or what there is of it, out of a piece.
    fn complete(&mut self, piece: &mut &[u8]) -> Result<(), Malformed> {
        for _ in 0..2 {
            // The prefix first: it tells how much the rest is.
            let wanted = match self.length(&self.begun)? {
                None => PREFIX_BYTES,
                Some(length) => PREFIX_BYTES + length,
            };
            let missing = wanted.saturating_sub(self.begun.len()).min(piece.len());
            let (taken, rest) = piece.split_at(missing);
            self.begun.extend_from_slice(taken);
            *piece = rest;
        }
        Ok(())
    }

    /// The length of the message that begins here; `None` if not even that is there yet.
    #[inline]
    fn length(&self, bytes: &[u8]) -> Result<Option<usize>, Malformed> {
        let Some((prefix, _)) = bytes.split_first_chunk::<PREFIX_BYTES>() else { return Ok(None) };
        let [compressed, length @ ..] = *prefix;
        let length = u32::from_be_bytes(length) as usize;
        if compressed != 0 {
            return Err(Malformed("a message is compressed, which nobody offered"));
        }
        if length > self.bytes_max {
            return Err(Malformed("a message is longer than the server takes"));
        }
        Ok(Some(length))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn body(messages: &[Vec<u8>]) -> Vec<u8> {
        messages
            .iter()
            .flat_map(|message| [&put_prefix(message.len())[..], message].concat())
            .collect()
    }

    proptest! {
        #[test]
        fn messages_come_out_however_the_body_is_cut(
            messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..20),
            cuts in prop::collection::vec(1..30_usize, 1..8),
        ) {
            let body = body(&messages);
            let mut rest = body.as_slice();
            let (mut found, mut cutter) = (Vec::new(), Messages::new(100));
            for cut in cuts.iter().cycle() {
                let (piece, behind) = rest.split_at((*cut).min(rest.len()));
                cutter.feed(piece, |message| {
                    found.push(message.to_vec());
                    Ok::<_, Malformed>(())
                }).unwrap();
                rest = behind;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(found, messages);
            prop_assert_eq!(cutter.begun_bytes(), 0);
        }
    }

    #[test]
    fn what_completes_no_message_hands_nothing_over() {
        let mut cutter = Messages::new(100);
        assert_eq!(cutter.whole_bytes_with(7), 7);
        cutter.feed(&[0, 0, 0, 0, 10, 1], |_| Ok::<_, Malformed>(())).unwrap();
        assert_eq!((cutter.whole_bytes_with(8), cutter.whole_bytes_with(9)), (0, 15));
    }

    #[test]
    fn long_and_compressed_messages_are_refused() {
        let feed = |bytes: &[u8]| Messages::new(9).feed(bytes, |_| Ok::<_, Malformed>(()));
        assert!(feed(&[0, 0, 0, 0, 10]).is_err());
        assert!(feed(&[1, 0, 0, 0, 1, 7]).is_err());
        assert!(feed(&[0, 0, 0, 0, 9]).is_ok());
    }
}
