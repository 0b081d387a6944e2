//! SQL over many machines: the remote forms of scans, of writes and of definitions.
//!
//! A [`Gateway`] is what a database asks for rows that it has not got ([`thalweg_query::Workers`]).
//! A pass over its plans folds what a worker can do alone into the scans of tables: a [`scan`] is
//! then a *fragment*, a chain of steps over the rows of one table, which travels in a form of our
//! own ([`codec`]) to the workers that own the rows. A [`WorkerService`] runs fragments on its own
//! database, and does what else gateways ask. What has to meet rows of several workers runs in
//! [`stages`] between them, where that is better than to gather it.
//!
//! Promises: what the form of fragments does not know stays at the gateway, so that the answer is
//! the same; and the executor of neither side knows of the other.

mod codec;
mod copying;
mod encoding;
mod fold;
mod fused;
mod gateway;
mod groups;
mod hidden;
mod keyed;
mod lanes;
mod node;
mod operators;
mod relayed;
mod rows;
mod scan;
mod sharding;
mod stages;
mod turns;
mod worker;

pub use gateway::{Gateway, GatewayOptions, WorkerStatus};
pub use node::{NodeOptions, RunningNode, Told, node_id, start_gateway, start_worker};
pub use worker::{WorkerProcess, WorkerService};
