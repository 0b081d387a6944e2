//! Rows that gateways write by key.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use parking_lot::Mutex;
use thalweg_formats::plain;
use thalweg_store::arrow_schema;
use thalweg_txn::{
    AcknowledgeRows, Durability, Failing, KeyedChange, KeyedRows, Patch, RowFailure, RowGroup,
    Snapshot, TableEntry, fingerprint,
};
use thalweg_types::{Error, Lsn, Result, SqlState, TableId, TableSchema};

use super::Shards;
use crate::database::Database;
use crate::records::{patch_of, with_failures};

/// Maximum number of column sets that are cached for one table.
const PATCHES_MAX: usize = 64;

/// A cache of the tables that rows are written to.
#[derive(Default)]
pub(super) struct WrittenTables(Mutex<HashMap<TableId, WrittenTable>>);

struct WrittenTable {
    version: Lsn,
    fingerprint: u64,
    /// The columns of whole rows, and those of the primary key.
    whole: SchemaRef,
    key: SchemaRef,
    /// The forms of updates and upserts of some columns, by the columns.
    patches: HashMap<Vec<usize>, Form>,
}

/// The form of the rows of a change.
#[derive(Clone)]
struct Form {
    schema: SchemaRef,
    patch: Option<Arc<Patch>>,
}

/// Rows of one table with the same kind of change, as a gateway sent them.
pub struct PackedRows {
    pub table: TableId,
    /// The fingerprint of the schema for which the rows were made.
    pub fingerprint: u64,
    /// The kind of change. The worker's database knows the checks of a patch.
    pub change: KeyedChange,
    /// In the format of [`plain`].
    pub rows: Bytes,
    /// The index of each row in its group; empty if these are all rows of the group, counted from
    /// 0.
    pub places: Vec<u32>,
    pub expected: Option<Vec<u64>>,
}

impl Shards {
    /// Writes the part of a group that this database owns, as a single node writes a whole group.
    pub fn write_rows(
        &self,
        rows: Vec<PackedRows>,
        failing: Failing,
        durability: Durability,
        acknowledge: AcknowledgeRows,
    ) {
        let snapshot = self.database.shared.engine.snapshot();
        let is_alone = rows.len() == 1;
        let (mut fitting, mut misfits) = (Vec::with_capacity(rows.len()), Vec::new());
        for mut rows in rows {
            let places = std::mem::take(&mut rows.places);
            // Without indexes, an error is reported for all rows at once.
            let is_numbered = places.is_empty() && is_alone;
            match self.fit(&snapshot, rows, (!is_numbered).then_some(places)) {
                Ok(rows) => fitting.push(rows),
                Err((_, error)) if is_numbered => {
                    return self.refuse(failing, durability, acknowledge, error);
                }
                Err((places, error)) => {
                    let failure = |place| RowFailure { place, error: error.clone() };
                    misfits.extend(places.into_iter().map(failure));
                }
            }
        }
        let stops = !matches!(failing, Failing::LeaveOut);
        if stops && !misfits.is_empty() {
            // The rows before them fail as well: the sender looks its tables up again.
            let error = misfits[0].error.clone();
            let places = fitting.iter().flat_map(|rows| rows.places.iter().copied());
            misfits.extend(places.map(|place| RowFailure { place, error: error.clone() }));
            fitting.clear();
        }
        let group = RowGroup { rows: fitting, failing, has_failed: stops && !misfits.is_empty() };
        let acknowledge = with_failures(misfits, acknowledge);
        self.database.shared.engine.write_rows(group, durability, acknowledge);
    }

    /// Refuses all rows of a group, in its turn.
    fn refuse(
        &self,
        failing: Failing,
        durability: Durability,
        acknowledge: AcknowledgeRows,
        error: Error,
    ) {
        let group = RowGroup { rows: Vec::new(), failing, has_failed: true };
        let on_failure = Box::new(move |_| acknowledge(Err(error)));
        self.database.shared.engine.write_rows(group, durability, on_failure);
    }

    /// Converts rows to the current schema of their table. Without indexes, rows are counted from
    /// 0.
    ///
    /// # Errors
    /// If they were made for another schema, or are invalid; with the indexes.
    fn fit(
        &self,
        snapshot: &Snapshot,
        packed: PackedRows,
        places: Option<Vec<u32>>,
    ) -> Result<KeyedRows, (Vec<u32>, Error)> {
        match self.unpack(snapshot, &packed, places.as_ref().map(Vec::len)) {
            Err(error) => Err((places.unwrap_or_default(), error)),
            Ok((version, patch, rows)) => Ok(KeyedRows {
                table: packed.table,
                version,
                change: match (packed.change, patch) {
                    (KeyedChange::Merge(_), Some(patch)) => KeyedChange::Merge(patch),
                    (_, Some(patch)) => KeyedChange::Patch(patch),
                    (change, None) => change,
                },
                places: places.unwrap_or_else(|| (0..rows.num_rows() as u32).collect()),
                rows,
                expected: packed.expected.map(|versions| self.row_handles.expected(versions)),
            }),
        }
    }

