//! A simulation of several machines in one process.
//!
//! All tasks run on one current-thread runtime, the *loop*. Tokio reports through `on_thread_park`
//! that no task can go on. The loop then passes the turn to another thread of the [`Schedule`], or
//! moves time.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Waker;

use parking_lot::Mutex;
use thalweg_env::{Clock as _, RealThreads, Schedule, Threads as _};
use tokio::runtime::Builder;

use crate::net::SimulatedNetwork;

/// The world of a simulation: its schedule and its network. Clones share it.
#[derive(Clone)]
pub struct Simulation {
    schedule: Schedule,
    network: SimulatedNetwork,
}

/// The stack of the loop, in bytes: it plans and runs statements.
const LOOP_STACK_BYTES: usize = 256 << 20;

impl Simulation {
    /// Runs a scenario. All events in it follow from the seed, as long as the scenario and the code
    /// that it starts take time, randomness, threads and sockets from the simulation. Two processes
    /// get the same trace from one seed. Two runs within one process do so only if no process-wide
    /// state (caches, randomly seeded hash maps) differs between them.
    ///
    /// # Panics
    /// If the scenario panics, or nothing can ever happen again before it has ended.
    pub fn run<T, F>(seed: u64, scenario: impl FnOnce(Simulation) -> F + Send + 'static) -> T
    where
        T: Send + 'static,
        F: Future<Output = T>,
    {
        let result = Arc::new(Mutex::new(None));
        let put = Arc::clone(&result);
        let body = Box::new(move || {
            let done = Simulation::run_here(seed, scenario);
            *put.lock() = Some(done);
        });
        let thread = RealThreads.spawn_with_stack("simulation", LOOP_STACK_BYTES, body);
        thread.expect("the system has a thread for a simulation").join();
        let result = result.lock().take();
        result.expect("the scenario did not panic")
    }

    fn run_here<T, F: Future<Output = T>>(seed: u64, scenario: impl FnOnce(Simulation) -> F) -> T {
        let schedule = Schedule::new(seed);
        let entered = schedule.enter();
        let network = SimulatedNetwork::new(&schedule);
        // The scenario's task. Waking it keeps the runtime from waiting for the system.
        let root: Arc<Mutex<Option<Waker>>> = Arc::default();
        let (idle, woken) = (schedule.clone(), Arc::clone(&root));
        let runtime = Builder::new_current_thread()
            .on_thread_park(move || {
                idle.idle();
                let waker = woken.lock().clone();
                if let Some(waker) = waker {
                    waker.wake();
                }
            })
            .build()
            .expect("a runtime without drivers needs nothing of the system");
        let scenario = scenario(Simulation { schedule, network });
        let done = runtime.block_on(async move {
            let mut scenario = pin!(scenario);
            poll_fn(|context| {
                *root.lock() = Some(context.waker().clone());
                scenario.as_mut().poll(context)
            })
            .await
        });
        // Tasks that are left hold timers and threads of the simulation.
        runtime.shutdown_background();
        drop(entered);
        done
    }

    #[must_use]
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    #[must_use]
    pub fn network(&self) -> &SimulatedNetwork {
        &self.network
    }

    /// Simulated time since the start.
    #[must_use]
    pub fn now(&self) -> std::time::Duration {
        self.schedule.monotonic()
    }
}
