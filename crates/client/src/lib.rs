//! A client of Thalweg's record API: rows written and looked up by their primary keys.
//!
//! Rows are packed into bytes with [`RowWriter`] and unpacked with [`PackedRow`], in the order of
//! the columns with which a table was announced.
//!
//! ```no_run
//! # async fn run() -> Result<(), thalweg_client::Error> {
//! use thalweg_client::{Client, RowWriter};
//!
//! let client = Client::connect("http://127.0.0.1:7470").await?;
//! let mut writer = client.writer().await?;
//! // CREATE TABLE account (id integer PRIMARY KEY, balance integer NOT NULL, owner text NOT NULL)
//! let account = writer.table("account", &[]).await?;
//! let mut row = RowWriter::new(3, false);
//!
//! // Fire, and flush once: a million rows a second.
//! for id in 0..1_000 {
//!     writer.upsert(account, row.int4(id).int4(100).text("somebody").finish()).await?;
//! }
//! writer.flush().await?;
//!
//! // Or wait for a single row.
//! let written = writer.create(account, row.int4(7).int4(0).text("taken").finish()).await?;
//! assert!(written.await.is_err(), "there is an account 7");
//! # Ok(())
//! # }
//! ```
//!
//! A writer can continue after its connection broke:
//!
//! ```no_run
//! # async fn run() -> Result<(), thalweg_client::Error> {
//! # use std::time::Duration;
//! use thalweg_client::{Client, Retries, RowWriter};
//!
//! let retries = Retries { count: 20, ..Retries::default() };
//! let builder = Client::builder().retries(retries).deadline(Duration::from_secs(600));
//! let client = builder.connect("http://127.0.0.1:7470").await?;
//! let mut writer = client.resending_writer().await?;
//! let account = writer.table("account", &[]).await?;
//! let mut row = RowWriter::new(3, false);
//! for id in 0..1_000_000 {
//!     writer.upsert(account, row.int4(id).int4(100).text("somebody").finish()).await?;
//! }
//! writer.flush().await?;
//! # Ok(())
//! # }
//! ```
//!
//! Rows are looked up one after the other ([`Searcher::look_up`]), or with many look-ups in flight
//! on one stream, each with a future for its rows:
//!
//! ```no_run
//! # async fn run() -> Result<(), thalweg_client::Error> {
//! use thalweg_client::{Client, RowWriter};
//!
//! let client = Client::connect("http://127.0.0.1:7470").await?;
//! let searcher = client.pipelined_searcher().await?;
//! let account = searcher.table("account", &["balance"]);
//! let mut key = RowWriter::new(1, false);
//! let mut answers = Vec::new();
//! for id in 0..1_000 {
//!     answers.push(searcher.look_up(account, vec![key.int4(id).finish()]).await?);
//! }
//! for answer in answers {
//!     assert!(answer.await?[0].is_some(), "there is such an account");
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A table that is larger than memory can be read in the order of its keys. The server sends rows
//! as fast as the client takes them, and stops when the stream is dropped:
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use futures::StreamExt;
//! use thalweg_client::{Client, PackedRow, Range};
//!
//! let mut searcher = Client::connect("http://127.0.0.1:7470").await?.searcher().await?;
//! let table = searcher.table("account", &["id", "balance"]);
//! let mut accounts = searcher.stream_range(Range { table, ..Range::default() });
//! while let Some(packed) = accounts.next().await {
//!     let packed = packed?;
//!     let mut row = PackedRow::new(&packed, 2, false)?;
//!     let (id, balance) = (row.int4()?, row.int4()?);
//!     if balance > Some(1_000_000) {
//!         println!("account {id:?} is rich");
//!         break;
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Look-ups are repeated after a lost connection, unless some rows of their range were returned
//! already. Rows are sent only once by default: after a lost connection, [`Writer::acknowledged`]
//! tells which were acknowledged. A writer of [`Client::resending_writer`] resends unacknowledged
//! rows whose operation is idempotent. [`Builder::retries`] and [`Builder::deadline`] limit the
//! retries.

mod call;
mod connect;
mod error;
mod found;
mod messages;
mod pipelined;
mod replies;
mod resending;
mod retry;
mod rows;
mod searcher;
mod writer;

pub use connect::{Builder, Client};
pub use error::Error;
pub use found::FoundRow;
pub use messages::{Change, Row};
pub use pipelined::{Answer, PipelinedSearcher};
pub use retry::Retries;
pub use rows::Rows;
pub use searcher::Searcher;
pub use thalweg_protocol::v1::{
    Column, Durability, Operation, Range, TableDescription, Value, Values, value::Kind,
};
pub use thalweg_protocol::{Malformed, PackedRow, RowWriter, v1};
pub use tonic::transport::{Certificate, ClientTlsConfig};
pub use writer::{Table, Writer, Written};
