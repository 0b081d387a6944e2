//! The queues between stages, and what else their threads share.
//!
//! With the feature `shuttle` they are those of a checker that runs stages and clients in any order
//! in which threads may run (`engine/tests/interleavings.rs`).

#[cfg(not(feature = "shuttle"))]
pub(crate) use std::sync::{
    Mutex,
    atomic::AtomicUsize,
    mpsc::{Receiver, RecvTimeoutError, Sender, channel},
};

#[cfg(feature = "shuttle")]
pub(crate) use shuttle::sync::{
    Mutex,
    atomic::AtomicUsize,
    mpsc::{Receiver, RecvTimeoutError, Sender, channel},
};
