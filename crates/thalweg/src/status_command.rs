//! `thalweg status`: the nodes of a cluster.

use std::net::SocketAddr;
use std::sync::Arc;

use clap::Args;
use thalweg::Error;
use thalweg_cluster::link::{KeptLink, LinkOptions, NodeName};
use thalweg_cluster::map::ShardMap;
use thalweg_cluster::node::FETCH;
use thalweg_protocol::cluster::gateway_work::Kind;
use thalweg_protocol::cluster::{
    DescribeNodeRequest, GatewayWork, Gateways, GetMapRequest, ListGateways, NodeDescription,
    ShardMap as WireMap,
};

use crate::exit::Exit;
use crate::node_arguments::{NodeArguments, address};
use crate::report;

const GET_MAP: &str = "/thalweg.cluster.v1.Membership/GetMap";
const DESCRIBE: &str = "/thalweg.cluster.v1.Worker/Describe";

/// Shows a cluster's gateways and workers, their buckets, rows, bytes and streams
#[derive(Debug, Args)]
pub struct StatusArguments {
    /// Where workers join a gateway
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

pub fn run(arguments: &StatusArguments) -> Exit {
    let told = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = match told {
        Ok(runtime) => runtime,
        Err(error) => return report::not_opened(&Error::internal(error.to_string())),
    };
    match runtime.block_on(status(arguments)) {
        Ok(text) => report::to_stdout(&text),
        Err(error) => report::not_opened(&error),
    }
}

async fn status(arguments: &StatusArguments) -> Result<String, Error> {
    let security = arguments.cluster.options()?.security;
    let options = Arc::new(LinkOptions { security, ..LinkOptions::default() });
    let map = map_of(arguments.connect, &options).await?;
    let (version, count) = (map.version(), map.workers().len());
    let mut text = format!("Map {version}, {count} workers\n\n");
    text.push_str(&gateways(arguments.connect, &options).await?);
    text.push_str(
        "worker               address               buckets        rows       bytes  streams\n",
    );
    for (worker, buckets) in map.workers().iter().zip(map.shares()) {
        let link = KeptLink::new(worker.clone(), Arc::clone(&options));
        let asked = async {
            let link = link.link().await?.0;
            link.ask::<_, NodeDescription>(DESCRIBE, &DescribeNodeRequest {}).await
        };
        let (id, address) = (worker.id, worker.address.to_string());
        text.push_str(&match asked.await {
            Ok(NodeDescription { rows, bytes, streams, .. }) => {
                format!("{id:<20} {address:<21} {buckets:>7} {rows:>11} {bytes:>11} {streams:>8}\n")
            }
            Err(error) => format!("{id:<20} {address:<21} {buckets:>7} {error}\n"),
        });
    }
    Ok(text)
}

/// The gateways that the one at an address knows of, as lines.
async fn gateways(asked: SocketAddr, options: &Arc<LinkOptions>) -> Result<String, Error> {
    let kind = Some(Kind::List(ListGateways {}));
    let link = link_to(asked, options).link().await?.0;
    let Gateways { gateways } = link.ask::<_, Gateways>(FETCH, &GatewayWork { kind }).await?;
    let mut text = "gateway              address               definitions\n".to_owned();
    for gateway in gateways {
        let role = if gateway.defines { "first" } else { "further" };
        let (address, definitions) = (gateway.address, gateway.definitions);
        text.push_str(&match gateway.answers {
            true => format!("{role:<20} {address:<21} {definitions:>11}\n"),
            false => format!("{role:<20} {address:<21} it does not answer\n"),
        });
    }
    text.push('\n');
    Ok(text)
}

fn link_to(gateway: SocketAddr, options: &Arc<LinkOptions>) -> KeptLink {
    // Gateways have no numbers; the address tells which it is.
    KeptLink::new(NodeName { id: 0, address: gateway }, Arc::clone(options))
}

/// The map as the gateway at an address knows it.
pub async fn map_of(gateway: SocketAddr, options: &Arc<LinkOptions>) -> Result<ShardMap, Error> {
    let link = link_to(gateway, options);
    let failed = |error: Error| {
        Error::new(error.state(), format!("the gateway at {gateway}: {}", error.message()))
    };
    let link = link.link().await.map_err(failed)?.0;
    let map: WireMap = link.ask(GET_MAP, &GetMapRequest {}).await.map_err(failed)?;
    ShardMap::from_wire(&map)
}
