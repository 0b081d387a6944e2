//! A client of Thalweg's record API: rows written and looked up by their primary keys.
//!
//! Rows are packed into bytes with [`RowWriter`] and taken apart with [`PackedRow`], in the order
//! of the columns that a table was announced with.
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
//! A writer that goes on behind a connection that broke:
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
//! Look-ups are asked again where their connection is lost. Rows are not sent twice, unless a
//! writer is asked to ([`Client::resending_writer`]), and then only those that may be: whoever
//! loses a connection knows which rows were acknowledged ([`Writer::acknowledged`]). How often, and
//! how long, is a matter of [`Builder::retries`] and [`Builder::deadline`].

mod connect;
mod error;
mod messages;
mod replies;
mod resending;
mod retry;
mod searcher;
mod writer;

pub use connect::{Builder, Client};
pub use error::Error;
pub use messages::{Change, Row};
pub use retry::Retries;
pub use searcher::{FoundRow, Searcher};
pub use thalweg_protocol::v1::{
    Column, Durability, Operation, Range, TableDescription, Value, Values, value::Kind,
};
pub use thalweg_protocol::{Malformed, PackedRow, RowWriter, v1};
pub use tonic::transport::{Certificate, ClientTlsConfig};
pub use writer::{Table, Writer, Written};
