//! `COPY` with the client.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use bytes::Bytes;
use futures::StreamExt;
use thalweg_formats::postgres::{BinaryCopyEncoder, ValueFormat};
use thalweg_formats::{CsvWriter, Format, WriteOptions};
use thalweg_query::{BatchStream, CopyIn, Tag};
use thalweg_types::{Error, Result, SqlState};
use tokio::sync::mpsc;

use super::connection::{Client, End, Trouble};
use super::message::{self, Message};
use super::reply::Replies;
use super::work::Work;

/// Pieces of a client's data that wait to be decoded.
const PIECES_WAITING: usize = 16;
/// Small pieces are put together to this before they are handed on.
const PIECE_BYTES: usize = 256 << 10;
/// How many rows are written before it is looked at whether there is enough to send.
const ROWS_AT_ONCE: usize = 256;

impl Client {
    /// Sends rows, each as a message of its own.
    pub(super) async fn copy_out(
        &mut self,
        schema: &SchemaRef,
        mut stream: BatchStream,
        options: &WriteOptions,
        work: &mut Work,
    ) -> Result<(), Trouble> {
        let mut encoder = Encoder::new(schema, options)?;
        let form = encoder.form();
        self.wire.replies.copy_response(b'H', form, schema.fields().len());
        let head = encoder.head(schema, options);
        if !head.is_empty() {
            self.wire.replies.message(b'd', |out| out.extend_from_slice(&head));
        }
        let mut rows = 0;
        loop {
            self.take_place(work).await?;
            let next = self.wire.while_here(stream.next()).await?;
            let Some(batch) = next.transpose()? else { break };
            rows += batch.num_rows() as u64;
            let mut at = 0;
            while at < batch.num_rows() {
                let until = (at + ROWS_AT_ONCE).min(batch.num_rows());
                let bytes = self.wire.replies.bytes.len();
                encoder.rows(&batch.slice(at, until - at), &mut self.wire.replies)?;
                work.watch.sent(until - at, self.wire.replies.bytes.len() - bytes)?;
                self.send_during(work).await?;
                at = until;
            }
        }
        let tail = encoder.tail();
        if !tail.is_empty() {
            self.wire.replies.message(b'd', |out| out.extend_from_slice(&tail));
        }
        self.wire.replies.copy_done();
        self.wire.replies.complete(&Tag::Copy(rows).to_string());
        Ok(())
    }

    /// Takes the client's rows in; they are decoded on a thread of their own meanwhile.
    pub(super) async fn copy_in(&mut self, copy: CopyIn, work: &mut Work) -> Result<(), Trouble> {
        let format = copy.options().format.unwrap_or(Format::Text);
        let form = if format == Format::Binary { ValueFormat::Binary } else { ValueFormat::Text };
        self.wire.replies.copy_response(b'G', form, copy.schema().fields().len());
        work.give_up_place();
        let (pieces, waiting) = mpsc::channel(PIECES_WAITING);
        let decoding = tokio::task::spawn_blocking(move || decode(copy, waiting));
        let received = self.receive(pieces, work).await;
        let decoded = match decoding.await {
            Ok(decoded) => decoded,
            Err(_) => Err(Error::internal("the thread that reads a copy died")),
        };
        let copy = match (received, decoded) {
            (Err(Trouble::End(end)), _) => return Err(Trouble::End(end)),
            // Rows that were wrong came before the data were cut off.
            (_, Err(error)) => return Err(error.into()),
            (Err(trouble), Ok(_)) => return Err(trouble),
            (Ok(()), Ok(copy)) => copy,
        };
        let copy = copy.ok_or_else(|| Error::internal("a copy that was received is not whole"))?;
        self.take_place(work).await?;
        let finishing = self.session.finish_copy(Ok(copy));
        let outcome = self.wire.while_here(finishing).await??;
        self.wire.replies.complete(&outcome.tag.to_string());
        Ok(())
    }

    /// Hands the client's data on until it says that they are complete, or that they are not.
    async fn receive(
        &mut self,
        pieces: mpsc::Sender<Bytes>,
        work: &mut Work,
    ) -> Result<(), Trouble> {
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
                            // Decoding has failed: say so now, and skip what still comes.
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
                // Clients may send them right behind the statement.
                Some(Message::Flush | Message::Sync) => {}
                Some(Message::Terminate) => return Err(Trouble::End(End::Gone)),
                _ => return Err(Trouble::End(End::Told(unexpected(kind)))),
            }
        }
    }

    /// The client's next message while it copies.
    async fn next_of_copy(&mut self, work: &mut Work) -> Result<(u8, Bytes), Trouble> {
        loop {
            if let Some(message) = self.split().map_err(Trouble::End)? {
                return Ok(message);
            }
            if !self.read_during(work).await? {
                return Err(Trouble::End(End::Gone));
            }
        }
    }
}

/// What the client and the server take the connection for differs now: it cannot go on.
fn unexpected(kind: u8) -> Error {
    message::violation(format!("unexpected message type 0x{kind:02X} during COPY from stdin"))
}

/// Decodes pieces until an empty one. Where none comes, the copy was given up: `None`.
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

enum Encoder {
    Text(CsvWriter, String),
    /// With the header, until the first row goes: clients expect both in one message.
    Binary(BinaryCopyEncoder, Vec<u8>),
}

impl Encoder {
    fn new(schema: &SchemaRef, options: &WriteOptions) -> Result<Encoder> {
        match options.format.unwrap_or(Format::Text) {
            Format::Binary => {
                let encoder = BinaryCopyEncoder::new(Arc::clone(schema));
                let mut header = Vec::new();
                encoder.begin(&mut header);
                Ok(Encoder::Binary(encoder, header))
            }
            format if format.is_delimited() => {
                Ok(Encoder::Text(CsvWriter::new(format, schema, options), String::new()))
            }
            format => Err(Error::unsupported(format!("COPY TO STDOUT as {}", format.extension()))
                .with_hint("Formats are text, csv and binary.")),
        }
    }

    fn form(&self) -> ValueFormat {
        match self {
            Encoder::Text(..) => ValueFormat::Text,
            Encoder::Binary(..) => ValueFormat::Binary,
        }
    }

    /// The line with the columns' names, where it is wanted.
    fn head(&self, schema: &SchemaRef, options: &WriteOptions) -> Vec<u8> {
        match self {
            Encoder::Text(writer, _) if options.header => {
                let mut head = String::new();
                writer.header(schema, &mut head);
                head.into_bytes()
            }
            Encoder::Text(..) | Encoder::Binary(..) => Vec::new(),
        }
    }

    fn rows(&mut self, batch: &RecordBatch, replies: &mut Replies) -> Result<()> {
        match self {
            Encoder::Text(writer, line) => {
                let mut rows = writer.batch(batch)?;
                for row in 0..batch.num_rows() {
                    line.clear();
                    rows.row(row, line);
                    replies.message(b'd', |out| out.extend_from_slice(line.as_bytes()));
                }
            }
            Encoder::Binary(encoder, header) => {
                let mut rows = encoder.batch(batch)?;
                for row in 0..batch.num_rows() {
                    replies.message(b'd', |out| {
                        out.append(header);
                        BinaryCopyEncoder::row(&mut rows, row, out);
                    });
                }
            }
        }
        Ok(())
    }

    fn tail(self) -> Vec<u8> {
        match self {
            Encoder::Text(..) => Vec::new(),
            Encoder::Binary(_, mut header) => {
                BinaryCopyEncoder::end(&mut header);
                header
            }
        }
    }
}
