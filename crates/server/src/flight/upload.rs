//! Uploads with `DoPut`: the first message holds the command and possibly the first batch.

use std::panic::AssertUnwindSafe;

use arrow::datatypes::Schema;
use arrow::record_batch::RecordBatch;
use arrow_flight::FlightData;
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::error::FlightError;
use arrow_flight::sql::{Any, Command};
use futures::stream::BoxStream;
use futures::{Stream, StreamExt, TryStreamExt};
use prost::Message;
use thalweg_formats::rows::{check_message, schema_of_message};
use thalweg_types::{Error, Result, SqlState};
use tonic::{Status, Streaming};

/// Maximum size of one message's values after decompression.
const EXPANDED_BYTES_MAX: usize = 1 << 30;

/// A command and the messages after it.
pub(super) struct Upload {
    pub(super) command: Command,
    first: FlightData,
    rest: Streaming<FlightData>,
}

impl Upload {
    pub(super) async fn receive(mut stream: Streaming<FlightData>) -> Result<Upload> {
        let first = stream.message().await.map_err(|status| broken(&status))?;
        let first = first.ok_or_else(nothing)?;
        let descriptor = first.flight_descriptor.as_ref();
        let descriptor = descriptor.ok_or_else(|| protocol("the first message has no command"))?;
        Ok(Upload { command: command(&descriptor.cmd)?, first, rest: stream })
    }

    /// True if the command comes with batches, or at least with their schema.
    pub(super) fn has_batches(&self) -> bool {
        !self.first.data_header.is_empty()
    }

    /// The schema that comes with the command, if any.
    pub(super) fn schema(&self) -> Option<Schema> {
        self.has_batches().then(|| schema_of_message(&self.first.data_header).ok()).flatten()
    }

    /// The batches. Before each is decoded, `room` is called with its decoded size in bytes and can
    /// refuse it.
    pub(super) fn into_batches(
        self,
        room: impl Fn(usize) -> Result<()> + Send + 'static,
    ) -> Batches {
        let first = futures::stream::once(async { Ok(self.first) });
        decoded(first.chain(self.rest.map_err(FlightError::from)), room)
    }

    pub(super) async fn collect_batches(self) -> Result<Vec<RecordBatch>> {
        let unchecked = |_| Ok(());
        self.into_batches(unchecked).try_collect().await.map_err(unreadable)
    }
}

/// Batches as they are decoded.
pub(crate) type Batches = BoxStream<'static, std::result::Result<RecordBatch, FlightError>>;

/// Decodes the batches of untrusted messages. Before each is decoded, `room` is called with its
/// decoded size in bytes and can refuse it.
pub(crate) fn decoded(
    messages: impl Stream<Item = std::result::Result<FlightData, FlightError>> + Send + 'static,
    room: impl Fn(usize) -> Result<()> + Send + 'static,
) -> Batches {
    let checked = messages
        .and_then(move |message| std::future::ready(check(&message, &room).map(|()| message)));
    let batches = FlightRecordBatchStream::new_from_flight_data(checked);
    // The decoder checks its input, but not every length and not every type: it panics on some.
    let caught = AssertUnwindSafe(batches).catch_unwind();
    let malformed = || FlightError::DecodeError("the decoder failed".to_owned());
    caught.map(move |next| next.unwrap_or_else(|_| Err(malformed()))).boxed()
}

/// Checks the decoded size that a message declares: a few compressed bytes can expand to gigabytes.
fn check(
    message: &FlightData,
    room: &impl Fn(usize) -> Result<()>,
) -> std::result::Result<(), FlightError> {
    let translate_error = |error: Error| FlightError::ExternalError(Box::new(error));
    let bytes = check_message(&message.data_header, &message.data_body, EXPANDED_BYTES_MAX);
    let bytes = bytes.map_err(|fault| translate_error(protocol(fault)))?;
    room(bytes).map_err(translate_error)
}

/// Decodes the command in a descriptor or a ticket.
pub(super) fn command(bytes: &[u8]) -> Result<Command> {
    let any = Any::decode(bytes).map_err(|_| protocol("the command cannot be read"))?;
    Command::try_from(any).map_err(|_| protocol("the command cannot be read"))
}

pub(crate) fn unreadable(error: FlightError) -> Error {
    match error {
        FlightError::Tonic(status) => broken(&status),
        FlightError::ExternalError(source) => match source.downcast::<Error>() {
            Ok(own) => *own,
            Err(source) => protocol("the batches cannot be read").with_source(source),
        },
        error => protocol("the batches cannot be read").with_source(error),
    }
}

fn broken(status: &Status) -> Error {
    Error::new(SqlState::CONNECTION_FAILURE, format!("the upload broke off: {}", status.message()))
}

/// The error for an empty upload. Some drivers send the command with the first batch, and nothing
/// at all if there is no batch.
fn nothing() -> Error {
    protocol("nothing was sent, not even which table or statement it is for")
        .with_hint("To ingest a table without rows, give the driver one batch without rows.")
}

pub(crate) fn protocol(message: &str) -> Error {
    Error::new(SqlState::PROTOCOL_VIOLATION, message)
}
