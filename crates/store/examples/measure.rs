//! Prints what the hot paths cost: `cargo run --release -p thalweg-store --example measure`.
//!
//! One of `upserts`, `memory` and `lineitem` as an argument measures that alone. Times are those
//! that the thread spent running (Linux), so that busy neighbours count less.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Date32Array, Decimal128Array, Int32Array, Int64Array, RecordBatch, StringViewArray,
};
use thalweg_store::{
    ClosedChunk, CompactionPolicy, Effect, Table, TableState, arrow_schema, codec, plan_compaction,
};
use thalweg_types::{Column, ColumnId, DataType, Key, Result, RowId, TableId, TableSchema};
use tpchgen::generators::{LineItem, LineItemGenerator};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const BATCH_ROWS: usize = 128;
const KEYS: usize = 1_000_000;
const UPDATES: usize = 4_000_000;

fn main() -> Result<()> {
    let chosen = std::env::args().nth(1);
    let wanted = |name: &str| chosen.as_deref().is_none_or(|chosen| chosen == name);
    if wanted("upserts") {
        let (table, state) = inserts()?;
        upserts(table, state)?;
    }
    if wanted("memory") {
        flat_memory()?;
    }
    if wanted("lineitem") {
        line_items()?;
    }
    Ok(())
}

/// A point in the time that this thread has spent running, in nanoseconds.
struct Started(u64);

impl Started {
    fn now() -> Started {
        let statistics = std::fs::read_to_string("/proc/thread-self/schedstat");
        let statistics = statistics.expect("Linux says how long a thread has run");
        let running = statistics.split(' ').next().and_then(|number| number.parse().ok());
        Started(running.expect("the first number is the time"))
    }

    fn nanoseconds(&self) -> u64 {
        Started::now().0 - self.0
    }

    fn seconds(&self) -> f64 {
        self.nanoseconds() as f64 / 1e9
    }
}

fn report(what: &str, started: &Started, rows: usize) {
    println!("{what:<44}{:>8.1} ns/row", started.nanoseconds() as f64 / rows as f64);
}

fn schema(columns: &[(&str, DataType)], key: &[u32]) -> Arc<TableSchema> {
    let column = |(index, (name, data_type)): (usize, &(&str, DataType))| Column {
        id: ColumnId(index as u32),
        name: (*name).to_owned(),
        data_type: data_type.clone(),
        nullable: false,
        default: None,
        identity: None,
    };
    let columns: Vec<Column> = columns.iter().enumerate().map(column).collect();
    Arc::new(TableSchema {
        id: TableId(1),
        namespace: "public".to_owned(),
        name: "measured".to_owned(),
        next_column_id: columns.len() as u32,
        columns,
        primary_key: Some(Key {
            name: "measured_pkey".to_owned(),
            columns: key.iter().map(|id| ColumnId(*id)).collect(),
        }),
        unique: Vec::new(),
        checks: Vec::new(),
        shard_key: None,
    })
}

fn accounts() -> Arc<TableSchema> {
    let columns = [
        ("id", DataType::Int8),
        ("amount", DataType::Int8),
        ("note", DataType::Text { max_chars: None }),
    ];
    schema(&columns, &[0])
}

fn account_batch(schema: &TableSchema, ids: &[i64]) -> RecordBatch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(ids.to_vec())),
        Arc::new(Int64Array::from(ids.to_vec())),
        Arc::new(StringViewArray::from_iter_values(ids.iter().map(|_| "8 letter"))),
    ];
    RecordBatch::try_new(arrow_schema(schema), columns).expect("the table's columns")
}

