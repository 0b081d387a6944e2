//! Random histories beside a model of PostgreSQL's READ COMMITTED.
//!
//! The model has rows by key, the changes of each open block, and for each key the block that has
//! locked it. A statement sees committed rows and its block's own changes. The checker compares the
//! answer of each statement, which statements wait, which wait is a deadlock, and the final rows.

use std::collections::BTreeMap;

use super::*;

const CLIENTS: usize = 3;
const KEYS: i32 = 5;
/// Keys from here on have no row at the beginning.
const NEW_KEY: i32 = 3;
const STEPS: usize = 60;
const SEEDS: u64 = 40;

#[derive(Clone, Copy, Debug)]
enum Step {
    Begin,
    Read(i32),
    Add(i32),
    Lock(i32),
    Insert(i32),
    Upsert(i32),
    Delete(i32),
    Commit,
    Rollback,
}

impl Step {
    /// The statement, prepared or not.
    fn sql(self, prepared: bool) -> String {
        let (text, key) = match self {
            Step::Begin => return "BEGIN".to_owned(),
            Step::Commit => return "COMMIT".to_owned(),
            Step::Rollback => return "ROLLBACK".to_owned(),
            Step::Read(key) => ("SELECT v FROM t WHERE id = $1", key),
            Step::Add(key) => ("UPDATE t SET v = v + 1 WHERE id = $1", key),
            Step::Lock(key) => ("SELECT v FROM t WHERE id = $1 FOR UPDATE", key),
            Step::Insert(key) => ("INSERT INTO t (id, v) VALUES ($1, 0)", key),
            Step::Upsert(key) => (
                "INSERT INTO t (id, v) VALUES ($1, 0) ON CONFLICT (id) DO UPDATE SET v = t.v + 1",
                key,
            ),
            Step::Delete(key) => ("DELETE FROM t WHERE id = $1", key),
        };
        match prepared {
            true => format!("{text} $$ {key}"),
            false => text.replace("$1", &key.to_string()),
        }
    }
}

/// A generator of numbers with a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        // Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014).
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }

    fn step(&mut self, in_block: bool) -> Step {
        let key = self.below(KEYS as u64) as i32;
        match (in_block, self.below(20)) {
            (false, 0..10) => Step::Begin,
            (true, 0..3) => Step::Commit,
            (true, 3) => Step::Rollback,
            (_, 4..7) => Step::Read(key),
            (_, 7..12) => Step::Add(key),
            (true, 12..14) => Step::Lock(key),
            (_, 14..16) => Step::Insert(key),
            (_, 16..18) => Step::Upsert(key),
            (_, _) => Step::Delete(key),
        }
    }
}

#[derive(Clone, Debug, Default)]
struct ModelBlock {
    /// New values by key; `None` for deleted rows.
    changes: BTreeMap<i32, Option<i32>>,
    failed: bool,
}

#[derive(Debug, PartialEq)]
enum Expected {
    Answer(Answer),
    /// The statement waits for another client.
    Waits(usize),
}

#[derive(Clone, Default)]
struct Model {
    committed: BTreeMap<i32, i32>,
    locks: BTreeMap<i32, usize>,
    blocks: BTreeMap<usize, ModelBlock>,
    /// The client that each waiting client waits for.
    waits: BTreeMap<usize, usize>,
}

impl Model {
    fn run(&mut self, client: usize, step: Step) -> Expected {
        self.waits.remove(&client);
        let is_block = self.blocks.contains_key(&client);
        match step {
            Step::Begin => {
                self.blocks.insert(client, ModelBlock::default());
                return Expected::Answer(Answer::Done);
            }
            Step::Commit | Step::Rollback => {
                let block = self.blocks.remove(&client).unwrap_or_default();
                self.locks.retain(|_, holder| *holder != client);
                if matches!(step, Step::Commit) && !block.failed {
                    self.commit(block);
                }
                return Expected::Answer(Answer::Done);
            }
            _ => {}
        }
        if self.blocks.get(&client).is_some_and(|block| block.failed) {
            return Expected::Answer(Answer::Failed(SqlState::IN_FAILED_TRANSACTION));
        }
        let expected = self.statement(client, step);
        match &expected {
            Expected::Waits(on) if self.leads_to(*on, client) => {
                self.fail(client);
                return Expected::Answer(Answer::Failed(SqlState::DEADLOCK_DETECTED));
            }
            Expected::Waits(on) => {
                self.waits.insert(client, *on);
            }
            Expected::Answer(Answer::Failed(_)) if is_block => self.fail(client),
            Expected::Answer(_) => {}
        }
        if !is_block && !matches!(expected, Expected::Waits(_)) {
            // A statement outside of a block is a block of its own.
            let own = self.blocks.remove(&client).unwrap_or_default();
            self.locks.retain(|_, holder| *holder != client);
            self.commit(own);
        }
        expected
    }

