//! What the engine must show: plain maps, and the rules by which transactions conflict.

use std::collections::BTreeMap;

use thalweg_types::{Column, ColumnId, DataType, Key, SqlState, TableId, TableSchema};

use crate::{DEFAULT_NAMESPACE, RowLock};

/// A row without its key: a text that is unique, and numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub tag: Option<String>,
    pub numbers: Vec<Option<i64>>,
}

/// What a reader sees of a table: the names of its columns, and its rows by key.
pub type TableImage = (Vec<String>, BTreeMap<i64, Row>);

/// What a reader sees of a database.
pub type Image = BTreeMap<(TableId, String), TableImage>;

/// A row, and a number that no other version of any row has.
#[derive(Clone, Debug)]
pub struct Versioned {
    pub version: u64,
    pub row: Row,
}

#[derive(Clone, Debug)]
pub struct TableModel {
    pub schema: TableSchema,
    /// Changes with the schema.
    pub version: u64,
    /// Changes with the rows, too.
    pub changed: u64,
    pub rows: BTreeMap<i64, Versioned>,
}

/// A database.
#[derive(Clone, Debug, Default)]
pub struct Model {
    pub tables: BTreeMap<TableId, TableModel>,
}

/// All changes of one transaction.
#[derive(Clone, Default)]
pub struct Changes {
    /// Tables that must be as they were then.
    pub relied_on: BTreeMap<TableId, u64>,
    pub catalog: Vec<CatalogStep>,
    pub tables: BTreeMap<TableId, RowChanges>,
}

#[derive(Clone)]
pub enum CatalogStep {
    Create(TableSchema),
    /// The table's version that it was made for, and the value that an added column takes.
    Alter(TableSchema, Option<u64>, Option<i64>),
    Drop(TableId),
}

#[derive(Clone, Default)]
pub struct RowChanges {
    /// The table's version that the rows were made for; `None` if the transaction made it.
    pub seen: Option<u64>,
    pub truncated: bool,
    /// Keys and versions of rows of the snapshot.
    pub killed: Vec<(i64, u64)>,
    /// Keys and versions of rows of the snapshot that must be there still.
    pub locked: Vec<(i64, u64, RowLock)>,
    pub inserted: BTreeMap<i64, Versioned>,
}

/// `name (id bigint primary key, tag text unique, number_2 bigint)`.
pub fn schema(id: TableId, name: &str) -> TableSchema {
    let mut schema = TableSchema {
        id,
        namespace: DEFAULT_NAMESPACE.to_owned(),
        name: name.to_owned(),
        columns: Vec::new(),
        primary_key: Some(Key { name: format!("{name}_pkey"), columns: vec![ColumnId(0)] }),
        unique: vec![Key { name: format!("{name}_tag_key"), columns: vec![ColumnId(1)] }],
        checks: Vec::new(),
        indexes: Vec::new(),
        foreign_keys: Vec::new(),
        shard_key: Some(ColumnId(0)),
        next_column_id: 0,
    };
    add_column(&mut schema, "id", DataType::Int8);
    schema.columns[0].nullable = false;
    add_column(&mut schema, "tag", DataType::Text { max_chars: None });
    add_number(&mut schema);
    schema
}

pub fn add_number(schema: &mut TableSchema) {
    add_column(schema, &format!("number_{}", schema.next_column_id), DataType::Int8);
}

fn add_column(schema: &mut TableSchema, name: &str, data_type: DataType) {
    schema.columns.push(Column {
        id: ColumnId(schema.next_column_id),
        name: name.to_owned(),
        data_type,
        nullable: true,
        default: None,
        identity: None,
        second_digits: None,
    });
    schema.next_column_id += 1;
}

impl Model {
    pub fn image(&self) -> Image {
        let name = |id: &TableId, table: &TableModel| (*id, table.schema.name.clone());
        self.tables.iter().map(|(id, table)| (name(id, table), table.image())).collect()
    }

