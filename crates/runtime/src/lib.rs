//! Timers, tasks and sockets: the asynchronous half of what a node takes from the system. The crate
//! `thalweg-env` is the other half (clock, randomness, files, threads), and knows no tokio.
//!
//! On ordinary threads these are tokio's. On threads of a [`Simulation`] they are simulated: timers
//! follow its clock, tasks run on its one loop, and the [`Network`] between its machines is in
//! memory. The choice is made when a timer is created, a task is started or a connection is opened,
//! never for each row. `docs/decisions/0010-cluster-simulation.md` describes the alternatives.

mod net;
mod simulation;
mod tasks;
mod time;

pub use net::{Listener, Machine, Network, SimulatedNetwork, Stream};
pub use simulation::Simulation;
pub use tasks::{TaskThread, TaskThreads, spawn, spawn_blocking};
pub use time::{Elapsed, HttpTimer, Interval, Sleep, interval, sleep, timeout};
