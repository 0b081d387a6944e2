//! The asynchronous half of the world outside: timers, tasks and sockets.
//!
//! On ordinary threads these are tokio's. On threads of a [`Simulation`] they are simulated: timers
//! follow its clock, tasks run on its one loop, and a [`Network`] of its machines is in memory. Which
//! of the two applies is found out when a timer is made, a task is started or a connection is opened,
//! never for each row. `docs/decisions/0010-cluster-simulation.md` describes the alternatives.

mod net;
mod simulation;
mod tasks;
mod time;

pub use net::{Listener, Machine, Network, SimulatedNetwork, Stream};
pub use simulation::Simulation;
pub use tasks::{TaskThread, TaskThreads, spawn, spawn_blocking};
pub use time::{Elapsed, HttpTimer, Interval, Sleep, interval, sleep, timeout};
