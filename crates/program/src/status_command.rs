//! `thalweg status`: the nodes of a cluster.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use futures::future::join_all;
use serde::Serialize;
use thalweg::Error;
use thalweg_cluster::link::{LinkOptions, NodeName, ReconnectingLink};
use thalweg_cluster::map::ShardMap;
use thalweg_cluster::node::FETCH;
use thalweg_protocol::cluster::gateway_work::Kind;
use thalweg_protocol::cluster::{
    DescribeNodeRequest, GatewayEntry, GatewayWork, Gateways, GetMapRequest, ListGateways,
    NodeDescription, ShardMap as WireMap, StorageFault as WireFault,
};

use crate::exit::Exit;
use crate::node_arguments::{NodeArguments, address};
use crate::report;

const GET_MAP: &str = "/thalweg.cluster.v1.Membership/GetMap";
const DESCRIBE: &str = "/thalweg.cluster.v1.Worker/Describe";

const EXAMPLES: &str = "\
Examples:
  thalweg status
  thalweg status --connect gateway.internal:7473 --cluster-secret ./secret
  thalweg status --format json | jq '.workers[] | select(.answers | not)'";

/// Shows a cluster's gateways and workers, their buckets, rows, bytes and streams
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct StatusArguments {
    /// Address where workers join a gateway
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        default_value = "127.0.0.1:7473",
        value_parser = address
    )]
    connect: SocketAddr,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    format: StatusFormat,
    #[command(flatten)]
    cluster: NodeArguments,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum StatusFormat {
    /// Columns for people
    Table,
    /// One JSON object
    Json,
}

/// Runs `thalweg status` and prints the nodes.
pub fn run(arguments: &StatusArguments) -> Exit {
    match in_runtime(status(arguments)) {
        Ok(text) => report::to_stdout(&text),
        Err(error) => report::not_opened(&error),
    }
}

/// Runs a request to a cluster on this thread.
pub fn in_runtime<T>(work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Error::internal(error.to_string()))?.block_on(work)
}

/// A cluster, as one of its gateways sees it.
#[derive(Serialize)]
struct Status {
    map_version: u64,
    gateways: Vec<GatewayStatus>,
    workers: Vec<WorkerStatus>,
}

#[derive(Serialize)]
struct GatewayStatus {
    address: String,
    /// True for the gateway that makes the map and all definitions.
    is_first: bool,
    answers: bool,
    /// The number of the last definition that it has.
    definitions: u64,
    /// The faults of its storage.
    storage: Vec<StorageFault>,
}

/// A fault of a node's storage.
#[derive(Serialize)]
struct StorageFault {
    reason: String,
    message: String,
    refuses_writes: bool,
}

impl StorageFault {
    fn all(faults: Vec<WireFault>) -> Vec<StorageFault> {
        let faults = faults.into_iter().map(|WireFault { reason, message, refuses_writes }| {
            StorageFault { reason, message, refuses_writes }
        });
        faults.collect()
    }
}

#[derive(Serialize)]
struct WorkerStatus {
    id: u64,
    address: String,
    buckets: usize,
    answers: bool,
    rows: Option<u64>,
    bytes: Option<u64>,
    /// Number of answers that it is sending.
    streams: Option<u64>,
    /// The reason why it does not answer.
    error: Option<String>,
    /// The faults of its storage.
    storage: Vec<StorageFault>,
}

async fn status(arguments: &StatusArguments) -> Result<String, Error> {
    let security = arguments.cluster.options()?.security;
    let options = Arc::new(LinkOptions { security, ..LinkOptions::default() });
    let map = map_of(arguments.connect, &options).await?;
    let gateways = gateways(arguments.connect, &options).await?;
    let workers = map.workers().iter().zip(map.shares());
    let workers = workers.map(|(worker, buckets)| worker_status(worker, *buckets, &options));
    let status = Status {
        map_version: map.version(),
        gateways: gateways.into_iter().map(GatewayStatus::from).collect(),
        workers: join_all(workers).await,
    };
    match arguments.format {
        StatusFormat::Table => Ok(status.as_table()),
        StatusFormat::Json => serde_json::to_string_pretty(&status)
            .map(|text| text + "\n")
            .map_err(|error| Error::internal(error.to_string())),
    }
}

impl From<GatewayEntry> for GatewayStatus {
    fn from(entry: GatewayEntry) -> GatewayStatus {
        let GatewayEntry { address, definitions, defines, answers, storage, .. } = entry;
        let storage = StorageFault::all(storage);
        GatewayStatus { address, is_first: defines, answers, definitions, storage }
    }
}

