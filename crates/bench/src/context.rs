//! The context of a workload: its size, data, peers, a stopwatch and a place for files.

use std::path::{Path, PathBuf};
use std::time::Duration;

use thalweg_env::{Clock, RealClock};
use thalweg_types::Result;

use crate::counters::bare_syncs;
use crate::data::TpchFiles;
use crate::errors::while_doing;
use crate::harness::Options;
use crate::machine;
use crate::peers::{DuckDb, Programs, Python, Server};

/// The context that all workloads of a run share.
pub struct Context {
    pub scale: f64,
    /// Number of measurements of each thing.
    pub repetitions: usize,
    /// Rows in the table when the mixed load starts.
    pub records: u64,
    /// True if peers are measured too.
    pub peers: bool,
    only: Option<String>,
    cache: PathBuf,
    python: Option<PathBuf>,
    server: PathBuf,
    server_core: usize,
    /// Number of cores, counted before this process was pinned to one.
    cores: usize,
    clock: RealClock,
}

impl Context {
    /// Creates the cache directory and takes over the options.
    pub fn new(options: &Options) -> Result<Context> {
        std::fs::create_dir_all(&options.cache).map_err(while_doing(options.cache.display()))?;
        Ok(Context {
            scale: options.scale,
            repetitions: options.repetitions.max(1),
            records: options.records,
            peers: options.peers,
            only: options.only.clone(),
            cache: options.cache.clone(),
            python: options.python.clone(),
            server: options.server.clone(),
            server_core: options.server_core,
            cores: machine::cores(),
            clock: RealClock::new(),
        })
    }

    /// True if the run measures something of this name.
    pub fn wants(&self, name: &str) -> bool {
        self.only.as_deref().is_none_or(|only| name.contains(only))
    }

    /// The TPC-H tables at this run's scale, generated if they are not in the cache.
    pub fn tpch(&self) -> Result<TpchFiles> {
        TpchFiles::at_scale(&self.cache, self.scale)
    }

    /// Directory of files that outlive a run.
    pub fn cache(&self) -> &Path {
        &self.cache
    }

    /// DuckDB on a database file or in memory; `None` if it is not installed.
    pub fn duckdb(&self, database: Option<&Path>) -> Result<Option<DuckDb>> {
        self.python("duckdb").map(|python| DuckDb::start(&python, database)).transpose()
    }

    /// A Python with a module; `None` if the module is not installed.
    pub fn python(&self, module: &str) -> Option<Python> {
        Python::with_module(self.python.as_deref(), module)
    }

    /// The program that runs the measured processes.
    pub fn program(&self) -> &Path {
        &self.server
    }

    /// Our server on a new database.
    pub async fn server(&self, scratch: &Scratch) -> Result<Server> {
        Server::start(&self.server, scratch.path(), None).await
    }

    /// Like [`Self::server`], on a core of its own that this process avoids. On a machine with one
    /// core they share it.
    pub async fn server_on_one_core(&self, scratch: &Scratch) -> Result<Server> {
        let core = self.core_for_servers()?;
        Server::start(&self.server, scratch.path(), core).await
    }

    /// The core reserved for servers, which this process avoids; `None` on a machine with one core.
    pub fn core_for_servers(&self) -> Result<Option<usize>> {
        if self.cores < 2 {
            return Ok(None);
        }
        let core = self.server_core % self.cores;
        machine::pin(std::process::id(), self.core_beside(core))?;
        Ok(Some(core))
    }

    /// A core other than this one, if there is one.
    pub fn core_beside(&self, core: usize) -> usize {
        (core + 1) % self.cores
    }

    /// Times of bare durable writes to the disk of a directory, from the servers' core: a lower
    /// bound for any durable write.
    pub fn bare_syncs(&self, directory: &Path, writes: u64) -> Result<Vec<f64>> {
        if let Some(core) = self.core_for_servers()? {
            machine::pin(std::process::id(), core)?;
        }
        let taken = bare_syncs(directory, writes);
        self.core_for_servers()?;
        taken
    }

    /// PostgreSQL's programs; `None` if they are not installed.
    pub fn postgres_programs(&self) -> Option<Programs> {
        let programs = Programs::find().filter(|_| self.peers);
        if self.peers && programs.is_none() {
            println!("  no PostgreSQL here: what needs it or its pgbench is left out");
        }
        programs
    }

    /// An empty directory that is removed when the value is dropped.
    pub fn scratch(&self, name: &str) -> Result<Scratch> {
        Scratch::below(&self.cache.join("scratch"), name)
    }

    /// An empty directory on a disk for servers, which other users may enter: PostgreSQL does not
    /// run as root, and other users cannot enter root's cache.
    pub fn scratch_for_servers(&self, name: &str) -> Result<Scratch> {
        match machine::is_root() {
            // This directory is never in memory, as `/tmp` may be.
            true => Scratch::below(Path::new("/var/tmp/thalweg-bench"), name),
            false => self.scratch(name),
        }
    }

    /// Sleeps on this thread, which also holds up its asynchronous tasks.
    pub fn sleep(&self, duration: Duration) {
        self.clock.sleep(duration);
    }

    /// Seconds since an arbitrary fixed moment.
    pub fn seconds(&self) -> f64 {
        self.clock.monotonic().as_secs_f64()
    }

    /// Awaits a future and returns the seconds that it took, with its value.
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
    fn below(directory: &Path, name: &str) -> Result<Scratch> {
        let scratch = Scratch { path: directory.join(format!("{name}-{}", std::process::id())) };
        scratch.remove();
        std::fs::create_dir_all(&scratch.path).map_err(while_doing(scratch.path.display()))?;
        Ok(scratch)
    }

    /// The directory's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn remove(&self) {
        // The directory may be gone already; the next run of the same name removes any remains.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.remove();
    }
}
