//! `thalweg worker`: holds rows of a cluster's tables.

use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::ops::RangeInclusive;
use std::sync::Arc;

use clap::Args;
use thalweg::{Database, Error};
use thalweg_cluster::seen::{SeenKind, SeenNodes};
use thalweg_distributed::{
    JoinReporter, Joined, NodeOptions, RunningNode, WorkerProcess, start_worker,
};
use thalweg_env::{keep_to_cores, machine_memory_bytes};
use thalweg_server::Monitor;
use thalweg_types::SqlState;
use tokio::task::spawn_blocking;

use crate::cli::DatabaseArguments;
use crate::config::{Flags, Settings};
use crate::exit::Exit;
use crate::node_arguments::{NodeArguments, address, kept_id, kept_map, seen_nodes};
use crate::report;
use crate::serve_command::Signals;

/// The highest core number that systems have.
const CORE_MAX: usize = 1 << 16;
/// The cache of encodings gets one byte of this many bytes of the process's memory.
const SHARE_OF_ENCODINGS: u64 = 64;

const EXAMPLES: &str = "\
Examples:
  thalweg worker --data ./worker-1 --listen 127.0.0.1:7480 --join 127.0.0.1:7473
  thalweg worker --listen 127.0.0.1:0 --join 127.0.0.1:7473 --logical 16
  thalweg worker --data ./worker-2 --listen 127.0.0.1:0 --join 127.0.0.1:7473 --cores 4-7
  thalweg worker --data ./worker-1 --listen 0.0.0.0:7473 --advertise worker-1.internal:7473 \
      --join gateway.internal:7473 --cluster-secret ./secret

A worker that is started again on its directory takes its place back, wherever it listens then.";

/// Holds rows for the gateways of a cluster
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct WorkerArguments {
    /// Address where gateways reach it; port 0 picks any free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7473")]
    listen: SocketAddr,
    /// Address where gateways reach it, if that is not where it listens
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address)]
    advertise: Option<SocketAddr>,
    /// The gateways to join
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        value_delimiter = ',',
        required = true,
        value_parser = address
    )]
    join: Vec<SocketAddr>,
    /// Number of workers in this process, each with a directory and a port of its own; gateways
    /// read the rows of all of them through one stream
    #[arg(long, value_name = "N", default_value = "1")]
    logical: NonZeroU16,
    /// Cores to run on, such as 0-3,8, where several processes share a machine [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = core_range)]
    cores: Vec<RangeInclusive<usize>>,
    /// Port for health checks and metrics over HTTP, at listen.address; port 0 picks any free one.
    /// Without it, and without listen.http_port in the configuration, there is none
    #[arg(long, value_name = "PORT")]
    http_port: Option<u16>,
    /// Take part in the cluster of a gateway whose directory is an older copy
    #[arg(long)]
    accept_restored: bool,
    /// End together with the process that holds the other end of standard input
    #[arg(long, hide = true)]
    ends_with_parent: bool,
    #[command(flatten)]
    database: DatabaseArguments,
    #[command(flatten)]
    cluster: NodeArguments,
}

/// Runs `thalweg worker` until a signal.
pub fn run(arguments: &WorkerArguments) -> Exit {
    let mut flags = Flags::default();
    flags.set("listen.http_port", arguments.http_port);
    let config = match arguments.database.load_config(flags) {
        Ok(config) => config,
        Err(errors) => return report::usage(&errors),
    };
    // The default port is a server's: workers of one machine would all want it.
    let has_http = config.is_set("listen.http_port");
    let settings = config.settings;
    let _log = match thalweg_server::install_log(&settings.log) {
        Ok(log) => log,
        Err(error) => return report::usage(&[error]),
    };
    // Must precede the first thread: later threads inherit the cores of the first one.
    if let Err(error) = keep_to(&arguments.cores) {
        return report::usage(&[error]);
    }
    thalweg_server::raise_descriptor_limit();
    thalweg_server::warn_of_access(arguments.database.data.as_deref());
    let runtime = match DatabaseArguments::runtime(&settings.database) {
        Ok(runtime) => runtime,
        Err(error) => {
            let message = format!("the threads of the worker could not be started: {error}");
            return report::not_opened(&Error::internal(message));
        }
    };
    let served = runtime.block_on(serve(arguments, &settings, has_http));
    runtime.shutdown_background();
    match served {
        Ok(()) => Exit::Success,
        Err(error) => report::not_opened(&error),
    }
}

/// A core, or a range of cores.
fn core_range(text: &str) -> Result<RangeInclusive<usize>, String> {
    let number = |text: &str| text.trim().parse().map_err(|_| format!("{text:?} is no core"));
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (number(first)?, number(last)?);
    match first <= last && last <= CORE_MAX {
        true => Ok(first..=last),
        false => Err("these are no cores in a row".to_owned()),
    }
}

fn keep_to(cores: &[RangeInclusive<usize>]) -> Result<(), Error> {
    if cores.is_empty() {
        return Ok(());
    }
    let cores: Vec<usize> = cores.iter().cloned().flatten().collect();
    keep_to_cores(&cores)
        .map_err(|error| Error::new(SqlState::INVALID_PARAMETER_VALUE, format!("--cores: {error}")))
}

