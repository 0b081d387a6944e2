//! The crate against a simulated machine.

mod canaries;
mod crashes;
mod damage;
mod directories;
mod heads;
mod model;
mod refusals;
mod world;
