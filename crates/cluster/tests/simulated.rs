//! Links from one gateway to four workers in a simulation: the real servers and links, on a network
//! that a seed cuts and slows, between machines that it kills and starts again.
//!
//! Checked: each call ends within its limit, a whole answer has the right bytes, and once all is
//! well every worker answers again. `THALWEG_SEED` runs one seed, `THALWEG_CASES` sets how many
//! run, and `THALWEG_EVENTS=1` prints every event to standard error.

use std::env;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use hyper::Response;
use thalweg_cluster::chunks::{ChunkWriter, Fill, Pool, Source};
use thalweg_cluster::link::{LinkOptions, NodeName, ReconnectingLink};
use thalweg_cluster::node::{Chunks, FETCH, NodeServer, ServeOptions, Services, chunks};
use thalweg_env::{Random as _, SeededRandom};
use thalweg_runtime::{Machine, Network, Simulation, sleep, spawn, timeout};
use thalweg_types::{Result, SqlState};
use tokio::task::JoinHandle;
use tonic::body::Body;
use tonic::service::Routes;

const CASES: u64 = 20;
const WORKERS: u8 = 4;
const CALLERS: u64 = 3;
const PORT: u16 = 7_001;
/// Simulated time during which things fail.
const ACTIVE: Duration = Duration::from_secs(10);
const SILENCE: Duration = Duration::from_secs(1);
/// A call that takes longer hangs: it connects, waits, and does both once more.
const LONGEST: Duration = Duration::from_secs(10);

const GATEWAY: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 100));

fn address(worker: u8) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, worker], PORT))
}

/// Answers a number with so many messages.
struct Counting;

struct Messages {
    next: u64,
    count: u64,
}

fn message(number: u64) -> Vec<u8> {
    (0..number % 700).map(|place| (number * 31 + place) as u8).collect()
}

/// The body of an answer: messages with gRPC's prefix.
fn body(count: u64) -> Vec<u8> {
    let framed = |number| {
        let message = message(number);
        let length = u32::try_from(message.len()).unwrap();
        [&[0][..], &length.to_be_bytes(), &message].concat()
    };
    (0..count).flat_map(framed).collect()
}

impl Source for Messages {
    fn poll_fill(&mut self, _: &mut Context<'_>, writer: &mut ChunkWriter) -> Poll<Result<Fill>> {
        while !writer.is_full() {
            if self.next == self.count {
                return Poll::Ready(Ok(Fill::End));
            }
            writer.message(&[&message(self.next)]);
            self.next += 1;
        }
        Poll::Ready(Ok(Fill::More))
    }
}

impl Chunks for Counting {
    fn fetch(&self, question: Bytes) -> BoxFuture<'_, Result<Response<Body>>> {
        let count = u64::from_le_bytes(question[..].try_into().unwrap());
        Box::pin(async move { Ok(chunks(&Pool::new(4), Messages { next: 0, count })) })
    }
}

/// A worker's process.
struct Process {
    machine: Machine,
    task: JoinHandle<()>,
}

impl Process {
    fn start(simulation: &Simulation, worker: u8) -> Process {
        let machine = simulation.network().machine(address(worker).ip());
        let network = Network::of(machine.clone());
        let options = ServeOptions { network, ..ServeOptions::default() };
        let server = NodeServer::bind(address(worker), options).unwrap();
        let services = Services::new(Arc::new(Counting), Routes::default());
        Process { machine, task: spawn(server.serve(services)) }
    }

    fn kill(self) {
        self.machine.kill();
        self.task.abort();
    }
}

