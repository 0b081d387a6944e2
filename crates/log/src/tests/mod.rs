//! The crate against a simulated machine.

mod backups;
mod canaries;
mod crashes;
mod damage;
mod directories;
mod heads;
mod model;
mod refusals;
mod world;
