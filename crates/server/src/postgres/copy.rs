//! `COPY` from and to the client.

use std::collections::VecDeque;

use bytes::Bytes;
use futures::StreamExt;
use thalweg_execution::row_forms::{Encoded, EncodedStream};
use thalweg_formats::postgres::{CopyEncoder, ValueFormat};
use thalweg_formats::text::style::within;
use thalweg_formats::{Format, WriteOptions};
use thalweg_query::{BatchStream, CopyIn, Outcome, Tag};
use thalweg_types::{Error, Result, SqlState};
use tokio::sync::mpsc;

use super::connection::{Client, End, MessageFailure};
use super::message::{self, Message};
use super::reply::Replies;
use super::running_statement::RunningStatement;
use super::wait::unless_cancelled;
use super::wire::SEND_BYTES;

/// Maximum pieces of a client's data that wait to be decoded.
const PIECES_WAITING: usize = 16;
/// Small pieces are gathered up to this size before they are decoded.
const PIECE_BYTES: usize = 256 << 10;
/// A message's kind byte and its length.
const MESSAGE_HEAD_BYTES: usize = 5;

impl Client {
    /// Sends rows, each in a `CopyData` message of its own.
    pub(super) async fn copy_out(
        &mut self,
        outcome: Outcome,
        options: &WriteOptions,
        work: &mut RunningStatement,
    ) -> Result<(), MessageFailure> {
        let Outcome { schema, rows, encoded, style, .. } = outcome;
        let encoder = within(style.as_ref(), || CopyEncoder::new(&schema, options))?;
        let form = encoder.form();
        self.wire.replies.copy_response(b'H', form, schema.fields().len());
        let mut head = encoder.head(&schema, options);
        if form == ValueFormat::Text {
            self.copy_data(&mut head);
        }
        let rows = match (encoded, rows) {
            (Some(parts), _) => self.pass_on_rows(parts, &mut head, work).await?,
            (None, Some(rows)) => self.write_rows(rows, &encoder, &mut head, work).await?,
            (None, None) => return Err(Error::internal("a copy has no rows").into()),
        };
        encoder.end(&mut head);
        self.copy_data(&mut head);
        self.wire.replies.copy_done();
        self.wire.replies.complete(Tag::Copy(rows));
        Ok(())
    }

    /// Sends header or trailer data as a message, if there is any.
    fn copy_data(&mut self, data: &mut Vec<u8>) {
        if !data.is_empty() {
            self.wire.replies.message(b'd', |out| out.append(data));
        }
    }

    /// Encodes and sends batches; returns the number of rows.
    async fn write_rows(
        &mut self,
        mut stream: BatchStream,
        encoder: &CopyEncoder,
        head: &mut Vec<u8>,
        work: &mut RunningStatement,
    ) -> Result<u64, MessageFailure> {
        let mut sent = 0;
        loop {
            self.take_place(work).await?;
            let next = self.wire.while_here(stream.next()).await?;
            let Some(batch) = next.transpose()? else { return Ok(sent) };
            sent += batch.num_rows() as u64;
            let (mut rows, mut at) = (encoder.batch(&batch)?, 0);
            while at < rows.rows() {
                let (from, out) = (at, &mut self.wire.replies.bytes);
                let before = out.len();
                while at < rows.rows() && (at == from || out.len() < SEND_BYTES) {
                    rows.copy_data(at, head, out)?;
                    at += 1;
                }
                let bytes = out.len() - before;
                work.watch.sent(at - from, bytes)?;
                self.send_during(work).await?;
            }
        }
    }

    /// Forwards rows that workers have encoded; returns the number of rows.
    async fn pass_on_rows(
        &mut self,
        mut parts: EncodedStream,
        head: &mut Vec<u8>,
        work: &mut RunningStatement,
    ) -> Result<u64, MessageFailure> {
        let mut sent = 0;
        loop {
            self.take_place(work).await?;
            // Workers compute these rows, so this is the only place that notices a cancellation.
            let next = self.wire.while_here(parts.next());
            let next = unless_cancelled(&mut work.cancels, next).await?;
            let Some(Encoded { rows, bytes, mut pieces }) = next.transpose()? else {
                return Ok(sent);
            };
            if !head.is_empty() {
                put_head(head, &mut pieces, &mut self.wire.replies)?;
            }
            pieces.into_iter().for_each(|piece| self.wire.pass_on(piece));
            sent += rows;
            work.watch.sent(rows as usize, bytes)?;
            self.send_during(work).await?;
        }
    }

    /// Receives rows from the client, while a blocking thread decodes them.
    pub(super) async fn copy_in(
        &mut self,
        copy: CopyIn,
        work: &mut RunningStatement,
    ) -> Result<(), MessageFailure> {
        let format = copy.options().format.unwrap_or(Format::Text);
        let form = if format == Format::Binary { ValueFormat::Binary } else { ValueFormat::Text };
        self.wire.replies.copy_response(b'G', form, copy.schema().fields().len());
        work.give_up_place();
        let (pieces, waiting) = mpsc::channel(PIECES_WAITING);
        let style = copy.style();
        let decoding =
            tokio::task::spawn_blocking(move || within(style.as_ref(), || decode(copy, waiting)));
        let received = self.receive(pieces, work).await;
        let decoded = match decoding.await {
            Ok(decoded) => decoded,
            Err(_) => Err(Error::internal("the thread that reads a copy died")),
        };
        let copy = match (received, decoded) {
            (Err(MessageFailure::End(end)), _) => return Err(MessageFailure::End(end)),
            // An error in decoded rows came first, so it is reported rather than the interruption.
            (_, Err(error)) => return Err(error.into()),
            (Err(trouble), Ok(_)) => return Err(trouble),
            (Ok(()), Ok(copy)) => copy,
        };
        let copy = copy.ok_or_else(|| Error::internal("a copy that was received is not whole"))?;
        self.take_place(work).await?;
        let finishing = self.session.finish_copy(Ok(copy));
        let outcome = self.wire.while_here(finishing).await??;
        self.wire.replies.complete(&outcome.tag);
        Ok(())
    }

