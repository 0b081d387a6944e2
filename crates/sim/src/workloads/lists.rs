//! Lists in two tables that grow by transactions and by groups with expected versions, checked for
//! snapshot isolation.

use std::collections::{BTreeMap, BTreeSet};

use thalweg_txn::Put;
use thalweg_types::TableId;

use super::{DOUBTS_MAX, Told};
use crate::World;
use crate::client::{Client, Failure, RowChange, View};
use crate::history::{Notes, Outcome};
use crate::isolation::{self, Key, Step, Transaction};
use crate::tables::TABLES;

const KEYS: i64 = 8;
const STEPS_MAX: u64 = 4;

/// # Errors
/// The anomaly that was found.
pub fn play(world: &mut World) -> Result<Told, String> {
    let plan = *world.plan();
    let mut history: Vec<Transaction> = Vec::new();
    for _ in 0..plan.eras {
        let notes = world.era(move |client| Work::new(client).run(plan.operations))?;
        let end = world.restart()?;
        history.extend(notes.into_iter().flat_map(|notes| notes.close(end)));
    }
    let view = world.view();
    let last: BTreeMap<Key, Vec<u64>> = (0..KEYS).map(|key| (key, look(&view, key).0)).collect();
    isolation::check(&history, &last).map_err(|violation| violation.to_string())?;
    Ok(Told::of(&history))
}

fn table(key: Key) -> TableId {
    TABLES[(key / 2 % 2) as usize]
}

/// A list and its version.
fn look(view: &View, key: Key) -> (Vec<u64>, u64) {
    view.find(table(key), key).map_or((Vec::new(), 0), |(text, version)| (list(&text), version))
}

fn list(text: &str) -> Vec<u64> {
    text.split(',').map(|value| value.parse().expect("clients write numbers")).collect()
}

fn text(list: &[u64]) -> String {
    list.iter().map(u64::to_string).collect::<Vec<_>>().join(",")
}

struct Work {
    client: Client,
    notes: Notes<Vec<Step>, ()>,
    doubts: u32,
}

impl Work {
    fn new(client: Client) -> Work {
        let notes = Notes::new(client.number, &client.moments);
        Work { client, notes, doubts: 0 }
    }

    fn run(mut self, operations: usize) -> Notes<Vec<Step>, ()> {
        for _ in 0..operations {
            self.client.pause();
            let begun = self.notes.begin();
            let (steps, outcome) = match self.client.random.below(8) {
                0..2 => self.look_at_all(),
                2..5 => self.transaction(),
                _ => self.group(),
            };
            let outcome = match outcome {
                Ok(()) => (steps, Outcome::Done(())),
                // The reads of a refused transaction must be correct, too.
                Err(Failure::Refused(_)) => (of_others(steps), Outcome::Done(())),
                Err(Failure::InDoubt) => {
                    self.doubts += 1;
                    (steps, Outcome::InDoubt)
                }
            };
            self.notes.end(begun, [outcome]);
            if self.doubts >= DOUBTS_MAX {
                break;
            }
        }
        self.notes
    }

    fn key(&self) -> Key {
        self.client.random.below(KEYS as u64) as Key
    }

    fn look_at_all(&self) -> (Vec<Step>, Result<(), Failure>) {
        let view = self.client.view();
        ((0..KEYS).map(|key| Step::Read(key, look(&view, key).0)).collect(), Ok(()))
    }

    fn transaction(&self) -> (Vec<Step>, Result<(), Failure>) {
        let mut session = self.client.begin();
        let mut steps = Vec::new();
        for _ in 0..=self.client.random.below(STEPS_MAX) {
            let key = self.key();
            let mut list = session.find(table(key), key).map_or(Vec::new(), |text| list(&text));
            steps.push(Step::Read(key, list.clone()));
            if self.client.random.below(3) > 0 {
                let value = self.client.moments.next();
                list.push(value);
                session.put(table(key), key, &text(&list));
                steps.push(Step::Append(key, value));
            }
        }
        let outcome = session.commit();
        (steps, outcome)
    }

    /// A group that is written as a whole, if the lists that it changes have their expected
    /// versions.
    fn group(&self) -> (Vec<Step>, Result<(), Failure>) {
        let view = self.client.view();
        let keys: BTreeSet<Key> = (0..=self.client.random.below(3)).map(|_| self.key()).collect();
        let (mut steps, mut changes) = (Vec::new(), Vec::new());
        for key in keys {
            let (mut list, version) = look(&view, key);
            steps.push(Step::Read(key, list.clone()));
            let value = self.client.moments.next();
            list.push(value);
            steps.push(Step::Append(key, value));
            let put = Some((Put::Upsert, text(&list)));
            changes.push(RowChange { table: table(key), key, put, expected: Some(version) });
        }
        let other = self.key();
        if !changes.iter().any(|change| change.key == other) {
            steps.push(Step::Read(other, look(&view, other).0));
        }
        let outcome = self.client.write_whole(&changes);
        (steps, outcome)
    }
}

/// A transaction's reads of lists that it had not changed itself.
fn of_others(steps: Vec<Step>) -> Vec<Step> {
    let mut own = BTreeSet::new();
    let keep = |step: &Step| match step {
        Step::Read(key, _) => !own.contains(key),
        Step::Append(key, _) => {
            own.insert(*key);
            false
        }
    };
    steps.into_iter().filter(keep).collect()
}
