//! Single keys that are created, updated, upserted, removed and looked up, in groups in which each
//! row is written by itself; replaced if their version is the expected one; and removed or replaced
//! together by truncating their table and loading it again. The history of each key must be
//! linearizable.

use std::collections::BTreeMap;

use thalweg_txn::{Put, Written};
use thalweg_types::{SqlState, TableId};

use super::{DOUBTS_MAX, Told};
use crate::World;
use crate::client::{Client, Failure, RowChange};
use crate::history::{Notes, Operation, Outcome};
use crate::linearizability::{self, Model};
use crate::tables::TABLES;

const KEYS_EACH: u64 = 6;
const GROUP_MAX: u64 = 4;

type Place = (TableId, i64);

/// A written value, which identifies its writer.
type Value = u64;

/// An operation on the register of one key.
#[derive(Clone, Copy, Debug, Hash)]
pub enum Change {
    Read,
    Create(Value),
    Update(Value),
    Upsert(Value),
    Remove,
    /// Puts or removes, whatever the current value is.
    Set(Option<Value>),
    /// Puts or removes if this is the current value.
    Replace(Option<Value>, Option<Value>),
}

/// The result of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ObservedAnswer {
    /// The value found.
    Found(Option<Value>),
    /// True if it changed anything.
    Applied(bool),
}

/// The model of one key.
struct Register;

impl Model for Register {
    type State = Option<Value>;
    type Action = Change;
    type Observed = ObservedAnswer;

    fn initial() -> Option<Value> {
        None
    }

    fn step(
        state: &Option<Value>,
        action: &Change,
        told: Option<&ObservedAnswer>,
    ) -> Option<Option<Value>> {
        let next = match *action {
            Change::Read => {
                return told
                    .is_none_or(|told| *told == ObservedAnswer::Found(*state))
                    .then_some(*state);
            }
            Change::Create(value) => state.is_none().then_some(Some(value)),
            Change::Update(value) => state.is_some().then_some(Some(value)),
            Change::Upsert(value) => Some(Some(value)),
            Change::Remove => state.is_some().then_some(None),
            Change::Set(value) => Some(value),
            Change::Replace(from, to) => (*state == from).then_some(to),
        };
        let tells = ObservedAnswer::Applied(next.is_some());
        told.is_none_or(|told| *told == tells).then_some(next.unwrap_or(*state))
    }
}

type Action = (Place, Change);

/// A running client.
struct Work {
    client: Client,
    notes: Notes<Action, ObservedAnswer>,
    /// The last value and version that it saw of each key.
    seen: BTreeMap<Place, (Value, u64)>,
    doubts: u32,
}

/// # Errors
/// The key whose history is not linearizable, and the reason.
pub fn play(world: &mut World) -> Result<Told, String> {
    let plan = *world.plan();
    let mut history: Vec<Operation<Action, ObservedAnswer>> = Vec::new();
    for _ in 0..plan.eras {
        let notes = world.era(move |client| Work::new(client).run(plan.operations))?;
        let end = world.restart()?;
        history.extend(notes.into_iter().flat_map(|notes| notes.close(end)));
    }
    let mut last = Notes::new(plan.clients, world.moments());
    let (begun, view) = (last.begin(), world.view());
    let places = TABLES.iter().flat_map(|table| (0..KEYS_EACH as i64).map(|key| (*table, key)));
    last.end(
        begun,
        places.map(|place| ((place, Change::Read), found(view.find(place.0, place.1)))),
    );
    history.extend(last.close(begun));
    let told = Told::of(&history);
    let mut keys: BTreeMap<Place, Vec<Operation<Change, ObservedAnswer>>> = BTreeMap::new();
    for operation in history {
        let Operation { client, invoked, completed, action: (place, action), outcome } = operation;
        let operation = Operation { client, invoked, completed, action, outcome };
        keys.entry(place).or_default().push(operation);
    }
    for ((table, key), history) in keys {
        linearizability::check::<Register>(&history)
            .map_err(|violation| format!("key {key} of table {}: {violation:?}", table.0))?;
    }
    Ok(told)
}

fn found(found: Option<(String, u64)>) -> Outcome<ObservedAnswer> {
    Outcome::Done(ObservedAnswer::Found(found.map(|(value, _)| number(&value))))
}

fn number(value: &str) -> Value {
    value.parse().expect("clients write numbers")
}

impl Work {
    fn new(client: Client) -> Work {
        let notes = Notes::new(client.number, &client.moments);
        Work { client, notes, seen: BTreeMap::new(), doubts: 0 }
    }

    fn run(mut self, operations: usize) -> Notes<Action, ObservedAnswer> {
        for _ in 0..operations {
            self.client.pause();
            match self.client.random.below(40) {
                0..12 => self.look(),
                12..20 => self.replace_in_session(),
                20..22 => self.load(),
                _ => self.write(),
            }
            if self.doubts >= DOUBTS_MAX {
                break;
            }
        }
        self.notes
    }

    fn place(&self) -> Place {
        let table = TABLES[self.client.random.below(TABLES.len() as u64) as usize];
        (table, self.client.random.below(KEYS_EACH) as i64)
    }

    fn places(&self) -> Vec<Place> {
        (0..=self.client.random.below(GROUP_MAX)).map(|_| self.place()).collect()
    }

