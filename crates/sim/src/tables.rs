//! The tables of a simulated database: `(key bigint primary key, value text)`.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, StringViewArray};
use arrow::datatypes::Int64Type;
use arrow::record_batch::RecordBatch;
use thalweg_store::{TableState, arrow_schema};
use thalweg_txn::{CatalogChange, DEFAULT_NAMESPACE, Durability, Engine, WriteSet};
use thalweg_types::{
    Column, ColumnId, DataType, Key, Result, RowId, SqlState, TableId, TableSchema,
};

/// Tables 1 and 2 have one key. In table 3 values are unique, too, which uses another path for
/// writes.
pub const TABLES: [TableId; 3] = [TableId(1), TableId(2), TableId(3)];

/// The schema of the table `t<id>`.
#[must_use]
pub fn schema(table: TableId) -> TableSchema {
    let column = |id, name: &str, data_type| Column {
        id: ColumnId(id),
        name: name.to_owned(),
        data_type,
        nullable: false,
        default: None,
        identity: None,
        second_digits: None,
    };
    let name = format!("t{}", table.0);
    let key = |suffix: &str, column| Key {
        name: format!("{name}_{suffix}"),
        columns: vec![ColumnId(column)],
    };
    TableSchema {
        id: table,
        namespace: DEFAULT_NAMESPACE.to_owned(),
        columns: vec![
            column(1, "key", DataType::Int8),
            column(2, "value", DataType::Text { max_chars: None }),
        ],
        primary_key: Some(key("pkey", 1)),
        unique: (table == TABLES[2]).then(|| key("value_key", 2)).into_iter().collect(),
        name,
        checks: Vec::new(),
        indexes: Vec::new(),
        foreign_keys: Vec::new(),
        shard_key: Some(ColumnId(1)),
        next_column_id: 3,
    }
}

/// Creates the missing tables.
///
/// # Errors
/// If the log fails.
pub fn create(engine: &Engine) -> Result<()> {
    for table in TABLES {
        let catalog = vec![CatalogChange::CreateTable { schema: schema(table) }];
        let write_set = WriteSet { catalog, ..WriteSet::default() };
        match engine.commit_and_wait(write_set, Durability::Fsync) {
            Err(error) if error.state() != SqlState::DUPLICATE_TABLE => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Rows as columns of the table.
#[must_use]
pub fn rows<'r>(table: TableId, rows: impl Iterator<Item = (i64, &'r str)>) -> RecordBatch {
    let (keys, values): (Vec<i64>, Vec<&str>) = rows.unzip();
    let values: StringViewArray = values.into_iter().map(Some).collect();
    let columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(keys)), Arc::new(values)];
    RecordBatch::try_new(arrow_schema(&schema(table)), columns).expect("columns of the table")
}

/// Keys in the form for removals.
#[must_use]
pub fn keys(keys: impl Iterator<Item = i64>) -> RecordBatch {
    let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(keys));
    RecordBatch::try_from_iter([("key", keys)]).expect("one column")
}

/// The row of a key, and its value.
#[must_use]
pub fn find(state: &TableState, key: i64) -> Option<(RowId, String)> {
    let column: ArrayRef = Arc::new(Int64Array::from(vec![key]));
    let primary = state.schema().primary_key.as_ref().expect("the tables have keys");
    let row = state.probe(primary, &[column])[0]?;
    let rows = state.rows_at(&[row]).expect("a row that was found is there");
    assert_eq!(rows.column(0).as_primitive::<Int64Type>().value(0), key, "another key's row");
    Some((row, rows.column(1).as_string_view().value(0).to_owned()))
}

/// All rows by key, found by a full scan.
#[must_use]
pub fn scan(state: &TableState) -> Vec<(i64, String)> {
    let mut rows = Vec::with_capacity(state.rows());
    for chunk in state.chunks() {
        let columns = chunk.columns(&[0, 1]);
        let (keys, values) = (columns[0].as_primitive::<Int64Type>(), columns[1].as_string_view());
        let live = chunk.live_mask();
        let live =
            (0..chunk.rows()).filter(|row| live.as_ref().is_none_or(|live| live.value(*row)));
        rows.extend(live.map(|row| (keys.value(row), values.value(row).to_owned())));
    }
    rows.sort_unstable();
    let twice = rows.windows(2).find(|pair| pair[0].0 == pair[1].0);
    assert_eq!(twice, None, "a key is there twice");
    rows
}
