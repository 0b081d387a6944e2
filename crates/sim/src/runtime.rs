//! Threads and queues for a simulation.

#[cfg(feature = "shuttle")]
pub use scheduled::{channel, run, threads};
#[cfg(not(feature = "shuttle"))]
pub use system::{channel, run, threads};

/// The system's threads, in any order.
#[cfg(not(feature = "shuttle"))]
mod system {
    use std::sync::Arc;
    pub use thalweg_env::channel;

    use thalweg_env::{RealThreads, Threads};

    /// Threads of the operating system.
    #[must_use]
    pub fn threads() -> Arc<dyn Threads> {
        Arc::new(RealThreads)
    }

    /// Runs a simulation. The seed does not determine the schedule of its threads.
    pub fn run<T: Send + 'static>(
        _seed: u64,
        simulation: impl Fn() -> T + Send + Sync + 'static,
    ) -> T {
        simulation()
    }
}

/// Threads that switch where one waits for another, in an order that the seed determines.
#[cfg(feature = "shuttle")]
mod scheduled {
    use std::io;
    use std::sync::Arc;

    use parking_lot::Mutex;
    use shuttle::scheduler::RandomScheduler;
    pub use shuttle::sync::mpsc::channel;
    use shuttle::thread::{Builder, JoinHandle};
    use shuttle::{Config, FailurePersistence, MaxSteps, Runner};
    use thalweg_env::{ThreadHandle, Threads};

    /// In bytes; enough for a recovery in an unoptimised build.
    const STACK: usize = 1 << 20;

    struct ScheduledThreads;

    struct ScheduledHandle(Mutex<JoinHandle<()>>);

    impl Threads for ScheduledThreads {
        fn spawn(
            &self,
            name: &str,
            body: Box<dyn FnOnce() + Send>,
        ) -> io::Result<Box<dyn ThreadHandle>> {
            let handle = Builder::new().name(name.to_owned()).spawn(body)?;
            Ok(Box::new(ScheduledHandle(Mutex::new(handle))))
        }
    }

    impl ThreadHandle for ScheduledHandle {
        fn join(self: Box<Self>) -> bool {
            self.0.into_inner().join().is_ok()
        }
    }

    /// Threads that the simulation's scheduler interleaves.
    #[must_use]
    pub fn threads() -> Arc<dyn Threads> {
        Arc::new(ScheduledThreads)
    }

    /// Runs a simulation with the seed's schedule of threads.
    pub fn run<T: Send + 'static>(
        seed: u64,
        simulation: impl Fn() -> T + Send + Sync + 'static,
    ) -> T {
        let mut config = Config::new();
        config.stack_size = STACK;
        config.max_steps = MaxSteps::None;
        config.failure_persistence = FailurePersistence::None;
        let result = Arc::new(Mutex::new(None));
        let kept = Arc::clone(&result);
        Runner::new(RandomScheduler::new_from_seed(seed, 1), config)
            .run(move || *kept.lock() = Some(simulation()));
        let result = result.lock().take();
        result.expect("the scheduler runs a simulation once")
    }
}