    fn unpack(
        &self,
        snapshot: &Snapshot,
        packed: &PackedRows,
        places: Option<usize>,
    ) -> Result<(Lsn, Option<Arc<Patch>>, RecordBatch)> {
        let entry = snapshot.catalog().table(packed.table).ok_or_else(altered)?;
        let (known, form) = self.known(snapshot, entry, &packed.change)?;
        if known != packed.fingerprint {
            return Err(altered());
        }
        let rows = plain::decode(&form.schema, &packed.rows)?;
        let count = rows.num_rows();
        let expected = packed.expected.as_ref().map_or(count, Vec::len);
        if places.unwrap_or(count) != count || expected != count {
            return Err(no_rows_of(&entry.schema));
        }
        Ok((entry.version, form.patch, rows))
    }

    /// The fingerprint of a table, and the form of the rows of a change.
    fn known(
        &self,
        snapshot: &Snapshot,
        entry: &TableEntry,
        change: &KeyedChange,
    ) -> Result<(u64, Form)> {
        let mut tables = self.written.0.lock();
        let table = match tables.entry(entry.schema.id) {
            Entry::Occupied(known) if known.get().version == entry.version => known.into_mut(),
            Entry::Occupied(mut old) => {
                old.insert(WrittenTable::new(entry)?);
                old.into_mut()
            }
            Entry::Vacant(vacant) => vacant.insert(WrittenTable::new(entry)?),
        };
        let form = match change {
            KeyedChange::Put(_) => Form { schema: Arc::clone(&table.whole), patch: None },
            KeyedChange::Remove => Form { schema: Arc::clone(&table.key), patch: None },
            KeyedChange::Patch(wanted) => {
                table.patched(&self.database, snapshot, entry, &wanted.columns)?
            }
            KeyedChange::Merge(wanted) => {
                let form = table.patched(&self.database, snapshot, entry, &wanted.columns)?;
                Form { schema: Arc::clone(&table.whole), ..form }
            }
        };
        Ok((table.fingerprint, form))
    }
}

/// The form of an update of some columns.
fn patch_form(
    database: &Database,
    snapshot: &Snapshot,
    entry: &TableEntry,
    columns: &[usize],
) -> Result<Form> {
    let table = &entry.schema;
    if columns.iter().any(|column| *column >= table.columns.len()) {
        return Err(altered());
    }
    let key = table.primary_key.as_ref().ok_or_else(|| no_rows_of(table))?;
    if table.key_positions(key).iter().any(|place| !columns.contains(place)) {
        return Err(no_rows_of(table));
    }
    let patch = patch_of(database, snapshot, table, columns)?;
    Ok(Form { schema: projected(&arrow_schema(table), columns)?, patch: Some(patch) })
}

impl WrittenTable {
    fn new(entry: &TableEntry) -> Result<WrittenTable> {
        let table = &entry.schema;
        let key = table.primary_key.as_ref().ok_or_else(|| no_rows_of(table))?;
        let whole = arrow_schema(table);
        Ok(WrittenTable {
            version: entry.version,
            fingerprint: fingerprint(table),
            key: projected(&whole, &table.key_positions(key))?,
            whole,
            patches: HashMap::new(),
        })
    }

    /// Like [`patch_form`], with a cache.
    fn patched(
        &mut self,
        database: &Database,
        snapshot: &Snapshot,
        entry: &TableEntry,
        columns: &[usize],
    ) -> Result<Form> {
        if let Some(known) = self.patches.get(columns) {
            return Ok(known.clone());
        }
        let patch = patch_form(database, snapshot, entry, columns)?;
        if self.patches.len() >= PATCHES_MAX {
            self.patches.clear();
        }
        self.patches.insert(columns.to_vec(), patch.clone());
        Ok(patch)
    }
}

fn projected(schema: &SchemaRef, columns: &[usize]) -> Result<SchemaRef> {
    let misfit = |error| Error::internal("a table has no such columns").with_source(error);
    schema.project(columns).map(Arc::new).map_err(misfit)
}

fn no_rows_of(table: &TableSchema) -> Error {
    let message = format!("these are no rows of table \"{}\"", table.name);
    Error::new(SqlState::PROTOCOL_VIOLATION, message)
}

fn altered() -> Error {
    let message = "the table was altered while rows were written to it";
    Error::new(SqlState::SERIALIZATION_FAILURE, message).with_hint("Send the rows again.")
}
