//! Partitions between real processes: a gateway and its workers in network namespaces of their own,
//! with a shared secret, of which one is cut off from all others and comes back. Nobody is started
//! again. Where the machine makes no namespaces, the tests say so and look at nothing.

use std::pin::pin;
use std::process::Command;
use std::time::Duration;

use futures::StreamExt as _;
use tempfile::TempDir;
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::time::timeout;
use tokio_postgres::{Client, Error, NoTls};

use super::network::{Cut, Network, address};
use super::processes::{Node, ask, error_text};
use super::weather::ledger::{Fate, Ledger, Owners, judge, keys};

/// What takes longer hangs.
const LONGEST: Duration = Duration::from_secs(60);
const PROGRAM: &str = env!("CARGO_BIN_EXE_thalweg");
/// Where nodes of a network are; workers have the numbers from 1.
const GATEWAY: usize = 0;
/// The worker that is cut off.
const LOST: usize = 2;
const COUNT: &str = "SELECT count(*) FROM t";
const ANSWERING: &str = "SELECT count(*) FROM thalweg_cluster.nodes WHERE answers";

/// Where nodes listen for each other.
fn node_address(node: usize) -> String {
    format!("{}:7473", address(node))
}

/// A network, and files of the nodes in it.
struct Site {
    network: Network,
    directory: TempDir,
}

impl Site {
    /// `None` where this machine makes no such networks.
    #[expect(clippy::disallowed_methods, reason = "a secret is no file of a database")]
    fn new(nodes: usize) -> Option<Site> {
        let network = match Network::new(nodes) {
            Ok(network) => network,
            Err(reason) => {
                println!("This machine makes no networks, and nothing is cut: {reason}");
                return None;
            }
        };
        let site = Site { network, directory: tempfile::tempdir().unwrap() };
        std::fs::write(site.file("secret"), "a secret that all nodes have").unwrap();
        Some(site)
    }

    fn file(&self, name: &str) -> String {
        self.directory.path().join(name).to_str().unwrap().to_owned()
    }

    /// The program with these arguments, where the node is.
    fn command(&self, node: usize, arguments: &[&str]) -> Command {
        let mut command = self.network.command(node, PROGRAM);
        command.args(arguments).args(["--cluster-secret", &self.file("secret")]);
        command
    }

    fn gateway(&self, listen: &str) -> Command {
        let (data, nodes) = (self.file("gateway"), node_address(GATEWAY));
        let mut command = self.command(GATEWAY, &["gateway", "--data", &data, "--nodes", &nodes]);
        command.args(["--listen", listen]);
        command.args(["--postgres-port", "0", "--grpc-port", "0", "--http-port", "0"]);
        command
    }

    fn worker(&self, node: usize) -> Command {
        let data = self.file(&format!("worker-{node}"));
        let (listen, join) = (node_address(node), node_address(GATEWAY));
        let mut command = self.command(node, &["worker", "--data", &data, "--threads", "2"]);
        command.args(["--listen", &listen, "--join", &join]);
        command
    }

    async fn until_joined(&self, workers: usize) {
        let mut ticks = tokio::time::interval(Duration::from_millis(50));
        let mut last = String::new();
        for _ in 0..600 {
            ticks.tick().await;
            let arguments = ["status", "--connect", &node_address(GATEWAY)];
            let error_text = self.command(GATEWAY, &arguments).output().unwrap();
            last = String::from_utf8([error_text.stdout, error_text.stderr].concat()).unwrap();
            if last.contains(&format!("{workers} workers")) && !last.contains("does not answer") {
                return;
            }
        }
        panic!("the workers do not join: {last}");
    }
}

struct Cluster {
    client: Client,
    /// They end before the network in which they run.
    _nodes: Vec<Node>,
    site: Site,
}

impl Cluster {
    /// Of so many workers, with room for more; `None` where this machine makes no networks.
    async fn start(workers: usize, spare: usize) -> Option<Cluster> {
        let site = Site::new(1 + workers + spare)?;
        let printed = ["The password of user thalweg is", "PostgreSQL clients", "Workers join at"];
        let mut gateway = site.gateway(&site.network.door.to_string());
        let (gateway, [password, postgres, _]) = Node::start(&mut gateway, printed);
        let start = |node| Node::start(&mut site.worker(node), ["listens on"]).0;
        let mut nodes: Vec<Node> = (1..=workers).map(start).collect();
        site.until_joined(workers).await;
        nodes.push(gateway);
        let client = connect(&postgres, &password).await;
        let cluster = Cluster { client, _nodes: nodes, site };
        cluster.until(ANSWERING, &workers.to_string()).await;
        Some(cluster)
    }

