//! Checks that a history of transactions over growing lists satisfies snapshot isolation.
//!
//! Each transaction reads lists and appends to some of them values that no other one appends. A
//! list thus shows the order of the transactions that changed it, from which the dependencies
//! between transactions follow (Kingsbury and Alvaro, "Elle: Inferring Isolation Anomalies from
//! Experimental Observations", 2020). The anomalies are those of Adya, "Weak Consistency: A
//! Generalized Theory and Optimistic Implementations for Distributed Transactions" (1999). By a
//! theorem of Cerone and Gotsman, "Analysing Snapshot Isolation" (2016), a condition on cycles is
//! sufficient: a history satisfies snapshot isolation exactly if each of its cycles has two
//! consecutive anti-dependencies.
//!
//! Every later snapshot contains all acknowledged changes, so that a transaction also follows those
//! that had ended before it began: strong snapshot isolation (Daudjee and Salem 2006).

mod graph;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::history::Operation;
use graph::{Edge, Graph};

/// The name of a list.
pub type Key = i64;

/// A step of a transaction, in the transaction's order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    Read(Key, Vec<u64>),
    Append(Key, u64),
}

/// A transaction is an operation with the steps that it completed.
pub type Transaction = Operation<Vec<Step>, ()>;

/// Anomalies that snapshot isolation forbids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Anomaly {
    /// Neither of two reads of a list is a prefix of the other: lost updates, or repeated values.
    IncompatibleOrder,
    /// Writes depend on each other in a cycle.
    G0,
    /// A read returned a value that its transaction never committed.
    G1a,
    /// A read returned a list from the middle of another transaction.
    G1b,
    /// Writes and reads depend on each other in a cycle.
    G1c,
    /// A cycle with one anti-dependency: a transaction missed a change that it otherwise depends
    /// on.
    GSingle,
    /// Like [`Anomaly::GSingle`], with several anti-dependencies, none of them adjacent.
    GNonadjacent,
    /// An acknowledged change is missing.
    Lost,
    /// A transaction did not see its own appends, or saw a list change.
    Internal,
}

/// A violation of snapshot isolation, found in a history.
#[derive(Debug)]
pub struct Violation {
    pub anomaly: Anomaly,
    what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.anomaly, self.what)
    }
}

fn wrong<T>(anomaly: Anomaly, what: String) -> Result<T, Violation> {
    Err(Violation { anomaly, what })
}

/// Judges a history. `last` holds the final lists, after every transaction.
///
/// # Errors
/// The violation that was found.
pub fn check(history: &[Transaction], last: &BTreeMap<Key, Vec<u64>>) -> Result<(), Violation> {
    history.iter().try_for_each(check_within)?;
    let writers = Writers::new(history);
    for (key, list) in last {
        check_whole(*key, list, last, &writers, history)?;
    }
    for transaction in history {
        for (key, list) in outside_reads(transaction) {
            check_read(transaction, key, list, last, &writers, history)?;
        }
    }
    check_nothing_is_lost(history, last)?;
    dependencies(history, last, &writers).check(|place| format!("{:?}", history[place]))
}

/// The transaction that appended each value, and the last value that each one appended to a list.
struct Writers {
    of: BTreeMap<(Key, u64), usize>,
    last: BTreeSet<(Key, u64)>,
}

impl Writers {
    fn new(history: &[Transaction]) -> Writers {
        let mut writers = Writers { of: BTreeMap::new(), last: BTreeSet::new() };
        for (place, transaction) in history.iter().enumerate() {
            let appended: BTreeMap<Key, u64> = appends(transaction).collect();
            writers.last.extend(appended);
            for append in appends(transaction) {
                let before = writers.of.insert(append, place);
                assert!(before.is_none(), "{append:?} is appended twice");
            }
        }
        writers
    }
}

fn appends(transaction: &Transaction) -> impl Iterator<Item = (Key, u64)> + '_ {
    transaction.action.iter().filter_map(|step| match step {
        Step::Append(key, value) => Some((*key, *value)),
        Step::Read(..) => None,
    })
}

/// The first read of each list before the transaction changed it: its view of other transactions.
fn outside_reads(transaction: &Transaction) -> BTreeMap<Key, &[u64]> {
    let (mut reads, mut own) = (BTreeMap::new(), BTreeSet::new());
    for step in &transaction.action {
        match step {
            Step::Read(key, list) if !own.contains(key) => {
                reads.entry(*key).or_insert(list.as_slice());
            }
            Step::Read(..) => {}
            Step::Append(key, _) => drop(own.insert(*key)),
        }
    }
    reads
}

