//! Workers that die, hang and come back, as processes.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::pin::pin;
use std::process::{Child, Command, Stdio};

use futures::StreamExt as _;
use tempfile::TempDir;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

/// A node as a process, which ends with the test.
struct Node {
    child: Child,
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Node {
    /// Starts one, and returns what it says behind each of these words.
    fn start<const N: usize>(arguments: &[&str], words: [&str; N]) -> (Node, [String; N]) {
        let child = Command::new(env!("CARGO_BIN_EXE_thalweg"))
            .args(arguments)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut node = Node { child };
        let mut said = BufReader::new(node.child.stderr.take().unwrap()).lines();
        let found = words.map(|word| {
            loop {
                let line = said.next().expect("it says where it listens").unwrap();
                if let Some((_, address)) = line.split_once(word) {
                    break address.trim().to_owned();
                }
            }
        });
        // It may go on to say things.
        std::thread::Builder::new().spawn(move || said.for_each(drop)).unwrap();
        (node, found)
    }

    fn worker(directory: &Path, join: &str) -> Node {
        let data = directory.to_str().unwrap();
        let arguments =
            ["worker", "--data", data, "--listen", "127.0.0.1:0", "--join", join, "--threads", "2"];
        Node::start(&arguments, ["listens on"]).0
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }
}

async fn connect(postgres: &str) -> Client {
    let (host, port) = postgres.split_once(':').unwrap();
    let config = format!("host={host} port={port} user=thalweg");
    let (client, connection) = tokio_postgres::connect(&config, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

struct Processes {
    workers: Vec<Option<Node>>,
    client: Client,
    join: String,
    directory: TempDir,
    postgres: String,
    gateway: Node,
}

impl Processes {
    async fn start(workers: usize) -> Processes {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("gateway");
        let arguments = [
            "gateway",
            "--data",
            data.to_str().unwrap(),
            "--nodes",
            "127.0.0.1:0",
            "--postgres-port",
            "0",
            "--grpc-port",
            "0",
            "--http-port",
            "0",
        ];
        let (gateway, [postgres, join]) =
            Node::start(&arguments, ["PostgreSQL clients", "Workers join at"]);
        let client = connect(&postgres).await;
        let mut processes =
            Processes { workers: Vec::new(), client, join, directory, postgres, gateway };
        for number in 0..workers {
            processes.workers.push(None);
            processes.restart(number);
        }
        processes.until_joined(workers).await;
        processes
    }

    fn restart(&mut self, number: usize) {
        self.workers[number] = None;
        let directory = self.directory.path().join(format!("worker-{number}"));
        self.workers[number] = Some(Node::worker(&directory, &self.join));
    }

    async fn until_joined(&self, workers: usize) {
        let mut ticks = tokio::time::interval(std::time::Duration::from_millis(50));
        for _ in 0..600 {
            ticks.tick().await;
            let told = Command::new(env!("CARGO_BIN_EXE_thalweg"))
                .args(["status", "--connect", &self.join])
                .output()
                .unwrap();
            let told = String::from_utf8(told.stdout).unwrap();
            if told.contains(&format!("{workers} workers")) && !told.contains("does not answer") {
                return;
            }
        }
        panic!("the workers do not join");
    }

    /// The last column of what a statement gives.
    async fn ask(&self, sql: &str) -> Result<Vec<String>, tokio_postgres::Error> {
        let messages = self.client.simple_query(sql).await?;
        let rows = messages.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => {
                Some(row.get(row.len() - 1).unwrap_or("NULL").to_owned())
            }
            _ => None,
        });
        Ok(rows.collect())
    }
}

/// Rows of which each worker makes as many bytes as asked for, from a small table.
async fn wide(cluster: &Processes) {
    cluster.ask("CREATE TABLE t (id bigint PRIMARY KEY, v text)").await.unwrap();
    let insert = "INSERT INTO t SELECT n, 'value ' || n FROM generate_series(1, 5000) AS s(n)";
    cluster.ask(insert).await.unwrap();
}

/// More than 400 MB.
const WIDE: &str = "SELECT id, repeat(v, 8000) FROM t";

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_killed_while_its_rows_are_relayed_is_named() {
    let mut cluster = Processes::start(3).await;
    wide(&cluster).await;
    let plan = cluster.ask(&format!("EXPLAIN {WIDE}")).await.unwrap().join("\n");
    assert!(plan.contains(" relayed"), "{plan}");
    let mut rows = pin!(cluster.client.simple_query_raw(WIDE).await.unwrap());
    let mut seen = 0;
    let error = loop {
        match rows.next().await.expect("it does not end well") {
            Ok(_) => seen += 1,
            Err(error) => break error,
        }
        if seen == 10 {
            cluster.workers[1] = None;
        }
    };
    assert!(told(&error).contains("worker "), "{error:?}");
    assert!((10..5_000).contains(&seen), "{seen} messages came before");
    assert_eq!(cluster.ask("SELECT 1").await.unwrap(), ["1"]);
}

/// Memory of a process in bytes, by the kernel's name for it.
fn memory(node: &Node, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", node.child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    let kilobytes = line.trim_start_matches(':').trim().trim_end_matches(" kB");
    kilobytes.parse::<u64>().unwrap() << 10
}

/// From now on the kernel's peak is that of what follows.
#[expect(clippy::disallowed_methods, reason = "the kernel's word on a process")]
fn forget_peak(node: &Node) {
    std::fs::write(format!("/proc/{}/clear_refs", node.child.id()), "5").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_stops_reading_takes_no_memory_of_the_gateway() {
    let cluster = Processes::start(3).await;
    wide(&cluster).await;
    cluster.ask("SELECT count(*) FROM t").await.unwrap();
    let before = memory(&cluster.gateway, "VmRSS");
    forget_peak(&cluster.gateway);
    let other = connect(&cluster.postgres).await;
    let mut rows = pin!(other.simple_query_raw(WIDE).await.unwrap());
    rows.next().await.unwrap().unwrap();
    // Everybody else is served meanwhile.
    for _ in 0..200 {
        assert_eq!(cluster.ask("SELECT count(*) FROM t").await.unwrap(), ["5000"]);
    }
    let mut seen = 0;
    while let Some(message) = rows.next().await {
        if let SimpleQueryMessage::Row(_) = message.unwrap() {
            seen += 1;
        }
    }
    assert_eq!(seen, 5_000);
    let added = memory(&cluster.gateway, "VmHWM").saturating_sub(before);
    assert!(added < 64 << 20, "{added} bytes more");
}

fn told(error: &tokio_postgres::Error) -> String {
    error.as_db_error().map_or_else(|| error.to_string(), |told| told.message().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_was_killed_has_its_rows_when_it_is_back() {
    let mut cluster = Processes::start(3).await;
    cluster.ask("CREATE TABLE t (id bigint PRIMARY KEY, v text)").await.unwrap();
    let insert = "INSERT INTO t SELECT n, 'value ' || n FROM generate_series(1, 3000) AS s(n)";
    cluster.ask(insert).await.unwrap();
    let sum = "SELECT sum(id) FROM t";
    assert_eq!(cluster.ask(sum).await.unwrap(), ["4501500"]);
    // SIGKILL.
    cluster.workers[1] = None;
    let error = cluster.ask(sum).await.unwrap_err();
    assert!(told(&error).contains("worker "), "{}", told(&error));
    // What the others can do goes on meanwhile.
    cluster.ask("CREATE TABLE other (id int PRIMARY KEY)").await.unwrap();
    cluster.restart(1);
    cluster.until_joined(3).await;
    assert_eq!(cluster.ask(sum).await.unwrap(), ["4501500"]);
    cluster.ask("INSERT INTO other SELECT n FROM generate_series(1, 100) AS s(n)").await.unwrap();
    assert_eq!(cluster.ask("SELECT count(*) FROM other").await.unwrap(), ["100"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_hangs_is_named() {
    let cluster = Processes::start(2).await;
    cluster.ask("CREATE TABLE t (id bigint PRIMARY KEY)").await.unwrap();
    cluster.ask("INSERT INTO t SELECT n FROM generate_series(1, 1000) AS s(n)").await.unwrap();
    let worker = cluster.workers[0].as_ref().unwrap();
    worker.signal("-STOP");
    let error = cluster.ask("SELECT count(*) FROM t").await.unwrap_err();
    worker.signal("-CONT");
    assert!(told(&error).contains("does not answer"), "{}", told(&error));
    assert_eq!(cluster.ask("SELECT count(*) FROM t").await.unwrap(), ["1000"]);
}