async fn worker_status(
    worker: &NodeName,
    buckets: usize,
    options: &Arc<LinkOptions>,
) -> WorkerStatus {
    let described = describe(worker, options).await;
    let error = described.as_ref().err().map(ToString::to_string);
    let described = described.ok();
    WorkerStatus {
        id: worker.id,
        address: worker.address.to_string(),
        buckets,
        answers: described.is_some(),
        rows: described.as_ref().map(|it| it.rows),
        bytes: described.as_ref().map(|it| it.bytes),
        streams: described.as_ref().map(|it| it.streams),
        error,
        storage: described.map(|it| StorageFault::all(it.storage)).unwrap_or_default(),
    }
}

/// A worker's description of itself.
///
/// # Errors
/// If it does not answer, or if another worker answers at its address.
async fn describe(worker: &NodeName, options: &Arc<LinkOptions>) -> Result<NodeDescription, Error> {
    let link = ReconnectingLink::new(worker.clone(), Arc::clone(options)).link().await?.0;
    let it: NodeDescription = link.ask(DESCRIBE, &DescribeNodeRequest {}).await?;
    match it.id == worker.id {
        true => Ok(it),
        false => {
            let why = format!("worker {} answers at its address", it.id);
            Err(thalweg_cluster::link::unavailable(worker, why))
        }
    }
}

impl Status {
    fn as_table(&self) -> String {
        let mut text = format!("Map {}, {} workers\n\n", self.map_version, self.workers.len());
        text.push_str("gateway              address               definitions\n");
        for gateway in &self.gateways {
            let role = if gateway.is_first { "first" } else { "further" };
            let GatewayStatus { address, definitions, answers, .. } = gateway;
            let known = match answers {
                true => format!("{definitions:>11}"),
                false => "it does not answer".to_owned(),
            };
            let _ = writeln!(text, "{role:<20} {address:<21} {known}");
            add_faults(&mut text, &gateway.storage);
        }
        let _ = writeln!(
            text,
            "\n{:<20} {:<21} {:>7} {:>11} {:>11} {:>8}",
            "worker", "address", "buckets", "rows", "bytes", "streams",
        );
        for worker in &self.workers {
            let WorkerStatus { id, address, buckets, rows, bytes, streams, error, .. } = worker;
            let holds = match (rows, bytes, streams) {
                (Some(rows), Some(bytes), Some(streams)) => {
                    format!("{rows:>11} {bytes:>11} {streams:>8}")
                }
                _ => error.clone().unwrap_or_default(),
            };
            let _ = writeln!(text, "{id:<20} {address:<21} {buckets:>7} {holds}");
            add_faults(&mut text, &worker.storage);
        }
        text
    }
}

/// Adds what fails of a node's storage, on lines below the node's.
fn add_faults(text: &mut String, faults: &[StorageFault]) {
    for StorageFault { reason, message, refuses_writes } in faults {
        let writes = if *refuses_writes { ", writes are refused" } else { "" };
        let _ = writeln!(text, "    storage fault: {reason}{writes} ({message})");
    }
}

/// The gateways that the gateway at an address knows.
async fn gateways(
    asked: SocketAddr,
    options: &Arc<LinkOptions>,
) -> Result<Vec<GatewayEntry>, Error> {
    let kind = Some(Kind::List(ListGateways {}));
    let link = link_to(asked, options).link().await?.0;
    let Gateways { gateways } = link.ask::<_, Gateways>(FETCH, &GatewayWork { kind }).await?;
    Ok(gateways)
}

/// A link to the gateway at an address.
pub fn link_to(gateway: SocketAddr, options: &Arc<LinkOptions>) -> ReconnectingLink {
    // Gateways have no numbers; the address identifies them.
    ReconnectingLink::new(NodeName { id: 0, address: gateway }, Arc::clone(options))
}

/// The map of the gateway at an address.
async fn map_of(gateway: SocketAddr, options: &Arc<LinkOptions>) -> Result<ShardMap, Error> {
    let link = link_to(gateway, options);
    let failed = |error: Error| {
        Error::new(error.state(), format!("the gateway at {gateway}: {}", error.message()))
    };
    let link = link.link().await.map_err(failed)?.0;
    let map: WireMap = link.ask(GET_MAP, &GetMapRequest {}).await.map_err(failed)?;
    ShardMap::from_wire(&map)
}

/// True if a gateway knows as many workers as are wanted, and all of them answer.
pub async fn all_answer(gateway: SocketAddr, wanted: usize, options: &Arc<LinkOptions>) -> bool {
    let Ok(map) = map_of(gateway, options).await else { return false };
    let described = map.workers().iter().map(|worker| describe(worker, options));
    map.workers().len() >= wanted && join_all(described).await.iter().all(Result::is_ok)
}
