//! A machine that fails and crashes, and a database on it that survives.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use thalweg_env::{Env, Fault, Random, SeededRandom, SimulatedDisk};
use thalweg_txn::{Durability, Engine, Options};
use thalweg_types::{Error, SqlState};

use crate::client::{Client, View};
use crate::history::Moments;
use crate::runtime;
use crate::{Mischief, tables};

/// The parameters of a simulation. The seed determines everything except the order of threads.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub seed: u64,
    pub clients: usize,
    /// Number of eras; each ends with the end of the engine.
    pub eras: usize,
    /// Number of operations of each client in an era, unless the database fails before.
    pub operations: usize,
    /// Average number of disk operations between faults; `None` for no faults.
    pub fault_every: Option<u64>,
    /// Average pause of a client before each operation.
    pub think_ms: u64,
    pub durability: Durability,
    pub mischief: Option<Mischief>,
}

impl Plan {
    /// A few clients on a machine that fails more than once a simulated second.
    #[must_use]
    pub fn faulty(seed: u64) -> Plan {
        Plan {
            seed,
            clients: 3 + (seed % 6) as usize,
            eras: 5,
            operations: 30,
            fault_every: Some(50),
            think_ms: 4,
            durability: Durability::Fsync,
            mischief: None,
        }
    }

    /// Six clients without disturbances, with many operations.
    #[must_use]
    pub fn busy(seed: u64, durability: Durability) -> Plan {
        let plan = Plan::faulty(seed);
        Plan { clients: 6, eras: 2, operations: 150, fault_every: None, durability, ..plan }
    }

    /// The plan with a deliberate bug, in place of an earlier one.
    #[must_use]
    pub fn with(self, mischief: Mischief) -> Plan {
        Plan { mischief: Some(mischief), ..self }
    }
}

/// Statistics of a simulation without violations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Number of acknowledged operations.
    pub done: u64,
    pub in_doubt: u64,
    /// Faults of the disk, including crashes of the machine.
    pub faults: u64,
    pub crashes: u64,
    pub simulated: Duration,
    /// Hash of all operations of clients with their times and results, and of the number of disk
    /// operations.
    pub trace: u64,
}

impl std::ops::AddAssign for Report {
    fn add_assign(&mut self, other: Report) {
        self.done += other.done;
        self.in_doubt += other.in_doubt;
        self.faults += other.faults;
        self.crashes += other.crashes;
        self.simulated += other.simulated;
        self.trace ^= other.trace;
    }
}

/// Makes the disk fail repeatedly.
pub(crate) struct Chaos {
    pub think_ms: u64,
    random: SeededRandom,
    disk: SimulatedDisk,
    fault_every: Option<u64>,
    faults: &'static [Fault],
    /// The number of the disk operation that will fail.
    planned: Mutex<u64>,
    struck: AtomicU64,
    /// An earlier state of the disk, kept for mischief.
    kept: Option<Mutex<SimulatedDisk>>,
}

/// After these faults, data that the operating system had received still exist.
const DEATHS: &[Fault] = &[Fault::CrashBefore, Fault::CrashAfter];

impl Chaos {
    fn new(plan: &Plan, random: SeededRandom, disk: &SimulatedDisk) -> Chaos {
        let lossy = plan.durability == Durability::Fsync;
        let keeps = plan.mischief == Some(Mischief::LoseTailOfLog);
        let chaos = Chaos {
            think_ms: plan.think_ms,
            fault_every: plan.fault_every,
            faults: if lossy { &Fault::ALL } else { DEATHS },
            planned: Mutex::new(0),
            struck: AtomicU64::new(0),
            kept: keeps.then(|| Mutex::new(disk.fork(random.next_u64()))),
            disk: disk.clone(),
            random,
        };
        chaos.plan(&mut chaos.planned.lock());
        chaos
    }

