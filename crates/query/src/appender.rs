//! Bulk writes of record batches from a program: all rows or none.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use datafusion::sql::sqlparser::ast::{Ident, ObjectName};
use thalweg_txn::{Privilege, RoleId, Transaction};
use thalweg_types::{Error, Result, SqlState};

use crate::database::Database;
use crate::loader::Loader;
use crate::privileges::Rights;
use crate::sequences::OutsideSessions;
use crate::statement::{Shaper, Target};

/// Adds rows to one table. They appear together when [`finish`](Appender::finish) is called;
/// dropping the appender instead adds nothing.
pub struct Appender {
    database: Database,
    role: RoleId,
    transaction: Transaction,
    target: Target,
    /// Made for the first batch's columns.
    shaper: Option<(arrow::datatypes::SchemaRef, Shaper)>,
    loader: Loader,
}

impl Appender {
    pub(crate) fn new(database: Database, role: RoleId, table: &str) -> Result<Appender> {
        database.shared.cluster().only_without(
            "appending to a table of a gateway",
            "Use INSERT, COPY or Flight SQL's ingestion.",
        )?;
        let transaction = Transaction::new(database.shared.engine.snapshot());
        let parts = table.split('.').map(|part| Ident::with_quote('"', part)).collect::<Vec<_>>();
        let target = Target::find(transaction.catalog(), &ObjectName::from(parts))?;
        let (namespace, name) = (&target.schema().namespace, &target.schema().name);
        let rights = Rights::new(Arc::clone(transaction.catalog()), role);
        rights.on_relation(namespace, name, Privilege::Insert)?;
        let loader = Loader::new(database.clone(), target.schema().clone());
        Ok(Appender { database, role, transaction, target, shaper: None, loader })
    }

    /// Adds rows. Columns are matched by name; those that are missing get their defaults.
    ///
    /// # Errors
    /// If a column is unknown, a value does not fit, or a constraint does not hold.
    pub fn append(&mut self, rows: &RecordBatch) -> Result<()> {
        if self.shaper.as_ref().is_none_or(|(schema, _)| *schema != rows.schema()) {
            let mut given = Vec::with_capacity(rows.num_columns());
            for field in rows.schema().fields() {
                given.push(self.target.position(field.name())?);
            }
            let counters = self.transaction.state(self.target.id())?.identities().clone();
            let planners = &self.database.shared.planners;
            let planner = planners.take()?;
            let mut state = planner.context.state();
            OutsideSessions::attach(&mut state, &self.database, self.role);
            let shaper = Shaper::new(&state, self.target.schema(), &given, counters);
            planners.give_back(planner);
            self.shaper = Some((rows.schema(), shaper?));
        }
        let (_, shaper) = self.shaper.as_ref().expect("made above");
        self.loader.push(shaper.shape(rows)?)
    }

    /// Commits all rows and returns how many there are.
    ///
    /// # Errors
    /// If a key is taken, the table was altered meanwhile, or the log failed: nothing was added.
    pub fn finish(mut self) -> Result<u64> {
        let rows = self.loader.finish().append_to(&mut self.transaction, self.target.id())?;
        let shared = &self.database.shared;
        let write_set = self.transaction.into_write_set()?;
        if write_set.is_empty() {
            return Ok(0);
        }
        let committed = shared.engine.commit_and_wait(write_set, shared.durability);
        committed.map(|_| rows).map_err(|error| match error.state() {
            SqlState::SERIALIZATION_FAILURE => {
                Error::new(error.state(), error.message()).with_hint("Append the rows again.")
            }
            _ => error,
        })
    }
}
