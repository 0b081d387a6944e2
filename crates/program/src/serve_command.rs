//! `thalweg serve`: the database as a server for ordinary clients.

use std::io::IsTerminal as _;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use clap::Args;
use thalweg::{Database, Error, Progress};
use thalweg_cluster::seen::SeenKind;
use thalweg_distributed::{JoinReporter, NodeOptions, RunningNode, start_gateway};
use thalweg_query::Gathering;
use thalweg_server::auth::set_first_password;
use thalweg_server::{Addresses, Server};
use tokio::io::{AsyncReadExt as _, Stdin, stdin};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::cli::DatabaseArguments;
use crate::config::{ClusterSettings, FanIn, Flags, Settings};
use crate::exit::Exit;
use crate::first_password;
use crate::gateway_command::GatewayArguments;
use crate::node_arguments::{kept_map, seen_nodes};
use crate::progress::ProgressBars;
use crate::report;

const EXAMPLES: &str = "\
Examples:
  thalweg serve --data ./market
  psql -h 127.0.0.1 -p 7471 -U thalweg thalweg
  thalweg serve --data ./market --listen 0.0.0.0      asks everybody for a password

The server ends on SIGTERM and Ctrl-C: it takes nobody in any more and lets statements finish. A
second signal ends it at once; nothing that was acknowledged is lost either way.

THALWEG_PASSWORD, or a file that THALWEG_PASSWORD_FILE names, gives user thalweg its first
password.";

/// Serves a database to PostgreSQL clients, Arrow Flight SQL clients and over HTTP
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ServeArguments {
    /// Address to listen on; beyond this machine, clients need passwords [default: 127.0.0.1]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<IpAddr>,
    /// Port for PostgreSQL clients [default: 7471]
    #[arg(long, value_name = "PORT")]
    postgres_port: Option<u16>,
    /// Port for Flight SQL and other gRPC clients [default: 7470]
    #[arg(long, value_name = "PORT")]
    grpc_port: Option<u16>,
    /// Port for HTTP [default: 7472]
    #[arg(long, value_name = "PORT")]
    http_port: Option<u16>,
    #[command(flatten)]
    database: DatabaseArguments,
}

/// Runs `thalweg serve` until a signal.
pub fn run(arguments: &ServeArguments) -> Exit {
    run_as(arguments, None)
}

/// Like [`run`], optionally as a gateway.
pub fn run_as(arguments: &ServeArguments, gateway: Option<&GatewayArguments>) -> Exit {
    let mut flags = Flags::default();
    flags.set("listen.address", arguments.listen);
    flags.set("listen.postgres_port", arguments.postgres_port);
    flags.set("listen.grpc_port", arguments.grpc_port);
    flags.set("listen.http_port", arguments.http_port);
    flags.set("cluster.fan_in", gateway.and_then(|gateway| gateway.fan_in));
    flags.set("cluster.expect_workers", gateway.and_then(|gateway| gateway.expect_workers));
    let settings = match arguments.database.load_server_config(flags) {
        Ok(config) => config.settings,
        Err(errors) => return report::usage(&errors),
    };
    let first_password = match first_password::from_environment() {
        Ok(password) => password,
        Err(error) => return report::usage(&[error]),
    };
    let _log = match thalweg_server::install_log(&settings.log) {
        Ok(log) => log,
        Err(error) => return report::usage(&[error]),
    };
    thalweg_server::raise_descriptor_limit();
    let watched = std::io::stderr().is_terminal();
    let progress = watched.then(|| Arc::new(ProgressBars::new()) as Arc<dyn Progress>);
    let database = match arguments.database.open(&settings.database, progress) {
        Ok(database) => database,
        Err(error) => return report::not_opened(&error),
    };
    thalweg_server::warn_of_access(arguments.database.data.as_deref());
    let runtime = match DatabaseArguments::runtime(&settings.database) {
        Ok(runtime) => runtime,
        Err(error) => {
            let message = format!("the threads of the server could not be started: {error}");
            return report::not_opened(&Error::internal(message));
        }
    };
    let data = arguments.database.data.as_deref();
    let gateway = gateway.map(|gateway| (gateway, data));
    let served = runtime.block_on(serve(&settings, database.clone(), gateway, first_password));
    runtime.shutdown_background();
    match served.and_then(|()| database.close()) {
        Ok(()) => Exit::Success,
        Err(error) => report::not_opened(&error),
    }
}