    async fn ask(&self, sql: &str) -> Result<Vec<String>, Error> {
        let ended = timeout(LONGEST, ask(&self.client, sql)).await;
        ended.unwrap_or_else(|_| panic!("{sql} hangs"))
    }

    async fn done(&self, sql: &str) -> Vec<String> {
        let ended = self.ask(sql).await;
        ended.unwrap_or_else(|error| panic!("{sql}: {}", error_text(&error)))
    }

    /// Asks until the answer is this one, whatever goes wrong meanwhile.
    async fn until(&self, sql: &str, wanted: &str) {
        let mut ticks = tokio::time::interval(Duration::from_millis(50));
        let mut last = String::new();
        for _ in 0..600 {
            ticks.tick().await;
            match self.ask(sql).await {
                Ok(found) if found == [wanted] => return,
                Ok(found) => last = found.join(", "),
                Err(error) => last = error_text(&error),
            }
        }
        panic!("{sql}: {last}");
    }

    /// A table `t` of rows 1 to 5000, and who has which of them.
    async fn fill(&self) -> Owners {
        self.done("CREATE TABLE t (id bigint PRIMARY KEY, v text)").await;
        let rows = "SELECT n, 'value ' || n FROM generate_series(1, 5000) AS s(n)";
        self.done(&format!("INSERT INTO t {rows}")).await;
        self.owners().await
    }

    async fn owners(&self) -> Owners {
        let owning = "SELECT a.address FROM thalweg_cluster.buckets b \
                      JOIN thalweg_cluster.nodes a ON a.id = b.node ORDER BY b.bucket";
        Owners(self.done(owning).await)
    }

    /// It fails since this worker does not answer.
    async fn needs(&self, worker: usize, sql: &str) {
        let error = self.ask(sql).await.expect_err(sql);
        assert!(
            error_text(&error).contains(&node_address(worker)),
            "{sql}: {}",
            error_text(&error)
        );
    }
}

