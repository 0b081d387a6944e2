//! SQL over many machines: the remote forms of scans, of writes and of definitions.
//!
//! A [`Gateway`] is the source from which a database gets rows that it does not hold itself
//! ([`thalweg_query::Cluster`]). An optimizer pass folds the operators that a worker can run alone
//! into the scans of tables. A [`scan`] is then a *fragment*: a chain of steps over the rows of one
//! table. It travels in a serialized form of our own ([`codec`]) to the workers that own the rows.
//! A [`WorkerService`] runs fragments on its own database and answers all other requests of
//! gateways. Operators that need rows of several workers run in [`stages`] between the workers if
//! that is cheaper than gathering the rows.
//!
//! Invariants: an operator that has no serialized form stays at the gateway, so the answer is the
//! same either way. The executors of the two sides do not know of each other.

mod codec;
mod copy_options;
mod encoding;
mod fold;
mod fused;
mod gateway;
mod hidden_rows;
mod keyed;
mod lanes;
mod merge_groups;
mod message_order;
mod node;
mod operators;
mod relayed;
mod rows;
mod scan;
mod sharding;
mod stages;
mod worker;

pub use gateway::{Gateway, GatewayOptions, WorkerStatus};
pub use node::{
    JoinReporter, Joined, NodeOptions, RunningNode, node_id, start_gateway, start_worker,
};
pub use worker::{WorkerProcess, WorkerService};
