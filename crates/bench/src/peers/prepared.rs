//! PostgreSQL as the target of a load: rows by key through one prepared statement.

use std::ops::Range;

use thalweg_types::Result;

use super::Postgres;
use crate::account::{Account, OWNER_BYTES, SELECT, UPSERT, key};
use crate::load::postgres::{Prepared, select, sync, upsert};
use crate::load::{Line, Target};

/// A load of PostgreSQL that writes rows or looks them up.
pub struct PreparedRows<'a> {
    pub server: &'a Postgres,
    pub name: String,
    pub looks_up: bool,
    pub keys: u64,
    /// Number of statements before each `Sync`, and thus in one transaction.
    pub together: u64,
    pub lines: usize,
}

impl Target for PreparedRows<'_> {
    fn name(&self) -> &str {
        &self.name
    }

    fn process(&self) -> u32 {
        self.server.process()
    }

    fn connect(&self) -> Result<Line> {
        let sql = if self.looks_up { SELECT } else { UPSERT };
        Line::open(self.server.endpoint.port, Box::new(Prepared::new(sql)))
    }

    fn requests(&self, numbers: Range<u64>, out: &mut Vec<u8>) {
        for start in numbers.clone().step_by(self.together as usize) {
            for number in start..numbers.end.min(start + self.together) {
                match self.looks_up {
                    true => select(key(number, self.keys), out),
                    false => upsert(&Account::numbered(number, self.keys, OWNER_BYTES), out),
                }
            }
            sync(out);
        }
    }

    fn lines(&self) -> usize {
        self.lines
    }
}
