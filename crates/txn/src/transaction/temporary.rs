//! The changes of a transaction to temporary objects, which are committed apart from the others.

use std::collections::BTreeMap;

use thalweg_types::{Lsn, Result, TableId};

use super::foreign_keys::ConstraintModes;
use super::segments::Segments;
use super::{Changes, Transaction};
use crate::foreign_keys::KeptKeys;
use crate::write_set::WriteSet;

impl Transaction {
    /// True if it has changed temporary objects.
    #[must_use]
    pub fn changes_temporary(&self) -> bool {
        self.changes.tables.keys().any(|id| id.is_temporary())
            || self.changes.catalog_changes.iter().any(super::CatalogChange::is_temporary)
    }

    /// True if it has changed rows of the table, or the table.
    #[must_use]
    pub fn changes_table(&self, id: TableId) -> bool {
        self.changes.tables.contains_key(&id)
    }

    /// Removes and returns the changes to temporary objects, as a transaction of the engine that
    /// holds these; `None` if there are none.
    #[must_use]
    pub fn take_temporary(&mut self) -> Option<Transaction> {
        if !self.changes_temporary() {
            return None;
        }
        let (temporary, others): (Vec<_>, Vec<_>) = self
            .changes
            .catalog_changes
            .take()
            .into_iter()
            .partition(|change| change.is_temporary());
        self.changes.catalog_changes.extend(others);
        let mut catalog_changes = Segments::default();
        catalog_changes.extend(temporary);
        let tables = self.changes.tables.split_off(&TableId::FIRST_TEMPORARY);
        let own = self.changes.own.split_off(&TableId::FIRST_TEMPORARY);
        let (of_temporary, of_others): (Vec<_>, Vec<_>) =
            self.changes.kept_keys.take().into_iter().partition(KeptKeys::is_of_temporary);
        self.changes.kept_keys.extend(of_others);
        let mut kept_keys = Segments::default();
        kept_keys.extend(of_temporary);
        // No other session changes the rows that the transaction relied on.
        self.changes.relied_on.split_off(&TableId::FIRST_TEMPORARY);
        let changes = Changes {
            catalog: std::sync::Arc::clone(&self.changes.catalog),
            catalog_changes,
            kept_keys,
            own,
            relied_on: BTreeMap::new(),
            tables,
            removed: Segments::default(),
            modes: ConstraintModes::default(),
        };
        let (snapshot, owner, duplicate) = (self.snapshot.clone(), None, None);
        Some(Transaction { snapshot, changes, owner, duplicate })
    }

    /// The write set of a transaction of [`take_temporary`](Self::take_temporary).
    ///
    /// # Errors
    /// As [`into_write_set`](Self::into_write_set).
    pub fn into_temporary_write_set(self) -> Result<WriteSet> {
        let write_set = self.into_write_set()?;
        // The snapshot's number belongs to the database's engine. In the other engine no session
        // but this one has changed the tables, so that nothing in them is newer than the snapshot.
        Ok(WriteSet { snapshot: Lsn(u64::MAX), ..write_set })
    }
}