    fn commit(&mut self, block: ModelBlock) {
        for (key, value) in block.changes {
            match value {
                Some(value) => self.committed.insert(key, value),
                None => self.committed.remove(&key),
            };
        }
    }

    fn fail(&mut self, client: usize) {
        self.locks.retain(|_, holder| *holder != client);
        *self.blocks.entry(client).or_default() =
            ModelBlock { failed: true, ..ModelBlock::default() };
    }

    /// True if a client waits, directly or not, for another one.
    fn leads_to(&self, mut from: usize, to: usize) -> bool {
        while from != to {
            match self.waits.get(&from) {
                Some(next) => from = *next,
                None => return false,
            }
        }
        true
    }

    fn statement(&mut self, client: usize, step: Step) -> Expected {
        let (Step::Read(key)
        | Step::Add(key)
        | Step::Lock(key)
        | Step::Insert(key)
        | Step::Upsert(key)
        | Step::Delete(key)) = step
        else {
            unreachable!("the others are no statements about rows")
        };
        let own = self.blocks.get(&client).and_then(|block| block.changes.get(&key).copied());
        let value = own.unwrap_or_else(|| self.committed.get(&key).copied());
        let holder = self.locks.get(&key).copied().filter(|holder| *holder != client);
        let rows = |value: Option<i32>| Answer::Rows(value.iter().map(i32::to_string).collect());
        let (answer, change) = match (step, value) {
            (Step::Read(_), value) => return Expected::Answer(rows(value)),
            (Step::Lock(_), None) => return Expected::Answer(rows(None)),
            (Step::Add(_) | Step::Delete(_), None) => return Expected::Answer(Answer::Count(0)),
            (Step::Lock(_), value) => (rows(value), None),
            (Step::Add(_), Some(value)) => (Answer::Count(1), Some(Some(value + 1))),
            (Step::Delete(_), Some(_)) => (Answer::Count(1), Some(None)),
            (Step::Insert(_), Some(_)) => (Answer::Failed(SqlState::UNIQUE_VIOLATION), None),
            (Step::Insert(_) | Step::Upsert(_), None) => (Answer::Count(1), Some(Some(0))),
            (_, Some(value)) => (Answer::Count(1), Some(Some(value + 1))),
            (_, None) => unreachable!("the other steps have returned"),
        };
        if let Some(holder) = holder {
            return Expected::Waits(holder);
        }
        if !matches!(answer, Answer::Failed(_)) {
            self.locks.insert(key, client);
        }
        if let Some(change) = change {
            self.blocks.entry(client).or_default().changes.insert(key, change);
        }
        Expected::Answer(answer)
    }
}

struct Checker {
    database: Database,
    clients: Vec<Client>,
    /// The step that each waiting client runs.
    waiting: BTreeMap<usize, Step>,
    model: Model,
    trace: Vec<String>,
    deadlocks: usize,
}

impl Checker {
    async fn new() -> Checker {
        let database = Database::builder().threads(2).open().unwrap();
        let mut setup = Client::new(&database);
        let mut model = Model::default();
        setup.start(&database, "CREATE TABLE t (id integer PRIMARY KEY, v integer)").await;
        for key in 0..NEW_KEY {
            setup.start(&database, &Step::Insert(key).sql(false)).await;
            model.committed.insert(key, 0);
        }
        let clients = (0..CLIENTS).map(|_| Client::new(&database)).collect();
        let (waiting, trace) = (BTreeMap::new(), Vec::new());
        Checker { database, clients, waiting, model, trace, deadlocks: 0 }
    }

