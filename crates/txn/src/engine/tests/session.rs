//! A transaction of the engine and the same transaction of the model, side by side.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, StringViewArray};
use arrow::datatypes::Int64Type;
use arrow::record_batch::RecordBatch;
use thalweg_store::{ClosedChunk, TableState, arrow_schema, codec};
use thalweg_types::{RowId, TableId, TableSchema};

use super::model::{CatalogStep, Changes, Image, Model, Row, RowChanges, TableImage, Versioned};
use crate::{CatalogChange, Engine, RowLock, Snapshot, Transaction};

/// What a check says: nothing, or what is wrong.
pub type Outcome<T = ()> = Result<T, String>;

pub fn check(holds: bool, what: impl FnOnce() -> String) -> Outcome {
    if holds { Ok(()) } else { Err(what()) }
}

#[derive(Clone)]
pub struct Session {
    pub transaction: Transaction,
    /// What the transaction sees.
    pub view: Model,
    pub changes: Changes,
    /// Tables whose schema this transaction made.
    own: BTreeSet<TableId>,
    /// When each table of the snapshot had been changed.
    changed: BTreeMap<TableId, u64>,
}

impl Session {
    pub fn new(snapshot: Snapshot, view: Model) -> Session {
        let changed = view.tables.iter().map(|(id, table)| (*id, table.changed)).collect();
        Session {
            transaction: Transaction::new(snapshot),
            view,
            changes: Changes::default(),
            own: BTreeSet::new(),
            changed,
        }
    }

    pub fn insert(&mut self, id: TableId, key: i64, row: Row, version: u64) {
        self.insert_all(id, &[(key, row)], version);
    }

    pub fn insert_all(&mut self, id: TableId, rows: &[(i64, Row)], version: u64) {
        let schema = &self.view.tables[&id].schema;
        self.transaction.append(id, batch(schema, rows)).unwrap();
        for (key, row) in rows {
            self.put(id, *key, Versioned { version, row: row.clone() });
        }
    }

    /// Rows that go to the log ahead of the commit.
    pub fn bulk(&mut self, engine: &Engine, id: TableId, rows: &[(i64, Row)], version: u64) {
        let schema = &self.view.tables[&id].schema;
        let chunk = Arc::new(ClosedChunk::build(schema, &batch(schema, rows)));
        let staged = engine.stage(chunk).unwrap();
        self.transaction.append_staged(id, staged).unwrap();
        assert!(self.transaction.has_staged());
        for (key, row) in rows {
            self.put(id, *key, Versioned { version, row: row.clone() });
        }
    }

    pub fn remove(&mut self, id: TableId, key: i64) -> Outcome {
        let state = self.transaction.state(id).unwrap();
        let row = probe(&state, key).ok_or_else(|| format!("key {key} is not found"))?;
        self.transaction.kill(id, &[row]).unwrap();
        let removed = self.table(id).rows.remove(&key).expect("a key of the view");
        let changes = self.row_changes(id);
        if changes.inserted.remove(&key).is_none() {
            changes.killed.push((key, removed.version));
        }
        Ok(())
    }

    pub fn lock(&mut self, id: TableId, key: i64, lock: RowLock) -> Outcome {
        let state = self.transaction.state(id).unwrap();
        let row = probe(&state, key).ok_or_else(|| format!("key {key} is not found"))?;
        self.transaction.lock(id, &[row], lock).unwrap();
        let version = self.view.tables[&id].rows[&key].version;
        let changes = self.row_changes(id);
        if !changes.inserted.contains_key(&key) {
            changes.locked.push((key, version, lock));
        }
        Ok(())
    }

    pub fn rely_on(&mut self, id: TableId) {
        self.transaction.rely_on(id);
        if let Some(changed) = self.changed.get(&id) {
            self.changes.relied_on.insert(id, *changed);
        }
    }

    pub fn truncate(&mut self, id: TableId) {
        self.transaction.truncate(id).unwrap();
        self.table(id).rows.clear();
        let changes = self.row_changes(id);
        changes.truncated = true;
        changes.killed.clear();
        changes.locked.clear();
        changes.inserted.clear();
    }

    pub fn create(&mut self, schema: TableSchema, stamp: u64) {
        let id = schema.id;
        let change = CatalogChange::CreateTable { schema: schema.clone() };
        self.transaction.change_catalog(change).unwrap();
        self.step(CatalogStep::Create(schema), stamp);
        self.own.insert(id);
    }

    /// Gives a table that the transaction has not written to another schema.
    pub fn alter(&mut self, schema: TableSchema, added: Option<i64>, stamp: u64) {
        let old = &self.view.tables[&schema.id];
        let expected = (!self.own.contains(&schema.id)).then_some(old.version);
        let id = schema.id;
        let encoded = added.map(|value| encoded_value(&schema, value));
        self.transaction
            .change_catalog(CatalogChange::AlterTable {
                schema: schema.clone(),
                added: encoded,
                expected: None,
            })
            .unwrap();
        self.step(CatalogStep::Alter(schema, expected, added), stamp);
        self.own.insert(id);
    }

    pub fn drop_table(&mut self, id: TableId, stamp: u64) {
        self.transaction.change_catalog(CatalogChange::DropTable { id }).unwrap();
        self.changes.tables.remove(&id);
        self.changes.relied_on.remove(&id);
        self.step(CatalogStep::Drop(id), stamp);
    }

