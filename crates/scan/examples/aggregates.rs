//! Prints the times of aggregations: `cargo run --release -p thalweg-scan --example aggregates
//! [rows]`.
//!
//! Times are wall-clock times, the median of many runs.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Decimal128Array, Float64Array, Int32Array, Int64Array, RecordBatch, StringViewArray,
};
use arrow::datatypes::DataType as ArrowType;
use thalweg_env::{Clock, RealClock, RealThreads};
use thalweg_scan::{
    Aggregation, Comparison, Key, KeyValue, Lane, LocalScheduler, Measure, Number, Operator,
    Partial, Predicate,
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
        ("day", DataType::Int4),
        ("quantity", DataType::Decimal { precision: 15, scale: 2 }),
        ("amount", DataType::Decimal { precision: 15, scale: 2 }),
        ("discount", DataType::Decimal { precision: 15, scale: 2 }),
        ("tax", DataType::Decimal { precision: 15, scale: 2 }),
    ];
    let columns = columns.into_iter().zip(1..).map(|((name, data_type), id)| Column {
        id: ColumnId(id),
        name: name.to_owned(),
        data_type,
        nullable: false,
        default: None,
        identity: None,
        second_digits: None,
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
        foreign_keys: Vec::new(),
        shard_key: None,
        next_column_id: 11,
    }
}

/// Rows with two alternating symbols, eight venues, and ids that have about ten rows each.
fn chunk(first: usize, rows: usize, all: usize) -> ClosedChunk {
    let numbers = || first..first + rows;
    let mixed = |row: usize| row.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
    let symbols = numbers().map(|row| ["AAPL", "MSFT"][row % 2]);
    let venues = numbers().map(|row| ["A", "B", "C", "D", "E", "F", "G", "H"][mixed(row) % 8]);
    let ids = numbers().map(|row| (mixed(row) % (all / 10)) as i64);
    let decimals = |least: usize, greatest: usize| {
        let of = move |row| (least + mixed(row + greatest) % (greatest - least + 1)) as i128;
        let values = Decimal128Array::from_iter_values(numbers().map(of));
        Arc::new(values.with_precision_and_scale(15, 2).expect("a type that there is")) as ArrayRef
    };
    let days = numbers().map(|row| (mixed(row + 1) % 2_556) as i32);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringViewArray::from_iter_values(symbols)),
        Arc::new(StringViewArray::from_iter_values(venues)),
        Arc::new(Int64Array::from_iter_values(ids)),
        Arc::new(Int64Array::from_iter_values(numbers().map(|row| (mixed(row) % 1_000) as i64))),
        Arc::new(Float64Array::from_iter_values(numbers().map(|row| (row % 977) as f64 / 8.0))),
        Arc::new(Int32Array::from_iter_values(days)),
        decimals(100, 5_000),
        decimals(90_000, 10_494_950),
        decimals(0, 10),
        decimals(0, 8),
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
    let all = || (0..10).collect::<Vec<usize>>();
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

/// Aggregations like TPC-H's first and sixth query.
fn decimal_questions() -> Vec<(&'static str, Aggregation)> {
    let (symbol, venue, day, quantity, amount, discount, tax) = (0, 1, 5, 6, 7, 8, 9);
    let text = |column| Key { value: KeyValue::Column(column), data_type: ArrowType::Utf8View };
    let decimals =
        |operator, left, right| Number::Decimals { operator, operands: Box::new((left, right)) };
    let hundred = || Number::Decimal(100);
    let sum = |number| Measure::Sum { lane: Lane::Decimal, number };
    let compare = |lane, column, comparison, constant| Predicate::Compare {
        lane,
        comparison,
        operands: Box::new((Number::Column(column), constant)),
    };
    let rest = decimals(Operator::Subtract, hundred(), Number::Column(discount));
    let discounted = decimals(Operator::Multiply, Number::Column(amount), rest);
    let more = decimals(Operator::Add, hundred(), Number::Column(tax));
    let charged = decimals(Operator::Multiply, discounted.clone(), more);
    let saved = decimals(Operator::Multiply, Number::Column(amount), Number::Column(discount));
    let new = |filter, keys, measures| {
        Aggregation::new((0..10).collect(), Some(filter), keys, measures).expect("few columns")
    };
    let early = compare(Lane::Int, day, Comparison::LessOrEqual, Number::Int(2_500));
    let few = Predicate::And(vec![
        compare(Lane::Int, day, Comparison::GreaterOrEqual, Number::Int(365)),
        compare(Lane::Int, day, Comparison::Less, Number::Int(730)),
        compare(Lane::Decimal, discount, Comparison::GreaterOrEqual, Number::Decimal(5)),
        compare(Lane::Decimal, discount, Comparison::LessOrEqual, Number::Decimal(7)),
        compare(Lane::Decimal, quantity, Comparison::Less, Number::Decimal(2_400)),
    ]);
    let columns = [quantity, amount, discount].map(|column| sum(Number::Column(column)));
    let mut measures = columns.to_vec();
    measures.extend([sum(discounted), sum(charged), Measure::Rows]);
    let greatest =
        Measure::Extreme { lane: Lane::Decimal, number: Number::Column(amount), greatest: true };
    let late = compare(Lane::Int, day, Comparison::Greater, Number::Int(300));
    vec![
        ("decimals: sums by symbol, venue", new(early, vec![text(symbol), text(venue)], measures)),
        ("decimals: sum where few", new(few, vec![], vec![sum(saved)])),
        ("decimals: max where most", new(late, vec![], vec![greatest])),
    ]
}

fn serial(
    aggregation: &Arc<Aggregation>,
    data_type: &ArrowType,
    chunks: &[ChunkView],
) -> Result<usize> {
    let mut partial = Partial::new(aggregation);
    chunks.iter().try_for_each(|chunk| partial.add_chunk(chunk))?;
    let finished = partial.finish();
    finished.measure(0, data_type)?;
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
    let questions = questions().into_iter().map(|question| (question, ArrowType::Int64));
    let decimals = decimal_questions().into_iter();
    let decimals = decimals.map(|question| (question, ArrowType::Decimal128(38, 2)));
    for ((name, aggregation), data_type) in questions.chain(decimals) {
        let aggregation = Arc::new(aggregation);
        let groups = serial(&aggregation, &data_type, &chunks)?;
        let runs = (100_000_000 / rows).clamp(5, 201);
        let time = median(&clock, runs, || {
            serial(&aggregation, &data_type, &chunks).expect("it did before");
        });
        println!("{name:32}  {time:8.3} ms  {groups} groups");
    }
    Ok(())
}
