//! `cargo xtask clients`: the server, asked by the clients that people have.
//!
//! Each client is a small program in a directory of `tests/clients`, and the examples of
//! `docs/clients.md`, `docs/records.md` and `docs/http.md`. It is run against a fresh server, with
//! its driver installed by its own package manager below `~/.cache/thalweg/clients`. A client that
//! cannot be installed here is skipped and says why; one that fails, or takes too long, fails the
//! run.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "processes of this machine are watched, nothing here runs in simulation"
)]

mod document;
mod install;
pub mod program;
mod report;
mod server;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use install::{Installed, Toolchain};
use program::Ended;
use report::{Known, Verdict};
use server::Server;

/// A client may take so long for its checks.
const CLIENT_LIMIT: Duration = Duration::from_secs(90);
/// All of them, with what has to be installed, unless told otherwise.
const TOTAL_LIMIT: Duration = Duration::from_secs(1200);

const OVER: &str = "the time for all clients is over";

/// The front end that a client talks to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Needs {
    Postgres,
    Grpc,
    Http,
}

/// A directory of `tests/clients`.
struct Client {
    name: &'static str,
    toolchain: Toolchain,
    needs: Needs,
}

const fn client(name: &'static str, toolchain: Toolchain, needs: Needs) -> Client {
    Client { name, toolchain, needs }
}

const CLIENTS: [Client; 14] = [
    client("psql", Toolchain::Shell, Needs::Postgres),
    client("pg-tools", Toolchain::PostgresTools, Needs::Postgres),
    client("psycopg", Toolchain::Python, Needs::Postgres),
    client("asyncpg", Toolchain::Python, Needs::Postgres),
    client("sqlalchemy", Toolchain::Python, Needs::Postgres),
    client("node-postgres", Toolchain::Node, Needs::Postgres),
    client("pgjdbc", Toolchain::Java, Needs::Postgres),
    client("pgx", Toolchain::Go, Needs::Postgres),
    client("pq", Toolchain::Go, Needs::Postgres),
    client("adbc", Toolchain::Python, Needs::Grpc),
    client("flight-jdbc", Toolchain::Java, Needs::Grpc),
    client("records", Toolchain::Python, Needs::Grpc),
    client("influxdb", Toolchain::Python, Needs::Http),
    client("curl", Toolchain::Shell, Needs::Http),
];

/// Options of the command line.
struct Options {
    server: PathBuf,
    limit: Duration,
    names: Vec<String>,
}

/// Where things are, for all clients.
struct Place<'a> {
    root: &'a Path,
    cache: PathBuf,
    deadline: Instant,
}

impl Place<'_> {
    /// A step's limit: its own, or what is left for all.
    fn limit(&self, step: Duration) -> Duration {
        step.min(self.deadline.saturating_duration_since(Instant::now()))
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.deadline
    }
}

/// Runs the clients that are named, or all.
pub fn run(root: &Path, arguments: &[&str]) -> Result<(), String> {
    let options = options(root, arguments)?;
    let home = std::env::var_os("HOME").ok_or("HOME is not set: nowhere to install clients")?;
    let cache = Path::new(&home).join(".cache/thalweg/clients");
    std::fs::create_dir_all(&cache).map_err(|error| format!("{}: {error}", cache.display()))?;
    let known = Known::read(&root.join("tests/clients/known.txt"))?;
    let place = Place { root, cache, deadline: Instant::now() + options.limit };
    let mut verdicts = Vec::new();
    for client in &CLIENTS {
        if options.names.is_empty() || options.names.iter().any(|name| name == client.name) {
            let verdict = check(client, &place, &options.server, &known);
            verdict.print(client.name);
            verdicts.push(verdict);
        }
    }
    match report::summary(&verdicts) {
        0 => Ok(()),
        failed => Err(format!("clients: {failed} failed")),
    }
}

fn options(root: &Path, arguments: &[&str]) -> Result<Options, String> {
    let server = crate::target(root).join("release/thalweg");
    let mut options = Options { server, limit: TOTAL_LIMIT, names: Vec::new() };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match *word {
            "--server" => options.server = PathBuf::from(value()?),
            "--limit" => {
                let seconds = value()?.parse().map_err(|error| format!("--limit: {error}"))?;
                options.limit = Duration::from_secs(seconds);
            }
            name if CLIENTS.iter().any(|client| client.name == name) => {
                options.names.push(name.to_owned());
            }
            name => {
                let known: Vec<&str> = CLIENTS.iter().map(|client| client.name).collect();
                return Err(format!("{name} is none of the clients: {}", known.join(", ")));
            }
        }
    }
    if !options.server.is_file() {
        let path = options.server.display();
        return Err(format!("{path} is not there: cargo build --release makes it"));
    }
    Ok(options)
}

/// Asks a server of the client's own, so that what one client does to it stays with that client.
fn check(client: &Client, place: &Place<'_>, program: &Path, known: &Known) -> Verdict {
    if place.is_over() {
        return Verdict::Skipped(OVER.to_owned());
    }
    let server = match Server::start(program, &place.cache) {
        Ok(server) => server,
        Err(message) => return Verdict::Failed(message),
    };
    if client.needs == Needs::Grpc && !server.serves_grpc() {
        return Verdict::Skipped("the server does not serve gRPC".to_owned());
    }
    let verdict = match install::install(client.name, client.toolchain, place) {
        Ok(installed) => checked(client, &installed, place, &server, known),
        Err(install::Failure::Missing(reason)) => Verdict::Skipped(reason),
        Err(install::Failure::Broken(reason)) => Verdict::Failed(reason),
    };
    match server.stop() {
        Ok(()) => verdict,
        Err(message) => verdict.and_failed(message),
    }
}

fn checked(
    client: &Client,
    installed: &Installed,
    place: &Place<'_>,
    server: &Server,
    known: &Known,
) -> Verdict {
    let mut command = installed.command();
    server.tell(&mut command);
    let limit = place.limit(CLIENT_LIMIT);
    let (ended, output) = match program::run(&mut command, &installed.log(), limit) {
        Ok(ran) => ran,
        Err(message) => return Verdict::Failed(message),
    };
    if ended == Ended::TimedOut && place.is_over() {
        return Verdict::Skipped(OVER.to_owned());
    }
    let mut checks = report::parse(&output);
    if !checks.are_complete() {
        let what = match ended {
            Ended::TimedOut => format!("still running after {} seconds", limit.as_secs()),
            Ended::Success | Ended::Failure(_) => format!("{ended} before its last check"),
        };
        return Verdict::Failed(format!("{what}\n{}", program::tail(&output)));
    }
    for block in document::blocks(place.root, client.name) {
        let mut command = match installed.example(&server.at_its_ports(&block.text)) {
            Ok(command) => command,
            Err(message) => return Verdict::Failed(message),
        };
        server.tell(&mut command);
        let name = format!("the example at line {} of {}", block.line, block.document);
        match program::run(&mut command, &installed.log(), place.limit(CLIENT_LIMIT)) {
            Ok((Ended::Success, _)) => checks.passed(name),
            Ok((Ended::TimedOut, _)) if place.is_over() => break,
            Ok((ended, output)) => {
                checks.failed(name, format!("{ended}\n{}", program::tail(&output)));
            }
            Err(message) => checks.failed(name, message),
        }
    }
    checks.verdict(client.name, known)
}
