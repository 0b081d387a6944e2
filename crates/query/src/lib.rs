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
mod catalog;
mod copy_in;
mod ctes;
mod cursor;
mod database;
mod executor;
mod filters_down;
mod first_of_groups;
mod forms;
mod fused;
mod given;
mod heeding;
mod kept;
mod loader;
mod locks;
mod memory;
#[doc(hidden)]
pub mod operator;
mod optimization;
mod outcome;
mod own_texts;
mod panics;
mod parameters;
mod plan;
mod plan_depth;
mod planner;
mod planning;
mod point;
mod prepared;
mod privileges;
mod records;
mod reduce;
mod scan;
mod scram;
mod semi_joins_first;
mod session;
mod sleep;
mod sorted_groups;
mod sorted_unions;
mod stack;
mod statement;
mod surroundings;
mod task;
mod veils;
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
pub use executor::with_windows_counted;
pub use forms::{Encoded, EncodedStream, RowForm, ValueForms};
pub use fused::MergedGroups;
pub use given::Given;
pub use kept::{PlanFigures, Values as RunValues, bound as with_values, parameter, value_of_run};
pub use locks::takes_locks;
pub use outcome::{BatchStream, Copy, Notice, Outcome, Tag};
pub use plan::{RECOMPUTED, shown};
pub use planning::PlanningFigures;
pub use prepared::Prepared;
pub use records::{
    Found, RecordBatcher, RecordChange, RecordTable, RecordTarget, RecordWrite, Records,
};
pub use reduce::{Among, AsLeaf, KEPT_OF, Keys, Leaf, reduced, share};
pub use scan::{ChunkIdentity, WholeChunk, is_about, whole_chunks};
pub use scram::ScramVerifier;
pub use session::{Session, Statement, TransactionStatus};
pub use surroundings::{Activity, ActivityState, End, SessionFacts, Surroundings};
pub use task::reconfigured;
pub use thalweg_dialect::parse::{may_hold_password, without_passwords};
pub use thalweg_txn::RowChanges;
pub use thalweg_txn::{
    AcknowledgeRows, BOOTSTRAP_ROLE, Durability, Failing, Figures, KeyedChange, KeyedRows, Patch,
    Progress, Put, Role, RowFailure, RowGroup, SYNC_MICROS, Secret, StageFigures, Unit, Written,
    fingerprint,
};
pub use veils::{Hides, Veil};
pub use workers::{
    Again, Consent, Definition, FanIn, Gathering, Holders, KeySearch, KeyedWriter, Load,
    NAMESPACE as CLUSTER_NAMESPACE, PackedRows, PhysicalRule, ShardPlan, ShardRows, ShardSight,
    Shards, Stages, Unity, WorkerScan, Workers, Write,
};
