//! The outside world as traits: time, randomness, threads, files and memory; allocators that
//! recycle large blocks and meter threads; and binding to cores.
//!
//! Everything that a test must control is reached through an [`Env`]. [`Env::real`] is the machine.
//! [`Env::simulated`] is a machine in memory whose clock moves only on request, whose randomness
//! follows from a seed, and whose disk can fail at any chosen operation and lose at a crash
//! whatever a real disk may lose. Both run identical code.
//!
//! A [`Schedule`] goes further: its threads take turns, in an order that follows from the seed, and
//! its time moves only when no thread can go on. The crate `thalweg-runtime` adds tasks, timers and
//! a network to it.

#[expect(clippy::disallowed_methods, reason = "it looks at the machine's own files")]
mod access;
mod clock;
#[expect(clippy::disallowed_methods, reason = "it looks at the system's own files")]
mod control_groups;
mod cores;
mod descriptors;
mod environment;
mod files;
#[expect(clippy::disallowed_methods, reason = "it looks at the system's own files")]
mod memory;
mod memory_watch;
mod metered;
mod random;
#[expect(clippy::disallowed_methods, reason = "this is the real file system")]
mod real_files;
mod recycling;
mod simulated;
#[expect(clippy::disallowed_methods, reason = "these are the real threads")]
mod threads;
#[expect(clippy::disallowed_types, reason = "outside of simulations threads really wait")]
mod waiting;

pub use access::open_to_others;
pub use clock::{Clock, RealClock, SimulatedClock};
pub use cores::{allowed_cores, keep_to_cores, share_of_cores};
pub use descriptors::{descriptor_limit, raise_descriptor_limit};
pub use environment::Env;
pub use files::{DirLock, File, FileIdentity, FileSystem, OpenMode, sync_with_ancestors};
pub use memory::{Memory, NoSpareMemory, RealMemory, machine_memory_bytes};
pub use memory_watch::{MemoryWatch, OverLimit, Purpose, ReclaimableMemory};
pub use metered::{Metered, thread_net_bytes};
pub use random::{Random, RealRandom, SeededRandom};
pub use real_files::RealFiles;
pub use recycling::Recycling;
pub use simulated::{
    DiskCondition, Entered, Fault, Lie, OpenedThrough, SECTOR, Schedule, SimulatedDisk, Timer,
    is_simulated,
};
pub use threads::{RealThreads, ThreadHandle, ThreadNumber, Threads};
pub use waiting::{Condvar, Receiver, RecvError, RecvTimeoutError, Sender, TryRecvError, channel};
