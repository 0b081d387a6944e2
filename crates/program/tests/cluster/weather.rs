//! Bad weather between real processes: a gateway and its workers, all of whose connections lead
//! over wires of the test, which delays, silences and breaks them, and kills the processes, as a
//! schedule says that follows from a seed. Writers and readers go on meanwhile.
//!
//! Promises that are checked. What was acknowledged is there in each answer from then on; what
//! failed for sure is never seen; what nobody knows of is whole or absent on each worker, and no
//! row is seen twice; transfers on a worker leave the sum of all accounts as it is; each statement
//! ends; and once the weather is fair again, everybody is served without being started again.
//!
//! `THALWEG_CASES` sets how many seeds are tried, `THALWEG_SEED` tries one again, `THALWEG_STEPS`
//! sets the length of its schedule: a shorter one is the beginning of a longer one. Processes and
//! sockets are real: a seed gives the same schedule, not the same moments.

pub mod ledger;
mod readers;
mod schedule;
mod session;
mod writers;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::join_all;
use thalweg_env::SeededRandom;

use self::ledger::{Owners, Shared};
use self::readers::{JOIN, Reader};
use self::schedule::{DECK_STEPS, Side, Step, Trouble, draw};
use self::session::Session;
use self::writers::{AMOUNT, Writer, accounts, registers};
use super::processes::{Processes, Setting};
use super::wires::{Condition, Ways, Wire, wait};

const CASES: u64 = 2;
const STEPS: usize = 2 * DECK_STEPS;
const WORKERS: usize = 4;
const WRITERS: i64 = 3;
const READERS: u64 = 2;

struct Weather {
    processes: Processes,
    /// On which clients come to the gateway, wherever it listens.
    door: Wire,
    owners: Arc<Owners>,
    ledger: Shared,
}

impl Weather {
    async fn new() -> Weather {
        let mut setting = Setting::default();
        for _ in 0..WORKERS {
            setting.ways.push(Ways::new().await);
        }
        let processes = Processes::start_in(setting, WORKERS).await;
        let door = Wire::new().await;
        for table in [
            "batches (id bigint PRIMARY KEY, writer bigint NOT NULL)",
            "registers (id bigint PRIMARY KEY, v bigint NOT NULL)",
            "accounts (id bigint PRIMARY KEY, pair bigint NOT NULL, amount bigint NOT NULL)",
        ] {
            processes.ask(&format!("CREATE TABLE {table}")).await.unwrap();
        }
        // They do not move once something is defined.
        let buckets = "SELECT node FROM thalweg_cluster.buckets ORDER BY bucket";
        let owners = Arc::new(Owners(processes.ask(buckets).await.unwrap()));
        let weather = Weather { processes, door, owners, ledger: Shared::default() };
        weather.lead_clients();
        weather.fill().await;
        weather
    }

    fn lead_clients(&self) {
        self.door.lead_to(Some(self.processes.postgres.parse().unwrap()));
    }

    async fn fill(&self) {
        for writer in 0..WRITERS {
            let rows: Vec<String> = registers(writer).map(|key| format!("({key}, 0)")).collect();
            let sql = format!("INSERT INTO registers VALUES {}", rows.join(", "));
            self.processes.ask(&sql).await.unwrap();
            let rows = self.accounts(writer).map(|key| format!("({key}, {writer}, {AMOUNT})"));
            let sql = format!("INSERT INTO accounts VALUES {}", rows.join(", "));
            self.processes.ask(&sql).await.unwrap();
        }
        let client = &self.processes.client;
        client.batch_execute("SET stages = on").await.unwrap();
        let plan = self.processes.ask(&format!("EXPLAIN {JOIN}")).await.unwrap().join("\n");
        assert!(plan.contains("Stages: "), "workers do not speak with each other: {plan}");
    }

    fn accounts(&self, writer: i64) -> [i64; 2] {
        let workers: BTreeSet<&String> = self.owners.0.iter().collect();
        let workers: Vec<&String> = workers.into_iter().collect();
        assert_eq!(workers.len(), WORKERS);
        accounts(&self.owners, writer, workers[writer as usize % WORKERS])
    }

    fn writer(&self, number: i64) -> Writer {
        Writer {
            session: Session::new(self.door.address, "SET stages = auto"),
            number,
            ledger: self.ledger.clone(),
            accounts: self.accounts(number),
            batches: 0,
        }
    }

