//! A disk in memory that fails at chosen operations and loses at a crash whatever a real disk may
//! lose; and threads and time that follow from a seed.

mod content;
mod directory;
mod disk;
mod faults;
mod opened_through;
#[expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "turns are passed on between the system's threads"
)]
mod schedule;

pub use content::SECTOR;
pub use disk::SimulatedDisk;
pub use faults::{DiskCondition, Fault, Lie};
pub use opened_through::OpenedThrough;
pub(crate) use schedule::wait_until;
pub use schedule::{Entered, Schedule, Timer, is_simulated};
