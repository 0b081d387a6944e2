//! The bounded set of statements in the plan cache.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{CachedStatement, Key};

/// Greatest number of statements in the cache.
pub(super) const STATEMENTS_MAX: usize = 1024;

/// Evicts by the second-chance (CLOCK) policy: a use only sets a flag, and eviction passes over a
/// flagged statement once. So an insertion looks at few statements, however many there are.
#[derive(Default)]
pub(super) struct CachedStatements {
    entries: HashMap<Key, Arc<CachedStatement>>,
    /// Each statement once, in the order in which eviction looks at them.
    turns: VecDeque<Key>,
}

impl CachedStatements {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn find(&self, key: &Key) -> Option<Arc<CachedStatement>> {
        let entries = self.entries.get(key)?;
        entries.is_used.store(true, Ordering::Relaxed);
        Some(Arc::clone(entries))
    }

    /// The statement's plans; the statement is added if it is not in the cache.
    pub(super) fn keep(&mut self, key: Key) -> Arc<CachedStatement> {
        if let Some(entries) = self.find(&key) {
            return entries;
        }
        if self.entries.len() >= STATEMENTS_MAX {
            self.make_room();
        }
        self.turns.push_back(key.clone());
        Arc::clone(self.entries.entry(key).or_default())
    }

    /// Evicts the first statement in turn that was not used since eviction last looked at it.
    fn make_room(&mut self) {
        while let Some(key) = self.turns.pop_front() {
            let entries = self.entries.get(&key);
            if !entries.is_some_and(|entries| entries.is_used.swap(false, Ordering::Relaxed)) {
                self.entries.remove(&key);
                return;
            }
            self.turns.push_back(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use thalweg_txn::RoleId;

    use super::*;

    fn key(number: usize) -> Key {
        let sql: Arc<str> = format!("SELECT {number}").into();
        Key::new(&sql, &[], RoleId::BOOTSTRAP, None, None, None).unwrap()
    }

    #[test]
    fn what_is_asked_for_stays_and_the_rest_makes_room() {
        let mut statements = CachedStatements::default();
        let often = statements.keep(key(0));
        for number in 1..10_000 {
            statements.keep(key(number));
            let found = statements.find(&key(0)).expect("it was asked for each time");
            assert!(Arc::ptr_eq(&often, &found));
            assert!(statements.len() <= STATEMENTS_MAX);
            assert_eq!(statements.len(), statements.turns.len());
        }
        assert_eq!(statements.len(), STATEMENTS_MAX);
        assert!(statements.find(&key(1)).is_none() && statements.find(&key(9_999)).is_some());
    }

    #[test]
    fn where_all_were_asked_for_the_first_makes_room() {
        let mut statements = CachedStatements::default();
        for number in 0..STATEMENTS_MAX {
            statements.keep(key(number));
            statements.find(&key(number)).unwrap();
        }
        statements.keep(key(STATEMENTS_MAX));
        assert!(statements.find(&key(0)).is_none());
        assert_eq!(statements.len(), STATEMENTS_MAX);
    }
}
