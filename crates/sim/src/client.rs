//! A client of the database, in process: groups of rows by key, transactions, snapshots.
//!
//! It does the work of the record API and of a session above the engine, and misbehaves if a test
//! asks for this.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use thalweg_env::SeededRandom;
use thalweg_store::ClosedChunk;
use thalweg_txn::{
    Durability, Engine, Failing, KeyedChange, KeyedRows, Patch, Put, RowGroup, Snapshot,
    Transaction, Written,
};
use thalweg_types::{Error, Lsn, Result, SqlState, TableId};

use crate::Mischief;
use crate::history::Moments;
use crate::runtime::channel;
use crate::tables;
use crate::world::Chaos;

/// One change of a group.
#[derive(Clone, Debug)]
pub struct RowChange {
    pub table: TableId,
    pub key: i64,
    /// The value that the row gets; `None` removes it.
    pub put: Option<(Put, String)>,
    /// The expected version of the row that it replaces, 0 for no row; `None` accepts any version.
    pub expected: Option<u64>,
}

/// The reason why a write was not acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It certainly did not take place, for this reason.
    Refused(SqlState),
    /// It may have taken place; the database accepts no more writes.
    InDoubt,
}

impl Failure {
    fn of(error: &Error) -> Failure {
        match error.state() {
            SqlState::IO_ERROR => Failure::InDoubt,
            SqlState::SHUTTING_DOWN => panic!("a stage of the engine died"),
            state => Failure::Refused(state),
        }
    }
}

/// A client, with everything that it may use while it works.
pub struct Client {
    pub number: usize,
    pub random: SeededRandom,
    pub moments: Moments,
    pub durability: Durability,
    engine: Arc<Engine>,
    chaos: Arc<Chaos>,
    mischief: Option<Mischief>,
    /// A snapshot kept for mischief.
    kept: Mutex<Option<Snapshot>>,
    /// A row of a refused group, kept for mischief.
    leaked: Mutex<Option<RowChange>>,
    /// A group that was written, kept for mischief.
    written: Mutex<Vec<RowChange>>,
}

impl Client {
    pub(crate) fn new(
        number: usize,
        random: SeededRandom,
        moments: &Moments,
        engine: &Arc<Engine>,
        chaos: &Arc<Chaos>,
        (mischief, durability): (Option<Mischief>, Durability),
    ) -> Client {
        Client {
            number,
            random,
            moments: moments.clone(),
            durability,
            engine: Arc::clone(engine),
            chaos: Arc::clone(chaos),
            mischief,
            kept: Mutex::default(),
            leaked: Mutex::default(),
            written: Mutex::default(),
        }
    }

    /// Lets time pass and disks fail before the next operation. Now and then triggers background
    /// work, as operators and the engine itself do.
    pub fn pause(&self) {
        let thought = Duration::from_millis(self.random.below(2 * self.chaos.think_ms + 1));
        self.engine.env().clock.sleep(thought);
        self.chaos.plan_next();
        match self.random.below(40) {
            // A failed checkpoint has no effect on clients.
            0 => drop(self.engine.checkpoint()),
            1 => self.engine.maintain(),
            _ => {}
        }
    }

    fn has(&self, mischief: Mischief) -> bool {
        self.mischief == Some(mischief)
    }

    /// True now and then, for mischief that would be detected at once if it were permanent.
    fn sometimes(&self, mischief: Mischief) -> bool {
        self.has(mischief) && self.random.below(4) == 0
    }

    fn durability(&self) -> Durability {
        match self.has(Mischief::AcknowledgeBeforeSync) {
            true => Durability::None,
            false => self.durability,
        }
    }

    /// The current state of the database.
    #[must_use]
    pub fn view(&self) -> View {
        let now = self.engine.snapshot();
        let mut view =
            View { snapshot: now.clone(), torn: None, leaked: self.leaked.lock().take() };
        if self.sometimes(Mischief::StaleReads) || self.sometimes(Mischief::TornReads) {
            let before = self.kept.lock().replace(now);
            match (before, self.has(Mischief::TornReads)) {
                (Some(before), true) => view.torn = Some(before),
                (Some(before), false) => view.snapshot = before,
                (None, _) => {}
            }
        }
        view
    }

