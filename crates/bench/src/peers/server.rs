//! Our own server: `thalweg serve` as a process of its own, with the settings it has by default.

use std::path::Path;
use std::process::Command;

use thalweg_types::Result;

use super::daemon::{Daemon, Endpoint, free_port};

pub struct Server {
    daemon: Daemon,
    pub endpoint: Endpoint,
    pub grpc_port: u16,
    pub http_port: u16,
}

impl Server {
    /// Starts the program on a new database in a directory, on one core or on all.
    pub async fn start(program: &Path, directory: &Path, core: Option<usize>) -> Result<Server> {
        let endpoint = Endpoint { name: "Thalweg".to_owned(), port: free_port().await? };
        let (grpc_port, http_port) = (free_port().await?, free_port().await?);
        // The shell raises the limit of open files as far as it may, and becomes the server.
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -n $(ulimit -H -n); exec \"$@\"", "sh"]);
        if let Some(core) = core {
            command.args(["taskset", "-c", &core.to_string()]);
        }
        command
            .arg(program)
            .args(["serve", "--data"])
            .arg(directory.join("thalweg"))
            .arg(format!("--postgres-port={}", endpoint.port))
            .arg(format!("--grpc-port={grpc_port}"))
            .arg(format!("--http-port={http_port}"));
        let daemon = Daemon::start(command, &directory.join("thalweg.log"), "Ready.")?;
        Ok(Server { daemon, endpoint, grpc_port, http_port })
    }

    pub fn process(&self) -> u32 {
        self.daemon.process()
    }
}
