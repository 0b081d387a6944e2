//! Clusters for tests.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arrow::record_batch::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use futures::TryStreamExt as _;
use thalweg::{Database, Error, Session};
use thalweg_client::Client;
use thalweg_cluster::link::LinkOptions;
use thalweg_cluster::map::{ShardMap, SharedMap};
use thalweg_distributed::{
    Gateway, NodeOptions, RunningNode, WorkerProcess, start_gateway, start_worker,
};
use thalweg_query::Gathering;
use thalweg_server::{Server, ServerConfig};

pub use crate::messages::{account, announce, codes, id, int, number, packed, text, values};

pub fn anywhere() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// A gateway and its workers, in memory, until it is dropped.
pub struct Cluster {
    pub gateway: Database,
    pub status: Arc<Gateway>,
    /// Where other nodes find the gateway. Dropped, they do not any more.
    pub node: Option<RunningNode>,
    /// What the workers are made of.
    pub workers: Vec<Database>,
    /// The workers, in their order. Those that are dropped are gone.
    pub running: Vec<RunningNode>,
}

pub fn memory() -> Database {
    Database::builder().threads(2).open().unwrap()
}

/// A process that workers are going to run in.
pub fn in_process() -> WorkerProcess {
    let map = SharedMap::new(ShardMap::default());
    WorkerProcess::new(map, &thalweg_env::Env::real().clock, 64 << 20)
}

pub fn options() -> NodeOptions {
    let link = LinkOptions { silence: Duration::from_secs(2), ..LinkOptions::default() };
    NodeOptions { link, ..NodeOptions::default() }
}

impl Cluster {
    pub async fn start(workers: u64) -> Cluster {
        Cluster::start_with(workers, Gathering::default()).await
    }

    /// One whose sessions gather rows in this way.
    pub async fn start_with(workers: u64, gathering: Gathering) -> Cluster {
        Cluster::start_in(&vec![1; workers as usize], gathering).await
    }

    /// One with so many workers in each process.
    pub async fn start_in(processes: &[u64], gathering: Gathering) -> Cluster {
        let gateway = memory();
        let map = SharedMap::new(ShardMap::default());
        let options = || NodeOptions { gathering, ..options() };
        let (status, node) = start_gateway(&gateway, anywhere(), map, &options()).await.unwrap();
        let (mut running, mut databases) = (Vec::new(), Vec::new());
        let all = processes.iter().flat_map(|workers| vec![in_process(); *workers as usize]);
        for (process, id) in all.zip(1..) {
            let gateways = vec![node.address()];
            let worker = memory();
            databases.push(worker.clone());
            let started =
                start_worker(worker, id, anywhere(), gateways, &process, &options()).await;
            running.push(started.unwrap());
            let mut changes = node.map().changes();
            let joined = changes.wait_for(|map| map.workers().len() as u64 == id);
            joined.await.unwrap();
        }
        Cluster { gateway, status, node: Some(node), workers: databases, running }
    }

    pub fn session(&self) -> Session {
        self.gateway.session()
    }

    /// Waits until no worker has anything to send any more.
    pub async fn until_nothing_is_open(&self) {
        let mut open = 0;
        let mut ticks = tokio::time::interval(Duration::from_millis(10));
        for _ in 0..1_000 {
            ticks.tick().await;
            let seen = self.status.status().await;
            open = seen.iter().map(|worker| worker.seen.as_ref().unwrap().streams).sum();
            if open == 0 {
                return;
            }
        }
        panic!("{open} streams are still open");
    }
}

/// A gateway of four workers with a server before it: what the tests of the record API are about.
pub struct World {
    pub server: Server,
    pub cluster: Cluster,
}

impl World {
    /// With a table `account (id integer, amount integer, owner text)`.
    pub async fn new() -> World {
        let cluster = Cluster::start(4).await;
        let server = serve(&cluster.gateway).await;
        let world = World { server, cluster };
        world.sql(crate::messages::ACCOUNT).await;
        world
    }

    pub async fn client(&self) -> Client {
        client_of(&self.server).await
    }

    pub async fn sql(&self, sql: &str) -> Vec<String> {
        crate::messages::rows(&mut self.cluster.session(), sql).await
    }
}

/// A server before a gateway.
pub async fn serve(gateway: &Database) -> Server {
    let mut config = ServerConfig::default();
    config.listen.grpc_port = 0;
    config.listen.postgres_port = 0;
    config.listen.http_port = 0;
    Server::start(config, gateway.clone()).await.unwrap()
}

pub async fn client_of(server: &Server) -> Client {
    let url = format!("http://{}", server.addresses().grpc);
    Client::connect(&url).await.unwrap()
}

/// Runs a statement; its rows as lines, with bars between columns.
pub async fn rows(session: &mut Session, sql: &str) -> Result<Vec<String>, Error> {
    let outcome = session.execute(sql).await?;
    let mut found = Vec::new();
    let Some(mut batches) = outcome.rows else { return Ok(found) };
    while let Some(batch) = batches.try_next().await? {
        found.extend(lines(&batch));
    }
    Ok(found)
}

/// Rows as lines, with bars between columns.
pub fn lines(batch: &RecordBatch) -> Vec<String> {
    let options = FormatOptions::default().with_null("NULL");
    let columns: Vec<_> = batch
        .columns()
        .iter()
        .map(|column| ArrayFormatter::try_new(column, &options).unwrap())
        .collect();
    let line = |row| {
        let values: Vec<String> =
            columns.iter().map(|column| column.value(row).to_string()).collect();
        values.join("|")
    };
    (0..batch.num_rows()).map(line).collect()
}

pub async fn done(session: &mut Session, sql: &str) {
    if let Err(error) = rows(session, sql).await {
        panic!("{sql}: {} {error} {:?}", error.state().0, error.detail());
    }
}

/// Asks both the same queries, whose rows come in an order, and expects the same answers; and an
/// error in a row of `orders` to be told as what it is.
pub async fn answer_alike(session: &mut Session, alone: &mut Session, queries: &[&str], how: &str) {
    for sql in queries {
        let expected = rows(alone, sql).await.unwrap();
        // At last by a plan that was kept.
        for _ in 0..3 {
            assert_eq!(rows(session, sql).await.unwrap(), expected, "{how}: {sql}");
        }
    }
    let fails = "SELECT customer, sum(1 / (id - 500)) FROM orders GROUP BY customer";
    let error = rows(session, fails).await.unwrap_err();
    assert_eq!(error.state().0, "22012", "{how}: {error}");
}

/// The plan of a query as text.
pub async fn plan(session: &mut Session, sql: &str) -> String {
    rows(session, &format!("EXPLAIN {sql}")).await.unwrap().join("\n")
}
