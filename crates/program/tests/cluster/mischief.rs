//! Clients of a cluster whose wires are delayed, silenced and torn, and whose workers end and come
//! back, in an order that follows from a seed.
//!
//! Promises that are checked: what was acknowledged is there, and is there once; a key that was
//! refused as being there already was written by somebody; each statement ends; and once all is
//! well, everybody is served without anything being started again.
//!
//! `THALWEG_CASES` sets how many seeds are tried, `THALWEG_SEED` tries one again. Threads and
//! sockets are real: a seed gives the same mischief, not the same moments.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::join_all;
use tempfile::TempDir;
use thalweg::{Database, Session};
use thalweg_cluster::link::LinkOptions;
use thalweg_cluster::map::{ShardMap, SharedMap};
use thalweg_distributed::{Gateway, NodeOptions, RunningNode, start_gateway, start_worker};

use super::support::{anywhere, done, in_process, memory, rows};
use super::wires::{Condition, Wire, wait};

const CASES: u64 = 3;
const WORKERS: usize = 3;
const CLIENTS: usize = 4;
/// Statements of each client.
const STATEMENTS: u64 = 60;
/// A statement that takes longer hangs.
const LONGEST: Duration = Duration::from_secs(60);

/// SplitMix64 (Steele, Lea, Flood, 2014).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

fn options() -> NodeOptions {
    let link = LinkOptions {
        silence: Duration::from_millis(500),
        connect_timeout: Duration::from_millis(500),
        ..LinkOptions::default()
    };
    NodeOptions { link, ..NodeOptions::default() }
}

/// A worker with its rows on disk, behind a wire.
struct Worker {
    id: u64,
    directory: TempDir,
    wire: Wire,
    running: Option<(Database, RunningNode)>,
}

impl Worker {
    async fn new(id: u64, gateway: SocketAddr) -> Worker {
        let directory = tempfile::tempdir().unwrap();
        let mut worker = Worker { id, directory, wire: Wire::new().await, running: None };
        worker.start(gateway).await;
        worker
    }

    async fn start(&mut self, gateway: SocketAddr) {
        let database = self.open().await;
        let process = in_process();
        let listen = anywhere();
        // Where it listens is known once it does, and the wire leads there.
        let options = NodeOptions { advertised: Some(self.wire.address), ..options() };
        let node =
            start_worker(database.clone(), self.id, listen, vec![gateway], &process, &options)
                .await;
        let node = node.unwrap();
        self.wire.lead_to(Some(node.listens_at()));
        self.running = Some((database, node));
    }

    /// Statements of before may still hold on to the directory.
    async fn open(&self) -> Database {
        let mut last = None;
        for _ in 0..400 {
            match Database::builder().threads(2).directory(self.directory.path()).open() {
                Ok(database) => return database,
                Err(error) => last = Some(error),
            }
            wait(Duration::from_millis(25)).await;
        }
        panic!("worker {} does not open: {last:?}", self.id);
    }

    fn end(&mut self) {
        self.wire.lead_to(None);
        if let Some((database, node)) = self.running.take() {
            drop(node);
            database.close().unwrap();
        }
    }
}

struct Storm {
    gateway: Database,
    _status: Arc<Gateway>,
    node: RunningNode,
    workers: Vec<Worker>,
}

impl Storm {
    async fn new() -> Storm {
        let gateway = memory();
        let map = SharedMap::new(ShardMap::default());
        let (status, node) = start_gateway(&gateway, anywhere(), map, &options()).await.unwrap();
        let mut storm = Storm { gateway, _status: status, node, workers: Vec::new() };
        for id in 1..=WORKERS as u64 {
            storm.workers.push(Worker::new(id, storm.node.address()).await);
            let mut changes = storm.node.map().changes();
            changes.wait_for(|map| map.workers().len() as u64 == id).await.unwrap();
        }
        storm
    }

    /// Does mischief until it is told to stop, and then makes all well again.
    async fn rage(&mut self, mut dice: Dice, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            let worker = &mut self.workers[dice.below(WORKERS as u64) as usize];
            match dice.below(6) {
                0 => worker.wire.set(Condition::Slow(Duration::from_millis(dice.below(30)))),
                1 => worker.wire.set(Condition::Silent),
                2 => worker.wire.set(Condition::Torn),
                3 => {
                    worker.end();
                    worker.start(self.node.address()).await;
                }
                _ => worker.wire.set(Condition::Whole),
            }
            wait(Duration::from_millis(20 + dice.below(200))).await;
        }
        for worker in &self.workers {
            worker.wire.set(Condition::Whole);
        }
    }
}

/// What a client knows of what it wrote.
#[derive(Default)]
struct Known {
    /// Keys whose insertion was acknowledged.
    there: Vec<u64>,
    /// Those of which nobody knows.
    perhaps: Vec<u64>,
    /// Increments of the client's own counter that were acknowledged, and of which nobody knows.
    counted: u64,
    perhaps_counted: u64,
    answers: u64,
}

