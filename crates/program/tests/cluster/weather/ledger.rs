//! What writers know of what they wrote, and what follows from that for all that is read.
//!
//! A statement over several workers happens whole or not at all on each of them, and a statement
//! that reads has one snapshot of each: so it is a batch's *part*, its rows of one worker, that is
//! whole or absent, in each answer.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use thalweg_types::bucket_of;

/// Rows of a batch, which is one statement's.
pub const ROWS: i64 = 16;

/// What became of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Acknowledged.
    There,
    /// Under way, or nobody knows.
    Perhaps,
    /// It failed for sure, or must fail.
    Never,
}

/// From what was acknowledged to what may have happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    pub least: i64,
    pub most: i64,
}

impl Span {
    pub fn only(number: i64) -> Span {
        Span { least: number, most: number }
    }

    pub fn has(self, number: i64) -> bool {
        (self.least..=self.most).contains(&number)
    }
}

#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// By their numbers.
    pub batches: BTreeMap<i64, Fate>,
    /// The last value of each writer's registers.
    pub rounds: BTreeMap<i64, Span>,
    /// How much each writer has moved from one of its accounts to the other.
    pub moves: BTreeMap<i64, Span>,
}

impl Ledger {
    /// Rows of batches that are there for sure, and those that may be.
    pub fn rows(&self) -> Span {
        let count = |wanted: fn(&Fate) -> bool| {
            self.batches.values().filter(|fate| wanted(fate)).count() as i64 * ROWS
        };
        Span { least: count(|fate| *fate == Fate::There), most: count(|fate| *fate != Fate::Never) }
    }
}

/// A ledger that all writers and readers have.
#[derive(Clone, Default)]
pub struct Shared(Arc<Mutex<Ledger>>);

impl Shared {
    pub fn now(&self) -> Ledger {
        self.with(|ledger| ledger.clone())
    }

    /// One that panicked has told so already.
    pub fn with<R>(&self, does: impl FnOnce(&mut Ledger) -> R) -> R {
        does(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Keys of a batch.
pub fn keys(batch: i64) -> Range<i64> {
    batch * ROWS..(batch + 1) * ROWS
}

/// Which worker has which bucket.
pub struct Owners(pub Vec<String>);

impl Owners {
    pub fn of(&self, key: i64) -> &str {
        &self.0[usize::from(bucket_of(&key.to_le_bytes()).0)]
    }
}

/// Whether these keys may be what a statement found that ran between two moments.
///
/// # Errors
/// What is wrong with them.
pub fn judge(
    before: &Ledger,
    after: &Ledger,
    owners: &Owners,
    mut found: Vec<i64>,
) -> Result<(), String> {
    found.sort_unstable();
    if let Some(twice) = found.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(format!("row {} was seen twice", twice[0]));
    }
    let mut batches: BTreeMap<i64, BTreeSet<i64>> = BTreeMap::new();
    for key in found {
        batches.entry(key.div_euclid(ROWS)).or_default().insert(key);
    }
    for (batch, rows) in &batches {
        match after.batches.get(batch) {
            Some(Fate::There | Fate::Perhaps) => whole_parts(*batch, rows, owners)?,
            fate => return Err(format!("batch {batch} is there, which is {fate:?}: {rows:?}")),
        }
    }
    for (batch, fate) in &before.batches {
        let rows = batches.get(batch).map_or(0, BTreeSet::len);
        if *fate == Fate::There && rows as i64 != ROWS {
            return Err(format!("of batch {batch}, which was acknowledged, {rows} rows are there"));
        }
    }
    Ok(())
}

fn whole_parts(batch: i64, rows: &BTreeSet<i64>, owners: &Owners) -> Result<(), String> {
    for key in keys(batch) {
        let owner = owners.of(key);
        let other = rows.iter().find(|other| owners.of(**other) == owner);
        if let (false, Some(other)) = (rows.contains(&key), other) {
            return Err(format!(
                "of batch {batch}, worker {owner} shows row {other} and not row {key}: {rows:?}"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owners() -> Owners {
        Owners((0..16_384).map(|bucket| (bucket % 4).to_string()).collect())
    }

    fn ledger(fates: &[(i64, Fate)]) -> Ledger {
        Ledger { batches: fates.iter().copied().collect(), ..Ledger::default() }
    }

    fn is_right(before: &[(i64, Fate)], after: &[(i64, Fate)], found: Vec<i64>) -> bool {
        judge(&ledger(before), &ledger(after), &owners(), found).is_ok()
    }

    const NOTHING: &[(i64, Fate)] = &[];
    const THERE: &[(i64, Fate)] = &[(1, Fate::There)];
    const PERHAPS: &[(i64, Fate)] = &[(1, Fate::Perhaps)];
    const NEVER: &[(i64, Fate)] = &[(1, Fate::Never)];

    #[test]
    fn what_may_be_is_right() {
        assert!(is_right(THERE, THERE, keys(1).collect()));
        for before in [NOTHING, PERHAPS] {
            assert!(is_right(before, THERE, keys(1).collect()));
            assert!(is_right(before, THERE, vec![]));
            assert!(is_right(before, PERHAPS, vec![]));
        }
        assert!(is_right(NEVER, NEVER, vec![]));
        let owners = owners();
        let part = keys(1).filter(|key| owners.of(*key) == owners.of(ROWS));
        assert!(is_right(PERHAPS, PERHAPS, part.collect()));
    }

    #[test]
    fn what_may_not_be_is_told() {
        let all = || keys(1).collect::<Vec<_>>();
        assert!(!is_right(THERE, THERE, vec![]), "a lost batch");
        assert!(!is_right(THERE, THERE, keys(1).skip(1).collect()), "a lost row");
        assert!(!is_right(PERHAPS, PERHAPS, keys(1).skip(1).collect()), "half of a part");
        assert!(!is_right(THERE, THERE, [all(), vec![ROWS]].concat()), "a row twice");
        assert!(!is_right(NEVER, NEVER, all()), "what was refused");
        assert!(!is_right(NOTHING, NOTHING, all()), "what nobody wrote");
    }

    #[test]
    fn rows_are_counted_by_their_fates() {
        let fates = [(1, Fate::There), (2, Fate::Perhaps), (3, Fate::Never)];
        assert_eq!(ledger(&fates).rows(), Span { least: ROWS, most: 2 * ROWS });
        assert!(ledger(&fates).rows().has(ROWS) && !ledger(&fates).rows().has(ROWS - 1));
    }
}
