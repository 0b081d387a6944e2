//! Counters of auto-numbered columns.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};

use parking_lot::RwLock;
use thalweg_types::{ColumnId, TableSchema};

/// The counters of a table's auto-numbered columns, shared by all who number rows.
///
/// Numbers are handed out at once and for good: a transaction that rolls back leaves a gap.
#[derive(Default)]
pub struct Identities {
    next: RwLock<HashMap<ColumnId, AtomicI64>>,
}

impl Identities {
    /// Counters for the auto-numbered columns of a schema; those that exist go on.
    pub(crate) fn adopt(&self, schema: &TableSchema) {
        let mut next = self.next.write();
        for column in schema.columns.iter().filter(|column| column.identity.is_some()) {
            next.entry(column.id).or_insert_with(|| AtomicI64::new(1));
        }
    }

    /// Takes `count` numbers in a row and returns the first; `None` if the column has no counter.
    #[must_use]
    pub fn reserve(&self, column: ColumnId, count: u32) -> Option<i64> {
        let next = self.next.read();
        Some(next.get(&column)?.fetch_add(i64::from(count), Ordering::Relaxed))
    }

    /// Makes sure that the next number is at least `next`.
    pub fn raise(&self, column: ColumnId, next: i64) {
        if let Some(counter) = self.next.read().get(&column) {
            counter.fetch_max(next, Ordering::Relaxed);
        }
    }

    /// The number that comes next.
    #[must_use]
    pub fn next(&self, column: ColumnId) -> Option<i64> {
        Some(self.next.read().get(&column)?.load(Ordering::Relaxed))
    }
}
