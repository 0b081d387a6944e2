//! A disk in memory with fault injection, which loses at a crash whatever a real disk may lose.

mod content;
mod directory;
mod disk;
mod faults;

pub use content::SECTOR;
pub use disk::SimulatedDisk;
pub use faults::{DiskCondition, Fault, Lie};
