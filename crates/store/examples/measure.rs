//! Prints the costs of the hot paths: `cargo run --release -p thalweg-store --example measure`.
//!
//! The arguments `upserts`, `memory` and `lineitem` select one measurement each. Times are CPU
//! times of the thread (Linux), so that busy neighbours count less.

mod line_items;

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray};
use line_items::{line_item_batch, line_item_schema, schema};
use thalweg_store::{
    ClosedChunk, CompactionPolicy, Effect, Table, TableState, arrow_schema, codec, plan_compaction,
};
use thalweg_types::{DataType, Result, RowId, TableSchema};
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

/// CPU time of this thread so far, in nanoseconds.
struct Started(u64);

impl Started {
    #[expect(clippy::disallowed_methods, reason = "the system's own file, not the database's")]
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

/// Pseudo-random numbers with a period of at most 2^61, good enough to pick keys.
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

/// Memory of the rows in plain Arrow: 32-bit offsets, `Decimal128`, `Date32`.
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
