//! A server as a process of its own, ours or a peer's, that ends when the value is dropped.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use thalweg_env::{Clock, RealClock};
use thalweg_types::{Error, Result};
use tokio::net::TcpListener;

use crate::errors::while_doing;

/// Maximum wait until a server accepts clients.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOKING: &str = "looking for a free port";
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// The user of all connections.
pub const USER: &str = "thalweg";
/// The database of all connections.
pub const DATABASE: &str = "postgres";

/// Address of a server for PostgreSQL clients on this machine. It accepts everybody.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// The server's name in the report.
    pub name: String,
    pub port: u16,
}

impl Endpoint {
    /// A client's startup parameters: names, each followed by its value.
    pub const PARAMETERS: [&str; 4] = ["user", USER, "database", DATABASE];

    /// The connection string for libpq and the clients built on it.
    pub fn connection_string(&self) -> String {
        format!("host=127.0.0.1 port={} user={USER} dbname={DATABASE}", self.port)
    }
}

/// A server process with its log file.
pub struct Daemon {
    child: Child,
    log: PathBuf,
}

impl Daemon {
    /// Starts a server that prints `ready` to its log once it accepts clients.
    pub fn start(mut command: Command, log: &Path, ready: &str) -> Result<Daemon> {
        #[expect(clippy::disallowed_methods, reason = "a server's log, not a database's file")]
        let file = std::fs::File::create(log).map_err(while_doing(log.display()))?;
        // A file and not a pipe: nobody reads it, and a full pipe would block the server.
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone().map_err(while_doing(log.display()))?)
            .stderr(file)
            .spawn()
            .map_err(while_doing(command.get_program().display()))?;
        let mut daemon = Daemon { child, log: log.to_owned() };
        daemon.wait_until(ready)?;
        Ok(daemon)
    }

    /// The process id.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Ends the process, if it has not ended yet.
    pub fn end(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn wait_until(&mut self, ready: &str) -> Result<()> {
        let clock = RealClock::new();
        loop {
            let said = std::fs::read_to_string(&self.log).map_err(while_doing("a server's log"))?;
            if said.contains(ready) {
                return Ok(());
            }
            let ended = self.child.try_wait().map_err(while_doing("waiting for a server"))?;
            if ended.is_some() || clock.monotonic() > PATIENCE {
                return Err(Error::internal("a server did not start").with_detail(said));
            }
            clock.sleep(BETWEEN_LOOKS);
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.end();
    }
}

/// A program on the path; `None` if it is not installed.
pub fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|place| place.join(name)).find(|place| place.exists())
}

/// A command for a program, pinned to one core or free to use all.
pub fn on_core(core: Option<usize>, program: &Path) -> Command {
    match core {
        None => Command::new(program),
        Some(core) => {
            let mut command = Command::new("taskset");
            command.args(["-c", &core.to_string()]).arg(program);
            command
        }
    }
}

/// Ports that are free at the moment. They are held together, so that they differ.
pub async fn free_ports<const COUNT: usize>() -> Result<[u16; COUNT]> {
    let (mut ports, mut held) = ([0; COUNT], Vec::with_capacity(COUNT));
    for port in &mut ports {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.map_err(while_doing(LOOKING))?;
        *port = listener.local_addr().map_err(while_doing(LOOKING))?.port();
        held.push(listener);
    }
    Ok(ports)
}

/// A port that is free at the moment.
pub async fn free_port() -> Result<u16> {
    free_ports().await.map(|[port]| port)
}