/// Numbers that repeat after 2^61 steps only, good enough to hit keys at random.
fn scattered(index: usize) -> i64 {
    let mixed = (index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    ((mixed ^ (mixed >> 29)) % KEYS as u64) as i64
}

fn inserts() -> Result<(Table, Arc<TableState>)> {
    let schema = accounts();
    let (mut table, mut state) = Table::new(Arc::clone(&schema));
    let ids: Vec<i64> = (0..KEYS as i64).collect();
    let batches: Vec<RecordBatch> =
        ids.chunks(BATCH_ROWS).map(|ids| account_batch(&schema, ids)).collect();
    let started = Started::now();
    for batch in &batches {
        let mut effect = Effect::new();
        table.append(batch, &mut effect)?;
        effect.publish(&mut state);
    }
    report("append of new keys, batches of 128", &started, KEYS);
    Ok((table, state))
}

fn upserts(mut table: Table, mut state: Arc<TableState>) -> Result<()> {
    let schema = accounts();
    let key = schema.primary_key.clone().expect("accounts have a key");
    let mut batches = Vec::new();
    for start in (0..UPDATES).step_by(BATCH_ROWS) {
        let mut ids: Vec<i64> = (start..start + BATCH_ROWS).map(scattered).collect();
        ids.sort_unstable();
        ids.dedup();
        batches.push(account_batch(&schema, &ids));
    }
    let (mut probing, mut applying, mut publishing) = (0, 0, 0);
    for batch in &batches {
        let started = Started::now();
        let found = state.probe(&key, &[Arc::clone(batch.column(0))]);
        probing += started.nanoseconds();
        let old: Vec<RowId> = found.into_iter().flatten().collect();
        let started = Started::now();
        let mut effect = Effect::new();
        table.kill(&old, &mut effect)?;
        table.append(batch, &mut effect)?;
        applying += started.nanoseconds();
        let started = Started::now();
        let snapshot = Arc::clone(&state);
        effect.publish(&mut state);
        drop(snapshot);
        publishing += started.nanoseconds();
        maintain(&mut table, &mut state)?;
    }
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    for (what, nanoseconds) in [
        ("upsert of 1 M keys, 128 a batch: probe", probing),
        ("  kill and append", applying),
        ("  publish beside a snapshot", publishing),
    ] {
        println!("{what:<44}{:>8.1} ns/row", nanoseconds as f64 / rows as f64);
    }
    Ok(())
}

fn maintain(table: &mut Table, state: &mut Arc<TableState>) -> Result<()> {
    for full in table.take_full() {
        let mut effect = Effect::new();
        table.swap(full.number, full.build(), &mut effect);
        effect.publish(state);
    }
    let Some(plan) = plan_compaction(state, CompactionPolicy::Busy) else { return Ok(()) };
    let mut effect = Effect::new();
    table.apply_compaction(plan.build(), &mut effect)?;
    effect.publish(state);
    Ok(())
}

fn flat_memory() -> Result<()> {
    const FEW: usize = 100_000;
    let schema = accounts();
    let key = schema.primary_key.clone().expect("accounts have a key");
    let (mut table, mut state) = Table::new(Arc::clone(&schema));
    let started = Started::now();
    let mut memory = Vec::new();
    for round in 0..10_000_usize {
        let ids: Vec<i64> =
            (0..1_000).map(|step| ((round * 7_919 + step * 97) % FEW) as i64).collect();
        let batch = account_batch(&schema, &ids);
        let found = state.probe(&key, &[Arc::clone(batch.column(0))]);
        let old: Vec<RowId> = found.into_iter().flatten().collect();
        let mut effect = Effect::new();
        table.kill(&old, &mut effect)?;
        table.append(&batch, &mut effect)?;
        effect.publish(&mut state);
        maintain(&mut table, &mut state)?;
        if round % 1_000 == 999 {
            memory.push(state.memory_bytes() >> 10);
        }
    }
    report("10 M updates of 100 K keys, all included", &started, 10_000_000);
    println!("  memory along the way in KiB: {memory:?}");
    Ok(())
}

fn line_item_schema() -> Arc<TableSchema> {
    let text = || DataType::Text { max_chars: None };
    let decimal = || DataType::Decimal { precision: 15, scale: 2 };
    let columns = [
        ("l_orderkey", DataType::Int8),
        ("l_partkey", DataType::Int8),
        ("l_suppkey", DataType::Int8),
        ("l_linenumber", DataType::Int4),
        ("l_quantity", decimal()),
        ("l_extendedprice", decimal()),
        ("l_discount", decimal()),
        ("l_tax", decimal()),
        ("l_returnflag", text()),
        ("l_linestatus", text()),
        ("l_shipdate", DataType::Date),
        ("l_commitdate", DataType::Date),
        ("l_receiptdate", DataType::Date),
        ("l_shipinstruct", text()),
        ("l_shipmode", text()),
        ("l_comment", text()),
    ];
    schema(&columns, &[0, 3])
}

fn line_item_batch(schema: &TableSchema, items: &[LineItem<'_>]) -> RecordBatch {
    type Item<'a> = LineItem<'a>;
    let long = |value: &dyn Fn(&Item<'_>) -> i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(items.iter().map(value)))
    };
    let decimal = |value: &dyn Fn(&Item<'_>) -> i64| -> ArrayRef {
        let values = items.iter().map(|item| i128::from(value(item)));
        let array = Decimal128Array::from_iter_values(values);
        Arc::new(array.with_precision_and_scale(15, 2).expect("a valid scale"))
    };
    let date = |value: &dyn Fn(&Item<'_>) -> i32| -> ArrayRef {
        Arc::new(Date32Array::from_iter_values(items.iter().map(value)))
    };
    let text = |value: &dyn for<'a> Fn(&'a Item<'_>) -> &'a str| -> ArrayRef {
        Arc::new(StringViewArray::from_iter_values(items.iter().map(value)))
    };
    let columns = vec![
        long(&|item| item.l_orderkey),
        long(&|item| item.l_partkey),
        long(&|item| item.l_suppkey),
        Arc::new(Int32Array::from_iter_values(items.iter().map(|item| item.l_linenumber))),
        decimal(&|item| item.l_quantity * 100),
        decimal(&|item| item.l_extendedprice.0),
        decimal(&|item| item.l_discount.0),
        decimal(&|item| item.l_tax.0),
        text(&|item| item.l_returnflag),
        text(&|item| item.l_linestatus),
        date(&|item| item.l_shipdate.to_unix_epoch()),
        date(&|item| item.l_commitdate.to_unix_epoch()),
        date(&|item| item.l_receiptdate.to_unix_epoch()),
        text(&|item| item.l_shipinstruct),
        text(&|item| item.l_shipmode),
        text(&|item| item.l_comment),
    ];
    RecordBatch::try_new(arrow_schema(schema), columns).expect("the table's columns")
}

/// What the rows take in plain Arrow: 32-bit offsets, `Decimal128`, `Date32`.
fn plain_bytes(items: &[LineItem<'_>]) -> usize {
    let texts: usize = items
        .iter()
        .map(|item| {
            item.l_returnflag.len()
                + item.l_linestatus.len()
                + item.l_shipinstruct.len()
                + item.l_shipmode.len()
                + item.l_comment.len()
        })
        .sum();
    texts + items.len() * (3 * 8 + 4 + 4 * 16 + 3 * 4 + 5 * 4)
}

fn line_items() -> Result<()> {
    let schema = line_item_schema();
    let items: Vec<LineItem<'_>> = LineItemGenerator::new(1.0, 1, 1).iter().collect();
    let rows = items.len();
    let plain: usize = items.chunks(RowId::CHUNK_ROWS).map(plain_bytes).sum();
    let batches: Vec<RecordBatch> =
        items.chunks(RowId::CHUNK_ROWS).map(|items| line_item_batch(&schema, items)).collect();
    drop(items);

    let started = Started::now();
    let chunks: Vec<Arc<ClosedChunk>> =
        batches.iter().map(|batch| Arc::new(ClosedChunk::build(&schema, batch))).collect();
    report("lineitem: building chunks", &started, rows);
    drop(batches);

    let (mut table, mut state) = Table::new(Arc::clone(&schema));
    let mut effect = Effect::new();
    let started = Started::now();
    for chunk in &chunks {
        table.append_chunk(Arc::clone(chunk), &mut effect)?;
    }
    report("lineitem: append_chunk, key of two columns", &started, rows);
    effect.publish(&mut state);
    let memory = state.memory_bytes();
    println!(
        "  memory {:.1} B/row, plain Arrow {:.1} B/row: {:.2}x",
        memory as f64 / rows as f64,
        plain as f64 / rows as f64,
        memory as f64 / plain as f64
    );

    let started = Started::now();
    let encoded: Vec<Vec<u8>> = chunks.iter().map(|chunk| codec::encode_chunk(chunk)).collect();
    let (seconds, bytes) = (started.seconds(), plain as f64 / 1e6);
    report("lineitem: encode_chunk", &started, rows);
    let size: usize = encoded.iter().map(Vec::len).sum();
    println!("  {:.0} MB/s of Arrow, {:.1} B/row", bytes / seconds, size as f64 / rows as f64);
    drop(chunks);

    let started = Started::now();
    for bytes in &encoded {
        codec::decode_chunk(&schema, bytes)?;
    }
    report("lineitem: decode_chunk", &started, rows);
    println!("  {:.0} MB/s of Arrow", bytes / started.seconds());

    for (what, column) in [("a dictionary of u8", 14), ("long texts", 15)] {
        let started = Started::now();
        for chunk in state.chunks() {
            std::hint::black_box(chunk.columns(&[column]));
        }
        report(&format!("lineitem: reading {what}"), &started, rows);
    }
    Ok(())
}
