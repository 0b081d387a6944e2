//! A worker whose rows are already encoded for clients. It sends one cached message again and
//! again, like the encoding of a chunk that no longer changes.

use std::sync::Arc;
use std::task::{Context, Poll};

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_flight::FlightData;
use arrow_flight::utils::batches_to_flight_data;
use bytes::Bytes;
use futures::future::BoxFuture;
use hyper::Response;
use prost::Message;
use thalweg_cluster::chunks::{ChunkWriter, Fill, Pool, Source, framed};
use thalweg_cluster::node::{Chunks, NodeServer, ServeOptions, Services, chunks};
use thalweg_formats::postgres::{RowEncoder, ValueFormat};
use thalweg_types::Result;
use tonic::body::Body;
use tonic::service::Routes;

use super::process::local;
use crate::errors::while_doing;

/// Rows of a message: a message is about 256 KiB.
pub const MESSAGE_ROWS: usize = 4_096;

/// The format in which clients read rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum Format {
    Flight = 0,
    Postgres = 1,
}

/// A request for rows.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct RowsWanted {
    #[prost(uint64, tag = "1")]
    pub messages: u64,
    #[prost(enumeration = "Format", tag = "2")]
    pub format: i32,
}

/// The rows of every message.
pub(super) fn batch() -> Result<RecordBatch> {
    let numbers = 0..MESSAGE_ROWS as i64;
    let columns: [(&str, ArrayRef); 4] = [
        ("id", Arc::new(Int64Array::from_iter_values(numbers.clone()))),
        ("amount", Arc::new(Int64Array::from_iter_values(numbers.clone().map(|n| n * 37)))),
        (
            "price",
            Arc::new(Float64Array::from_iter_values(numbers.clone().map(|n| n as f64 / 8.0))),
        ),
        (
            "comment",
            Arc::new(StringArray::from_iter_values(
                numbers.map(|n| format!("carefully chosen words, {n:08}")),
            )),
        ),
    ];
    RecordBatch::try_from_iter(columns).map_err(while_doing("making rows"))
}

/// The schema message, and the message that is sent again and again.
pub(super) fn flight_messages() -> Result<(FlightData, FlightData)> {
    let batch = batch()?;
    let data = batches_to_flight_data(&batch.schema(), vec![batch]);
    let mut data = data.map_err(while_doing("encoding rows"))?.into_iter();
    let mut next = || data.next().ok_or_else(|| thalweg_types::Error::internal("no rows"));
    Ok((next()?, next()?))
}

/// Rows as PostgreSQL's messages.
pub(super) fn postgres_rows(batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
    let formats = vec![ValueFormat::Text; batch.num_columns()];
    let mut rows = RowEncoder::new(batch.schema(), formats).batch(batch)?;
    for row in 0..batch.num_rows() {
        rows.data_row(row, out)?;
    }
    Ok(())
}

struct Kept {
    pool: Pool,
    schema: Bytes,
    flight: Bytes,
    postgres: Bytes,
}

struct Sending {
    first: Option<Bytes>,
    rows: Bytes,
    left: u64,
}

impl Source for Sending {
    fn poll_fill(&mut self, _: &mut Context<'_>, writer: &mut ChunkWriter) -> Poll<Result<Fill>> {
        if let Some(first) = self.first.take() {
            writer.cached(first);
        }
        while self.left > 0 && !writer.is_full() {
            writer.cached(self.rows.clone());
            self.left -= 1;
        }
        Poll::Ready(Ok(if self.left == 0 { Fill::End } else { Fill::More }))
    }
}

impl Chunks for Kept {
    fn fetch(&self, question: Bytes) -> BoxFuture<'_, Result<Response<Body>>> {
        Box::pin(async {
            let wanted = RowsWanted::decode(question).map_err(while_doing("reading a question"))?;
            let (first, rows) = match wanted.format() {
                Format::Flight => (Some(self.schema.clone()), self.flight.clone()),
                Format::Postgres => (None, self.postgres.clone()),
            };
            Ok(chunks(&self.pool, Sending { first, rows, left: wanted.messages }))
        })
    }
}

pub(super) fn start() -> Result<Vec<u16>> {
    let (schema, rows) = flight_messages()?;
    let mut postgres = Vec::new();
    postgres_rows(&batch()?, &mut postgres)?;
    let kept = Kept {
        pool: Pool::new(4),
        schema: framed(&schema.encode_to_vec()),
        flight: framed(&rows.encode_to_vec()),
        postgres: framed(&postgres),
    };
    let server = NodeServer::bind(local(0), ServeOptions::default())?;
    let port = server.address()?.port();
    tokio::spawn(server.serve(Services::new(Arc::new(kept), Routes::default())));
    Ok(vec![port])
}