    /// Writes rows as one group; a row that cannot be written is left out by itself.
    ///
    /// # Errors
    /// The reason why no row was written.
    pub fn write(&self, changes: &[RowChange]) -> Result<Written, Failure> {
        let mut changes = changes.to_vec();
        if self.has(Mischief::CreateOverwrites) {
            let puts = changes.iter_mut().filter_map(|change| change.put.as_mut());
            puts.filter(|(put, _)| *put == Put::Create).for_each(|(put, _)| *put = Put::Upsert);
        }
        if self.sometimes(Mischief::RepeatWrites) {
            let again = std::mem::replace(&mut *self.written.lock(), changes.clone());
            self.send(&again, Failing::LeaveOut, self.durability())?;
        }
        if self.has(Mischief::ForgetRemovals) && changes.iter().all(|change| change.put.is_none()) {
            let rows = changes.len() as u64;
            return Ok(Written { lsn: Lsn(0), rows, failures: Vec::new() });
        }
        self.send(&changes, Failing::LeaveOut, self.durability())
    }

    /// Writes all rows of a group or none.
    ///
    /// # Errors
    /// The reason why no row was written.
    pub fn write_whole(&self, changes: &[RowChange]) -> Result<(), Failure> {
        let mut changes = changes.to_vec();
        if self.has(Mischief::ForgetExpectations) {
            changes.iter_mut().for_each(|change| change.expected = None);
        }
        if self.has(Mischief::SplitGroups) {
            for change in changes.chunks(1) {
                self.send(change, Failing::LeaveOut, self.durability())?;
            }
            return Ok(());
        }
        let written = self.send(&changes, Failing::Undo(None), self.durability())?;
        let Some(failure) = written.failures.first() else { return Ok(()) };
        let refused = Failure::of(&failure.error);
        if self.has(Mischief::ReadRefused) {
            *self.leaked.lock() = changes.pop();
        }
        if self.has(Mischief::ApplyRefused) {
            changes.iter_mut().for_each(|change| change.expected = None);
            self.send(&changes, Failing::LeaveOut, self.durability())?;
        }
        Err(refused)
    }

    fn send(
        &self,
        changes: &[RowChange],
        failing: Failing,
        durability: Durability,
    ) -> Result<Written, Failure> {
        let snapshot = self.engine.snapshot();
        let group = RowGroup { rows: keyed(&snapshot, changes), failing, has_failed: false };
        let (sender, receiver) = channel();
        let on_durable = Box::new(move |written| drop(sender.send(written)));
        self.engine.write_rows(group, durability, on_durable);
        let written: Result<Written> = receiver.recv().expect("a group is always answered");
        match written {
            Ok(written) => Ok(written),
            Err(_) if self.has(Mischief::AcknowledgeFailure) => {
                Ok(Written { lsn: Lsn(0), rows: changes.len() as u64, failures: Vec::new() })
            }
            Err(error) => Err(Failure::of(&error)),
        }
    }

    /// Starts a transaction on the current snapshot.
    #[must_use]
    pub fn begin(&self) -> Session<'_> {
        let view = self.view();
        let transaction = Transaction::new(view.snapshot.clone());
        Session { client: self, view, transaction, writes: Vec::new() }
    }
}

/// Rows by table and kind of change, in runs of consecutive changes.
fn keyed(snapshot: &Snapshot, changes: &[RowChange]) -> Vec<KeyedRows> {
    let kind = |change: &RowChange| {
        let put = change.put.as_ref().map(|(put, _)| *put);
        // Rows with odd keys change only the given columns, which are all columns here.
        let patches = matches!(put, Some(Put::Update | Put::Upsert)) && change.key % 2 == 1;
        (change.table, put, patches, change.expected.is_some())
    };
    let patch = || Arc::new(Patch { columns: vec![0, 1], check: None });
    let (mut groups, mut place) = (Vec::new(), 0);
    for run in changes.chunk_by(|before, after| kind(before) == kind(after)) {
        let (table, put, patches, expects) = kind(&run[0]);
        let values = run.iter().filter_map(|row| Some((row.key, row.put.as_ref()?.1.as_str())));
        let (change, rows) = match put {
            Some(Put::Upsert) if patches => {
                (KeyedChange::Merge(patch()), tables::rows(table, values))
            }
            Some(_) if patches => (KeyedChange::Patch(patch()), tables::rows(table, values)),
            Some(put) => (KeyedChange::Put(put), tables::rows(table, values)),
            None => (KeyedChange::Remove, tables::keys(run.iter().map(|row| row.key))),
        };
        let entry = snapshot.catalog().table(table).expect("the tables stay");
        let expected = expects.then(|| run.iter().filter_map(|row| row.expected).collect());
        let places = (place..).take(run.len()).collect();
        groups.push(KeyedRows { table, version: entry.version, change, rows, places, expected });
        place += run.len() as u32;
    }
    groups
}

