//! A gateway and its workers, each `thalweg` as a process of its own.

use std::path::Path;
use std::process::Command;

use thalweg_types::Result;

use super::daemon::{Daemon, free_port};
use super::server::Server;
use crate::clients::Connection;
use crate::errors::while_doing;
use crate::machine;
use crate::nodes::local;

pub struct Cluster {
    pub gateway: Server,
    workers: Vec<Daemon>,
}

/// How a cluster is started.
pub struct ClusterOptions<'a> {
    pub name: &'a str,
    pub workers: usize,
    /// Whether rows are kept on the disk.
    pub kept: bool,
    /// Of the gateway's environment.
    pub settings: &'a [(&'a str, String)],
}

impl Cluster {
    /// Starts one in a directory, and waits until all workers have buckets.
    pub async fn start(
        program: &Path,
        directory: &Path,
        options: &ClusterOptions<'_>,
    ) -> Result<Cluster> {
        std::fs::create_dir_all(directory).map_err(while_doing(directory.display()))?;
        let nodes = local(free_port().await?);
        let data = |command: &mut Command, name: &str| {
            if options.kept {
                command.arg("--data").arg(directory.join(name));
            }
        };
        let mut command = Command::new(program);
        command.arg("gateway").arg(format!("--nodes={nodes}"));
        command.envs(options.settings.iter().map(|(name, value)| (name, value)));
        data(&mut command, "gateway");
        let gateway = Server::run(command, options.name, &directory.join("gateway.log")).await?;
        let mut workers = Vec::new();
        for number in 0..options.workers {
            let mut command = Command::new(program);
            command.args(["worker", "--listen=127.0.0.1:0"]).arg(format!("--join={nodes}"));
            data(&mut command, &format!("worker-{number}"));
            let log = directory.join(format!("worker-{number}.log"));
            workers.push(Daemon::start(command, &log, "listens on")?);
        }
        let mut connection = Connection::open(&gateway.endpoint).await?;
        let joined = "SELECT 1 FROM thalweg_cluster.nodes WHERE buckets > 0";
        while connection.execute(joined).await? < options.workers as u64 {}
        Ok(Cluster { gateway, workers })
    }

    /// Keeps the workers on one core, and the gateway on another one.
    pub fn pin(&self, workers: usize, gateway: usize) -> Result<()> {
        self.workers.iter().try_for_each(|worker| machine::pin(worker.process(), workers))?;
        machine::pin(self.gateway.process(), gateway)
    }
}
