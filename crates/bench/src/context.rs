//! What a workload is given: its size, its data, its peers, a stopwatch and a place to write.

use std::path::{Path, PathBuf};

use thalweg_env::{Clock, RealClock};
use thalweg_types::Result;

use crate::data::TpchFiles;
use crate::errors::while_doing;
use crate::harness::Options;
use crate::peers::DuckDb;

pub struct Context {
    pub scale: f64,
    /// How often each thing is measured.
    pub repetitions: usize,
    cache: PathBuf,
    /// A Python that has DuckDB, if there is one.
    python: Option<PathBuf>,
    clock: RealClock,
}

impl Context {
    pub fn new(options: &Options) -> Result<Context> {
        std::fs::create_dir_all(&options.cache).map_err(while_doing(options.cache.display()))?;
        let python = DuckDb::find_python(options.python.as_deref());
        if python.is_none() {
            println!(
                "  no python3 with duckdb here: that peer is left out \
                 (bench/peers/requirements.txt says what to install)"
            );
        }
        Ok(Context {
            scale: options.scale,
            repetitions: options.repetitions.max(1),
            cache: options.cache.clone(),
            python,
            clock: RealClock::new(),
        })
    }

    /// The TPC-H tables at this run's scale, made now if they are not in the cache.
    pub fn tpch(&self) -> Result<TpchFiles> {
        TpchFiles::at_scale(&self.cache, self.scale)
    }

    /// DuckDB on a database file, or in memory; nothing where it is not installed.
    pub fn duckdb(&self, database: Option<&Path>) -> Result<Option<DuckDb>> {
        self.python.as_deref().map(|python| DuckDb::start(python, database)).transpose()
    }

    /// An empty directory that goes away with the value.
    pub fn scratch(&self, name: &str) -> Result<Scratch> {
        let path = self.cache.join("scratch").join(format!("{name}-{}", std::process::id()));
        let scratch = Scratch { path };
        scratch.remove();
        std::fs::create_dir_all(&scratch.path).map_err(while_doing(scratch.path.display()))?;
        Ok(scratch)
    }

    /// Seconds since some fixed moment.
    pub fn seconds(&self) -> f64 {
        self.clock.monotonic().as_secs_f64()
    }

    /// What a future gives, and the seconds that it took.
    pub async fn timed<T>(&self, work: impl Future<Output = Result<T>>) -> Result<(f64, T)> {
        let started = self.seconds();
        let value = work.await?;
        Ok((self.seconds() - started, value))
    }
}

/// A directory for one measurement.
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn remove(&self) {
        // Nothing to remove is as good; what stays is removed by the next run of the same name.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.remove();
    }
}
