//! Measures checkpoints: `cargo run --release -p thalweg-txn --example checkpoints [ROWS] [DIR]`.
//!
//! Loads so many rows (10,000,000 by default), and writes a checkpoint. Then it replaces one row in
//! a hundred and writes another, adds a column and writes a third, and opens the database. Each
//! line has the bytes that were written and the seconds that it took.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray};
use thalweg_env::{Clock, Env, RealClock};
use thalweg_store::{ClosedChunk, arrow_schema, codec};
use thalweg_txn::{CatalogChange, DEFAULT_NAMESPACE, Durability, Engine, Options, Transaction};
use thalweg_types::{Column, ColumnId, DataType, Key, Result, RowId, TableId, TableSchema};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// One row in so many is replaced.
const STEP: usize = 100;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let rows = arguments.next().and_then(|rows| rows.parse().ok()).unwrap_or(10_000_000);
    let directory = arguments.next().map_or_else(|| "checkpoints".into(), PathBuf::from);
    let engine = Engine::open(Env::real(), options(&directory))?;
    let schema = schema(engine.allocate_table_id());
    load(&engine, &schema, rows)?;
    checkpoint(&engine, "all rows")?;
    replace(&engine, &schema)?;
    checkpoint(&engine, "1 % of the rows replaced")?;
    add_column(&engine, &schema)?;
    checkpoint(&engine, "a column added")?;
    engine.close()?;
    drop(engine);
    let clock = RealClock::new();
    let began = clock.monotonic();
    let engine = Engine::open(Env::real(), options(&directory))?;
    let seconds = (clock.monotonic() - began).as_secs_f64();
    let bytes = engine.checkpoints().last().map_or(0, |run| run.bytes);
    println!("opened: {:.1} MB in {seconds:.2} s", bytes as f64 / 1e6);
    engine.close()
}

fn options(path: &Path) -> Options {
    // No checkpoint but those asked for.
    Options { directory: Some(path.into()), checkpoint_bytes: u64::MAX, ..Options::default() }
}

/// `(id bigint primary key, symbol text, price bigint, size bigint)`
fn schema(id: TableId) -> TableSchema {
    let text = DataType::Text { max_chars: None };
    let columns = [
        ("id", DataType::Int8),
        ("symbol", text),
        ("price", DataType::Int8),
        ("size", DataType::Int8),
    ];
    let columns: Vec<Column> = (0..).zip(columns).map(column).collect();
    TableSchema {
        id,
        namespace: DEFAULT_NAMESPACE.to_owned(),
        name: "ticks".to_owned(),
        next_column_id: columns.len() as u32,
        columns,
        primary_key: Some(Key { name: "ticks_pkey".to_owned(), columns: vec![ColumnId(0)] }),
        unique: Vec::new(),
        checks: Vec::new(),
        indexes: Vec::new(),
        foreign_keys: Vec::new(),
        shard_key: Some(ColumnId(0)),
    }
}

fn column((id, (name, data_type)): (u32, (&str, DataType))) -> Column {
    Column {
        id: ColumnId(id),
        name: name.to_owned(),
        data_type,
        nullable: id > 0,
        default: None,
        identity: None,
        second_digits: None,
    }
}

/// Rows with the given keys. `salt` changes their other values.
fn batch(schema: &TableSchema, keys: &[i64], salt: u64) -> RecordBatch {
    let mixed = |key: &i64| (*key as u64 ^ salt).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
    let symbols: StringViewArray =
        keys.iter().map(|key| Some(format!("SYM{:04}", mixed(key) % 2_000))).collect();
    let number = |range: u64| -> ArrayRef {
        let values = keys.iter().map(|key| (mixed(key) / 7 % range) as i64);
        Arc::new(Int64Array::from_iter_values(values))
    };
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(keys.iter().copied())),
        Arc::new(symbols),
        number(10_000_000),
        number(10_000),
    ];
    RecordBatch::try_new(arrow_schema(schema), columns).expect("columns of the table")
}

fn load(engine: &Engine, schema: &TableSchema, rows: i64) -> Result<()> {
    let mut transaction = Transaction::new(engine.snapshot());
    transaction.change_catalog(CatalogChange::CreateTable { schema: schema.clone() })?;
    for first in (0..rows).step_by(RowId::CHUNK_ROWS) {
        let keys: Vec<i64> = (first..rows.min(first + RowId::CHUNK_ROWS as i64)).collect();
        let chunk = ClosedChunk::build(schema, &batch(schema, &keys, 0));
        transaction.append_staged(schema.id, engine.stage(Arc::new(chunk))?)?;
    }
    engine.commit_and_wait(transaction.into_write_set()?, Durability::Fsync)?;
    Ok(())
}

/// Replaces one row in a hundred of every chunk.
fn replace(engine: &Engine, schema: &TableSchema) -> Result<()> {
    let snapshot = engine.snapshot();
    let mut transaction = Transaction::new(snapshot.clone());
    let state = snapshot.table(schema.id).expect("the table was loaded");
    let rows = state.chunks().flat_map(|chunk| {
        let number = chunk.number();
        let places = (number as usize % STEP..chunk.rows()).step_by(STEP);
        places.map(move |place| RowId::new(number, place as u32)).collect::<Vec<_>>()
    });
    let rows: Vec<RowId> = rows.collect();
    let keys = state.columns_at(&rows, &[0])?;
    let keys = keys[0].as_any().downcast_ref::<Int64Array>().expect("a column of bigint");
    transaction.kill(schema.id, &rows)?;
    transaction.append(schema.id, batch(schema, keys.values(), 1))?;
    engine.commit_and_wait(transaction.into_write_set()?, Durability::Fsync)?;
    Ok(())
}

/// Adds a column that has 5 in all rows.
fn add_column(engine: &Engine, schema: &TableSchema) -> Result<()> {
    let mut wider = schema.clone();
    let added = column((wider.next_column_id, ("venue", DataType::Int8)));
    wider.next_column_id += 1;
    let only = TableSchema { columns: vec![added.clone()], ..wider.clone() };
    wider.columns.push(added);
    let value: ArrayRef = Arc::new(Int64Array::from(vec![5]));
    let value = RecordBatch::try_new(arrow_schema(&only), vec![value]).expect("one column");
    let added = Some(codec::encode_batch(&value));
    let mut transaction = Transaction::new(engine.snapshot());
    let change = CatalogChange::AlterTable { schema: wider, added, expected: None };
    transaction.change_catalog(change)?;
    engine.commit_and_wait(transaction.into_write_set()?, Durability::Fsync)?;
    Ok(())
}

fn checkpoint(engine: &Engine, what: &str) -> Result<()> {
    engine.checkpoint()?;
    let runs = engine.checkpoints();
    let run = runs.last().expect("a checkpoint was written");
    let seconds = run.took.unwrap_or_default().as_secs_f64();
    println!("{what}: {:.1} MB in {seconds:.2} s", run.bytes as f64 / 1e6);
    Ok(())
}
