//! Clusters of processes, for tests that end some of them.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

/// A node as a process, which ends with the test.
pub struct Node {
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

    pub fn worker(directory: &Path, join: &str) -> Node {
        let data = directory.to_str().unwrap();
        let arguments =
            ["worker", "--data", data, "--listen", "127.0.0.1:0", "--join", join, "--threads", "2"];
        Node::start(&arguments, ["listens on"]).0
    }

    pub fn process(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }
}

pub async fn connect(postgres: &str) -> Client {
    let (host, port) = postgres.split_once(':').unwrap();
    let config = format!("host={host} port={port} user=thalweg");
    let (client, connection) = tokio_postgres::connect(&config, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

pub struct Processes {
    pub workers: Vec<Option<Node>>,
    pub client: Client,
    join: String,
    directory: TempDir,
    pub postgres: String,
    pub grpc: String,
    pub gateway: Node,
}

impl Processes {
    pub async fn start(workers: usize) -> Processes {
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
        let words = ["PostgreSQL clients", "Flight SQL, records", "Workers join at"];
        let (gateway, [postgres, grpc, join]) = Node::start(&arguments, words);
        let client = connect(&postgres).await;
        let mut processes =
            Processes { workers: Vec::new(), client, join, directory, postgres, grpc, gateway };
        for number in 0..workers {
            processes.workers.push(None);
            processes.restart(number);
        }
        processes.until_joined(workers).await;
        processes
    }

    pub fn restart(&mut self, number: usize) {
        self.workers[number] = None;
        let directory = self.directory.path().join(format!("worker-{number}"));
        self.workers[number] = Some(Node::worker(&directory, &self.join));
    }

    pub async fn until_joined(&self, workers: usize) {
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
    pub async fn ask(&self, sql: &str) -> Result<Vec<String>, tokio_postgres::Error> {
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

pub fn told(error: &tokio_postgres::Error) -> String {
    error.as_db_error().map_or_else(|| error.to_string(), |told| told.message().to_owned())
}
