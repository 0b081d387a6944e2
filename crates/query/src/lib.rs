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

mod appender;
mod cancel;
mod cancellable_rules;
mod catalog;
mod compact_texts;
mod copy_in;
mod ctes;
mod cursor;
mod database;
mod equivalence_barriers;
mod executor;
mod filter_pushdown;
mod fused;
mod loader;
mod locks;
mod memory;
#[doc(hidden)]
pub mod operator;
mod operator_metrics;
mod optimization;
mod outcome;
mod panics;
mod parameters;
mod passes;
mod plan;
mod plan_cache;
mod plan_depth;
mod planner;
mod planning;
mod point;
mod prepared;
mod privileges;
mod records;
mod row_forms;
mod scan;
mod scram;
mod semi_join_filters;
mod semi_join_pushdown;
mod server_context;
mod session;
mod sleep;
mod sorted_groups;
mod sorted_unions;
mod stack;
mod statement;
mod task;
mod top_n_per_group;
mod workers;

/// The interface between fused aggregates and the scheduler that runs them.
#[doc(hidden)]
pub mod scheduling {
    pub use crate::fused::{
        Found, QueryScheduler, Scattered, SchedulerKind, Spilled, Spills, Watch,
    };
}

pub use appender::Appender;
pub use cancel::{CancelHandle, Cancels};
pub use copy_in::CopyIn;
pub use cursor::forward_move;
pub use database::{Database, DatabaseBuilder};
pub use datafusion::common::ScalarValue;
pub use equivalence_barriers::{EquivalenceBarrier, HiddenProperties};
pub use executor::with_window_memory;
pub use fused::MergedGroups;
pub use locks::takes_locks;
pub use operator_metrics::OperatorMetrics;
pub use outcome::{BatchStream, Copy, Notice, Outcome, Tag};
pub use plan::{RECOMPUTED, shown};
pub use plan_cache::{
    ParameterValues, PlanCacheMetrics, bound as with_values, parameter, value_of_run,
};
pub use planning::PlanningMetrics;
pub use prepared::Prepared;
pub use records::{
    Found, RecordBatcher, RecordChange, RecordTable, RecordTarget, RecordWrite, Records,
};
pub use row_forms::{Encoded, EncodedStream, RowForm, ValueForms};
pub use scan::{ChunkIdentity, WholeChunk, is_about, whole_chunks};
pub use scram::ScramVerifier;
pub use semi_join_filters::{
    ASSUMED_SELECTIVITY_DIVISOR, AsLeaf, KeyMembership, Keys, Leaf, share, with_semi_join_filters,
};
pub use server_context::{Activity, ActivityState, End, ServerContext, SessionInfo};
pub use session::{Route, Session, Statement, TransactionStatus};
pub use task::reconfigured;
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
    ShardStatistics, Shards, StageRunner, Staged, Stages, WorkerScan, Write,
};
