//! Access to everything outside of the program through one value.

use std::sync::Arc;

use crate::{
    Clock, FileSystem, Memory, NoSpareMemory, Random, RealClock, RealFiles, RealMemory, RealRandom,
    RealThreads, Schedule, SeededRandom, SimulatedClock, SimulatedDisk, Threads,
};

/// The environment of a part of the program. Cheap to clone.
#[derive(Clone)]
pub struct Env {
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
    pub files: Arc<dyn FileSystem>,
    pub threads: Arc<dyn Threads>,
    pub memory: Arc<dyn Memory>,
}

impl Env {
    /// The machine that the program runs on.
    #[must_use]
    pub fn real() -> Env {
        Env {
            clock: Arc::new(RealClock::new()),
            random: Arc::new(RealRandom),
            files: Arc::new(RealFiles),
            threads: Arc::new(RealThreads),
            memory: Arc::new(RealMemory),
        }
    }

    /// A simulated machine in memory, with handles that control its disk and its clock.
    ///
    /// Threads are real ones, so only single-threaded tests repeat exactly with the same seed.
    #[must_use]
    pub fn simulated(seed: u64) -> (Env, SimulatedDisk, SimulatedClock) {
        let disk = SimulatedDisk::new(seed);
        let clock = SimulatedClock::new();
        let env = Env {
            clock: Arc::new(clock.clone()),
            random: Arc::new(SeededRandom::new(seed)),
            files: Arc::new(disk.clone()),
            threads: Arc::new(RealThreads),
            memory: Arc::new(NoSpareMemory),
        };
        (env, disk, clock)
    }

    /// A machine of a simulation: its threads and its time are those of the schedule.
    #[must_use]
    pub fn scheduled(schedule: &Schedule, files: impl FileSystem + 'static) -> Env {
        Env {
            clock: Arc::new(schedule.clone()),
            random: Arc::new(SeededRandom::new(schedule.next_u64())),
            files: Arc::new(files),
            threads: Arc::new(schedule.clone()),
            memory: Arc::new(NoSpareMemory),
        }
    }

    /// This environment with another disk, as after a crash.
    #[must_use]
    pub fn with_files(&self, files: impl FileSystem + 'static) -> Env {
        Env { files: Arc::new(files), ..self.clone() }
    }
}