/// Reads an answer of so many messages; returns its bytes.
async fn read(link: &ReconnectingLink, count: u64) -> Result<Vec<u8>> {
    let mut answer = link.call(FETCH, &count.to_le_bytes()).await?;
    let mut bytes = Vec::new();
    while let Some(piece) = answer.piece().await? {
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

/// One call, which ends well or because a node is away.
async fn call(simulation: &Simulation, link: &ReconnectingLink, count: u64) -> bool {
    let read = timeout(LONGEST, read(link, count)).await.expect("a call ends");
    let outcome = read.as_ref().map(Vec::len).map_err(|error| error.state());
    simulation.schedule().note(format_args!("call {} {count} {outcome:?}", link.name()));
    match read {
        Ok(bytes) => assert_eq!(bytes, body(count)),
        Err(error) => assert_eq!(error.state(), SqlState::CONNECTION_FAILURE, "{error}"),
    }
    outcome.is_ok()
}

/// Calls any workers; returns how many calls ended well, and how many did not.
async fn caller(
    simulation: Simulation,
    links: Arc<Vec<ReconnectingLink>>,
    random: SeededRandom,
) -> (u64, u64) {
    let mut outcomes = (0, 0);
    while simulation.now() < ACTIVE {
        sleep(Duration::from_millis(random.below(50))).await;
        let link = &links[random.below(links.len() as u64) as usize];
        match call(&simulation, link, random.below(1_000)).await {
            true => outcomes.0 += 1,
            false => outcomes.1 += 1,
        }
    }
    outcomes
}

async fn scenario(simulation: Simulation) -> (u64, u64, u64) {
    if env::var_os("THALWEG_EVENTS").is_some() {
        simulation.schedule().print_events();
    }
    let seeded = || SeededRandom::new(simulation.schedule().next_u64());
    let mut workers: Vec<Option<Process>> =
        (1..=WORKERS).map(|worker| Some(Process::start(&simulation, worker))).collect();
    let network = Network::of(simulation.network().machine(GATEWAY));
    let options = LinkOptions {
        network,
        silence: SILENCE,
        connect_timeout: SILENCE,
        ..LinkOptions::default()
    };
    let options = Arc::new(options);
    let link = |worker: u8| {
        let name = NodeName { id: u64::from(worker), address: address(worker) };
        ReconnectingLink::new(name, Arc::clone(&options))
    };
    let links: Arc<Vec<ReconnectingLink>> = Arc::new((1..=WORKERS).map(link).collect());
    let callers: Vec<_> = (0..CALLERS)
        .map(|_| spawn(caller(simulation.clone(), Arc::clone(&links), seeded())))
        .collect();
    let random = seeded();
    while simulation.now() < ACTIVE {
        sleep(Duration::from_millis(random.below(300))).await;
        let worker = 1 + random.below(u64::from(WORKERS)) as u8;
        let (ip, is_on) = (address(worker).ip(), random.coin());
        let process = &mut workers[usize::from(worker - 1)];
        match (random.below(4), process.take()) {
            (0, Some(running)) => running.kill(),
            (0, None) => *process = Some(Process::start(&simulation, worker)),
            (action, kept) => {
                *process = kept;
                match action {
                    1 => simulation.network().slow(GATEWAY, ip, is_on),
                    _ => simulation.network().cut(GATEWAY, ip, is_on),
                }
            }
        }
    }
    for worker in 1..=WORKERS {
        simulation.network().cut(GATEWAY, address(worker).ip(), false);
        simulation.network().slow(GATEWAY, address(worker).ip(), false);
        let process = &mut workers[usize::from(worker - 1)];
        if process.is_none() {
            *process = Some(Process::start(&simulation, worker));
        }
    }
    let (mut well, mut failed) = (0, 0);
    for caller in callers {
        let outcomes = caller.await.expect("each call ends as it should");
        (well, failed) = (well + outcomes.0, failed + outcomes.1);
    }
    for link in links.iter() {
        // The first call may still find a connection that broke.
        let is_well = call(&simulation, link, 100).await || call(&simulation, link, 100).await;
        assert!(is_well, "all is well, and {} does not answer", link.name());
    }
    (well, failed, simulation.schedule().trace())
}

fn number_from(name: &str) -> Option<u64> {
    env::var(name).ok()?.parse().ok()
}

#[test]
fn calls_end_whatever_the_network_does() {
    let seeds = match number_from("THALWEG_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number_from("THALWEG_CASES").unwrap_or(CASES),
    };
    let (mut all_well, mut all_failed) = (0, 0);
    for seed in seeds {
        println!("THALWEG_SEED={seed}");
        let (well, failed, trace) = Simulation::run(seed, scenario);
        println!("{well} calls ended well, {failed} did not; trace {trace:016x}");
        (all_well, all_failed) = (all_well + well, all_failed + failed);
    }
    assert!(all_well > 0 && all_failed > 0, "{all_well} {all_failed}");
}
