//! The record API: rows written and looked up by their primary keys, without SQL.
//!
//! A [`Records`] belongs to one client: it knows the client's privileges, and finds tables. A
//! [`RecordBatcher`] gathers rows of any tables into one group, which is written as one while each
//! row succeeds or fails by itself.
//!
//! Promises: NULL constraints, checks, defaults, types and privileges apply as in SQL. A change of
//! a table or of its privileges takes effect with the next group.

mod batcher;
mod search;
mod table;

use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::sql::sqlparser::ast::{Ident, ObjectName};
use thalweg_txn::{Catalog, RoleId};
use thalweg_types::{Error, Lsn, Result, SqlState};

pub(crate) use batcher::with_failures;
pub use batcher::{RecordBatcher, RecordTarget, RecordWrite};
pub use search::Found;
pub(crate) use table::patch_of;
pub use table::{RecordChange, RecordTable};

use crate::database::Database;
use crate::privileges::{self, Rights};
use crate::statement::Target;
use crate::workers::KeyedWriter;
use table::Form;

/// A client's access to the rows of tables.
pub struct Records {
    database: Database,
    role: RoleId,
    /// The catalog's version when tables were looked up.
    version: Lsn,
    /// The writer, if the rows lie on workers.
    on_workers: Option<Box<dyn KeyedWriter>>,
}

impl Database {
    /// The record API with the privileges of a role.
    ///
    /// # Errors
    /// If there is no such role, or it may not log in here.
    pub fn records_as(&self, role: &str) -> Result<Records> {
        let snapshot = self.shared.engine.snapshot();
        let role = privileges::may_log_in(snapshot.catalog(), role)?;
        let version = snapshot.catalog().version();
        let on_workers = self.shared.cluster().writes.keyed_writer();
        Ok(Records { database: self.clone(), role, version, on_workers })
    }
}

impl Records {
    /// True if rows lie on workers. If a row then stops a stream, some of the rows after it may
    /// have been written.
    #[must_use]
    pub fn lie_on_workers(&self) -> bool {
        self.on_workers.is_some()
    }

    /// True if the catalog has changed since the last call, so that tables must be looked up again.
    pub fn must_look_again(&mut self) -> bool {
        let version = self.database.shared.engine.snapshot().catalog().version();
        std::mem::replace(&mut self.version, version) != version
    }

    /// Finds a table by `name` or `schema.name`. Rows have values for the named columns, or for
    /// all.
    ///
    /// # Errors
    /// If there is no such table or column, the table has no primary key, or the role has no
    /// privilege on it.
    pub fn table(&self, name: &str, columns: &[String]) -> Result<RecordTable> {
        let snapshot = self.database.shared.engine.snapshot();
        let target = find(snapshot.catalog(), name)?;
        let rights = Rights::new(Arc::clone(snapshot.catalog()), self.role);
        RecordTable::new(&self.database, &snapshot, &rights, target, columns, Form::Packed)
    }

    /// Finds a table by the exact names of its namespace and itself, which may have dots. Otherwise
    /// like [`Records::table`].
    ///
    /// # Errors
    /// As [`Records::table`].
    pub fn table_in(&self, namespace: &str, name: &str, columns: &[String]) -> Result<RecordTable> {
        let snapshot = self.database.shared.engine.snapshot();
        let parts = [namespace, name].map(|part| Ident::with_quote('"', part));
        let target = Target::find(snapshot.catalog(), &ObjectName::from(parts.to_vec()))?;
        let rights = Rights::new(Arc::clone(snapshot.catalog()), self.role);
        RecordTable::new(&self.database, &snapshot, &rights, target, columns, Form::Packed)
    }

    /// True if the database has a namespace of this name, even an empty one.
    #[must_use]
    pub fn has_namespace(&self, name: &str) -> bool {
        self.database.shared.engine.snapshot().catalog().has_namespace(name)
    }

    /// Finds a table for record batches, which have columns of the same names.
    ///
    /// # Errors
    /// As [`Records::table`].
    pub fn table_for(&self, name: &str, batches: &Schema) -> Result<RecordTable> {
        let snapshot = self.database.shared.engine.snapshot();
        let target = find(snapshot.catalog(), name)?;
        let rights = Rights::new(Arc::clone(snapshot.catalog()), self.role);
        let columns: Vec<String> =
            batches.fields().iter().map(|field| field.name().clone()).collect();
        if columns.is_empty() {
            let message = "rows without columns cannot be written";
            return Err(Error::new(SqlState::PROTOCOL_VIOLATION, message));
        }
        RecordTable::new(&self.database, &snapshot, &rights, target, &columns, Form::Arrow)
    }
}

fn find(catalog: &Catalog, name: &str) -> Result<Target> {
    if name.is_empty() {
        let message = "a table is announced without its name";
        return Err(Error::new(SqlState::PROTOCOL_VIOLATION, message));
    }
    let parts = name.split('.').map(|part| Ident::with_quote('"', part)).collect::<Vec<_>>();
    Target::find(catalog, &ObjectName::from(parts))
}