async fn serve(
    arguments: &WorkerArguments,
    settings: &Settings,
    has_http: bool,
) -> Result<(), Error> {
    let mut signals = Signals::new(arguments.ends_with_parent)?;
    let running = tokio::select! {
        running = start_all(arguments, settings) => running?,
        // Databases opened so far are dropped as in a crash: nothing was acknowledged yet.
        () = signals.next() => return Ok(()),
    };
    let monitor = if has_http { Some(monitor(settings, &running)?) } else { None };
    signals.next().await;
    drop(monitor);
    tokio::select! {
        closed = close_all(running) => closed,
        // A second signal ends the wait.
        () = signals.next() => Ok(()),
    }
}

/// Opens the port for health checks and metrics.
fn monitor(settings: &Settings, running: &[(Database, RunningNode)]) -> Result<Monitor, Error> {
    let databases = running.iter().map(|(database, _)| database.clone()).collect();
    let joined: Vec<_> = running.iter().map(|(_, node)| node.joined().clone()).collect();
    let ready = Arc::new(move || joined.iter().try_for_each(Joined::readiness));
    let monitor = Monitor::start(settings.server(), databases, ready)?;
    eprintln!("Health and metrics http://{}/metrics", monitor.address());
    Ok(monitor)
}

async fn start_all(
    arguments: &WorkerArguments,
    settings: &Settings,
) -> Result<Vec<(Database, RunningNode)>, Error> {
    let mut running: Vec<(Database, RunningNode)> = Vec::new();
    let mut process = None;
    for number in 0..arguments.logical.get() {
        let first = running.first().map(|(database, _)| database.clone());
        running.push(start(arguments, settings, first, &mut process, number).await?);
    }
    Ok(running)
}

/// Stops the servers and closes all databases. Returns the first error.
async fn close_all(running: Vec<(Database, RunningNode)>) -> Result<(), Error> {
    let (databases, nodes): (Vec<Database>, Vec<RunningNode>) = running.into_iter().unzip();
    drop(nodes);
    run_blocking(move || {
        let closed: Vec<_> = databases.into_iter().map(Database::close).collect();
        closed.into_iter().collect()
    })
    .await
}

/// Runs blocking work on another thread, so that signals are still handled.
async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    spawn_blocking(work).await.map_err(|died| Error::internal(died.to_string()))?
}

/// Starts one of the workers. The first one owns the threads on which all of them run queries, and
/// stores the map for all.
async fn start(
    arguments: &WorkerArguments,
    settings: &Settings,
    first: Option<Database>,
    process: &mut Option<(WorkerProcess, Arc<SeenNodes>)>,
    number: u16,
) -> Result<(Database, RunningNode), Error> {
    let mut own = arguments.database.clone();
    if arguments.logical.get() > 1 {
        own.data = own.data.map(|data| data.join(format!("worker-{}", number + 1)));
    }
    let mut builder = own.builder(&settings.database);
    if let Some(first) = &first {
        builder = builder.beside(first);
    }
    let database = run_blocking(move || builder.open()).await?;
    thalweg_server::log_storage_faults(&database);
    let data = own.data.as_deref();
    let id = kept_id(database.env(), data)?;
    let (process, seen) = match process {
        Some(process) => process,
        none => {
            let map = kept_map(database.env(), data)?;
            let clock = &database.env().clock;
            let accept = arguments.accept_restored;
            let seen = seen_nodes(database.env(), data, SeenKind::Gateways, accept)?;
            let process = WorkerProcess::new(map, clock, kept_encodings(settings));
            none.insert((process, Arc::new(seen)))
        }
    };
    let listen = numbered(arguments.listen, number);
    let advertised = arguments.advertise.map(|address| numbered(address, number));
    let reporter: JoinReporter = Arc::new(|what: &str| tracing::warn!("{what}"));
    let options = NodeOptions {
        advertised,
        reporter: Some(reporter),
        seen: Some(Arc::clone(seen)),
        ..arguments.cluster.options()?
    };
    let gateways = arguments.join.clone();
    let node = start_worker(database.clone(), id, listen, gateways, process, &options).await?;
    if node.address() != node.listens_at() {
        eprintln!("Worker {id} is called at {}", node.address());
    }
    eprintln!("Worker {id} listens on {}", node.listens_at());
    Ok((database, node))
}

/// Maximum bytes of encoded chunks in the cache.
fn kept_encodings(settings: &Settings) -> usize {
    let all = settings.database.process_memory_limit.map(|size| size.0);
    let share = || Some(all.or_else(machine_memory_bytes)? / SHARE_OF_ENCODINGS);
    let kept = settings.cluster.kept_encodings.map(|size| size.0).or_else(share);
    usize::try_from(kept.unwrap_or(0)).unwrap_or(usize::MAX)
}

/// The port of one worker of a process: ports are consecutive from a given one.
fn numbered(mut first: SocketAddr, number: u16) -> SocketAddr {
    if first.port() > 0 {
        first.set_port(first.port().saturating_add(number));
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_one_or_several_in_a_row() {
        assert_eq!(core_range("3").unwrap(), 3..=3);
        assert_eq!(core_range("0-7").unwrap(), 0..=7);
        for wrong in ["", "-", "1-", "7-0", "-1", "a", "0-1-2", "0-99999999"] {
            assert!(core_range(wrong).is_err(), "{wrong:?}");
        }
        let refused = keep_to(&[0..=0, CORE_MAX..=CORE_MAX]).unwrap_err();
        assert!(refused.message().starts_with("--cores: core "), "{refused:?}");
    }
}
