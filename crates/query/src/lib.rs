//! SQL over the engine: databases, sessions, statements and their transactions.
//!
//! ```no_run
//! # async fn run() -> thalweg_types::Result<()> {
//! use futures::StreamExt;
//!
//! let database = thalweg_query::Database::open("data")?;
//! let mut session = database.session();
//! session.execute("CREATE TABLE trades (symbol text, volume bigint)").await?;
//! session.execute("INSERT INTO trades VALUES ('AAPL', 100), ('MSFT', 250)").await?;
//! let outcome = session.execute("SELECT symbol, sum(volume) FROM trades GROUP BY symbol").await?;
//! let mut rows = outcome.rows.expect("a query gives rows");
//! while let Some(batch) = rows.next().await {
//!     println!("{:?}", batch?);
//! }
//! # Ok(())
//! # }
//! ```

mod ad_hoc;
mod appender;
mod catalog;
mod copy_in;
mod ctes;
mod cursor;
mod database;
mod loader;
mod locks;
mod notifications;
mod numeric_parameters;
mod outcome;
mod parameters;
mod passes;
mod plan;
mod plan_cache;
mod planner;
mod point;
mod prepared;
mod privileges;
mod records;
mod registered;
mod scram;
mod sequences;
mod server_context;
mod session;
mod statement;
mod temporary_file;
mod temporary_objects;
#[cfg(test)]
mod tests;
mod workers;

pub use appender::Appender;
pub use copy_in::CopyIn;
pub use cursor::forward_move;
pub use database::{Database, DatabaseBuilder};
pub use datafusion::common::ScalarValue;
pub use locks::takes_locks;
pub use notifications::{Inbox, Notification};
pub use outcome::{BatchStream, Copy, Notice, Outcome, Tag};
pub use plan::shown;
pub use plan_cache::PlanCacheMetrics;
pub use prepared::Prepared;
pub use records::{
    Found, RecordBatcher, RecordChange, RecordTable, RecordTarget, RecordWrite, Records,
};
pub use registered::relation_names;
pub use scram::ScramVerifier;
pub use server_context::{Activity, ActivityState, End, ServerContext, SessionInfo};
pub use session::{Route, Session, Statement, TransactionStatus};
pub use temporary_file::TemporaryFile;
pub use thalweg_txn::RowChanges;
pub use thalweg_txn::{
    AcknowledgeRows, BOOTSTRAP_ROLE, Durability, DurablePosition, Failing, KeyedChange, KeyedRows,
    Patch, PipelineTotals, Progress, Put, Role, RowFailure, RowGroup, SYNC_MICROS, Secret,
    StageTotals, StorageChange, StorageFault, StorageHealth, StorageReason, Unit, Written,
    fingerprint,
};
pub use thalweg_values::sql_text::{may_hold_password, without_passwords};
pub use workers::{
    AtomicScope, Cluster, Definition, DefinitionQuorum, FanIn, Gathering, Holders, KeySearch,
    KeyedWriter, Load, NAMESPACE as CLUSTER_NAMESPACE, PackedRows, PhysicalRule, Rebound,
    RemoteDefinitions, RemoteLookups, RemoteScans, RemoteWrites, ShardPlan, ShardRows,
    ShardStatistics, Shards, Stages, WorkerScan, Write,
};