/// Checks that a transaction sees one snapshot and its own appends.
fn check_within(transaction: &Transaction) -> Result<(), Violation> {
    let mut seen: BTreeMap<Key, Vec<u64>> = BTreeMap::new();
    for step in &transaction.action {
        match step {
            Step::Read(key, list) => match seen.get(key) {
                Some(expected) if expected != list => {
                    return wrong(Anomaly::Internal, format!("{step:?} in {transaction:?}"));
                }
                Some(_) => {}
                None => drop(seen.insert(*key, list.clone())),
            },
            Step::Append(key, value) => {
                // Without a read, the earlier contents are unknown.
                if let Some(list) = seen.get_mut(key) {
                    list.push(*value);
                }
            }
        }
    }
    Ok(())
}

/// Checks that a final list contains each value once, and whole transactions.
fn check_whole(
    key: Key,
    list: &[u64],
    last: &BTreeMap<Key, Vec<u64>>,
    writers: &Writers,
    history: &[Transaction],
) -> Result<(), Violation> {
    let distinct: BTreeSet<&u64> = list.iter().collect();
    if distinct.len() < list.len() {
        return wrong(Anomaly::IncompatibleOrder, format!("list {key} has values twice: {list:?}"));
    }
    for value in list {
        let Some(writer) = writers.of.get(&(key, *value)) else {
            return wrong(Anomaly::G1a, format!("list {key} has {value}, which nobody wrote"));
        };
        let transaction = &history[*writer];
        for (other, appended) in appends(transaction) {
            if !last.get(&other).is_some_and(|list| list.contains(&appended)) {
                let what = format!("list {other} lacks {appended} of {transaction:?}");
                return wrong(Anomaly::Lost, what);
            }
        }
    }
    Ok(())
}

fn check_read(
    reader: &Transaction,
    key: Key,
    list: &[u64],
    last: &BTreeMap<Key, Vec<u64>>,
    writers: &Writers,
    history: &[Transaction],
) -> Result<(), Violation> {
    let whole = last.get(&key).map_or(&[][..], Vec::as_slice);
    let saw = || format!("list {key} as {list:?} in {reader:?}");
    for value in list {
        if !writers.of.contains_key(&(key, *value)) {
            return wrong(Anomaly::G1a, format!("{value} was never committed; {}", saw()));
        }
    }
    if !whole.starts_with(list) {
        return wrong(Anomaly::IncompatibleOrder, format!("{}, at the end {whole:?}", saw()));
    }
    match list.last() {
        Some(value) if !writers.last.contains(&(key, *value)) => {
            let writer = &history[writers.of[&(key, *value)]];
            wrong(Anomaly::G1b, format!("{}; it is half of {writer:?}", saw()))
        }
        _ => Ok(()),
    }
}

fn check_nothing_is_lost(
    history: &[Transaction],
    last: &BTreeMap<Key, Vec<u64>>,
) -> Result<(), Violation> {
    for transaction in history.iter().filter(|transaction| !transaction.is_in_doubt()) {
        for (key, value) in appends(transaction) {
            if !last.get(&key).is_some_and(|list| list.contains(&value)) {
                return wrong(
                    Anomaly::Lost,
                    format!("list {key} lacks {value} of {transaction:?}"),
                );
            }
        }
    }
    Ok(())
}

/// The dependencies between transactions that took place.
fn dependencies(
    history: &[Transaction],
    last: &BTreeMap<Key, Vec<u64>>,
    writers: &Writers,
) -> Graph {
    let happened = |transaction: &Transaction| {
        let is_there = |(key, value)| last.get(&key).is_some_and(|list| list.contains(&value));
        !transaction.is_in_doubt() || appends(transaction).any(is_there)
    };
    let mut graph = Graph::new(history.len());
    for (key, list) in last {
        for pair in list.windows(2) {
            let writer = |value| writers.of[&(*key, value)];
            graph.add(writer(pair[0]), writer(pair[1]), Edge::Write);
        }
    }
    let mut times = Vec::new();
    for (place, transaction) in history.iter().enumerate() {
        if !happened(transaction) {
            continue;
        }
        times.push((place, transaction.invoked, transaction.completed));
        for (key, read) in outside_reads(transaction) {
            if let Some(value) = read.last() {
                graph.add(writers.of[&(key, *value)], place, Edge::Read);
            }
            if let Some(value) = last.get(&key).and_then(|list| list.get(read.len())) {
                graph.add(place, writers.of[&(key, *value)], Edge::Miss);
            }
        }
    }
    graph.add_times(times);
    graph
}