    fn look(&mut self) {
        let places = self.places();
        let begun = self.notes.begin();
        let view = self.client.view();
        let mut told = Vec::new();
        for place in places {
            let row = view.find(place.0, place.1);
            match &row {
                Some((value, version)) => self.seen.insert(place, (number(value), *version)),
                None => self.seen.remove(&place),
            };
            told.push(((place, Change::Read), found(row)));
        }
        self.notes.end(begun, told);
    }

    fn write(&mut self) {
        let begun = self.notes.begin();
        let mut changes = Vec::new();
        let mut rows = Vec::new();
        for place in self.places() {
            let (change, row) = self.change(place);
            changes.push((place, change));
            rows.push(row);
        }
        let told = match self.client.write(&rows) {
            Ok(written) => tell(&changes, &written),
            Err(Failure::Refused(_)) => Vec::new(),
            Err(Failure::InDoubt) => {
                self.doubts += 1;
                changes.into_iter().map(|action| (action, Outcome::InDoubt)).collect()
            }
        };
        self.notes.end(begun, told);
    }

    fn change(&self, place: Place) -> (Change, RowChange) {
        let value = self.client.moments.next();
        let seen = self.seen.get(&place).copied();
        let (change, put) = match (self.client.random.below(12), seen) {
            (0..3, _) => (Change::Create(value), Some(Put::Create)),
            (3..5, _) => (Change::Update(value), Some(Put::Update)),
            (5..7, _) => (Change::Upsert(value), Some(Put::Upsert)),
            (7..9, _) | (9, None) => (Change::Remove, None),
            (9, Some((from, _))) => (Change::Replace(Some(from), None), None),
            (_, Some((from, _))) => (Change::Replace(Some(from), Some(value)), Some(Put::Update)),
            (_, None) => (Change::Replace(None, Some(value)), Some(Put::Upsert)),
        };
        let version = seen.map_or(0, |(_, version)| version);
        let expected = matches!(change, Change::Replace(..)).then_some(version);
        let put = put.map(|put| (put, value.to_string()));
        (change, RowChange { table: place.0, key: place.1, put, expected })
    }

    /// Truncates a table, and perhaps fills it with rows that arrive as a whole chunk. Compaction
    /// must handle the rows that they replace.
    fn load(&mut self) {
        let (table, _) = self.place();
        let begun = self.notes.begin();
        let mut session = self.client.begin();
        session.truncate(table);
        let keys = 0..KEYS_EACH as i64;
        let mut values: Vec<Option<Value>> = vec![None; KEYS_EACH as usize];
        if self.client.random.below(4) > 0 {
            values.fill_with(|| Some(self.client.moments.next()));
            let row = |(key, value): (i64, &Option<Value>)| Some((key, (*value)?.to_string()));
            let rows: Vec<(i64, String)> = keys.clone().zip(&values).filter_map(row).collect();
            session.load(table, &rows);
        }
        let outcome = match session.commit() {
            Ok(()) => Some(Outcome::Done(ObservedAnswer::Applied(true))),
            Err(Failure::Refused(_)) => None,
            Err(Failure::InDoubt) => Some(Outcome::InDoubt),
        };
        self.doubts += u32::from(outcome == Some(Outcome::InDoubt));
        let set = |(key, value)| Some((((table, key), Change::Set(value)), outcome.clone()?));
        self.notes.end(begun, keys.zip(values).filter_map(set));
    }

    /// The value that it read stays unchanged until it commits; otherwise it does not commit.
    fn replace_in_session(&mut self) {
        let (place, value) = (self.place(), self.client.moments.next());
        let begun = self.notes.begin();
        let mut session = self.client.begin();
        let seen = session.find(place.0, place.1).map(|value| number(&value));
        let read = ((place, Change::Read), Outcome::Done(ObservedAnswer::Found(seen)));
        session.put(place.0, place.1, &value.to_string());
        let change = (place, Change::Replace(seen, Some(value)));
        let told = match session.commit() {
            Ok(()) => vec![read, (change, Outcome::Done(ObservedAnswer::Applied(true)))],
            Err(Failure::Refused(_)) => vec![read],
            Err(Failure::InDoubt) => vec![read, (change, Outcome::InDoubt)],
        };
        self.doubts += u32::from(told.last().is_some_and(|(_, told)| *told == Outcome::InDoubt));
        self.notes.end(begun, told);
    }
}

/// The outcomes of a group's rows.
fn tell(changes: &[Action], written: &Written) -> Vec<(Action, Outcome<ObservedAnswer>)> {
    assert_eq!(written.rows + written.failures.len() as u64, changes.len() as u64);
    let mut failures = written.failures.iter().peekable();
    let mut told = Vec::with_capacity(changes.len());
    for (place, action) in changes.iter().enumerate() {
        let applied = match failures.next_if(|failure| failure.place as usize == place) {
            None => true,
            // Compaction gives a moved row a new version, too, so this conflict proves nothing.
            Some(failure) if failure.error.state() == SqlState::SERIALIZATION_FAILURE => continue,
            Some(_) => false,
        };
        told.push((*action, Outcome::Done(ObservedAnswer::Applied(applied))));
    }
    told
}
