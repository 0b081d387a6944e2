//! Counts the rows of a request, and lists those that were rejected.

use serde_json::{Value, json};
use thalweg_types::{Error, ErrorKind};

/// Rejected rows beyond these are counted, but not listed.
const LISTED_MAX: usize = 100;

#[derive(Debug, Default)]
pub(in crate::http) struct Report {
    /// Rows that are written, as durable as the database promises.
    pub(in crate::http) rows: u64,
    pub(in crate::http) rejected: u64,
    /// The first rejected rows with their numbers, in order.
    listed: Vec<(u64, Error)>,
    /// True if some row may succeed when it is sent again.
    is_transient: bool,
}

impl Report {
    pub(in crate::http) fn reject(&mut self, number: u64, error: Error) {
        self.rejected += 1;
        self.is_transient |= is_transient(&error);
        if self.listed.len() < LISTED_MAX {
            self.listed.push((number, error));
        }
    }

    /// Counts further rows that the last rejection is about.
    pub(in crate::http) fn reject_more(&mut self, rows: u64) {
        self.rejected += rows;
    }

    /// The first rejected row and its error. Rows of one group are reported together, so they are
    /// put in order first.
    pub(in crate::http) fn first(&mut self) -> Option<(u64, Error)> {
        self.listed.sort_by_key(|(number, _)| *number);
        self.listed.first().cloned()
    }

    /// True if some row failed for a reason outside the request, so that sending it again helps.
    pub(in crate::http) fn is_transient(&self) -> bool {
        self.is_transient
    }

    /// The rejected rows as JSON. `name` is the key of their numbers.
    pub(in crate::http) fn errors(&mut self, name: &str) -> Value {
        self.listed.sort_by_key(|(number, _)| *number);
        let errors = self.listed.iter().map(|(number, error)| {
            let mut fields = json!({ "sqlstate": error.state().0, "message": error.message() });
            fields[name] = json!(number);
            for (key, value) in [("detail", error.detail()), ("hint", error.hint())] {
                if let Some(value) = value {
                    fields[key] = json!(value);
                }
            }
            fields
        });
        Value::Array(errors.collect())
    }
}

fn is_transient(error: &Error) -> bool {
    match error.kind() {
        ErrorKind::Conflict | ErrorKind::Unavailable | ErrorKind::OutOfResources => true,
        ErrorKind::InvalidRequest | ErrorKind::NotFound | ErrorKind::Corrupt => false,
    }
}

#[cfg(test)]
mod tests {
    use thalweg_types::SqlState;

    use super::*;

    #[test]
    fn rejected_rows_are_listed_in_order_and_counted_beyond_the_list() {
        let mut report = Report::default();
        for number in (1..=3).rev() {
            report.reject(number, Error::new(SqlState::CHECK_VIOLATION, "x").with_hint("y"));
        }
        assert_eq!(report.first().unwrap().0, 1);
        assert!(!report.is_transient());
        let listed = report.errors("line");
        assert_eq!(listed[0], json!({"line": 1, "sqlstate": "23514", "message": "x", "hint": "y"}));
        for number in 0..1_000 {
            report.reject(number, Error::new(SqlState::DISK_FULL, "full"));
        }
        assert_eq!(report.rejected, 1_003);
        assert_eq!(report.errors("row").as_array().unwrap().len(), LISTED_MAX);
        assert!(report.is_transient());
    }
}