    /// The database after a transaction, or how the transaction fails. `stamp` is new.
    pub fn after(&self, changes: &Changes, stamp: u64) -> Result<Model, SqlState> {
        let moved = |(id, seen): (&TableId, &u64)| {
            self.tables.get(id).is_some_and(|table| table.changed != *seen)
        };
        if changes.relied_on.iter().any(moved) {
            return Err(SqlState::SERIALIZATION_FAILURE);
        }
        let mut next = self.clone();
        for step in &changes.catalog {
            next.catalog_step(step, stamp)?;
        }
        for (id, changes) in &changes.tables {
            let table = next.tables.get_mut(id).ok_or(SqlState::SERIALIZATION_FAILURE)?;
            table.change_rows(changes, stamp)?;
        }
        Ok(next)
    }

    pub fn catalog_step(&mut self, step: &CatalogStep, stamp: u64) -> Result<(), SqlState> {
        match step {
            CatalogStep::Create(schema) => {
                if self.tables.values().any(|table| table.schema.name == schema.name) {
                    return Err(SqlState::DUPLICATE_TABLE);
                }
                let (schema, rows) = (schema.clone(), BTreeMap::new());
                let table = TableModel { version: stamp, changed: stamp, schema, rows };
                self.tables.insert(table.schema.id, table);
            }
            CatalogStep::Alter(schema, expected, added) => {
                let table = self.tables.get_mut(&schema.id).ok_or(SqlState::UNDEFINED_TABLE)?;
                if expected.is_some_and(|expected| expected != table.version) {
                    return Err(SqlState::SERIALIZATION_FAILURE);
                }
                let grows = schema.columns.len() > table.schema.columns.len();
                for row in table.rows.values_mut() {
                    if grows {
                        row.row.numbers.push(*added);
                    } else {
                        row.row.numbers.pop();
                    }
                }
                table.schema = schema.clone();
                (table.version, table.changed) = (stamp, stamp);
            }
            CatalogStep::Drop(id) => {
                self.tables.remove(id).ok_or(SqlState::SERIALIZATION_FAILURE)?;
            }
        }
        Ok(())
    }
}

impl TableModel {
    pub fn image(&self) -> TableImage {
        let names = self.schema.columns.iter().map(|column| column.name.clone()).collect();
        (names, self.rows.iter().map(|(key, row)| (*key, row.row.clone())).collect())
    }

    pub fn has_tag(&self, tag: &str) -> bool {
        self.rows.values().any(|row| row.row.tag.as_deref() == Some(tag))
    }

    fn change_rows(&mut self, changes: &RowChanges, stamp: u64) -> Result<(), SqlState> {
        let is_there = |(key, version, _): &(i64, u64, RowLock)| {
            self.rows.get(key).is_some_and(|row| row.version == *version)
        };
        if changes.seen.is_some_and(|seen| seen != self.version)
            || !changes.locked.iter().all(is_there)
        {
            return Err(SqlState::SERIALIZATION_FAILURE);
        }
        let killed = |key| changes.killed.iter().any(|(killed, _)| killed == key);
        for (key, _, lock) in &changes.locked {
            if *lock == RowLock::Update && !killed(key) {
                // Whoever saw the row before has lost it.
                self.rows.get_mut(key).expect("a locked row is there").version = stamp;
                self.changed = stamp;
            }
        }
        if changes.truncated || !changes.killed.is_empty() || !changes.inserted.is_empty() {
            self.changed = stamp;
        }
        if changes.truncated {
            self.rows.clear();
        }
        for (key, version) in &changes.killed {
            match self.rows.get(key) {
                Some(row) if row.version == *version => self.rows.remove(key),
                _ => return Err(SqlState::SERIALIZATION_FAILURE),
            };
        }
        for (key, row) in &changes.inserted {
            let tag_taken = row.row.tag.as_deref().is_some_and(|tag| self.has_tag(tag));
            if tag_taken || self.rows.insert(*key, row.clone()).is_some() {
                return Err(SqlState::UNIQUE_VIOLATION);
            }
        }
        Ok(())
    }
}
