//! Rows that gateways write by their keys.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::DataType;
use parking_lot::Mutex;
use thalweg_store::arrow_schema;
use thalweg_txn::{
    AcknowledgeRows, Durability, Failing, KeyedChange, KeyedRows, Patch, RowFailure, RowGroup,
    Snapshot, TableEntry,
};
use thalweg_types::{Error, Lsn, Result, SqlState, TableId, TableSchema};

use super::Shards;
use crate::records::{patch_of, with_failures};
use crate::workers::fingerprint;

/// So many sets of columns are kept for one table.
const PATCHES_MAX: usize = 64;

/// What is known of tables that rows are written to.
#[derive(Default)]
pub(super) struct WrittenTables(Mutex<HashMap<TableId, WrittenTable>>);

struct WrittenTable {
    version: Lsn,
    fingerprint: u64,
    /// What updates of some columns change and check, by the columns.
    patches: HashMap<Vec<usize>, Arc<Patch>>,
}

impl Shards {
    /// Writes the part of a group that this database owns, as one machine writes a whole one. With
    /// the rows of each table comes the fingerprint of the schema that they were made for.
    pub fn write_rows(
        &self,
        rows: Vec<(u64, KeyedRows)>,
        failing: Failing,
        durability: Durability,
        acknowledge: AcknowledgeRows,
    ) {
        let snapshot = self.database.shared.engine.snapshot();
        let (mut fitting, mut misfits) = (Vec::with_capacity(rows.len()), Vec::new());
        for (fingerprint, mut rows) in rows {
            match self.fit(&snapshot, fingerprint, &mut rows) {
                Ok(()) => fitting.push(rows),
                Err(error) => {
                    let failure = |place| RowFailure { place, error: error.clone() };
                    misfits.extend(rows.places.into_iter().map(failure));
                }
            }
        }
        let stops = !matches!(failing, Failing::LeaveOut);
        if stops && !misfits.is_empty() {
            // Rows ahead of them fail as well: whoever is told looks at the tables again.
            let error = misfits[0].error.clone();
            let places = fitting.iter().flat_map(|rows| rows.places.iter().copied());
            misfits.extend(places.map(|place| RowFailure { place, error: error.clone() }));
            fitting.clear();
        }
        let group = RowGroup { rows: fitting, failing, has_failed: stops && !misfits.is_empty() };
        let acknowledge = with_failures(misfits, acknowledge);
        self.database.shared.engine.write_rows(group, durability, acknowledge);
    }

    /// Makes rows fit their table as it is here.
    ///
    /// # Errors
    /// Where they were made for another one.
    fn fit(&self, snapshot: &Snapshot, wanted: u64, rows: &mut KeyedRows) -> Result<()> {
        let entry = snapshot.catalog().table(rows.table).ok_or_else(altered)?;
        let columns = match &rows.change {
            KeyedChange::Patch(patch) => Some(patch.columns.clone()),
            KeyedChange::Put(_) | KeyedChange::Remove => None,
        };
        let (known, patch) = self.known(snapshot, entry, columns)?;
        if known != wanted {
            return Err(altered());
        }
        if !has_types_of(&entry.schema, rows) {
            let message = format!("these are no rows of table \"{}\"", entry.schema.name);
            return Err(Error::new(SqlState::PROTOCOL_VIOLATION, message));
        }
        rows.version = entry.version;
        if let Some(patch) = patch {
            rows.change = KeyedChange::Patch(patch);
        }
        Ok(())
    }

    /// The fingerprint of a table, and what a patch of some columns is.
    fn known(
        &self,
        snapshot: &Snapshot,
        entry: &TableEntry,
        columns: Option<Vec<usize>>,
    ) -> Result<(u64, Option<Arc<Patch>>)> {
        let mut tables = self.written.0.lock();
        let table = tables.entry(entry.schema.id).or_insert_with(|| WrittenTable::new(entry));
        if table.version != entry.version {
            *table = WrittenTable::new(entry);
        }
        let Some(columns) = columns else { return Ok((table.fingerprint, None)) };
        if let Some(patch) = table.patches.get(&columns) {
            return Ok((table.fingerprint, Some(Arc::clone(patch))));
        }
        let count = entry.schema.columns.len();
        if columns.iter().any(|column| *column >= count) {
            return Err(altered());
        }
        let patch = patch_of(&self.database, snapshot, &entry.schema, &columns)?;
        if table.patches.len() >= PATCHES_MAX {
            table.patches.clear();
        }
        table.patches.insert(columns, Arc::clone(&patch));
        Ok((table.fingerprint, Some(patch)))
    }
}

impl WrittenTable {
    fn new(entry: &TableEntry) -> WrittenTable {
        let fingerprint = fingerprint(&entry.schema);
        WrittenTable { version: entry.version, fingerprint, patches: HashMap::new() }
    }
}

/// Whether rows have the columns that their change needs, and all that comes with each row.
fn has_types_of(table: &TableSchema, rows: &KeyedRows) -> bool {
    let Some(key) = &table.primary_key else { return false };
    let key = table.key_positions(key);
    let places: Vec<usize> = match &rows.change {
        KeyedChange::Put(_) => (0..table.columns.len()).collect(),
        KeyedChange::Patch(patch) => patch.columns.clone(),
        KeyedChange::Remove => key.clone(),
    };
    let whole = arrow_schema(table);
    let wanted: Option<Vec<&DataType>> =
        places.iter().map(|place| Some(whole.fields().get(*place)?.data_type())).collect();
    let given: Vec<&DataType> =
        rows.rows.columns().iter().map(|column| column.data_type()).collect();
    let count = rows.rows.num_rows();
    key.iter().all(|place| places.contains(place))
        && wanted.is_some_and(|wanted| wanted == given)
        && rows.places.len() == count
        && rows.expected.as_ref().is_none_or(|expected| expected.len() == count)
}

fn altered() -> Error {
    let message = "the table was altered while rows were written to it";
    Error::new(SqlState::SERIALIZATION_FAILURE, message).with_hint("Send the rows again.")
}
