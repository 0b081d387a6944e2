//! `thalweg remove-worker`: removes a permanently lost worker from a cluster.

use std::net::SocketAddr;
use std::sync::Arc;

use clap::Args;
use thalweg::Error;
use thalweg_cluster::link::LinkOptions;
use thalweg_cluster::map::ShardMap;
use thalweg_cluster::membership::REMOVE;
use thalweg_protocol::cluster::{RemoveRequest, ShardMap as WireMap};

use crate::exit::Exit;
use crate::node_arguments::{NodeArguments, address};
use crate::report;
use crate::status_command::{in_runtime, link_to};

const EXAMPLES: &str = "\
Examples:
  thalweg status                                    shows the numbers of the workers
  thalweg remove-worker 271828182
  thalweg remove-worker 271828182 --lose-rows       its rows are lost; its buckets go to the others

A worker that still answers is not removed: stop it first.";

/// Removes a permanently lost worker from a cluster
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct RemoveWorkerArguments {
    /// The worker's number, as `thalweg status` shows it
    #[arg(value_name = "ID")]
    worker: u64,
    /// Removes it even if it owns buckets, whose rows are then lost
    #[arg(long)]
    lose_rows: bool,
    /// Address where workers join a gateway
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        default_value = "127.0.0.1:7473",
        value_parser = address
    )]
    connect: SocketAddr,
    #[command(flatten)]
    cluster: NodeArguments,
}

/// Runs `thalweg remove-worker` and prints the new map's version.
pub fn run(arguments: &RemoveWorkerArguments) -> Exit {
    match in_runtime(remove(arguments)) {
        Ok(map) => report::to_stdout(&format!(
            "Worker {} is removed. Map {}, {} workers\n",
            arguments.worker,
            map.version(),
            map.workers().len(),
        )),
        Err(error) => report::not_opened(&error),
    }
}

async fn remove(arguments: &RemoveWorkerArguments) -> Result<ShardMap, Error> {
    let security = arguments.cluster.options()?.security;
    let options = Arc::new(LinkOptions { security, ..LinkOptions::default() });
    let RemoveWorkerArguments { worker, lose_rows, .. } = *arguments;
    let link = link_to(arguments.connect, &options).link().await?.0;
    let map: WireMap = link.ask(REMOVE, &RemoveRequest { worker, lose_rows }).await?;
    ShardMap::from_wire(&map)
}
