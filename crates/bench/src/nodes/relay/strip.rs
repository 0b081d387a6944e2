//! Sends the contents of messages, without gRPC's framing, to a client.

use bytes::Bytes;
use thalweg_cluster::link::Answer;
use thalweg_protocol::PREFIX_BYTES;
use thalweg_types::{Error, Result, SqlState};
use tokio::io::{AsyncWrite, AsyncWriteExt as _};

/// Writes the contents of an answer's messages to a client, one after the other, and returns the
/// number of bytes. PostgreSQL clients read such a stream, so pieces of messages are sent as they
/// arrive.
///
/// # Errors
/// If the worker or the client is lost.
pub async fn write_messages(
    mut answer: Answer,
    client: &mut (impl AsyncWrite + Unpin),
) -> Result<u64> {
    let mut contents = Contents::default();
    let mut written = 0;
    while let Some(piece) = answer.piece().await? {
        let mut rest = piece;
        while let Some(content) = contents.next(&mut rest)? {
            written += content.len() as u64;
            client.write_all(&content).await.map_err(|error| {
                let message = format!("the client is gone: {error}");
                Error::new(SqlState::CONNECTION_FAILURE, message)
            })?;
        }
    }
    Ok(written)
}

/// Separates the contents of messages from their prefixes.
#[derive(Default)]
struct Contents {
    /// The start of an incomplete prefix.
    prefix: Vec<u8>,
    /// Missing bytes of the current message.
    missing: usize,
}

impl Contents {
    /// Takes the next contents out of this piece.
    fn next(&mut self, piece: &mut Bytes) -> Result<Option<Bytes>> {
        while self.missing == 0 && !piece.is_empty() {
            let wanted = (PREFIX_BYTES - self.prefix.len()).min(piece.len());
            self.prefix.extend_from_slice(&piece.split_to(wanted));
            if let Some(&[compressed, length @ ..]) = self.prefix.first_chunk::<PREFIX_BYTES>() {
                if compressed != 0 {
                    let message = "a message is compressed, which nobody offered";
                    return Err(Error::new(SqlState::PROTOCOL_VIOLATION, message));
                }
                self.missing = u32::from_be_bytes(length) as usize;
                self.prefix.clear();
            }
        }
        if piece.is_empty() {
            return Ok(None);
        }
        let content = piece.split_to(self.missing.min(piece.len()));
        self.missing -= content.len();
        Ok(Some(content))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use thalweg_cluster::chunks::framed;

    use super::*;

    proptest! {
        #[test]
        fn contents_come_out_however_the_body_is_cut(
            messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..20),
            cuts in prop::collection::vec(1..30_usize, 1..8),
        ) {
            let framed: Vec<Bytes> = messages.iter().map(|message| framed(message)).collect();
            let mut body = Bytes::from(framed.concat());
            let (mut contents, mut found) = (Contents::default(), Vec::new());
            for cut in cuts.iter().cycle() {
                let mut piece = body.split_to((*cut).min(body.len()));
                while let Some(content) = contents.next(&mut piece).unwrap() {
                    found.extend_from_slice(&content);
                }
                if body.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(found, messages.concat());
        }
    }

    #[test]
    fn a_compressed_message_is_refused() {
        let mut piece = Bytes::from_static(&[1, 0, 0, 0, 1, 7]);
        assert!(Contents::default().next(&mut piece).is_err());
    }
}
