//! The queues between stages.
//!
//! With the feature `shuttle` they are those of a checker that runs stages and clients in any order
//! in which threads may run (`engine/tests/interleavings.rs`).

#[cfg(not(feature = "shuttle"))]
pub(crate) use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};

#[cfg(feature = "shuttle")]
pub(crate) use shuttle::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
