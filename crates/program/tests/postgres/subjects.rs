//! Thalweg, as it is asked: one database, a gateway with workers, and one whose stages are forced.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use thalweg_cluster::link::LinkOptions;
use thalweg_cluster::map::{ShardMap, SharedMap};
use thalweg_distributed::{
    Gateway, NodeOptions, RunningNode, WorkerProcess, start_gateway, start_worker,
};
use thalweg_query::Database;

use super::peers::Peer;

/// Workers of each cluster.
const WORKERS: u64 = 3;

/// Databases of this process and the sessions of them.
pub struct Subjects {
    pub peers: Vec<Peer>,
    _clusters: Vec<Cluster>,
}

struct Cluster {
    gateway: Database,
    _status: Arc<Gateway>,
    _nodes: Vec<RunningNode>,
}

impl Subjects {
    pub async fn start() -> Subjects {
        let clusters = vec![Cluster::start().await, Cluster::start().await];
        let peers = vec![
            Peer::thalweg("one database", memory().session()),
            Peer::thalweg("a gateway", clusters[0].gateway.session()),
            Peer::thalweg("stages", clusters[1].gateway.session()),
        ];
        peers[2].done("SET stages = on").await;
        Subjects { peers, _clusters: clusters }
    }
}

impl Cluster {
    async fn start() -> Cluster {
        let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let options = || {
            let link = LinkOptions { silence: Duration::from_secs(20), ..LinkOptions::default() };
            NodeOptions { link, ..NodeOptions::default() }
        };
        let gateway = memory();
        let map = SharedMap::new(ShardMap::default());
        let (status, node) = start_gateway(&gateway, anywhere, map, &options()).await.unwrap();
        let address = node.address();
        let mut nodes = Vec::new();
        let mut changes = node.map().changes();
        for id in 1..=WORKERS {
            let map = SharedMap::new(ShardMap::default());
            let process = WorkerProcess::new(map, &thalweg_env::Env::real().clock, 64 << 20);
            let worker =
                start_worker(memory(), id, anywhere, vec![address], &process, &options()).await;
            nodes.push(worker.unwrap());
            let joined = changes.wait_for(|map| map.workers().len() as u64 == id);
            drop(joined.await.unwrap());
        }
        nodes.push(node);
        Cluster { gateway, _status: status, _nodes: nodes }
    }
}

fn memory() -> Database {
    Database::builder().threads(2).open().unwrap()
}