    /// Forwards the client's data to the decoder until `CopyDone` or `CopyFail`.
    async fn receive(
        &mut self,
        pieces: mpsc::Sender<Bytes>,
        work: &mut RunningStatement,
    ) -> Result<(), MessageFailure> {
        let mut gathered = Vec::with_capacity(PIECE_BYTES);
        loop {
            let (kind, body) = self.next_of_copy(work).await?;
            let message = Message::is_known(kind).then(|| Message::parse(kind, body));
            match message.transpose()? {
                Some(Message::CopyData(data)) => {
                    gathered.extend_from_slice(&data);
                    if gathered.len() >= PIECE_BYTES {
                        let piece = Bytes::from(std::mem::take(&mut gathered));
                        gathered.reserve(PIECE_BYTES);
                        if pieces.send(piece).await.is_err() {
                            // Decoding has failed: the error is reported now, and remaining data is
                            // skipped.
                            return Ok(());
                        }
                    }
                }
                Some(Message::CopyDone) => {
                    let _ = pieces.send(Bytes::from(gathered)).await;
                    let _ = pieces.send(Bytes::new()).await;
                    return Ok(());
                }
                Some(Message::CopyFail(reason)) => {
                    let message = format!("COPY from stdin failed: {reason}");
                    return Err(Error::new(SqlState::QUERY_CANCELED, message).into());
                }
                // Clients may send these directly after the statement.
                Some(Message::Flush | Message::Sync) => {}
                Some(Message::Terminate) => return Err(MessageFailure::End(End::Gone)),
                _ => return Err(MessageFailure::End(End::Reported(unexpected(kind)))),
            }
        }
    }

    /// The client's next message during a copy.
    async fn next_of_copy(
        &mut self,
        work: &mut RunningStatement,
    ) -> Result<(u8, Bytes), MessageFailure> {
        loop {
            if let Some(message) = self.split().map_err(MessageFailure::End)? {
                return Ok(message);
            }
            if !self.read_during(work).await? {
                return Err(MessageFailure::End(End::Gone));
            }
        }
    }
}

/// The error for a message that cannot occur during a copy. Client and server disagree about the
/// protocol's state, so the connection ends.
fn unexpected(kind: u8) -> Error {
    message::violation(format!("unexpected message type 0x{kind:02X} during COPY from stdin"))
}

/// Decodes pieces up to an empty one, which marks the end. Returns `None` if the channel closes
/// before, since the copy was abandoned.
fn decode(mut copy: CopyIn, mut pieces: mpsc::Receiver<Bytes>) -> Result<Option<CopyIn>> {
    let mut decoder = copy.decoder()?;
    while let Some(piece) = pieces.blocking_recv() {
        let is_last = piece.is_empty();
        let batches = if is_last { decoder.finish()? } else { decoder.push(&piece)? };
        for batch in batches {
            copy.push(&batch)?;
        }
        if is_last {
            return Ok(Some(copy));
        }
    }
    Ok(None)
}

/// Moves the header of the first message to the replies and inserts `head` into that message:
/// clients expect the header of binary data and the first row in one message.
fn put_head(head: &mut Vec<u8>, pieces: &mut VecDeque<Bytes>, replies: &mut Replies) -> Result<()> {
    let (mut start, mut known) = ([0; MESSAGE_HEAD_BYTES], 0);
    while known < start.len() {
        let Some(mut piece) = pieces.pop_front() else {
            return Err(Error::internal("a message of a copy is not whole"));
        };
        let taken = piece.split_to((start.len() - known).min(piece.len()));
        start[known..][..taken.len()].copy_from_slice(&taken);
        known += taken.len();
        if !piece.is_empty() {
            pieces.push_front(piece);
        }
    }
    let [kind, length @ ..] = start;
    let length = u32::from_be_bytes(length).saturating_add(head.len() as u32);
    replies.bytes.push(kind);
    replies.bytes.extend_from_slice(&length.to_be_bytes());
    replies.bytes.append(head);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_goes_into_the_first_message_wherever_that_was_cut() {
        let message = b"d\0\0\0\x06ab";
        for cut in 0..=message.len() {
            let (before, behind) = message.split_at(cut);
            let mut pieces = VecDeque::from([before, behind].map(Bytes::from_static));
            let (mut head, mut replies) = (b"head".to_vec(), Replies::default());
            put_head(&mut head, &mut pieces, &mut replies).unwrap();
            let rest: Vec<u8> = pieces.iter().flatten().copied().collect();
            assert_eq!([replies.bytes, rest].concat(), b"d\0\0\0\x0aheadab");
            assert!(head.is_empty());
        }
        let mut short = VecDeque::from([Bytes::from_static(b"d\0\0")]);
        assert!(put_head(&mut Vec::new(), &mut short, &mut Replies::default()).is_err());
    }
}
