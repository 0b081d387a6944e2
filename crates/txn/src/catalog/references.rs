//! Foreign keys: the tables that refer to a table.

use std::collections::{BTreeMap, BTreeSet};

use thalweg_types::{ColumnId, Error, ForeignKey, Key, Result, SqlState, TableId, TableSchema};

use super::dependents::{Referenced, cannot_drop};
use super::{Catalog, Dependency, TableEntry, altered_meanwhile};

/// For each referenced table, the tables with foreign keys to it.
pub(super) type References = BTreeMap<TableId, BTreeSet<TableId>>;

impl Catalog {
    /// True if some table has a foreign key.
    #[must_use]
    pub fn has_foreign_keys(&self) -> bool {
        !self.references.is_empty()
    }

    /// True if a foreign key refers to the table.
    #[must_use]
    pub fn is_referenced(&self, table: TableId) -> bool {
        self.has_foreign_keys() && self.references.contains_key(&table)
    }

    /// The foreign keys that refer to a table, with their tables, ascending by table.
    pub fn references_to(
        &self,
        parent: TableId,
    ) -> impl Iterator<Item = (&TableEntry, &ForeignKey)> {
        let children = self.references.get(&parent).into_iter().flatten();
        children.filter_map(|id| self.table(*id)).flat_map(move |entry| {
            let keys = entry.schema.foreign_keys.iter();
            keys.filter(move |key| key.parent == parent).map(move |key| (entry, key))
        })
    }

    /// A table with a foreign key to `parent` that an earlier form of the catalog lacks.
    pub(crate) fn new_reference_to(
        &self,
        parent: TableId,
        earlier: &Catalog,
    ) -> Option<&TableEntry> {
        let mut keys = self.references_to(parent);
        let is_new = |(child, key): &(&TableEntry, &ForeignKey)| {
            let before = earlier.table(child.schema.id);
            !before.is_some_and(|before| has_reference(&before.schema, key))
        };
        keys.find(is_new).map(|(child, _)| child)
    }

    /// The tables to which a new or altered table refers by foreign keys that the catalog lacks.
    pub(crate) fn newly_referenced(&self, schema: &TableSchema) -> Vec<TableId> {
        let before = self.table(schema.id);
        let is_new =
            |key: &&ForeignKey| !before.is_some_and(|before| has_reference(&before.schema, key));
        schema.foreign_keys.iter().filter(is_new).map(|key| key.parent).collect()
    }

    pub(super) fn add_references(&mut self, schema: &TableSchema) {
        for key in &schema.foreign_keys {
            let references = std::sync::Arc::make_mut(&mut self.references);
            references.entry(key.parent).or_default().insert(schema.id);
        }
    }

    pub(super) fn forget_references(&mut self, schema: &TableSchema) {
        for key in &schema.foreign_keys {
            let references = std::sync::Arc::make_mut(&mut self.references);
            if let Some(children) = references.get_mut(&key.parent) {
                children.remove(&schema.id);
                if children.is_empty() {
                    references.remove(&key.parent);
                }
            }
        }
    }

    /// # Errors
    /// If a foreign key of the table refers to a key that another transaction has dropped.
    pub(super) fn check_references_of(&self, schema: &TableSchema) -> Result<()> {
        for key in &schema.foreign_keys {
            let parent = self.table(key.parent);
            let found = parent.and_then(|p| p.schema.key_of_columns(&key.parent_columns));
            if found.is_none() {
                return Err(altered_meanwhile(&schema.name));
            }
        }
        Ok(())
    }