/// A statement that ends.
async fn ask(session: &mut Session, sql: &str) -> Result<Vec<String>, thalweg::Error> {
    let ended = tokio::time::timeout(LONGEST, rows(session, sql)).await;
    ended.unwrap_or_else(|_| panic!("{sql} hangs"))
}

async fn client(mut session: Session, number: u64, mut dice: Dice) -> Known {
    let mut known = Known::default();
    for statement in 0..STATEMENTS {
        let key = number * 1_000_000 + statement;
        match dice.below(3) {
            0 => match ask(&mut session, &format!("INSERT INTO t VALUES ({key}, 0)")).await {
                Ok(_) => known.there.push(key),
                Err(_) => known.perhaps.push(key),
            },
            1 => {
                let sql = format!("UPDATE counters SET n = n + 1 WHERE id = {number}");
                match ask(&mut session, &sql).await {
                    Ok(_) => known.counted += 1,
                    Err(_) => known.perhaps_counted += 1,
                }
            }
            _ => {
                let sql = "SELECT id FROM t";
                if let Ok(found) = ask(&mut session, sql).await {
                    known.answers += 1;
                    check(&known, &found);
                }
            }
        }
    }
    known
}

/// All that the client knows to be there is there, and nothing twice.
fn check(known: &Known, found: &[String]) {
    let mut times: BTreeMap<u64, usize> = BTreeMap::new();
    for key in found {
        *times.entry(key.parse().unwrap()).or_default() += 1;
    }
    let twice: Vec<_> = times.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "{twice:?} were seen more than once");
    let lost: Vec<_> = known.there.iter().filter(|key| !times.contains_key(key)).collect();
    assert!(lost.is_empty(), "{lost:?} were acknowledged and are gone");
}

async fn at_last(session: &mut Session, sql: &str) -> Vec<String> {
    let mut last = None;
    for _ in 0..200 {
        match ask(session, sql).await {
            Ok(found) => return found,
            Err(error) => last = Some(error),
        }
        wait(Duration::from_millis(50)).await;
    }
    panic!("all is well, and still {sql}: {last:?}");
}

async fn weather(seed: u64) {
    let mut storm = Storm::new().await;
    let mut session = storm.gateway.session();
    done(&mut session, "CREATE TABLE t (id bigint PRIMARY KEY, v int)").await;
    done(&mut session, "CREATE TABLE counters (id bigint PRIMARY KEY, n bigint)").await;
    let clients = 1..=CLIENTS as u64;
    for number in clients.clone() {
        done(&mut session, &format!("INSERT INTO counters VALUES ({number}, 0)")).await;
    }
    let stop = AtomicBool::new(false);
    let gateway = storm.gateway.clone();
    let work = async {
        let clients = clients.clone().map(|number| {
            tokio::spawn(client(gateway.session(), number, Dice(seed * 1_000 + number)))
        });
        let known = join_all(clients).await;
        stop.store(true, Ordering::Relaxed);
        known
    };
    let (known, ()) = tokio::join!(work, storm.rage(Dice(seed), &stop));
    let found = at_last(&mut session, "SELECT id FROM t").await;
    for (number, known) in clients.zip(known) {
        let known = known.expect("the client found what it expected");
        check(&known, &found);
        let own = found.iter().map(|key| key.parse::<u64>().unwrap());
        let own = own.filter(|key| key / 1_000_000 == number);
        let unknown: Vec<u64> =
            own.filter(|key| !known.there.contains(key) && !known.perhaps.contains(key)).collect();
        assert!(unknown.is_empty(), "nobody wrote {unknown:?}");
        let sql = format!("SELECT n FROM counters WHERE id = {number}");
        let counted: u64 = at_last(&mut session, &sql).await[0].parse().unwrap();
        let most = known.counted + known.perhaps_counted;
        assert!((known.counted..=most).contains(&counted), "{counted} of {}", known.counted);
        assert!(!known.there.is_empty(), "the storm lets nothing through");
    }
    // Everybody is served again, writers too.
    at_last(&mut session, "INSERT INTO t SELECT n, 1 FROM generate_series(1, 300) AS s(n)").await;
    let count = at_last(&mut session, "SELECT count(*) FROM t WHERE v = 1").await;
    assert_eq!(count, ["300"]);
}

fn number_from(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_outlives_any_storm() {
    let seeds = match number_from("THALWEG_SEED") {
        Some(seed) => seed..seed + 1,
        // Hours in the long mode otherwise: a storm takes seconds.
        None => 0..number_from("THALWEG_CASES").map_or(CASES, |cases| cases.div_ceil(50)),
    };
    for seed in seeds {
        println!("THALWEG_SEED={seed}");
        weather(seed).await;
    }
}
