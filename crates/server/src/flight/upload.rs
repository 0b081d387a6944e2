//! What clients send with `DoPut`: a command in the first message, and batches from it on.

use arrow::record_batch::RecordBatch;
use arrow_flight::FlightData;
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::error::FlightError;
use arrow_flight::sql::{Any, Command};
use futures::{StreamExt, TryStreamExt};
use prost::Message;
use thalweg_types::{Error, Result, SqlState};
use tonic::{Status, Streaming};

/// A command and what comes with it.
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

    /// Whether batches, or at least their columns, come with the command.
    pub(super) fn has_batches(&self) -> bool {
        !self.first.data_header.is_empty()
    }

    pub(super) fn into_batches(self) -> FlightRecordBatchStream {
        let first = futures::stream::once(async { Ok(self.first) });
        let all = first.chain(self.rest.map_err(FlightError::from));
        FlightRecordBatchStream::new_from_flight_data(all)
    }

    pub(super) async fn collect_batches(self) -> Result<Vec<RecordBatch>> {
        self.into_batches().try_collect().await.map_err(unreadable)
    }
}

/// The command in a descriptor or a ticket.
pub(super) fn command(bytes: &[u8]) -> Result<Command> {
    let any = Any::decode(bytes).map_err(|_| protocol("the command cannot be read"))?;
    Command::try_from(any).map_err(|_| protocol("the command cannot be read"))
}

pub(super) fn unreadable(error: FlightError) -> Error {
    match error {
        FlightError::Tonic(status) => broken(&status),
        error => protocol("the batches cannot be read").with_source(error),
    }
}

fn broken(status: &Status) -> Error {
    Error::new(SqlState::CONNECTION_FAILURE, format!("the upload broke off: {}", status.message()))
}

/// Some drivers send what is to be done with the first batch, and without a batch nothing at all.
fn nothing() -> Error {
    protocol("nothing was sent, not even which table or statement it is for")
        .with_hint("To ingest a table without rows, give the driver one batch without rows.")
}

pub(super) fn protocol(message: &str) -> Error {
    Error::new(SqlState::PROTOCOL_VIOLATION, message)
}
