//! Counters of auto-numbered columns.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};

use parking_lot::RwLock;
use thalweg_types::{ColumnId, TableSchema};

/// The counters of a table's auto-numbered columns, shared by all threads that insert rows.
///
/// Numbers are handed out at once and for good: a transaction that rolls back leaves a gap.
#[derive(Default)]
pub struct Identities {
    next: RwLock<HashMap<ColumnId, AtomicI64>>,
}

impl Identities {
    /// Adds counters for the auto-numbered columns of a schema; existing ones go on.
    pub(crate) fn adopt(&self, schema: &TableSchema) {
        let mut next = self.next.write();
        for column in schema.columns.iter().filter(|column| column.has_own_counter()) {
            next.entry(column.id).or_insert_with(|| AtomicI64::new(1));
        }
    }

    /// Reserves `count` consecutive numbers and returns the first; `None` if the column has no
    /// counter.
    #[must_use]
    pub fn reserve(&self, column: ColumnId, count: u32) -> Option<i64> {
        let next = self.next.read();
        Some(next.get(&column)?.fetch_add(i64::from(count), Ordering::Relaxed))
    }

    /// Raises the next number to at least `next`.
    pub fn raise(&self, column: ColumnId, next: i64) {
        if let Some(counter) = self.next.read().get(&column) {
            counter.fetch_max(next, Ordering::Relaxed);
        }
    }

    /// The next number, which stays unreserved; `None` if the column has no counter.
    #[must_use]
    pub fn next(&self, column: ColumnId) -> Option<i64> {
        Some(self.next.read().get(&column)?.load(Ordering::Relaxed))
    }
}
