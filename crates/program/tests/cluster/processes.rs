//! Clusters of real processes.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use super::hosts::Host;
use super::wires::Ways;

/// A node as a process, which ends with the test.
pub struct Node {
    pub child: Child,
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Node {
    /// Starts one, and returns what it says behind each of these words.
    pub fn start<const N: usize>(command: &mut Command, words: [&str; N]) -> (Node, [String; N]) {
        let child = command.stderr(Stdio::piped()).spawn().unwrap();
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

/// The program with these arguments.
pub fn thalweg(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    command.args(arguments);
    command
}

/// Where the nodes of a cluster are, and what they show each other.
#[derive(Default)]
pub struct Setting {
    /// What each node gets on its command line.
    pub shown: Vec<String>,
    /// Flags of the gateway alone.
    pub gateway: Vec<String>,
    /// One for each worker, which otherwise are where the gateway is.
    pub hosts: Vec<Host>,
    /// One for each worker, which otherwise is called, and calls the gateway, without them.
    pub ways: Vec<Ways>,
}

/// Ahead of the addresses for PostgreSQL's clients, for those of gRPC, and for workers.
const GATEWAY_SAYS: [&str; 3] = ["PostgreSQL clients", "Flight SQL, records", "Workers join at"];

impl Setting {
    fn gateway(&self, directory: &Path, nodes: &str) -> Command {
        let data = directory.join("gateway");
        let mut command = thalweg(&["gateway", "--data", data.to_str().unwrap()]);
        command.args(["--postgres-port", "0", "--grpc-port", "0", "--http-port", "0"]);
        command.args(["--nodes", nodes]).args(&self.shown).args(&self.gateway);
        command
    }

    fn worker(&self, number: usize, directory: &Path, join: &str) -> Command {
        let mut listen = "127.0.0.1:0".to_owned();
        let mut join = join.to_owned();
        let mut command = thalweg(&[]);
        if let Some(host) = self.hosts.get(number) {
            command = host.command(env!("CARGO_BIN_EXE_thalweg"));
            let (_, port) = join.split_once(':').unwrap();
            (listen, join) = (format!("{}:0", host.inside), format!("{}:{port}", host.outside));
        }
        let ways = self.ways.get(number);
        if let Some(ways) = ways {
            join = ways.out.address.to_string();
        }
        let data = directory.to_str().unwrap();
        command.args(["worker", "--data", data, "--threads", "2"]);
        command.args(["--listen", &listen, "--join", &join]).args(&self.shown);
        if let Some(ways) = ways {
            command.args(["--advertise", &ways.inward.address.to_string()]);
        }
        command
    }
}

pub struct Processes {
    pub workers: Vec<Option<Node>>,
    pub client: Client,
    pub join: String,
    directory: TempDir,
    pub postgres: String,
    pub grpc: String,
    pub gateway: Node,
    pub setting: Setting,
}

impl Processes {
    pub async fn start(workers: usize) -> Processes {
        Processes::start_in(Setting::default(), workers).await
    }

    pub async fn start_in(setting: Setting, workers: usize) -> Processes {
        let directory = tempfile::tempdir().unwrap();
        let nodes = if setting.hosts.is_empty() { "127.0.0.1:0" } else { "0.0.0.0:0" };
        let (gateway, [postgres, grpc, join]) =
            Node::start(&mut setting.gateway(directory.path(), nodes), GATEWAY_SAYS);
        for ways in &setting.ways {
            ways.out.lead_to(Some(join.parse().unwrap()));
        }
        let client = connect(&postgres).await;
        let mut processes = Processes {
            workers: Vec::new(),
            client,
            join,
            directory,
            postgres,
            grpc,
            gateway,
            setting,
        };
        for number in 0..workers {
            processes.workers.push(None);
            processes.restart(number);
        }
        processes.until_joined(workers).await;
        processes
    }

    /// Kills the gateway, and starts another one on its directory, where workers look for it.
    pub async fn restart_gateway(&mut self) {
        // SIGKILL.
        self.gateway.child.kill().unwrap();
        self.gateway.child.wait().unwrap();
        let mut gateway = self.setting.gateway(self.directory.path(), &self.join);
        let (gateway, [postgres, grpc, _]) = Node::start(&mut gateway, GATEWAY_SAYS);
        self.client = connect(&postgres).await;
        (self.gateway, self.postgres, self.grpc) = (gateway, postgres, grpc);
    }

    /// SIGKILL.
    pub fn kill(&mut self, number: usize) {
        self.workers[number] = None;
        if let Some(ways) = self.setting.ways.get(number) {
            ways.inward.lead_to(None);
        }
    }

    /// Where a worker keeps its rows.
    pub fn directory_of(&self, number: usize) -> PathBuf {
        self.directory.path().join(format!("worker-{number}"))
    }

    pub fn restart(&mut self, number: usize) {
        self.kill(number);
        let directory = self.directory_of(number);
        let mut worker = self.setting.worker(number, &directory, &self.join);
        let (worker, [address]) = Node::start(&mut worker, ["listens on"]);
        if let Some(ways) = self.setting.ways.get(number) {
            ways.inward.lead_to(Some(address.parse().unwrap()));
        }
        self.workers[number] = Some(worker);
    }

    pub async fn until_joined(&self, workers: usize) {
        let mut ticks = tokio::time::interval(std::time::Duration::from_millis(50));
        for _ in 0..600 {
            ticks.tick().await;
            let error_text = self.status(&self.setting.shown);
            if error_text.contains(&format!("{workers} workers"))
                && !error_text.contains("does not answer")
            {
                return;
            }
        }
        panic!("the workers do not join");
    }

    /// What `thalweg status` says to somebody who shows this.
    pub fn status(&self, shown: &[String]) -> String {
        let (_, port) = self.join.split_once(':').unwrap();
        let gateway = format!("127.0.0.1:{port}");
        let error_text = thalweg(&["status", "--connect", &gateway]).args(shown).output().unwrap();
        String::from_utf8([error_text.stdout, error_text.stderr].concat()).unwrap()
    }

    /// The last column of what a statement gives.
    pub async fn ask(&self, sql: &str) -> Result<Vec<String>, tokio_postgres::Error> {
        ask(&self.client, sql).await
    }

    /// Asks until there is an answer, as a client would who knows that all nodes are well again.
    pub async fn at_last(&self, sql: &str) -> Vec<String> {
        let mut ticks = tokio::time::interval(std::time::Duration::from_millis(50));
        let mut last = String::new();
        for _ in 0..600 {
            ticks.tick().await;
            match self.ask(sql).await {
                Ok(answer) => return answer,
                Err(error) => last = error_text(&error),
            }
        }
        panic!("{sql}: {last}");
    }
}

/// The last column of what a statement gives a client.
pub async fn ask(client: &Client, sql: &str) -> Result<Vec<String>, tokio_postgres::Error> {
    let messages = client.simple_query(sql).await?;
    let rows = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row.get(row.len() - 1).unwrap_or("NULL").to_owned()),
        _ => None,
    });
    Ok(rows.collect())
}

/// What an error says.
pub fn error_text(error: &tokio_postgres::Error) -> String {
    error
        .as_db_error()
        .map_or_else(|| error.to_string(), |error_text| error_text.message().to_owned())
}