    fn reader(&self, number: u64) -> Reader {
        // Half of them have workers ask each other.
        let settings = ["SET stages = on", "SET stages = off"][number as usize % 2];
        Reader {
            session: Session::new(self.door.address, settings),
            ledger: self.ledger.clone(),
            owners: Arc::clone(&self.owners),
            accounts: (0..WRITERS).map(|writer| self.accounts(writer)[1]).collect(),
        }
    }

    async fn follow(&mut self, schedule: &[Step]) {
        for (number, step) in schedule.iter().enumerate() {
            println!("{number}: {step:?}");
            self.make(step.trouble).await;
            wait(step.lasts).await;
            if step.trouble == Trouble::CutClients {
                self.door.set(Condition::Whole);
            }
        }
    }

    async fn make(&mut self, trouble: Trouble) {
        match trouble {
            Trouble::Slow { worker, time } => self.set(worker, Side::Both, Condition::Slow(time)),
            Trouble::BlackHole { worker, side } => self.set(worker, side, Condition::Silent),
            Trouble::Cut { worker, side } => self.set(worker, side, Condition::Torn),
            Trouble::Mend { worker } => self.set(worker, Side::Both, Condition::Whole),
            Trouble::Kill { worker } => self.processes.kill(worker),
            Trouble::Restart { worker } => self.processes.restart(worker),
            Trouble::RestartGateway => {
                self.door.lead_to(None);
                self.processes.restart_gateway().await;
                self.lead_clients();
            }
            Trouble::CutClients => self.door.set(Condition::Torn),
            Trouble::SlowClients { time } => self.door.set(Condition::Slow(time)),
            Trouble::MendClients => self.door.set(Condition::Whole),
        }
    }

    fn set(&self, worker: usize, side: Side, condition: Condition) {
        let ways = &self.processes.setting.ways[worker];
        if side != Side::Out {
            ways.inward.set(condition);
        }
        if side != Side::Inward {
            ways.out.set(condition);
        }
    }

    /// All is well again, and everybody is back.
    async fn clear_up(&mut self) {
        self.door.set(Condition::Whole);
        for worker in 0..WORKERS {
            self.set(worker, Side::Both, Condition::Whole);
            if self.processes.workers[worker].is_none() {
                self.processes.restart(worker);
            }
        }
        self.processes.until_joined(WORKERS).await;
    }
}

async fn storm(seed: u64, schedule: &[Step]) {
    let mut weather = Weather::new().await;
    let mut writers: Vec<Writer> = (0..WRITERS).map(|number| weather.writer(number)).collect();
    let mut readers: Vec<Reader> = (0..READERS).map(|number| weather.reader(number)).collect();
    // Each of them has done before, and does after the storm, all that it tries to do in it.
    everybody(&mut writers, &mut readers).await;
    let random = SeededRandom::new(!seed);
    let stop = Arc::new(AtomicBool::new(false));
    let own = || (SeededRandom::new(random.below(u64::MAX)), Arc::clone(&stop));
    let writing = writers.into_iter().map(|writer| {
        let (random, stop) = own();
        tokio::spawn(writer.run(random, stop))
    });
    let writing: Vec<_> = writing.collect();
    let reading = readers.into_iter().map(|reader| {
        let (random, stop) = own();
        tokio::spawn(reader.run(random, stop))
    });
    let reading: Vec<_> = reading.collect();
    weather.follow(schedule).await;
    weather.clear_up().await;
    stop.store(true, Ordering::Relaxed);
    let mut writers = all(join_all(writing).await);
    let mut readers = all(join_all(reading).await);
    everybody(&mut writers, &mut readers).await;
}

/// Those that saw nothing wrong: what one saw is on standard error.
fn all<T>(ended: Vec<Result<T, tokio::task::JoinError>>) -> Vec<T> {
    ended.into_iter().map(|one| one.expect("it saw nothing wrong")).collect()
}

async fn everybody(writers: &mut [Writer], readers: &mut [Reader]) {
    for reader in readers.iter_mut() {
        reader.everything().await;
    }
    for writer in writers {
        writer.each_kind().await;
    }
    for reader in readers {
        reader.everything().await;
    }
}

fn number_from(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn processes_keep_their_promises_in_any_weather() {
    let steps = number_from("THALWEG_STEPS").map_or(STEPS, |steps| steps as usize);
    let seeds = match number_from("THALWEG_SEED") {
        Some(seed) => seed..seed + 1,
        // Hours in the long mode otherwise: each seed has processes of its own.
        None => 0..number_from("THALWEG_CASES").map_or(CASES, |cases| cases.div_ceil(200)),
    };
    for seed in seeds {
        println!("THALWEG_SEED={seed} THALWEG_STEPS={steps}");
        storm(seed, &draw(seed, steps, WORKERS)).await;
    }
}