    /// Compares the answer of a statement that was started or continued.
    fn check(&mut self, client: usize, step: Step, got: Option<Answer>) -> Result<(), String> {
        let expected = self.model.run(client, step);
        self.trace.push(format!("{client}: {step:?} -> {got:?}"));
        let is_right = match (&expected, &got) {
            (Expected::Waits(_), None) => true,
            (Expected::Answer(expected), Some(got)) => expected == got,
            _ => false,
        };
        let deadlock = Some(Answer::Failed(SqlState::DEADLOCK_DETECTED));
        self.deadlocks += usize::from(got == deadlock);
        match got {
            None => self.waiting.insert(client, step),
            Some(_) => self.waiting.remove(&client),
        };
        match is_right {
            true => Ok(()),
            false => Err(format!("expected {expected:?} at the end of {:#?}", self.trace)),
        }
    }

    async fn step(&mut self, client: usize, step: Step, prepared: bool) -> Result<(), String> {
        let sql = step.sql(prepared);
        let got = self.clients[client].start(&self.database, &sql).await;
        self.check(client, step, got)?;
        // Each client that waited for a lock that was released continues.
        loop {
            let engine = &self.database.shared.engine;
            let is_free = |client: &usize| !engine.is_waiting_for_row(self.clients[*client].owner);
            let Some(next) = self.waiting.keys().copied().find(is_free) else { return Ok(()) };
            let step = self.waiting[&next];
            let got = self.clients[next].go_on(&self.database).await;
            self.check(next, step, got)?;
        }
    }

    async fn rows(&mut self) -> Vec<String> {
        let mut reader = Client::new(&self.database);
        match reader.start(&self.database, "SELECT id, v FROM t ORDER BY id").await {
            Some(Answer::Rows(rows)) => rows,
            other => panic!("{other:?}"),
        }
    }
}

async fn history(seed: u64) -> Result<(usize, usize), String> {
    let mut random = Random(seed);
    let mut checker = Checker::new().await;
    let mut waits = 0;
    for _ in 0..STEPS {
        let client = random.below(CLIENTS as u64) as usize;
        // One client waits at a time, so that the order in which waiters continue is known.
        if checker.waiting.contains_key(&client) {
            continue;
        }
        let status = checker.clients[client].status();
        let step = match status {
            TransactionStatus::Failed => Step::Rollback,
            status => random.step(status == TransactionStatus::Active),
        };
        if !checker.waiting.is_empty() {
            let expected = checker.model.clone().run(client, step);
            if matches!(expected, Expected::Waits(_)) {
                continue;
            }
        }
        checker.step(client, step, random.below(2) == 0).await?;
        waits += usize::from(!checker.waiting.is_empty());
    }
    for client in (0..CLIENTS).cycle().take(CLIENTS * CLIENTS) {
        if !checker.waiting.contains_key(&client) {
            checker.step(client, Step::Commit, false).await?;
        }
    }
    let expected: Vec<String> =
        checker.model.committed.iter().map(|(key, value)| format!("{key}|{value}")).collect();
    match checker.rows().await == expected {
        true => Ok((waits, checker.deadlocks)),
        false => Err(format!("the rows should be {expected:?} after {:#?}", checker.trace)),
    }
}

#[tokio::test]
async fn histories_are_those_of_the_model() {
    let (mut waits, mut deadlocks) = (0, 0);
    for seed in 0..SEEDS {
        let done = history(seed).await.unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
        waits += done.0;
        deadlocks += done.1;
    }
    assert!(waits > 0 && deadlocks > 0, "{waits} waits and {deadlocks} deadlocks");
}

#[tokio::test]
async fn the_checker_finds_blocks_without_locks() {
    canary::set_lockless(true);
    let mut is_found = false;
    for seed in 0..20 {
        is_found |= history(seed).await.is_err();
    }
    canary::set_lockless(false);
    assert!(is_found);
}
