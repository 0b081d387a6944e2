//! Ballista as a peer: a scheduler and executors, each a process of its own, queried over Parquet
//! files through its own command line.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use thalweg_types::{Error, Result};

use super::daemon::{Daemon, free_port, free_ports, program};
use crate::errors::while_doing;
use crate::machine;
use crate::samples::Samples;

/// The text before the time that the command line prints after each statement.
const ELAPSED: &str = "Elapsed ";
/// A file of statements, in the directory that the command line runs in.
const QUESTION: &str = "question.sql";

/// A running Ballista cluster.
pub struct Ballista {
    client: PathBuf,
    port: u16,
    directory: PathBuf,
    /// The statements that declare the files as tables.
    tables: String,
    tables_named: usize,
    _scheduler: Daemon,
    _executors: Vec<Daemon>,
}

impl Ballista {
    /// Starts this many executors, which share the machine's cores; `None` if Ballista is not
    /// installed (`cargo install ballista-scheduler ballista-executor ballista-cli`).
    pub async fn start(
        directory: &Path,
        executors: usize,
        tables: &[(&str, PathBuf)],
    ) -> Result<Option<Ballista>> {
        let programs = ["ballista-scheduler", "ballista-executor", "ballista-cli"].map(program);
        let [Some(scheduler), Some(executor), Some(client)] = programs else { return Ok(None) };
        std::fs::create_dir_all(directory).map_err(while_doing(directory.display()))?;
        let port = free_port().await?;
        let mut command = Command::new(scheduler);
        command.args(["--bind-host", "127.0.0.1", "--bind-port", &port.to_string()]);
        let log = directory.join("scheduler.log");
        let scheduler = Daemon::start(command, &log, "Starting Scheduler grpc server")?;
        let mut started = Vec::new();
        let cores = (machine::cores() / executors).max(1).to_string();
        for number in 0..executors {
            let [flight, grpc, health] = free_ports().await?;
            let work = directory.join(format!("executor-{number}"));
            std::fs::create_dir_all(&work).map_err(while_doing(work.display()))?;
            let mut command = Command::new(&executor);
            command.args(["--bind-host", "127.0.0.1", "--external-host", "127.0.0.1"]);
            command.args(["--scheduler-host", "127.0.0.1"]);
            command.args(["--scheduler-port", &port.to_string(), "--vcores", &cores]);
            command.args(["--bind-port", &flight.to_string()]);
            command.args(["--bind-grpc-port", &grpc.to_string()]);
            command.args(["--bind-health-port", &health.to_string()]).arg("--work-dir").arg(&work);
            let log = directory.join(format!("executor-{number}.log"));
            started.push(Daemon::start(command, &log, "listening on")?);
        }
        let mut names = String::new();
        for (name, path) in tables {
            let path = std::path::absolute(path).map_err(while_doing(path.display()))?;
            let path = path.display();
            let _ = writeln!(
                names,
                "CREATE EXTERNAL TABLE {name} STORED AS PARQUET LOCATION '{path}';"
            );
        }
        Ok(Some(Ballista {
            client,
            port,
            directory: directory.to_owned(),
            tables: names,
            tables_named: tables.len(),
            _scheduler: scheduler,
            _executors: started,
        }))
    }

    /// The seconds of a query, as the command line prints them, without the first run; empty if it
    /// cannot answer the query.
    pub fn ask(&self, sql: &str, repetitions: usize) -> Result<Samples> {
        let mut file = self.tables.clone();
        for _ in 0..=repetitions {
            let _ = writeln!(file, "{sql};");
        }
        let path = self.directory.join(QUESTION);
        #[expect(clippy::disallowed_methods, reason = "a peer's input, not a database's file")]
        std::fs::write(&path, file).map_err(while_doing(path.display()))?;
        let said = Command::new(&self.client)
            // It writes a log of its own into its working directory.
            .current_dir(&self.directory)
            .args(["--host", "127.0.0.1", "--port", &self.port.to_string(), "--file", QUESTION])
            .output()
            .map_err(while_doing("ballista-cli"))?;
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        let seconds = |line: &str| {
            let told = line.strip_prefix(ELAPSED)?.split_whitespace().next()?;
            told.parse::<f64>().ok()
        };
        let told: Vec<f64> = said.lines().filter_map(seconds).collect();
        if told.is_empty() {
            return Err(Error::internal("ballista-cli told no times").with_detail(said));
        }
        Ok(told.into_iter().skip(self.tables_named + 1).collect())
    }
}