async fn connect(postgres: &str, password: &str) -> Client {
    let (host, port) = postgres.split_once(':').unwrap();
    let config = format!("host={host} port={port} user=thalweg password={password}");
    let (client, connection) = tokio_postgres::connect(&config, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

fn one(key: i64) -> String {
    format!("SELECT id FROM t WHERE id = {key}")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_cut_off_is_named_and_used_again() {
    let Some(cluster) = Cluster::start(3, 0).await else { return };
    let owners = cluster.fill().await;
    let (lost, others): (Vec<i64>, Vec<i64>) =
        (1..=100_i64).partition(|key| owners.of(*key) == node_address(LOST));
    assert!(!lost.is_empty() && !others.is_empty(), "one worker has all rows");
    for cut in Cut::ALL {
        println!("{cut:?}");
        cluster.site.network.cut(LOST, cut);
        cluster.needs(LOST, COUNT).await;
        for key in &lost {
            cluster.needs(LOST, &one(*key)).await;
        }
        for key in &others {
            assert_eq!(cluster.done(&one(*key)).await, [key.to_string()]);
        }
        cluster.site.network.mend(LOST, cut);
        cluster.until(COUNT, "5000").await;
        for key in &lost {
            assert_eq!(cluster.done(&one(*key)).await, [key.to_string()]);
        }
    }
}

/// More than 400 MB.
const WIDE: &str = "SELECT id, repeat(v, 8000) FROM t";

/// Reads, cuts the worker off when rows have come, and returns why there are no more.
async fn broken_off(cluster: &Cluster, cut: Cut) -> Error {
    let mut rows = pin!(cluster.client.simple_query_raw(WIDE).await.unwrap());
    let mut seen = 0;
    loop {
        match rows.next().await.expect("it does not end well") {
            Ok(_) => seen += 1,
            Err(error) => return error,
        }
        if seen == 10 {
            cluster.site.network.cut(LOST, cut);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_is_cut_in_the_middle_does_not_end_well() {
    let Some(cluster) = Cluster::start(3, 0).await else { return };
    cluster.fill().await;
    for cut in Cut::ALL {
        println!("{cut:?}");
        let error = timeout(LONGEST, broken_off(&cluster, cut)).await.expect("it ends");
        assert!(error_text(&error).contains(&node_address(LOST)), "{}", error_text(&error));
        cluster.site.network.mend(LOST, cut);
        cluster.until(COUNT, "5000").await;
    }
}

/// What is known of a batch of rows, which lie on several workers, once its statement has ended.
async fn write(cluster: &Cluster, batch: i64) -> Fate {
    let rows: Vec<String> = keys(batch).map(|key| format!("({key})")).collect();
    let sql = format!("INSERT INTO batches VALUES {}", rows.join(", "));
    let Err(error) = cluster.ask(&sql).await else { return Fate::There };
    let error = error.as_db_error().expect("clients are not cut off");
    // Errors after which some of it may be there say so.
    match error.hint().is_some_and(|hint| hint.contains("Look at the rows")) {
        true => Fate::Perhaps,
        false => Fate::Never,
    }
}

/// Waits for so many batches that were acknowledged, or were not.
async fn hear(heard: &mut UnboundedReceiver<Fate>, is_there: bool, mut count: usize) {
    while count > 0 {
        let fate = heard.recv().await.expect("somebody writes");
        count -= usize::from((fate == Fate::There) == is_there);
    }
}

async fn partitions(network: &Network, mut heard: UnboundedReceiver<Fate>) {
    for cut in Cut::ALL {
        println!("{cut:?}");
        hear(&mut heard, true, 20).await;
        network.cut(LOST, cut);
        hear(&mut heard, false, 10).await;
        network.mend(LOST, cut);
    }
    hear(&mut heard, true, 20).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_outlives_partitions_and_what_was_not_is_told() {
    let Some(cluster) = Cluster::start(3, 0).await else { return };
    cluster.done("CREATE TABLE batches (id bigint PRIMARY KEY)").await;
    let owners = cluster.owners().await;
    let (tell, heard) = mpsc::unbounded_channel();
    let writing = async {
        let mut ledger = Ledger::default();
        for batch in 0.. {
            let fate = write(&cluster, batch).await;
            ledger.batches.insert(batch, fate);
            // Nobody hears it once the last partition is over.
            if tell.send(fate).is_err() {
                break;
            }
        }
        ledger
    };
    let partitions = timeout(3 * LONGEST, partitions(&cluster.site.network, heard));
    let (ledger, ended) = tokio::join!(writing, partitions);
    ended.expect("workers that are back are used again");
    let found = cluster.done("SELECT id FROM batches").await;
    let found: Vec<i64> = found.iter().map(|key| key.parse().unwrap()).collect();
    judge(&ledger, &ledger, &owners, found).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_is_cut_off_says_so_and_goes_on() {
    let Some(cluster) = Cluster::start(3, 0).await else { return };
    cluster.fill().await;
    let insert = "INSERT INTO t SELECT n, 'lost' FROM generate_series(6001, 6100) AS s(n)";
    for cut in Cut::ALL {
        println!("{cut:?}");
        cluster.site.network.cut(GATEWAY, cut);
        for sql in [COUNT, &one(1), insert] {
            let error = cluster.ask(sql).await.expect_err(sql);
            assert!(
                error_text(&error).contains("does not answer"),
                "{sql}: {}",
                error_text(&error)
            );
        }
        // Clients are not cut off, and what needs no worker is answered.
        assert_eq!(cluster.done("SELECT 1").await, ["1"]);
        assert_eq!(cluster.done(ANSWERING).await, ["0"]);
        cluster.site.network.mend(GATEWAY, cut);
        cluster.until(ANSWERING, "3").await;
        cluster.until(COUNT, "5000").await;
        cluster.done("UPDATE t SET v = v || '!'").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_was_cut_off_when_it_started_joins_later() {
    for cut in Cut::ALL {
        println!("{cut:?}");
        let Some(cluster) = Cluster::start(2, 1).await else { return };
        cluster.fill().await;
        cluster.site.network.cut(3, cut);
        let printed = ["listens on", "cannot join the gateway at"];
        let (_late, [_, why]) = Node::start(&mut cluster.site.worker(3), printed);
        assert!(why.starts_with(&node_address(GATEWAY)), "{why}");
        cluster.done("CREATE TABLE meanwhile (id bigint PRIMARY KEY)").await;
        assert_eq!(cluster.done(ANSWERING).await, ["2"]);
        cluster.site.network.mend(3, cut);
        cluster.until(ANSWERING, "3").await;
        // Buckets do not move to it, and it follows definitions as the others do.
        let buckets = "SELECT buckets FROM thalweg_cluster.nodes WHERE address =";
        let buckets = format!("{buckets} '{}'", node_address(3));
        assert_eq!(cluster.done(&buckets).await, ["0"]);
        assert_eq!(cluster.done(COUNT).await, ["5000"]);
        cluster.done("ALTER TABLE t ADD COLUMN w int DEFAULT 1").await;
        let known = "SELECT count(DISTINCT definitions) FROM thalweg_cluster.nodes";
        cluster.until(known, "1").await;
    }
}
