//! A bounded set of statements.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::Key;

/// Greatest number of statements in the cache.
const STATEMENTS_MAX: usize = 1024;

/// Evicts by the second-chance (CLOCK) policy: a use only sets a flag, and eviction passes over a
/// flagged statement once. So an insertion looks at few statements, however many there are.
pub(crate) struct CachedStatements<T> {
    entries: HashMap<Key, Entry<T>>,
    /// Each statement once, in the order in which eviction looks at them.
    turns: VecDeque<Key>,
}

struct Entry<T> {
    statement: Arc<T>,
    /// True if the statement was used since eviction last looked at it.
    is_used: bool,
}

impl<T> Default for CachedStatements<T> {
    fn default() -> CachedStatements<T> {
        CachedStatements { entries: HashMap::new(), turns: VecDeque::new() }
    }
}

impl<T: Default> CachedStatements<T> {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn find(&mut self, key: &Key) -> Option<Arc<T>> {
        let entry = self.entries.get_mut(key)?;
        entry.is_used = true;
        Some(Arc::clone(&entry.statement))
    }

    /// The statement, which is added if it is not in the set.
    pub(crate) fn keep(&mut self, key: Key) -> Arc<T> {
        if let Some(found) = self.find(&key) {
            return found;
        }
        if self.entries.len() >= STATEMENTS_MAX {
            self.make_room();
        }
        self.turns.push_back(key.clone());
        let statement = Arc::new(T::default());
        self.entries.insert(key, Entry { statement: Arc::clone(&statement), is_used: false });
        statement
    }

    /// Evicts the first statement in turn that was not used since eviction last looked at it.
    fn make_room(&mut self) {
        while let Some(key) = self.turns.pop_front() {
            let entry = self.entries.get_mut(&key);
            if !entry.is_some_and(|entry| std::mem::take(&mut entry.is_used)) {
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
        let mut statements = CachedStatements::<()>::default();
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
        let mut statements = CachedStatements::<()>::default();
        for number in 0..STATEMENTS_MAX {
            statements.keep(key(number));
            statements.find(&key(number)).unwrap();
        }
        statements.keep(key(STATEMENTS_MAX));
        assert!(statements.find(&key(0)).is_none());
        assert_eq!(statements.len(), STATEMENTS_MAX);
    }
}
