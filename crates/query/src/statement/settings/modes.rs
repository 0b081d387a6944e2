//! Transaction modes, as set by `BEGIN`, `SET TRANSACTION` and the settings below.
//!
//! At `read committed`, the default, each statement of a block reads a new snapshot. At
//! `repeatable read` and `serializable` all statements read one snapshot. So two transactions that
//! read each other's writes may both commit, unless they lock the rows; a client that asks for
//! `serializable` gets a notice. `read uncommitted` is `read committed`, as in PostgreSQL. On a
//! gateway every transaction reads one snapshot.

use datafusion::sql::sqlparser::ast::{
    TransactionAccessMode, TransactionIsolationLevel, TransactionMode,
};
use thalweg_types::{Error, Result, SqlState};

/// The modes of one transaction, or the defaults for new ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Modes {
    pub(crate) isolation: &'static str,
    pub(crate) read_only: bool,
    /// Only stored: transactions do not wait for each other to begin.
    pub(crate) deferrable: bool,
}

/// PostgreSQL's levels.
pub(super) const LEVELS: [&str; 4] =
    ["read committed", "read uncommitted", "repeatable read", "serializable"];

const READ_COMMITTED: &str = "read committed";

impl Default for Modes {
    fn default() -> Modes {
        Modes { isolation: READ_COMMITTED, read_only: false, deferrable: false }
    }
}

impl Modes {
    /// These modes, with the changes of a statement.
    pub(crate) fn with(mut self, said: &[TransactionMode]) -> Result<Modes> {
        for mode in said {
            match mode {
                TransactionMode::AccessMode(access) => {
                    self.read_only = *access == TransactionAccessMode::ReadOnly;
                }
                TransactionMode::IsolationLevel(level) => self.isolation = name_of(*level)?,
            }
        }
        Ok(self)
    }

    /// True if each statement of a transaction reads a new snapshot.
    pub(crate) fn is_read_committed(self) -> bool {
        matches!(self.isolation, READ_COMMITTED | "read uncommitted")
    }

    /// These modes at READ COMMITTED.
    pub(crate) fn at_read_committed(self) -> Modes {
        Modes { isolation: READ_COMMITTED, ..self }
    }

    /// The value of a setting, by its name without `default_` or `transaction_`.
    pub(super) fn get(self, name: &str) -> Option<String> {
        let flag = |on: bool| if on { "on" } else { "off" };
        let value = match name {
            "isolation" => self.isolation,
            "read_only" => flag(self.read_only),
            "deferrable" => flag(self.deferrable),
            _ => return None,
        };
        Some(value.to_owned())
    }

    /// Returns false if the setting cannot have this value.
    pub(super) fn set(&mut self, name: &str, value: &str) -> bool {
        let level = || LEVELS.iter().find(|level| level.eq_ignore_ascii_case(value));
        match (name, flag(value)) {
            ("isolation", _) => match level() {
                Some(level) => self.isolation = level,
                None => return false,
            },
            ("read_only", Some(on)) => self.read_only = on,
            ("deferrable", Some(on)) => self.deferrable = on,
            _ => return false,
        }
        true
    }

    /// Checks that a transaction that has read its snapshot may change its modes.
    ///
    /// # Errors
    /// If it is too late for them.
    pub(crate) fn check_change(self, to: Modes) -> Result<()> {
        let message = if self.isolation != to.isolation {
            "SET TRANSACTION ISOLATION LEVEL must be called before any query"
        } else if self.read_only && !to.read_only {
            "transaction read-write mode must be set before any query"
        } else {
            return Ok(());
        };
        Err(Error::new(SqlState::ACTIVE_TRANSACTION, message))
    }
}

fn name_of(level: TransactionIsolationLevel) -> Result<&'static str> {
    Ok(match level {
        TransactionIsolationLevel::ReadUncommitted => "read uncommitted",
        TransactionIsolationLevel::ReadCommitted => "read committed",
        TransactionIsolationLevel::RepeatableRead => "repeatable read",
        TransactionIsolationLevel::Serializable => "serializable",
        TransactionIsolationLevel::Snapshot => {
            return Err(Error::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"SNAPSHOT\""));
        }
    })
}

/// A boolean as PostgreSQL's settings spell it.
fn flag(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "on" | "true" | "t" | "yes" | "y" | "1" => Some(true),
        "off" | "false" | "f" | "no" | "n" | "0" => Some(false),
        _ => None,
    }
}
