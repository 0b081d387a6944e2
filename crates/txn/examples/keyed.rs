//! Measures rows that are written by key, without a network:
//! `keyed [rows a group] [fsync|write|none]`.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use arrow::array::{ArrayRef, Int32Array, StringViewArray};
use arrow::record_batch::RecordBatch;
use thalweg_env::Env;
use thalweg_store::{Put, arrow_schema};
use thalweg_txn::{
    CatalogChange, Durability, Engine, Failing, KeyedChange, KeyedRows, Options, RowGroup, WriteSet,
};
use thalweg_types::{Column, ColumnId, DataType, Key, TableId, TableSchema};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const KEYS: u64 = 1_000_000;
const ROUNDS: u64 = 10;
/// Groups that are under way at a time.
const AHEAD: usize = 64;

fn schema() -> TableSchema {
    let column = |id, name: &str, data_type| Column {
        id: ColumnId(id),
        name: name.to_owned(),
        data_type,
        nullable: false,
        default: None,
        identity: None,
        second_digits: None,
    };
    TableSchema {
        id: TableId(1),
        namespace: "public".to_owned(),
        name: "account".to_owned(),
        columns: vec![
            column(1, "id", DataType::Int4),
            column(2, "amount", DataType::Int4),
            column(3, "owner", DataType::Text { max_chars: None }),
        ],
        primary_key: Some(Key { name: "account_pkey".to_owned(), columns: vec![ColumnId(1)] }),
        unique: Vec::new(),
        checks: Vec::new(),
        indexes: Vec::new(),
        foreign_keys: Vec::new(),
        shard_key: Some(ColumnId(1)),
        next_column_id: 4,
    }
}

fn group(first: u64, rows: u64) -> RecordBatch {
    let numbers = first..first + rows;
    let keys = Int32Array::from_iter_values(numbers.clone().map(|n| (n * 7_919 % KEYS) as i32));
    let amounts = Int32Array::from_iter_values(numbers.clone().map(|n| n as i32));
    let owners: StringViewArray = numbers.map(|n| Some(format!("{:08}", n % KEYS))).collect();
    let columns: Vec<ArrayRef> = vec![Arc::new(keys), Arc::new(amounts), Arc::new(owners)];
    RecordBatch::try_new(arrow_schema(&schema()), columns).expect("columns of the table")
}

#[expect(clippy::disallowed_methods, reason = "a program to measure with")]
fn main() {
    let mut arguments = std::env::args().skip(1);
    let group_rows: u64 = arguments.next().map_or(1_000, |rows| rows.parse().expect("a number"));
    let durability = match arguments.next().as_deref() {
        Some("write") => Durability::Write,
        Some("none") => Durability::None,
        _ => Durability::Fsync,
    };
    let directory = PathBuf::from("/var/tmp").join(format!("thalweg-keyed-{}", std::process::id()));
    let env = Env::real();
    let options = Options { directory: Some(directory.clone()), ..Options::default() };
    let engine = Engine::open(env.clone(), options).expect("a directory");
    let catalog = vec![CatalogChange::CreateTable { schema: schema() }];
    let create = WriteSet { catalog, ..WriteSet::default() };
    let version = engine.commit_and_wait(create, durability).expect("a table");
    let batches: Vec<RecordBatch> =
        (0..KEYS).step_by(group_rows as usize).map(|first| group(first, group_rows)).collect();
    let places: Vec<u32> = (0..group_rows as u32).collect();
    let (sender, receiver) = sync_channel(AHEAD);
    for round in 0..ROUNDS {
        let (began, cpu) = (env.clock.monotonic(), cpu_seconds());
        let mut waiting = 0;
        for rows in &batches {
            let rows = KeyedRows {
                table: TableId(1),
                version,
                change: KeyedChange::Put(Put::Upsert),
                rows: rows.clone(),
                places: places.clone(),
                expected: None,
            };
            let group =
                RowGroup { rows: vec![rows], failing: Failing::LeaveOut, has_failed: false };
            let sender = sender.clone();
            let told = move |written| drop(sender.send(written));
            engine.write_rows(group, durability, Box::new(told));
            waiting += 1;
            if waiting == AHEAD {
                receiver.recv().expect("the engine lives").expect("rows are written");
                waiting -= 1;
            }
        }
        for _ in 0..waiting {
            receiver.recv().expect("the engine lives").expect("rows are written");
        }
        let seconds = (env.clock.monotonic() - began).as_secs_f64();
        let million = KEYS as f64 / 1e6;
        println!(
            "round {round}: {:.2} M rows/s, {:.3} CPU-seconds a million",
            million / seconds,
            (cpu_seconds() - cpu) / million
        );
    }
    drop(engine);
    // If this fails, the files stay in the directory for temporary files.
    let _ = std::fs::remove_dir_all(directory);
}

/// Processor time of this process.
#[expect(clippy::disallowed_methods, reason = "a program to measure with")]
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
    fields.skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() / 100.0
}
