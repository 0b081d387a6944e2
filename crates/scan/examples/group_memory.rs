//! Prints the memory of groups:
//! `cargo run --release -p thalweg-scan --example group_memory [rows] [far]`
//! with ids that are dense or sparse.
//!
//! Each row is a group of its own with three measures. Two workers share the chunks and merge their
//! results, as the workers of a query do; the result is kept. Peaks are relative to the memory with
//! the rows alone. One is the allocated memory, including old and new buffers while something
//! grows; the other is the memory of the process, which includes freed memory that the allocator
//! keeps. The first run measures the peaks, the fastest of some more the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::DataType as ArrowType;
use thalweg_env::{Clock, RealClock};
use thalweg_scan::{Aggregation, Key, KeyValue, Lane, Measure, Number, Partial};
use thalweg_store::{ChunkView, ClosedChunk, Effect, Table, TableState, arrow_schema};
use thalweg_types::{Column, ColumnId, DataType, Result, TableId, TableSchema};

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

#[expect(unsafe_code, reason = "an allocator is unsafe to write")]
mod counting {
    //! mimalloc, with a count of the allocated bytes.

    use std::alloc::{GlobalAlloc, Layout};
    use std::sync::atomic::{AtomicUsize, Ordering};

    use mimalloc::MiMalloc;

    static LIVE: AtomicUsize = AtomicUsize::new(0);
    static PEAK: AtomicUsize = AtomicUsize::new(0);

    /// An allocator that counts live bytes and their peak.
    pub struct Counting;

    /// Resets the peak. Returns the number of allocated bytes.
    pub fn start() -> usize {
        let live = LIVE.load(Ordering::Relaxed);
        PEAK.store(live, Ordering::Relaxed);
        live
    }

    /// The most bytes allocated at once since [`start`].
    pub fn peak() -> usize {
        PEAK.load(Ordering::Relaxed)
    }

    fn take(bytes: usize) {
        let live = LIVE.fetch_add(bytes, Ordering::Relaxed) + bytes;
        PEAK.fetch_max(live, Ordering::Relaxed);
    }

    // SAFETY: all calls are forwarded to an allocator that meets the trait's contract.
    unsafe impl GlobalAlloc for Counting {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            take(layout.size());
            // SAFETY: the caller upholds the contract.
            unsafe { MiMalloc.alloc(layout) }
        }

        unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
            take(layout.size());
            // SAFETY: the caller upholds the contract.
            unsafe { MiMalloc.alloc_zeroed(layout) }
        }

        unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
            LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
            // SAFETY: the caller upholds the contract.
            unsafe { MiMalloc.dealloc(place, layout) }
        }

        unsafe fn realloc(&self, place: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
            take(bytes);
            LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
            // SAFETY: the caller upholds the contract.
            unsafe { MiMalloc.realloc(place, layout, bytes) }
        }
    }
}

const CHUNK_ROWS: usize = 65_536;
const WORKERS: usize = 2;
const PARTITIONS: usize = 64;

fn schema() -> TableSchema {
    let columns = ["id", "volume"].into_iter().zip(1..).map(|(name, id)| Column {
        id: ColumnId(id),
        name: name.to_owned(),
        data_type: DataType::Int8,
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
        next_column_id: 3,
    }
}

/// Rows with the ids that `id` returns for their numbers.
fn table(rows: usize, id: impl Fn(usize) -> i64) -> Result<Arc<TableState>> {
    let (mut table, mut state) = Table::new(Arc::new(schema()));
    for first in (0..rows).step_by(CHUNK_ROWS) {
        let numbers = || first..rows.min(first + CHUNK_ROWS);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(numbers().map(&id))),
            Arc::new(Int64Array::from_iter_values(numbers().map(|row| row as i64 % 1_000))),
        ];
        let batch = RecordBatch::try_new(arrow_schema(&schema()), columns);
        let batch = batch.expect("the columns are those of the schema");
        let mut effect = Effect::new();
        let chunk = Arc::new(ClosedChunk::build(&schema(), &batch));
        table.append_chunk(chunk, &mut effect)?;
        effect.publish(&mut state);
    }
    Ok(state)
}

