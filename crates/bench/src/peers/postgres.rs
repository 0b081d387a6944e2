//! PostgreSQL as a peer: a cluster of its own in a scratch directory.
//!
//! Its settings are `initdb`'s, with two exceptions: its buffers hold the tables of the workloads,
//! because ours are in memory too, and autovacuum does not start in the middle of a measurement.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use thalweg_types::{Error, Result};

use super::daemon::{DATABASE, Daemon, Endpoint, USER, free_port, on_core};
use crate::errors::while_doing;
use crate::machine;

/// PostgreSQL's programs, in one directory.
#[derive(Clone)]
pub struct Programs {
    directory: PathBuf,
    /// "PostgreSQL 15".
    name: String,
}

impl Programs {
    /// The programs on the path, or the newest ones in Debian's directory.
    pub fn find() -> Option<Programs> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut places: Vec<PathBuf> = std::env::split_paths(&path).collect();
        let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        let mut versions: Vec<PathBuf> = versions.map(|entry| entry.path().join("bin")).collect();
        versions.sort();
        places.extend(versions.into_iter().rev());
        let directory = places.into_iter().find(|place| {
            let needed = ["initdb", "postgres", "pg_ctl", "psql", "pgbench"];
            needed.iter().all(|program| place.join(program).exists())
        })?;
        let said = Command::new(directory.join("postgres")).arg("--version").output().ok()?;
        // The output is "postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)".
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        let major = said.split_whitespace().nth(2)?.split('.').next()?;
        Some(Programs { directory, name: format!("PostgreSQL {major}") })
    }

    /// A command for one of them, run as the current user.
    pub fn command(&self, program: &str) -> Command {
        Command::new(self.directory.join(program))
    }

    /// Runs one of them against a server; returns its output.
    pub fn run(&self, program: &str, server: &Endpoint, arguments: &[&str]) -> Result<String> {
        let mut command = self.command(program);
        command.args(["-h", "127.0.0.1", "-U", USER, "-p", &server.port.to_string()]);
        printed(command.args(arguments).arg(DATABASE), program)
    }
}

/// A running PostgreSQL.
pub struct Postgres {
    programs: Programs,
    owner: Option<Owner>,
    data: PathBuf,
    // `drop` stops the server before this value is dropped, which would only kill it.
    daemon: Daemon,
    pub endpoint: Endpoint,
}

impl Postgres {
    /// Initializes a cluster below a directory and starts it.
    pub async fn start(programs: &Programs, directory: &Path) -> Result<Postgres> {
        Postgres::start_with(programs, directory, None, &[]).await
    }

    /// Like [`Self::start`], on one core and with additional settings.
    pub async fn start_with(
        programs: &Programs,
        directory: &Path,
        core: Option<usize>,
        settings: &[&str],
    ) -> Result<Postgres> {
        let owner = Owner::needed()?;
        let directory = directory.join("postgres");
        let failed = || directory.display().to_string();
        std::fs::create_dir_all(&directory).map_err(while_doing(failed()))?;
        if let Some(Owner { user, group }) = owner {
            std::os::unix::fs::chown(&directory, Some(user), Some(group))
                .map_err(while_doing(failed()))?;
        }
        let data = directory.join("data");
        let mut initdb = command(programs, "initdb", owner);
        initdb.args(["-A", "trust", "-U", USER, "-E", "UTF8", "--no-locale", "-D"]).arg(&data);
        printed(&mut initdb, "initdb")?;
        let endpoint = Endpoint { name: programs.name.clone(), port: free_port().await? };
        let mut postgres = on_core(core, &programs.directory.join("postgres"));
        run_as(&mut postgres, owner);
        postgres.arg("-D").arg(&data).args(["-p", &endpoint.port.to_string()]);
        let sockets = format!("unix_socket_directories={}", data.display());
        let ours = ["listen_addresses=127.0.0.1", &sockets, "shared_buffers=2GB", "autovacuum=off"];
        for setting in ours.iter().chain(settings) {
            postgres.args(["-c", setting]);
        }
        let log = directory.join("log");
        let ready = "ready to accept connections";
        let daemon = Daemon::start(postgres, &log, ready)?;
        Ok(Postgres { programs: programs.clone(), owner, data, daemon, endpoint })
    }

    /// The process id.
    pub fn process(&self) -> u32 {
        self.daemon.process()
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // Its processes and its shared memory are released only by a shutdown; its data is not
        // needed.
        let mut stop = command(&self.programs, "pg_ctl", self.owner);
        stop.args(["stop", "-s", "-m", "immediate", "-D"]).arg(&self.data);
        let _ = stop.status();
    }
}

/// The user that runs PostgreSQL if the benchmarks run as root, which PostgreSQL refuses.
#[derive(Clone, Copy)]
struct Owner {
    user: u32,
    group: u32,
}

impl Owner {
    fn needed() -> Result<Option<Owner>> {
        if !machine::is_root() {
            return Ok(None);
        }
        let users = std::fs::read_to_string("/etc/passwd").map_err(while_doing("/etc/passwd"))?;
        let line = users.lines().find(|line| line.starts_with("postgres:"));
        let owner = line.and_then(|line| {
            let mut fields = line.split(':').skip(2).map(str::parse);
            let (user, group) = (fields.next()?.ok()?, fields.next()?.ok()?);
            Some(Owner { user, group })
        });
        owner.map(Some).ok_or_else(|| {
            Error::internal("PostgreSQL does not run as root, and there is no user postgres")
        })
    }
}

fn command(programs: &Programs, program: &str, owner: Option<Owner>) -> Command {
    let mut command = programs.command(program);
    run_as(&mut command, owner);
    command
}

fn run_as(command: &mut Command, owner: Option<Owner>) {
    // The other user may not be allowed to enter the current directory.
    command.current_dir("/");
    if let Some(Owner { user, group }) = owner {
        command.uid(user).gid(group);
    }
}

fn printed(command: &mut Command, program: &str) -> Result<String> {
    let Output { status, stdout, stderr } =
        command.stdin(Stdio::null()).output().map_err(while_doing(program))?;
    match status.success() {
        true => Ok(String::from_utf8_lossy(&stdout).into_owned()),
        false => Err(Error::internal(format!("{program} failed: {status}"))
            .with_detail(String::from_utf8_lossy(&stderr))),
    }
}
