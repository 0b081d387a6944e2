//! The pipeline of stages that turns write sets into durable, visible groups; and snapshots for
//! readers.
//!
//! Guarantees: a write set is applied wholly or not at all. It becomes visible to new snapshots
//! once it is as durable as its writer asked for, never before. Acknowledged writes survive. Groups
//! become visible in the order of their numbers.

mod apply;
mod catalog;
mod checkpoint;
mod disk_stage;
mod engine;
mod foreign_keys;
mod keyed;
mod lock_stage;
mod log_segments;
mod log_status;
mod maintenance;
mod memory_budget;
mod parallel;
mod pipeline_metrics;
mod progress;
mod published;
mod record;
mod recovery;
mod row_locks;
mod sequence;
mod stage;
mod stage_queues;
mod staging;
mod storage_health;
mod transaction;
mod transaction_stage;
mod waiter;
mod write_set;

pub use catalog::{
    Access, AccessChange, BOOTSTRAP_ROLE, BoundColumn, BoundRelation, BoundSource, Catalog,
    CatalogChange, CommentChange, CommentPart, CommentedObject, DEFAULT_NAMESPACE, Dependency,
    Dependent, DropReason, ExternalTable, Grant, InKeyOrder, Membership, Object, Privilege,
    Privileges, Referenced, Role, RoleChange, RoleId, RoleOption, Roles, Secret, Securable,
    SettingDefaultChange, SettingTarget, TableEntry, View, ViewBinding, access_item, cannot_drop,
    decode_changes, encode_changes, fingerprint, is_temporary_namespace, name_taken, no_namespace,
    no_referenced_key, no_role, no_table, temporary_namespace,
};
pub use engine::{Durability, Engine, Options, RowLockTerm};
pub use foreign_keys::{CancelCheck, KeptKeys, find_children};
pub use keyed::{
    AcknowledgeRows, Failing, KeyedChange, KeyedRows, Patch, RowCheck, RowFailure, RowGroup,
    Written,
};
pub use log_status::{CheckpointRun, DurablePosition, LogStatus};
pub use parallel::prepare_index;
pub use pipeline_metrics::{PipelineTotals, SYNC_MICROS, StageTotals};
pub use progress::{NoProgress, Progress, Unit};
pub use published::Snapshot;
pub use row_locks::{KeyLocks, LockOutcome, LockOwner, LockRequest, LockWait, TableLocks};
pub use sequence::{Position, Sequence, SequenceCounter, SequenceOptions};
pub use staging::Staged;
pub use storage_health::{
    StorageChange, StorageFault, StorageHealth, StorageListener, StorageReason,
};
pub use thalweg_store::Put;
pub use transaction::{ConstraintTime, Removed, RemovedKeys, RowLock, Savepoint, Transaction};
pub use waiter::Acknowledge;
pub use write_set::{NewRows, RowChanges, TableChanges, WriteSet};