    pub fn has_written_to(&self, id: TableId) -> bool {
        self.changes.tables.contains_key(&id)
    }

    /// The transaction sees what the model says.
    pub fn check(&mut self) -> Outcome {
        for (id, table) in &self.view.tables {
            let state = self.transaction.state(*id).unwrap();
            let seen = read(&state)?;
            check(seen == table.image(), || format!("a transaction sees {seen:?} in {table:?}"))?;
        }
        Ok(())
    }

    fn step(&mut self, step: CatalogStep, stamp: u64) {
        self.view.catalog_step(&step, stamp).expect("the caller knows the view");
        self.changes.catalog.push(step);
    }

    fn put(&mut self, id: TableId, key: i64, row: Versioned) {
        self.table(id).rows.insert(key, row.clone());
        self.row_changes(id).inserted.insert(key, row);
    }

    fn table(&mut self, id: TableId) -> &mut super::model::TableModel {
        self.view.tables.get_mut(&id).expect("a table of the view")
    }

    fn row_changes(&mut self, id: TableId) -> &mut RowChanges {
        let version = self.view.tables[&id].version;
        let seen = (!self.own.contains(&id)).then_some(version);
        self.changes
            .tables
            .entry(id)
            .or_insert_with(|| RowChanges { seen, ..RowChanges::default() })
    }
}

pub fn batch(schema: &TableSchema, rows: &[(i64, Row)]) -> RecordBatch {
    let ids = Int64Array::from_iter_values(rows.iter().map(|(key, _)| *key));
    let tags: StringViewArray = rows.iter().map(|(_, row)| row.tag.as_deref()).collect();
    let mut columns: Vec<ArrayRef> = vec![Arc::new(ids), Arc::new(tags)];
    for number in 0..schema.columns.len() - 2 {
        let values: Int64Array = rows.iter().map(|(_, row)| row.numbers[number]).collect();
        columns.push(Arc::new(values));
    }
    RecordBatch::try_new(arrow_schema(schema), columns).unwrap()
}

/// The value of a schema's last column, as an altering change carries it.
fn encoded_value(schema: &TableSchema, value: i64) -> Vec<u8> {
    let mut added = schema.clone();
    added.columns.drain(..schema.columns.len() - 1);
    let column: ArrayRef = Arc::new(Int64Array::from(vec![value]));
    codec::encode_batch(&RecordBatch::try_new(arrow_schema(&added), vec![column]).unwrap())
}

pub fn probe(state: &TableState, key: i64) -> Option<RowId> {
    let column: ArrayRef = Arc::new(Int64Array::from(vec![key]));
    state.probe(state.schema().primary_key.as_ref().unwrap(), &[column])[0]
}

/// All rows of a snapshot, read in both ways: by scan and by key.
pub fn image(snapshot: &Snapshot) -> Outcome<Image> {
    let mut image = Image::new();
    for entry in snapshot.catalog().tables() {
        let state = snapshot.table(entry.schema.id).ok_or("a table without rows")?;
        check(**state.schema() == *entry.schema, || "a schema that is not the catalog's".into())?;
        image.insert((entry.schema.id, entry.schema.name.clone()), read(state)?);
    }
    check(snapshot.tables().count() == image.len(), || "rows without a table".into())?;
    Ok(image)
}

pub fn read(state: &TableState) -> Outcome<TableImage> {
    let columns = state.schema().columns.len();
    let all: Vec<usize> = (0..columns).collect();
    let (mut rows, mut places) = (BTreeMap::new(), BTreeMap::new());
    for chunk in state.chunks() {
        let arrays = chunk.columns(&all);
        let (mask, ids) = (chunk.live_mask(), chunk.row_ids(0..chunk.rows()));
        let numbers: Vec<&Int64Array> =
            arrays[2..].iter().map(|array| array.as_primitive::<Int64Type>()).collect();
        for place in 0..chunk.rows() {
            if mask.as_ref().is_some_and(|mask| !mask.value(place)) {
                continue;
            }
            let key = arrays[0].as_primitive::<Int64Type>().value(place);
            let tag = arrays[1].is_valid(place);
            let tag = tag.then(|| arrays[1].as_string_view().value(place).to_owned());
            let number = |array: &&Int64Array| array.is_valid(place).then(|| array.value(place));
            let row = Row { tag, numbers: numbers.iter().map(number).collect() };
            let twice = rows.insert(key, row).is_some();
            check(!twice, || format!("the key {key} is there twice"))?;
            places.insert(key, RowId(ids.value(place)));
        }
    }
    check(rows.len() == state.rows(), || format!("{} rows, not {}", state.rows(), rows.len()))?;
    check_keys(state, &places)?;
    let names = state.schema().columns.iter().map(|column| column.name.clone()).collect();
    Ok((names, rows))
}

/// The index of the primary key names exactly the rows that a scan finds.
fn check_keys(state: &TableState, places: &BTreeMap<i64, RowId>) -> Outcome {
    let missing = [-1, places.last_key_value().map_or(0, |(key, _)| key + 1)];
    let wanted: Vec<i64> = places.keys().copied().chain(missing).collect();
    let column: ArrayRef = Arc::new(Int64Array::from(wanted.clone()));
    let found = state.probe(state.schema().primary_key.as_ref().unwrap(), &[column]);
    for (key, found) in wanted.iter().zip(found) {
        let expected = places.get(key).copied();
        check(found == expected, || format!("key {key} at {found:?}, not at {expected:?}"))?;
    }
    Ok(())
}
