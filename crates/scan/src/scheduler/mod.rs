//! Who works on a question: threads of this process, one a core.
//!
//! A [`Round`] is work in fragments. Threads take fragments by counting one number up; a lock is
//! taken once a round, and nothing is allocated for a row or a chunk. What fragments find they keep
//! to themselves until they are done.

mod local;
mod shape;

pub use local::{LocalScheduler, Round};
pub use shape::{Mode, Shape};
