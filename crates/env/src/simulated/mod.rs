//! A disk in memory that fails where it is told to, and forgets at a crash what a disk forgets.

mod content;
mod directory;
mod disk;
mod faults;

pub use content::SECTOR;
pub use disk::SimulatedDisk;
pub use faults::{Fault, Lie};