    /// Plans the next fault, if the last one has occurred.
    pub fn plan_next(&self) {
        let mut planned = self.planned.lock();
        if self.fault_every.is_some() && self.disk.operations() > *planned {
            self.struck.fetch_add(1, Ordering::Relaxed);
            self.plan(&mut planned);
        }
        if let Some(kept) = &self.kept
            && self.random.below(30) == 0
        {
            *kept.lock() = self.disk.fork(self.random.next_u64());
        }
    }

    fn plan(&self, planned: &mut u64) {
        let Some(every) = self.fault_every else { return };
        *planned = self.disk.operations() + self.random.below(2 * every);
        self.disk.fault_at(*planned, self.any_fault());
    }

    fn any_fault(&self) -> Fault {
        self.faults[self.random.below(self.faults.len() as u64) as usize]
    }
}

/// The way in which an era ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The engine is closed.
    Close,
    /// The process is killed; data that the operating system has received survive.
    Kill,
    /// The machine crashes; only synced data survive.
    Crash,
}

/// A machine with an engine on it.
pub struct World {
    plan: Plan,
    random: SeededRandom,
    moments: Moments,
    env: Env,
    disk: SimulatedDisk,
    engine: Option<Arc<Engine>>,
    chaos: Arc<Chaos>,
    disk_operations: u64,
    report: Report,
}

impl World {
    /// A new machine with an empty database.
    ///
    /// # Errors
    /// If the database does not open.
    pub fn new(plan: &Plan) -> Result<World, String> {
        let (mut env, disk, _) = Env::simulated(plan.seed);
        env.threads = runtime::threads();
        let random = SeededRandom::new(plan.seed ^ 0x5EED);
        let chaos = Arc::new(Chaos::new(plan, SeededRandom::new(random.next_u64()), &disk));
        let mut world = World {
            plan: *plan,
            random,
            moments: Moments::default(),
            env,
            disk,
            engine: None,
            chaos,
            disk_operations: 0,
            report: Report::default(),
        };
        world.open()?;
        Ok(world)
    }

    fn options() -> Options {
        Options {
            directory: Some(PathBuf::from("/data/database")),
            // More threads would run in an order that the seed does not determine.
            threads: 1,
            // This makes several segments and checkpoints even in short eras.
            segment_bytes: 16 << 10,
            checkpoint_bytes: 48 << 10,
            // Few chunks have more rows in short eras.
            chunk_file_rows_min: 8,
            ..Options::default()
        }
    }

    /// Opens the database; the disk may fail once during this.
    fn open(&mut self) -> Result<(), String> {
        self.prepare_disk();
        let planned = self.disk.operations() + self.random.below(60);
        let fails = self.plan.fault_every.is_some();
        let faulty = fails && self.random.coin();
        if faulty {
            self.disk.fault_at(planned, self.chaos.any_fault());
        }
        for _ in 0..4 {
            let opened = Engine::open(self.env.clone(), World::options())
                .and_then(|engine| tables::create(&engine).map(|()| engine));
            match opened {
                Ok(engine) => {
                    self.engine = Some(Arc::new(engine));
                    self.report.faults += u64::from(faulty && self.disk.operations() > planned);
                    return Ok(());
                }
                Err(_) if self.disk.crashed() => self.change_disk(self.death()),
                Err(error) if fails && is_from_disk(&error) => {}
                Err(error) => return Err(format!("the database does not open: {error:?}")),
            }
        }
        Err("the database does not open after one failure".to_owned())
    }

    fn prepare_disk(&self) {
        if let Some(lie) = self.plan.mischief.and_then(Mischief::lie) {
            self.disk.lie(lie);
        }
    }

