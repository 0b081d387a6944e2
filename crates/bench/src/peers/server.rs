//! Our own server: `thalweg serve` as a process of its own, with default settings.

use std::path::Path;
use std::process::Command;

use thalweg_types::Result;

use super::daemon::{Daemon, Endpoint, free_ports};

/// A running server of ours, and its ports.
pub struct Server {
    daemon: Daemon,
    pub endpoint: Endpoint,
    pub grpc_port: u16,
    pub http_port: u16,
}

impl Server {
    /// Starts the program on a new database in a directory, on one core or on all.
    pub async fn start(program: &Path, directory: &Path, core: Option<usize>) -> Result<Server> {
        let mut command = unlimited();
        if let Some(core) = core {
            command.args(["taskset", "-c", &core.to_string()]);
        }
        command.arg(program).args(["serve", "--data"]).arg(directory.join("thalweg"));
        Server::run(command, "Thalweg", &directory.join("thalweg.log")).await
    }

    /// Starts a command that listens where `serve` does.
    pub async fn run(mut command: Command, name: &str, log: &Path) -> Result<Server> {
        let [port, grpc_port, http_port] = free_ports().await?;
        let endpoint = Endpoint { name: name.to_owned(), port };
        command
            .arg(format!("--postgres-port={}", endpoint.port))
            .arg(format!("--grpc-port={grpc_port}"))
            .arg(format!("--http-port={http_port}"));
        let daemon = Daemon::start(command, log, "Ready.")?;
        Ok(Server { daemon, endpoint, grpc_port, http_port })
    }

    /// The process id.
    pub fn process(&self) -> u32 {
        self.daemon.process()
    }

    /// Ends the server now.
    pub fn end(&mut self) {
        self.daemon.end();
    }
}

/// A command prefix that raises the limit of open files to its maximum.
pub(super) fn unlimited() -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n $(ulimit -H -n); exec \"$@\"", "sh"]);
    command
}
