//! A gateway and its workers, each `thalweg` as a process of its own.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use thalweg_env::{Clock, RealClock, allowed_cores, share_of_cores};
use thalweg_types::{Error, Result};

use super::daemon::{Daemon, free_port};
use super::server::{Server, unlimited};
use crate::clients::Connection;
use crate::errors::while_doing;
use crate::machine;
use crate::nodes::local;

/// Maximum wait until all workers have buckets.
const PATIENCE: Duration = Duration::from_secs(600);
const BETWEEN_LOOKS: Duration = Duration::from_millis(250);

/// A running cluster of Thalweg.
pub struct Cluster {
    pub gateway: Server,
    workers: Vec<Daemon>,
    joins: Joins,
}

/// Parameters to start a gateway, also one that replaces another.
struct Joins {
    program: PathBuf,
    directory: PathBuf,
    nodes: SocketAddr,
    name: String,
    settings: Vec<(String, String)>,
    is_kept: bool,
}

/// The parts of a cluster that are on disk.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum OnDisk {
    Nothing,
    /// Definitions and the map, but no rows.
    Gateway,
    Everything,
}

/// Options of a cluster.
pub struct ClusterOptions<'a> {
    pub name: &'a str,
    /// Number of processes, and the number of workers in each.
    pub workers: usize,
    pub logical: usize,
    pub on_disk: OnDisk,
    /// Environment variables of all processes.
    pub settings: &'a [(&'a str, String)],
}

impl Cluster {
    /// Starts a cluster in a directory, and waits until all workers have buckets.
    pub async fn start(
        program: &Path,
        directory: &Path,
        options: &ClusterOptions<'_>,
    ) -> Result<Cluster> {
        std::fs::create_dir_all(directory).map_err(while_doing(directory.display()))?;
        let setting = |(name, value): &(&str, String)| ((*name).to_owned(), value.clone());
        let joins = Joins {
            program: program.to_owned(),
            directory: directory.to_owned(),
            nodes: local(free_port().await?),
            name: options.name.to_owned(),
            settings: options.settings.iter().map(setting).collect(),
            is_kept: options.on_disk != OnDisk::Nothing,
        };
        let gateway = joins.gateway().await?;
        let cores = allowed_cores();
        let mut workers = Vec::new();
        for number in 0..options.workers {
            let mut command = unlimited();
            command.arg(program).args(["worker", "--listen=127.0.0.1:0"]);
            command.envs(options.settings.iter().map(|(name, value)| (*name, value)));
            command.arg(format!("--join={}", joins.nodes));
            command.arg(format!("--logical={}", options.logical));
            // Processes on one machine share its cores.
            match share_of_cores(&cores, options.workers, number) {
                Some(share) => command.arg(format!("--cores={share}")),
                None => {
                    let threads = (machine::cores() / options.workers).max(1);
                    command.arg(format!("--threads={threads}"))
                }
            };
            if options.on_disk == OnDisk::Everything {
                command.arg("--data").arg(directory.join(format!("worker-{number}")));
            }
            let log = directory.join(format!("worker-{number}.log"));
            workers.push(Daemon::start(command, &log, "listens on")?);
        }
        let cluster = Cluster { gateway, workers, joins };
        cluster.wait_for(options.workers * options.logical).await?;
        Ok(cluster)
    }

    /// Replaces the gateway, whose data must be on disk, by a new process, whose memory holds
    /// nothing of the old one's work.
    pub async fn renew_gateway(&mut self) -> Result<()> {
        self.gateway.end();
        self.gateway = self.joins.gateway().await?;
        Ok(())
    }

    /// Waits until this many workers have buckets.
    async fn wait_for(&self, workers: usize) -> Result<()> {
        let clock = RealClock::new();
        let began = clock.monotonic();
        let mut connection = Connection::open(&self.gateway.endpoint).await?;
        let joined = "SELECT 1 FROM thalweg_cluster.nodes WHERE buckets > 0";
        while connection.execute(joined).await? < workers as u64 {
            if clock.monotonic() - began > PATIENCE {
                return Err(Error::internal(format!("not all of {workers} workers joined")));
            }
            clock.sleep(BETWEEN_LOOKS);
        }
        Ok(())
    }

    /// The processes that hold the rows.
    pub fn workers(&self) -> impl Iterator<Item = u32> + '_ {
        self.workers.iter().map(Daemon::process)
    }

    /// Pins the workers to one core, and the gateway to another one.
    pub fn pin(&self, workers: usize, gateway: usize) -> Result<()> {
        self.workers.iter().try_for_each(|worker| machine::pin(worker.process(), workers))?;
        machine::pin(self.gateway.process(), gateway)
    }
}

impl Joins {
    async fn gateway(&self) -> Result<Server> {
        let mut command = unlimited();
        command.arg(&self.program).arg("gateway").arg(format!("--nodes={}", self.nodes));
        command.envs(self.settings.iter().map(|(name, value)| (name, value)));
        if self.is_kept {
            command.arg("--data").arg(self.directory.join("gateway"));
        }
        Server::run(command, &self.name, &self.directory.join("gateway.log")).await
    }
}
