//! The scheduler of scans: threads of this process, one for each core.
//!
//! A [`Round`] is work in fragments. Threads take fragments by incrementing a counter; a lock is
//! taken once a round, and nothing is allocated for a row or a chunk. A fragment keeps its results
//! to itself until it is done.

mod local;
mod shape;

pub use local::{LocalScheduler, Round};
pub use shape::{Mode, Shape};
