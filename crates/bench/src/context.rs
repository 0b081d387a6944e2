//! What a workload is given: its size, its data, its peers, a stopwatch and a place to write.

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

pub struct Context {
    pub scale: f64,
    /// How often each thing is measured.
    pub repetitions: usize,
    /// Rows that the mixed load finds.
    pub records: u64,
    /// Whether anything is put beside ours.
    pub peers: bool,
    only: Option<String>,
    cache: PathBuf,
    python: Option<PathBuf>,
    server: PathBuf,
    server_core: usize,
    /// As many as there were before this process was kept on one.
    cores: usize,
    clock: RealClock,
}

impl Context {
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

    /// Whether something of this name is to be measured.
    pub fn wants(&self, name: &str) -> bool {
        self.only.as_deref().is_none_or(|only| name.contains(only))
    }

    /// The TPC-H tables at this run's scale, made now if they are not in the cache.
    pub fn tpch(&self) -> Result<TpchFiles> {
        TpchFiles::at_scale(&self.cache, self.scale)
    }

    /// Where files are kept between runs.
    pub fn cache(&self) -> &Path {
        &self.cache
    }

    /// DuckDB on a database file, or in memory; nothing where it is not installed.
    pub fn duckdb(&self, database: Option<&Path>) -> Result<Option<DuckDb>> {
        self.python("duckdb").map(|python| DuckDb::start(&python, database)).transpose()
    }

    /// A Python that has a module; nothing where it is not installed.
    pub fn python(&self, module: &str) -> Option<Python> {
        Python::with_module(self.python.as_deref(), module)
    }

    /// The program whose processes are measured.
    pub fn program(&self) -> &Path {
        &self.server
    }

    /// Our server on a new database.
    pub async fn server(&self, scratch: &Scratch) -> Result<Server> {
        Server::start(&self.server, scratch.path(), None).await
    }

    /// The same on a core of its own, with this process kept away from it. On a machine of one core
    /// they share it.
    pub async fn server_on_one_core(&self, scratch: &Scratch) -> Result<Server> {
        let core = self.core_for_servers()?;
        Server::start(&self.server, scratch.path(), core).await
    }

    /// The core that servers have for themselves, with this process kept away from it; nothing on
    /// a machine of one core.
    pub fn core_for_servers(&self) -> Result<Option<usize>> {
        if self.cores < 2 {
            return Ok(None);
        }
        let core = self.server_core % self.cores;
        machine::pin(std::process::id(), self.core_beside(core))?;
        Ok(Some(core))
    }

    /// Another core than this one, where there is one.
    pub fn core_beside(&self, core: usize) -> usize {
        (core + 1) % self.cores
    }

    /// How long the least of a durable write takes on the disk of a directory, from the core that
    /// servers have.
    pub fn bare_syncs(&self, directory: &Path, writes: u64) -> Result<Vec<f64>> {
        if let Some(core) = self.core_for_servers()? {
            machine::pin(std::process::id(), core)?;
        }
        let taken = bare_syncs(directory, writes);
        self.core_for_servers()?;
        taken
    }

    /// PostgreSQL's programs; nothing where they are not installed.
    pub fn postgres_programs(&self) -> Option<Programs> {
        let programs = Programs::find().filter(|_| self.peers);
        if self.peers && programs.is_none() {
            println!("  no PostgreSQL here: what needs it or its pgbench is left out");
        }
        programs
    }

    /// An empty directory that goes away with the value.
    pub fn scratch(&self, name: &str) -> Result<Scratch> {
        Scratch::below(&self.cache.join("scratch"), name)
    }

    /// An empty directory on a disk for servers, which other users may enter: PostgreSQL does not
    /// run as root, and root's cache is closed to everybody else.
    pub fn scratch_for_servers(&self, name: &str) -> Result<Scratch> {
        match machine::is_root() {
            // Never kept in memory, as `/tmp` may be.
            true => Scratch::below(Path::new("/var/tmp/thalweg-bench"), name),
            false => self.scratch(name),
        }
    }

    pub fn sleep(&self, duration: Duration) {
        self.clock.sleep(duration);
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
    fn below(directory: &Path, name: &str) -> Result<Scratch> {
        let scratch = Scratch { path: directory.join(format!("{name}-{}", std::process::id())) };
        scratch.remove();
        std::fs::create_dir_all(&scratch.path).map_err(while_doing(scratch.path.display()))?;
        Ok(scratch)
    }

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
