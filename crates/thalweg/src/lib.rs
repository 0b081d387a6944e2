//! A memory-first SQL database for live data, as a library.
//!
//! ```
//! use futures::TryStreamExt as _;
//! use thalweg::Database;
//!
//! # fn main() -> thalweg::Result<()> {
//! # tokio::runtime::Runtime::new().expect("a runtime").block_on(async {
//! let database = Database::in_memory()?;
//! let mut session = database.session();
//! session.execute("CREATE TABLE prices (symbol text PRIMARY KEY, price numeric(12, 4))").await?;
//! session.execute("INSERT INTO prices VALUES ('AAPL', 187.5), ('MSFT', 402.25)").await?;
//!
//! let outcome = session.execute("SELECT symbol FROM prices WHERE price > 200").await?;
//! let mut rows = outcome.rows.expect("a query has rows");
//! while let Some(batch) = rows.try_next().await? {
//!     assert_eq!(batch.num_rows(), 1);
//! }
//! # Ok(())
//! # })
//! # }
//! ```
//!
//! A [`Database`] is cheap to clone and can be shared; a [`Session`] belongs to one client and
//! holds its transaction. Results are streams of Arrow record batches that are not buffered, so
//! they may be of any size. An [`Appender`] loads batches without SQL.
//!
//! `cargo run --release -p thalweg --example prices` is a whole program.
//!
//! All work runs on the program's multi-threaded tokio runtime.

pub use thalweg_execution::cancel::CancelHandle;
pub use thalweg_query::{
    Appender, BatchStream, Copy, CopyIn, Database, DatabaseBuilder, Durability, Outcome, Prepared,
    Progress, ScalarValue, Session, Statement, Tag, TransactionStatus, Unit, relation_names,
};
pub use thalweg_types::{Error, ErrorKind, Result, SqlState};