    /// # Errors
    /// If foreign keys refer to a key that the table's new schema lacks.
    pub(super) fn refuse_lost_keys(&self, from: &TableSchema, to: &TableSchema) -> Result<()> {
        if !self.is_referenced(from.id) {
            return Ok(());
        }
        let lost = from.keys().filter(|key| to.key_of_columns(&key.columns).is_none());
        for key in lost {
            let object = |id| Referenced::Constraint(id, key.name.clone());
            let dependents = self.foreign_keys_over(from.id, &key.columns, to);
            let described = |(child, name): (TableId, String)| Dependency {
                dependent: self.describe_referenced(&Referenced::Constraint(child, name)),
                on: format!("index {}", key.name),
            };
            let dependents: Vec<Dependency> = dependents.into_iter().map(described).collect();
            cannot_drop(self, &[object(from.id)], &dependents)?;
        }
        Ok(())
    }

    /// The foreign keys that refer to these columns of a table, and that stay if the table gets the
    /// new schema: foreign keys of the table itself may go with it.
    #[must_use]
    pub fn foreign_keys_over(
        &self,
        table: TableId,
        columns: &[ColumnId],
        to: &TableSchema,
    ) -> Vec<(TableId, String)> {
        let is_over = |key: &ForeignKey| {
            key.parent_columns.len() == columns.len()
                && key.parent_columns.iter().all(|id| columns.contains(id))
        };
        let stays = |child: TableId, key: &ForeignKey| {
            child != to.id || to.foreign_keys.iter().any(|other| other.name == key.name)
        };
        let found = self.references_to(table);
        let found = found.filter(|(entry, key)| is_over(key) && stays(entry.schema.id, key));
        found.map(|(entry, key)| (entry.schema.id, key.name.clone())).collect()
    }

    /// The constraints of other tables, and of the table itself, that depend on a table or column.
    pub(super) fn foreign_keys_on(&self, object: &Referenced) -> Vec<Referenced> {
        let (table, column) = match object {
            Referenced::Table(id) => (*id, None),
            Referenced::Column(id, column) => (*id, Some(*column)),
            _ => return Vec::new(),
        };
        let depends = |child: TableId, key: &ForeignKey| match column {
            // The constraint goes with its own table.
            None => child != table,
            Some(column) => {
                let is_own = child == table && key.columns.contains(&column);
                key.parent_columns.contains(&column) && !is_own
            }
        };
        let found = self.references_to(table);
        let found = found.filter(|(entry, key)| depends(entry.schema.id, key));
        found
            .map(|(entry, key)| Referenced::Constraint(entry.schema.id, key.name.clone()))
            .collect()
    }
}

/// The error of a foreign key whose columns have no key in the referenced table.
#[must_use]
pub fn no_referenced_key(table: &str) -> Error {
    let message = format!(
        "there is no unique constraint matching given keys for referenced table \"{table}\""
    );
    Error::new(SqlState::INVALID_FOREIGN_KEY, message)
}

/// A foreign key whose columns are in the order of the referenced table's key.
#[derive(Clone, Debug)]
pub struct InKeyOrder {
    /// Position of the key among the referenced table's keys.
    pub number: usize,
    /// The referenced table's key.
    pub key: Key,
    /// The referring columns, one for each of the key's.
    pub columns: Vec<ColumnId>,
}

impl InKeyOrder {
    /// `None` if the referenced table has no such key any more.
    #[must_use]
    pub fn of(foreign_key: &ForeignKey, parent: &TableSchema) -> Option<InKeyOrder> {
        let (number, key) = parent.key_of_columns(&foreign_key.parent_columns)?;
        let columns = key.columns.iter().map(|column| foreign_key.column_for(*column));
        let columns = columns.collect::<Option<Vec<_>>>()?;
        Some(InKeyOrder { number, key: key.clone(), columns })
    }
}

/// True if a table has a foreign key of the same columns to the same key, of any name.
fn has_reference(schema: &TableSchema, key: &ForeignKey) -> bool {
    let is_same = |known: &ForeignKey| {
        (known.parent, &known.columns, &known.parent_columns)
            == (key.parent, &key.columns, &key.parent_columns)
    };
    schema.foreign_keys.iter().any(is_same)
}