fn question() -> Aggregation {
    let key = Key { value: KeyValue::Column(0), data_type: ArrowType::Int64 };
    let number = || Number::Column(1);
    let measures = vec![
        Measure::Rows,
        Measure::Sum { lane: Lane::Int, number: number() },
        Measure::Extreme { lane: Lane::Int, number: number(), greatest: false },
    ];
    Aggregation::new(vec![0, 1], None, vec![key], measures).expect("a key of one column")
}

/// Calls `work` with each number below `pieces`, on as many threads as there are workers.
#[expect(clippy::disallowed_methods, reason = "a program to measure with")]
fn shared<T: Send>(pieces: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let worker = || {
            let take = || next.fetch_add(1, Ordering::Relaxed);
            let pieces = std::iter::repeat_with(take).take_while(|piece| *piece < pieces);
            pieces.map(&work).collect::<Vec<T>>()
        };
        let threads: Vec<_> = (0..WORKERS).map(|_| scope.spawn(worker)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("it ends")).collect()
    })
}

fn answer(chunks: &[ChunkView]) -> Vec<Vec<ArrayRef>> {
    let aggregation = Arc::new(question());
    let next = AtomicUsize::new(0);
    let found = shared(WORKERS, |_| {
        let mut partial = Partial::sharing(&aggregation, PARTITIONS);
        while let Some(chunk) = chunks.get(next.fetch_add(1, Ordering::Relaxed)) {
            partial.add_chunk(chunk).expect("small numbers");
        }
        let mut pieces = partial.take_pieces();
        pieces.push(partial.into_batches(PARTITIONS).expect("small sums"));
        pieces
    });
    let mut of_partition: Vec<Vec<RecordBatch>> = vec![Vec::new(); PARTITIONS];
    for batches in found.into_iter().flatten() {
        of_partition.iter_mut().zip(batches).for_each(|(all, batch)| all.push(batch));
    }
    let of_partition: Vec<_> = of_partition.into_iter().map(std::sync::Mutex::new).collect();
    shared(PARTITIONS, |partition| {
        let batches = std::mem::take(&mut *of_partition[partition].lock().expect("no panic"));
        let mut merged = Partial::new(&aggregation);
        batches.iter().for_each(|batch| merged.absorb(batch));
        drop(batches);
        let found = merged.finish();
        let measures = (0..3).map(|place| found.measure(place, &ArrowType::Int64));
        std::iter::once(found.key(0)).chain(measures.map(|m| m.expect("small sums"))).collect()
    })
}

/// A number of bytes from Linux's status of this process.
#[expect(clippy::disallowed_methods, reason = "the system's own file, not the database's")]
fn status(name: &str) -> usize {
    let told = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = told.lines().find(|line| line.starts_with(name)).unwrap_or_default();
    let digits: String = line.chars().filter(char::is_ascii_digit).collect();
    digits.parse::<usize>().map_or(0, |kibibytes| kibibytes * 1024)
}

/// Resets the system's peak of the process; if that fails, the printed peak is too high.
#[expect(clippy::disallowed_methods, reason = "the system's own file, not the database's")]
fn forget_peak() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let rows = arguments.next().and_then(|rows| rows.parse().ok()).unwrap_or(10_000_000);
    let is_far = arguments.next().is_some_and(|ids| ids == "far");
    let state = table(rows, |row| match is_far {
        true => (row as i64).wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as i64),
        false => (row * 7_368_787 % rows) as i64,
    })?;
    let chunks: Vec<ChunkView> = state.chunks().collect();
    forget_peak();
    let (before, live) = (status("VmRSS:"), counting::start());
    let found = answer(&chunks);
    let groups: usize = found.iter().map(|columns| columns[0].len()).sum();
    let a_group = |peak: usize, before: usize| peak.saturating_sub(before) as f64 / groups as f64;
    let allocated = a_group(counting::peak(), live);
    let process = a_group(status("VmHWM:"), before);
    drop(found);
    let clock = RealClock::default();
    let times = (0..3).map(|_| {
        let start = clock.monotonic();
        answer(&chunks);
        clock.monotonic() - start
    });
    let fastest = times.min().unwrap_or_default();
    println!(
        "{groups} groups, {allocated:.1} bytes a group at the peak, {process:.1} of the process, \
         {fastest:?}"
    );
    Ok(())
}
