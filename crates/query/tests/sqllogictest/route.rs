//! A way into a database. The same files of SQL are asked on each.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use sqllogictest::{AsyncDB, DefaultColumnType};
use thalweg_types::{Error, Part, Subject};

/// A database and how it is reached: embedded, or over a wire.
#[async_trait]
pub trait Route: Send + Sync + 'static {
    type Connection: AsyncDB<Error = Refusal, ColumnType = DefaultColumnType> + Send;

    /// A further session with the database.
    async fn connect(self: Arc<Self>) -> Result<Self::Connection, Refusal>;

    /// Closes the database and opens it again, unless something would be lost that only sessions
    /// hold: open transactions, settings, prepared statements.
    ///
    /// What a file expects is the same with and without this.
    async fn restart(&self) -> Result<(), Refusal>;
}

/// What the database refused, as files expect it: `22012: division by zero`, followed by
/// `DETAIL: …`, `HINT: …` and `ABOUT: schema.table column …` on the same line.
#[derive(Debug)]
pub struct Refusal(pub Error);

impl Refusal {
    pub fn state(&self) -> String {
        self.0.state().0.to_owned()
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        Refusal(error)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.state().0, self.0.message())?;
        if let Some(detail) = self.0.detail() {
            write!(f, " DETAIL: {detail}")?;
        }
        if let Some(hint) = self.0.hint() {
            write!(f, " HINT: {hint}")?;
        }
        if let Some(Subject { schema, table, part }) = self.0.subject() {
            let (kind, name) = match part {
                Part::Column(name) => ("column", name),
                Part::Constraint(name) => ("constraint", name),
            };
            write!(f, " ABOUT: {schema}.{table} {kind} {name}")?;
        }
        Ok(())
    }
}

impl StdError for Refusal {}