    /// Runs the clients concurrently; returns the result of each.
    ///
    /// # Errors
    /// If a client panicked.
    pub fn era<T: Send + 'static>(
        &mut self,
        work: impl Fn(Client) -> T + Send + Sync + 'static,
    ) -> Result<Vec<T>, String> {
        let chaos = Chaos::new(&self.plan, SeededRandom::new(self.random.next_u64()), &self.disk);
        self.chaos = Arc::new(chaos);
        let work = Arc::new(work);
        let made: Arc<Mutex<Vec<Option<T>>>> = Arc::default();
        made.lock().resize_with(self.plan.clients, || None);
        let mut threads = Vec::new();
        for number in 0..self.plan.clients {
            let client = self.client(number);
            let (work, made) = (Arc::clone(&work), Arc::clone(&made));
            let body = Box::new(move || {
                let result = work(client);
                made.lock()[number] = Some(result);
            });
            let thread = self.env.threads.spawn("client", body);
            threads.push(thread.map_err(|error| format!("a client does not start: {error}"))?);
        }
        for thread in threads {
            if !thread.join() {
                return Err("a client panicked".to_owned());
            }
        }
        let made = std::mem::take(&mut *made.lock());
        Ok(made.into_iter().map(|made| made.expect("a client that ended made its part")).collect())
    }

    fn client(&self, number: usize) -> Client {
        let engine = self.engine.as_ref().expect("the database is open");
        let random = SeededRandom::new(self.random.next_u64());
        let habits = (self.plan.mischief, self.plan.durability);
        Client::new(number, random, &self.moments, engine, &self.chaos, habits)
    }

    /// Ends the era and opens the database again; returns the moment between the two.
    ///
    /// # Errors
    /// If the database does not open.
    pub fn restart(&mut self) -> Result<u64, String> {
        self.chaos.plan_next();
        self.report.faults += self.chaos.struck.load(Ordering::Relaxed);
        let ends: &[End] = match (self.plan.durability, self.disk.crashed()) {
            (Durability::Fsync, false) => &[End::Close, End::Kill, End::Crash],
            (Durability::Fsync, true) => &[End::Kill, End::Crash],
            (Durability::Write, false) => &[End::Close, End::Kill],
            (Durability::Write, true) => &[End::Kill],
            (Durability::None, _) => &[End::Close],
        };
        let end = ends[self.random.below(ends.len() as u64) as usize];
        if end == End::Close {
            let engine = self.engine.take().expect("the database is open");
            // After a disk failure it cannot be closed, and waiting clients got their errors
            // before.
            let _ = engine.close();
        } else {
            self.report.crashes += 1;
            self.change_disk(end);
        }
        self.engine = None;
        let between = self.moments.next();
        if self.disk.crashed() {
            self.change_disk(self.death());
        }
        self.open()?;
        Ok(between)
    }

    /// The harshest end that acknowledged changes survive.
    fn death(&self) -> End {
        if self.plan.durability == Durability::Fsync { End::Crash } else { End::Kill }
    }

    /// Replaces the disk by the state that the engine finds after the process or the machine died.
    fn change_disk(&mut self, end: End) {
        self.disk_operations += self.disk.operations();
        let left = match &self.chaos.kept {
            Some(kept) => kept.lock().fork(self.random.next_u64()),
            None if end == End::Kill => self.disk.fork(self.random.next_u64()),
            None => self.disk.crash(),
        };
        // Later operations of the old engine must have no effect.
        let _ = self.disk.crash();
        self.disk = left;
        self.env = self.env.with_files(self.disk.clone());
        self.prepare_disk();
    }

    /// The current contents of the database.
    #[must_use]
    pub fn view(&self) -> View {
        self.client(0).view()
    }

    /// The plan of this world.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The logical clock that orders the operations of all clients.
    #[must_use]
    pub fn moments(&self) -> &Moments {
        &self.moments
    }

    /// Ends the simulation. `told` contains the number of acknowledged operations, of those in
    /// doubt, and the hash of the history.
    #[must_use]
    pub fn finish(mut self, done: u64, in_doubt: u64, history: u64) -> Report {
        self.report.simulated = self.env.clock.monotonic();
        (self.report.done, self.report.in_doubt) = (done, in_doubt);
        let operations = self.disk_operations + self.disk.operations();
        self.report.trace = history ^ operations.rotate_left(32);
        self.report
    }
}

/// True if the disk caused the error.
fn is_from_disk(error: &Error) -> bool {
    [SqlState::IO_ERROR, SqlState::DISK_FULL].contains(&error.state())
}
