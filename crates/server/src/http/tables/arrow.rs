//! An Arrow IPC stream, decoded message by message.

use arrow_flight::FlightData;
use arrow_flight::error::FlightError;
use arrow_ipc::root_as_message;
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use thalweg_formats::rows::schema_of_message;
use thalweg_types::{Error, Result, SqlState};

use super::Rows;
use super::sink::Group;
use crate::flight::upload::{decoded, protocol, unreadable};
use crate::http::ingest::{Failure, UploadBody};

/// Marks the length behind it; streams of old versions have the length alone.
const CONTINUATION: u32 = u32::MAX;

/// Cuts a body into messages. Bytes are gathered as they arrive, whatever length is announced.
struct Messages {
    body: UploadBody,
    ahead: BytesMut,
    message_bytes_max: usize,
    has_ended: bool,
}

impl Messages {
    /// The next message; `None` at the end of the stream.
    async fn next(&mut self) -> Result<Option<FlightData>, Failure> {
        if self.has_ended {
            return Ok(None);
        }
        let Some(mut length) = self.number().await? else {
            self.has_ended = true;
            return Ok(None);
        };
        if length == CONTINUATION {
            length = self.number().await?.ok_or_else(cut_off)?;
        }
        if length == 0 {
            self.has_ended = true;
            return match self.body.next().await? {
                None if self.ahead.is_empty() => Ok(None),
                _ => Err(protocol("bytes follow the end of the Arrow stream").into()),
            };
        }
        let header = self.bytes(length as usize).await?;
        let message = root_as_message(&header).map_err(|_| unreadable_stream())?;
        let body_bytes = usize::try_from(message.bodyLength()).map_err(|_| unreadable_stream())?;
        let body = self.bytes(body_bytes).await?;
        Ok(Some(FlightData { data_header: header, data_body: body, ..FlightData::default() }))
    }

    /// A number of four bytes; `None` if the body ends before it.
    async fn number(&mut self) -> Result<Option<u32>, Failure> {
        if self.ahead.is_empty() && !self.more().await? {
            return Ok(None);
        }
        let bytes = self.bytes(4).await?;
        Ok(bytes.first_chunk().map(|bytes| u32::from_le_bytes(*bytes)))
    }

    async fn bytes(&mut self, count: usize) -> Result<Bytes, Failure> {
        if count > self.message_bytes_max {
            let message = "a message of the Arrow stream is longer than limits.message_bytes";
            let error = Error::new(SqlState::LIMIT_EXCEEDED, message);
            return Err(error.with_hint("Write smaller record batches.").into());
        }
        while self.ahead.len() < count {
            if !self.more().await? {
                return Err(cut_off().into());
            }
        }
        Ok(self.ahead.split_to(count).freeze())
    }

    async fn more(&mut self) -> Result<bool, Failure> {
        self.body.reserve(self.ahead.len())?;
        let Some(bytes) = self.body.next().await? else { return Ok(false) };
        self.ahead.extend_from_slice(&bytes);
        Ok(true)
    }
}

impl Rows {
    /// The columns of the rows are those of the stream.
    pub(super) async fn write_arrow(&mut self, body: UploadBody) -> Result<(), Failure> {
        let message_bytes_max = self.upload.shared.config.limits.message_bytes;
        let mut messages =
            Messages { body, ahead: BytesMut::new(), message_bytes_max, has_ended: false };
        let first = messages.next().await?.ok_or_else(cut_off)?;
        let schema = schema_of_message(&first.data_header).map_err(protocol)?;
        let columns: Vec<String> =
            schema.fields().iter().map(|field| field.name().clone()).collect();
        if columns.is_empty() {
            return Err(protocol("rows without columns cannot be written").into());
        }
        let mut sink = self.open(&columns).await?;
        let room = sink.room();
        let room = move |bytes| room.as_ref().map_or(Ok(()), |room| room(bytes));
        let rest = futures::stream::try_unfold(messages, async |mut messages| {
            let message = messages.next().await.map_err(|failure| wrapped(failure.error))?;
            Ok(message.map(|message| (message, messages)))
        });
        let all = futures::stream::once(async { Ok(first) }).chain(rest);
        let mut batches = decoded(all, room);
        while let Some(batch) = batches.next().await.transpose().map_err(unreadable)? {
            let held = self.upload.memory(batch.get_array_memory_size()).await;
            let push = move |group: &mut Group<'_>| group.push(batch);
            (sink, ()) = sink.write(&mut self.upload, &mut self.report, push).await?;
            drop(held);
        }
        Ok(self.finish(sink).await?)
    }
}

fn wrapped(error: Error) -> FlightError {
    FlightError::ExternalError(Box::new(error))
}

fn unreadable_stream() -> Error {
    protocol("the Arrow stream cannot be read")
}

fn cut_off() -> Error {
    protocol("the Arrow stream is cut off")
}
