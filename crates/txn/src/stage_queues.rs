//! The queues between stages, and the other synchronization primitives that their threads use.
//!
//! With the feature `shuttle` they come from a checker that runs stages and clients in every order
//! that threads allow (`engine/tests/interleavings.rs`).

#[cfg(not(feature = "shuttle"))]
pub(crate) use std::sync::{Mutex, atomic::AtomicUsize};
#[cfg(not(feature = "shuttle"))]
pub(crate) use thalweg_env::{Receiver, RecvTimeoutError, Sender, channel};

#[cfg(feature = "shuttle")]
pub(crate) use shuttle::sync::{
    Mutex,
    atomic::AtomicUsize,
    mpsc::{Receiver, RecvTimeoutError, Sender, channel},
};
