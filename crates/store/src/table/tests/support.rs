//! A table of three columns, and ways to fill and to read it.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int32Array, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::{Int32Type, Int64Type};
use thalweg_types::{Column, ColumnId, DataType, Key, RowId, TableId, TableSchema};

use crate::{Effect, Table, TableState, arrow_schema};

pub fn column(id: u32, name: &str, data_type: DataType, nullable: bool) -> Column {
    Column {
        id: ColumnId(id),
        name: name.to_owned(),
        data_type,
        nullable,
        default: None,
        identity: None,
        second_digits: None,
    }
}

pub fn key(name: &str, columns: &[u32]) -> Key {
    Key { name: name.to_owned(), columns: columns.iter().map(|id| ColumnId(*id)).collect() }
}

/// `t (id bigint primary key, tag text unique, amount integer)`.
pub fn schema() -> TableSchema {
    TableSchema {
        id: TableId(1),
        namespace: "public".to_owned(),
        name: "t".to_owned(),
        columns: vec![
            column(1, "id", DataType::Int8, false),
            column(2, "tag", DataType::Text { max_chars: None }, true),
            column(3, "amount", DataType::Int4, true),
        ],
        primary_key: Some(key("t_pkey", &[1])),
        unique: vec![key("t_tag_key", &[2])],
        checks: Vec::new(),
        indexes: Vec::new(),
        foreign_keys: Vec::new(),
        shard_key: Some(ColumnId(1)),
        next_column_id: 4,
    }
}

pub type Row = (i64, Option<String>, Option<i32>);

pub fn row(id: i64, tag: &str, amount: i32) -> Row {
    (id, Some(tag.to_owned()), Some(amount))
}

pub fn batch(rows: &[Row]) -> RecordBatch {
    let ids = Int64Array::from_iter_values(rows.iter().map(|row| row.0));
    let tags: StringViewArray = rows.iter().map(|row| row.1.clone()).collect();
    let amounts: Int32Array = rows.iter().map(|row| row.2).collect();
    let columns: Vec<ArrayRef> = vec![Arc::new(ids), Arc::new(tags), Arc::new(amounts)];
    RecordBatch::try_new(arrow_schema(&schema()), columns).unwrap()
}

/// All live rows, with their ids, in the order of `id`.
pub fn read(state: &TableState) -> Vec<(RowId, Row)> {
    let mut rows = Vec::new();
    for chunk in state.chunks() {
        let columns = chunk.columns(&[0, 1, 2]);
        let mask = chunk.live_mask();
        let ids = chunk.row_ids(0..chunk.rows());
        for place in 0..chunk.rows() {
            if mask.as_ref().is_some_and(|mask| !mask.value(place)) {
                continue;
            }
            let valid = |column: usize| columns[column].is_valid(place);
            let id = columns[0].as_primitive::<Int64Type>().value(place);
            let tag = valid(1).then(|| columns[1].as_string_view().value(place).to_owned());
            let amount = valid(2).then(|| columns[2].as_primitive::<Int32Type>().value(place));
            rows.push((RowId(ids.value(place)), (id, tag, amount)));
        }
    }
    assert_eq!(rows.len(), state.rows());
    rows.sort_by_key(|(_, row)| row.0);
    rows
}

/// The rows alone.
pub fn rows(state: &TableState) -> Vec<Row> {
    read(state).into_iter().map(|(_, row)| row).collect()
}

/// Where the row with an id lies.
pub fn find(state: &TableState, id: i64) -> Option<RowId> {
    let column: ArrayRef = Arc::new(Int64Array::from(vec![id]));
    state.probe(state.schema().primary_key.as_ref().unwrap(), &[column])[0]
}

/// Where the rows of keys lie, which is the same for all keys at once and for each by itself.
pub fn probed(state: &TableState, key: &Key, columns: &[ArrayRef]) -> Vec<Option<RowId>> {
    let found = state.probe(key, columns);
    for (row, found) in found.iter().enumerate() {
        let alone: Vec<ArrayRef> = columns.iter().map(|column| column.slice(row, 1)).collect();
        assert_eq!(state.find(key, &alone), *found, "{alone:?}");
    }
    found
}

/// A table whose changes are published at once.
pub struct Published {
    pub table: Table,
    pub state: Arc<TableState>,
}

impl Published {
    pub fn new() -> Published {
        let (table, state) = Table::new(Arc::new(schema()));
        Published { table, state }
    }

    pub fn append(&mut self, rows: &[Row]) {
        let mut effect = Effect::new();
        self.table.append(&batch(rows), &mut effect).unwrap();
        effect.publish(&mut self.state);
    }

    /// Replaces rows by their id.
    pub fn upsert(&mut self, rows: &[Row]) {
        let mut effect = Effect::new();
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.0)));
        let key = self.state.schema().primary_key.clone().unwrap();
        let old: Vec<RowId> = self.state.probe(&key, &[ids]).into_iter().flatten().collect();
        self.table.kill(&old, &mut effect).unwrap();
        self.table.append(&batch(rows), &mut effect).unwrap();
        effect.publish(&mut self.state);
    }
}