async fn serve(
    settings: &Settings,
    database: Database,
    gateway: Option<(&GatewayArguments, Option<&Path>)>,
    first_password: Option<String>,
) -> Result<(), Error> {
    let ends_with_parent = gateway.is_some_and(|(arguments, _)| arguments.ends_with_parent);
    let mut signals = Signals::new(ends_with_parent)?;
    // Must precede the first request for rows.
    let node = match gateway {
        None => None,
        Some((arguments, data)) => {
            let map = kept_map(database.env(), data)?;
            let accept = arguments.accept_restored;
            let seen = seen_nodes(database.env(), data, SeenKind::Workers, accept)?;
            let reporter: JoinReporter = Arc::new(|what: &str| tracing::warn!("{what}"));
            let options = NodeOptions {
                gathering: gathering(settings.cluster),
                first: arguments.join,
                expected_workers: settings.cluster.expect_workers.get(),
                reporter: Some(reporter),
                seen: Some(Arc::new(seen)),
                ..arguments.cluster.options()?
            };
            Some(start_gateway(&database, arguments.nodes, map, &options).await?)
        }
    };
    if let Some(password) = first_password {
        set_first_password(&database, &password).await?;
    }
    let server = Server::start(settings.server(), database).await?;
    let node = node.as_ref().map(|(_, node)| node);
    match settings.log.json {
        true => announce_in_log(&server, node),
        false => announce(&server, node),
    }
    signals.next().await;
    match settings.log.json {
        true => tracing::info!("ending: statements that run may finish"),
        false => eprintln!("Ending: statements that run may finish."),
    }
    tokio::select! {
        () = server.shut_down() => {}
        () = signals.next() => match settings.log.json {
            true => tracing::info!("ending at once"),
            false => eprintln!("Ending at once."),
        },
    }
    Ok(())
}

/// The settings by which a gateway's statements gather rows.
fn gathering(settings: ClusterSettings) -> Gathering {
    let fan_in = match settings.fan_in {
        FanIn::Sync => thalweg_query::FanIn::Sync,
        FanIn::Async => thalweg_query::FanIn::Async,
        FanIn::Hybrid => thalweg_query::FanIn::Hybrid,
    };
    let (relays, together) = (settings.relay, settings.together);
    Gathering { fan_in, relays, together, ..Gathering::default() }
}

fn announce(server: &Server, node: Option<&RunningNode>) {
    let addresses = server.addresses();
    if let Some(password) = server.administrator_password() {
        eprintln!("The password of user thalweg is {password}");
        eprintln!("It is shown this once. ALTER USER thalweg PASSWORD '...' sets another.\n");
    }
    let Addresses { postgres, grpc, http } = addresses;
    eprintln!("PostgreSQL clients  {postgres}");
    eprintln!("Flight SQL, records {grpc}");
    let scheme = scheme(server);
    eprintln!("HTTP                {scheme}://{http}/sql");
    if let Some(node) = node {
        eprintln!("Workers join at     {}", node.address());
    }
    let (host, port) = (postgres.ip(), postgres.port());
    eprintln!("Ready. Try: psql -h {host} -p {port} -U thalweg thalweg");
}

/// The announcement as lines of the log, for programs that read standard error as JSON.
fn announce_in_log(server: &Server, node: Option<&RunningNode>) {
    if let Some(password) = server.administrator_password() {
        tracing::warn!(password, "the first password of user thalweg, which is shown this once");
    }
    let Addresses { postgres, grpc, http } = server.addresses();
    let workers_join_at = node.map(|node| tracing::field::display(node.address()));
    let http = format!("{}://{http}", scheme(server));
    tracing::info!(%postgres, %grpc, http, workers_join_at, "ready");
}

fn scheme(server: &Server) -> &'static str {
    if server.uses_tls() { "https" } else { "http" }
}

/// Requests to end the program: signals and, for a node of `thalweg cluster`, the end of the
/// process that started it.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    parent: Option<Parent>,
}

/// The process at the other end of standard input. The system closes that end however the process
/// ends, even by SIGKILL.
struct Parent(Stdin);

impl Parent {
    async fn gone(&mut self) {
        let mut byte = [0];
        while !matches!(self.0.read(&mut byte).await, Ok(0) | Err(_)) {}
    }
}

impl Signals {
    /// Registers handlers for SIGTERM and SIGINT. If `ends_with_parent` is set, the end of standard
    /// input counts too. Must run within a Tokio runtime.
    pub fn new(ends_with_parent: bool) -> Result<Signals, Error> {
        let listen = |kind| {
            signal(kind).map_err(|error| Error::internal(format!("no signals come in: {error}")))
        };
        Ok(Signals {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            parent: ends_with_parent.then(|| Parent(stdin())),
        })
    }

    /// Waits for the next request to end the program.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            () = async { self.parent.as_mut().expect("there is one").gone().await },
                if self.parent.is_some() => self.parent = None,
        }
    }
}
