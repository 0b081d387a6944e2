//! Prints what questions cost: `cargo run --release -p thalweg-scan --example aggregates [rows]`.
//!
//! Times are of the wall clock, the median of many runs.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::DataType as ArrowType;
use thalweg_env::{Clock, RealClock, RealThreads};
use thalweg_scan::{
    Aggregation, Comparison, Key, KeyValue, Lane, LocalScheduler, Measure, Number, Partial,
    Predicate,
};
use thalweg_store::{ChunkView, ClosedChunk, Effect, Table, TableState, arrow_schema};
use thalweg_types::{Column, ColumnId, DataType, Result, TableId, TableSchema};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const CHUNK_ROWS: usize = 65_536;

fn schema() -> TableSchema {
    let columns = [
        ("symbol", DataType::Text { max_chars: None }),
        ("venue", DataType::Text { max_chars: None }),
        ("id", DataType::Int8),
        ("volume", DataType::Int8),
        ("price", DataType::Float8),
    ];
    let columns = columns.into_iter().zip(1..).map(|((name, data_type), id)| Column {
        id: ColumnId(id),
        name: name.to_owned(),
        data_type,
        nullable: false,
        default: None,
        identity: None,
    });
    TableSchema {
        id: TableId(1),
        namespace: "public".to_owned(),
        name: "trades".to_owned(),
        columns: columns.collect(),
        primary_key: None,
        unique: Vec::new(),
        checks: Vec::new(),
        indexes: Vec::new(),
        shard_key: None,
        next_column_id: 6,
    }
}

/// Two symbols that alternate, eight venues, ids of which each has about ten rows.
fn chunk(first: usize, rows: usize, all: usize) -> ClosedChunk {
    let numbers = || first..first + rows;
    let mixed = |row: usize| row.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
    let symbols = numbers().map(|row| ["AAPL", "MSFT"][row % 2]);
    let venues = numbers().map(|row| ["A", "B", "C", "D", "E", "F", "G", "H"][mixed(row) % 8]);
    let ids = numbers().map(|row| (mixed(row) % (all / 10)) as i64);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringViewArray::from_iter_values(symbols)),
        Arc::new(StringViewArray::from_iter_values(venues)),
        Arc::new(Int64Array::from_iter_values(ids)),
        Arc::new(Int64Array::from_iter_values(numbers().map(|row| (mixed(row) % 1_000) as i64))),
        Arc::new(Float64Array::from_iter_values(numbers().map(|row| (row % 977) as f64 / 8.0))),
    ];
    let batch = RecordBatch::try_new(arrow_schema(&schema()), columns);
    ClosedChunk::build(&schema(), &batch.expect("the columns are those of the schema"))
}

fn table(rows: usize) -> Result<Arc<TableState>> {
    let (mut table, mut state) = Table::new(Arc::new(schema()));
    for first in (0..rows).step_by(CHUNK_ROWS) {
        let mut effect = Effect::new();
        let chunk = chunk(first, CHUNK_ROWS.min(rows - first), rows);
        table.append_chunk(Arc::new(chunk), &mut effect)?;
        effect.publish(&mut state);
    }
    Ok(state)
}

fn questions() -> Vec<(&'static str, Aggregation)> {
    let (symbol, venue, id, volume, price) = (0, 1, 2, 3, 4);
    let text = |column| Key { value: KeyValue::Column(column), data_type: ArrowType::Utf8View };
    let int = |column| Key { value: KeyValue::Column(column), data_type: ArrowType::Int64 };
    let sum = |lane, column| Measure::Sum { lane, number: Number::Column(column) };
    let least =
        Measure::Extreme { lane: Lane::Int, number: Number::Column(volume), greatest: false };
    let busy = Predicate::Compare {
        lane: Lane::Int,
        comparison: Comparison::Less,
        operands: Box::new((Number::Column(volume), Number::Int(500))),
    };
    let all = || (0..5).collect::<Vec<usize>>();
    let new = |filter, keys, measures| {
        Aggregation::new(all(), filter, keys, measures).expect("keys of few columns")
    };
    vec![
        ("sum", new(None, vec![], vec![sum(Lane::Int, volume)])),
        ("sum by 2 symbols", new(None, vec![text(symbol)], vec![sum(Lane::Int, volume)])),
        (
            "sum, count by 8 venues",
            new(None, vec![text(venue)], vec![sum(Lane::Int, volume), Measure::Rows]),
        ),
        ("float sum by 8 venues", new(None, vec![text(venue)], vec![sum(Lane::Float, price)])),
        (
            "sum by symbol, venue",
            new(None, vec![text(symbol), text(venue)], vec![sum(Lane::Int, volume)]),
        ),
        (
            "sum by venue where half",
            new(Some(busy.clone()), vec![text(venue)], vec![sum(Lane::Int, volume)]),
        ),
        ("count where half", new(Some(busy), vec![], vec![Measure::Rows])),
        ("sum by volume (1000)", new(None, vec![int(volume)], vec![sum(Lane::Int, volume)])),
        (
            "sum, count, min by id",
            new(None, vec![int(id)], vec![sum(Lane::Int, volume), Measure::Rows, least]),
        ),
    ]
}

fn serial(aggregation: &Arc<Aggregation>, chunks: &[ChunkView]) -> Result<usize> {
    let mut partial = Partial::new(aggregation);
    chunks.iter().try_for_each(|chunk| partial.add_chunk(chunk))?;
    let finished = partial.finish();
    finished.measure(0, &ArrowType::Int64).or_else(|_| finished.measure(0, &ArrowType::Float64))?;
    Ok(finished.rows())
}

fn median(clock: &RealClock, runs: usize, mut work: impl FnMut()) -> f64 {
    let mut times: Vec<u64> = (0..runs)
        .map(|_| {
            let start = clock.monotonic();
            work();
            (clock.monotonic() - start).as_nanos() as u64
        })
        .collect();
    times.sort_unstable();
    times[runs / 2] as f64 / 1e6
}

fn main() -> Result<()> {
    let rows = std::env::args().nth(1).and_then(|rows| rows.parse().ok()).unwrap_or(1_000_000);
    let clock = RealClock::default();
    let scheduler = LocalScheduler::start(2, &RealThreads)?;
    let rounds = median(&clock, 1_001, || {
        scheduler.scatter(2, |_| {}).wait().expect("nothing breaks down");
    });
    println!("a round of scatter and gather   {:8.1} us", rounds * 1_000.0);
    let state = table(rows)?;
    let chunks: Vec<ChunkView> = state.chunks().collect();
    for (name, aggregation) in questions() {
        let aggregation = Arc::new(aggregation);
        let groups = serial(&aggregation, &chunks)?;
        let runs = (100_000_000 / rows).clamp(5, 201);
        let time = median(&clock, runs, || {
            serial(&aggregation, &chunks).expect("it did before");
        });
        println!("{name:30}  {time:8.3} ms  {groups} groups");
    }
    Ok(())
}