/// A view of one snapshot.
pub struct View {
    snapshot: Snapshot,
    /// An older snapshot, which shows through for some keys.
    torn: Option<Snapshot>,
    /// A row that was never committed.
    leaked: Option<RowChange>,
}

impl View {
    /// A key's value and version.
    #[must_use]
    pub fn find(&self, table: TableId, key: i64) -> Option<(String, u64)> {
        if let Some(leaked) =
            self.leaked.as_ref().filter(|row| (row.table, row.key) == (table, key))
        {
            return leaked.put.as_ref().map(|(_, value)| (value.clone(), 1));
        }
        let shown = self.torn.as_ref().filter(|_| key % 2 == 1).unwrap_or(&self.snapshot);
        let state = shown.table(table).expect("the tables stay");
        tables::find(state, key).map(|(row, value)| {
            assert!(row.0 > 0, "0 stands for no row");
            (value, row.0)
        })
    }

    /// All rows of a table in this snapshot. Panics if the table does not exist.
    #[must_use]
    pub fn scan(&self, table: TableId) -> Vec<(i64, String)> {
        tables::scan(self.snapshot.table(table).expect("the tables stay"))
    }
}

/// A transaction, with the operations of a session.
pub struct Session<'c> {
    client: &'c Client,
    view: View,
    transaction: Transaction,
    writes: Vec<(TableId, i64, String)>,
}

impl Session<'_> {
    /// The value of a key as the transaction sees it, its own writes included.
    pub fn find(&mut self, table: TableId, key: i64) -> Option<String> {
        if self.view.torn.is_some() && self.writes.is_empty() {
            return self.view.find(table, key).map(|(value, _)| value);
        }
        let state = self.transaction.state(table).expect("the tables stay");
        tables::find(&state, key).map(|(_, value)| value)
    }

    /// Writes a row and replaces the one with its key, if there is one.
    pub fn put(&mut self, table: TableId, key: i64, value: &str) {
        put(&mut self.transaction, table, key, value);
        self.writes.push((table, key, value.to_owned()));
    }

    /// Removes all rows that exist when it commits.
    pub fn truncate(&mut self, table: TableId) {
        self.transaction.truncate(table).expect("the tables stay");
    }

    /// Adds rows as one chunk that is written to the log ahead of the commit.
    pub fn load(&mut self, table: TableId, rows: &[(i64, String)]) {
        let rows = rows.iter().map(|(key, value)| (*key, value.as_str()));
        let chunk = ClosedChunk::build(&tables::schema(table), &tables::rows(table, rows));
        let staged = self.client.engine.stage(Arc::new(chunk)).expect("the engine is open");
        self.transaction.append_staged(table, staged).expect("the tables stay");
    }

    /// # Errors
    /// The reason why it was not committed.
    pub fn commit(self) -> Result<(), Failure> {
        let Session { client, transaction, writes, .. } = self;
        let commit = |transaction: Transaction| {
            let write_set = transaction.into_write_set().expect("rows of the tables");
            client.commit(write_set).map_err(|error| Failure::of(&error))
        };
        match commit(transaction) {
            Err(Failure::Refused(_)) if client.has(Mischief::OverwriteConflicts) => {
                let mut again = Transaction::new(client.engine.snapshot());
                for (table, key, value) in &writes {
                    put(&mut again, *table, *key, value);
                }
                commit(again)
            }
            Err(Failure::InDoubt) if client.has(Mischief::AcknowledgeFailure) => Ok(()),
            on_durable => on_durable,
        }
    }
}

impl Client {
    fn commit(&self, write_set: thalweg_txn::WriteSet) -> Result<()> {
        let (sender, receiver) = channel();
        let on_durable = Box::new(move |on_durable| drop(sender.send(on_durable)));
        self.engine.commit(write_set, self.durability(), on_durable);
        let on_durable: Result<Lsn> = receiver.recv().expect("a commit is always answered");
        on_durable.map(drop)
    }
}

fn put(transaction: &mut Transaction, table: TableId, key: i64, value: &str) {
    let state = transaction.state(table).expect("the tables stay");
    if let Some((row, _)) = tables::find(&state, key) {
        transaction.kill(table, &[row]).expect("the tables stay");
    }
    let row = tables::rows(table, std::iter::once((key, value)));
    transaction.append(table, row).expect("the tables stay");
}
