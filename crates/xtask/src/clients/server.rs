//! The server that is asked: on free ports of this machine, with a new data directory.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use super::program::{self, Ended};

const START_LIMIT: Duration = Duration::from_secs(60);
const STOP_LIMIT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(50);
/// The line that the server prints once it takes connections.
const READY: &str = "Ready.";
/// The ports that documents name.
const POSTGRES_PORT: &str = "7471";
const GRPC_PORT: &str = "7470";
const HTTP_PORT: &str = "7472";

/// A running server; it is stopped and its data removed when this is dropped.
pub struct Server {
    child: Child,
    directory: PathBuf,
    log: PathBuf,
    postgres: u16,
    grpc: u16,
    http: u16,
}

impl Server {
    /// Starts a server and waits until it accepts connections. Fails with the reason or the end of
    /// its log.
    pub fn start(program: &Path, cache: &Path) -> Result<Server, String> {
        let directory = cache.join(format!("data-{}", std::process::id()));
        let log = cache.join("server.log");
        let (postgres, grpc, http) = free_ports().map_err(|error| format!("no port: {error}"))?;
        let mut command = Command::new(program);
        command.arg("serve").arg("--data").arg(&directory);
        // Examples write points of measurements that have no table.
        command.env("THALWEG__INGEST__CREATE_TABLES", "true");
        for (flag, port) in
            [("--postgres-port", postgres), ("--grpc-port", grpc), ("--http-port", http)]
        {
            command.arg(flag).arg(port.to_string());
        }
        let child = program::start(&mut command, &log)?;
        let mut server = Server { child, directory, log, postgres, grpc, http };
        let polls = START_LIMIT.as_millis() / POLL.as_millis();
        for _ in 0..polls {
            if server.printed().contains(READY) {
                return Ok(server);
            }
            if !matches!(server.child.try_wait(), Ok(None)) {
                break;
            }
            std::thread::sleep(POLL);
        }
        Err(format!("the server did not start:\n{}", program::tail(&server.printed())))
    }

    fn printed(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// True if the gRPC port accepts connections.
    pub fn serves_grpc(&self) -> bool {
        TcpStream::connect((Ipv4Addr::LOCALHOST, self.grpc)).is_ok()
    }

    /// Tells a client where the server is, in the words of libpq and in ours.
    pub fn tell(&self, command: &mut Command) {
        command
            .env("PGHOST", "127.0.0.1")
            .env("PGPORT", self.postgres.to_string())
            .env("PGUSER", "thalweg")
            .env("PGDATABASE", "thalweg")
            .env("THALWEG_GRPC_PORT", self.grpc.to_string())
            .env("THALWEG_HTTP_PORT", self.http.to_string());
    }

    /// An example of a document with this server's ports in place of the usual ones.
    pub fn at_its_ports(&self, example: &str) -> String {
        example
            .replace(POSTGRES_PORT, &self.postgres.to_string())
            .replace(GRPC_PORT, &self.grpc.to_string())
            .replace(HTTP_PORT, &self.http.to_string())
    }

    /// Asks the server to end.
    ///
    /// # Errors
    /// Where it has not lived until now without a panic, or does not end as it should.
    pub fn stop(mut self) -> Result<(), String> {
        program::signal(&self.child, "TERM", false);
        let ended = program::wait(&mut self.child, STOP_LIMIT)?;
        let printed = self.printed();
        let panicked = printed.contains("panicked at");
        if ended == Ended::Success && !panicked {
            return Ok(());
        }
        let how = if panicked { "the server panicked".to_owned() } else { format!("it {ended}") };
        Err(format!("the server: {how}\n{}", program::tail(&printed)))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            program::signal(&self.child, "KILL", true);
            let _ = self.child.wait();
        }
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Three ports that nobody has now. They are held together, so that they differ.
fn free_ports() -> std::io::Result<(u16, u16, u16)> {
    let one = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let two = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let three = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok((one.local_addr()?.port(), two.local_addr()?.port(), three.local_addr()?.port()))
}
