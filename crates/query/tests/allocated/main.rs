//! What statements allocate stays within their limits, whatever they compute: the allocator of this
//! process counts for the statements as the program's does, and here for all threads as well.

mod growing;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use futures::StreamExt;
use thalweg_env::Metered;
use thalweg_query::{Database, Session};
use thalweg_types::{Error, Result, SqlState};
use tokio::sync::Mutex;

#[global_allocator]
static ALLOCATOR: Metered<Counting> = Metered::new(Counting);

/// Counts what all threads have taken, and the most that this was.
struct Counting;

static TAKEN: AtomicI64 = AtomicI64::new(0);
static PEAK: AtomicI64 = AtomicI64::new(0);

fn count(bytes: i64) {
    let taken = TAKEN.fetch_add(bytes, Ordering::Relaxed) + bytes;
    PEAK.fetch_max(taken, Ordering::Relaxed);
}

// SAFETY: all is the system's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as i64 - layout.size() as i64);
        // SAFETY: as the caller promises.
        unsafe { System.realloc(block, layout, size) }
    }
}

/// What is counted is the process's: one test at a time.
static ALONE: Mutex<()> = Mutex::const_new(());

const LIMIT: i64 = 16 << 20;
/// A tenth of the limit, or this.
const MARGIN: i64 = 16 << 20;

/// The most that [`growing::EXCEEDING`] take.
const EXCEEDING_MAX: i64 = 1536 << 20;

/// Far above what any of the statements takes.
const HANGS_AFTER: Duration = Duration::from_secs(120);

/// How many rows a statement gives, each batch read and dropped.
async fn rows(session: &mut Session, sql: &str) -> Result<usize> {
    let Some(mut batches) = session.execute(sql).await?.rows else { return Ok(0) };
    let mut rows = 0;
    while let Some(batch) = batches.next().await {
        rows += batch?.num_rows();
    }
    Ok(rows)
}

/// Runs a statement; how it ended, and the most that the process had meanwhile beyond what it had
/// before, in bytes.
async fn measured(session: &mut Session, sql: &str) -> (Result<usize>, i64) {
    let before = TAKEN.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let done = thalweg_runtime::timeout(HANGS_AFTER, rows(session, sql)).await;
    let done = done.unwrap_or_else(|_| panic!("it does not end: {sql}"));
    (done, PEAK.load(Ordering::Relaxed) - before)
}

/// Runs a statement, which is to stay within the limit, and ends well or for want of memory.
async fn holds(session: &mut Session, sql: &str) -> Result<usize> {
    let (done, peak) = measured(session, sql).await;
    assert!(peak <= LIMIT + MARGIN, "{sql}: {} MiB, {done:?}", peak >> 20);
    done
}

/// Waits until the process has no more than this beyond what it had.
async fn falls_back_to(before: i64, beyond: i64) {
    for _ in 0..HANGS_AFTER.as_millis() / 10 {
        if TAKEN.load(Ordering::Relaxed) <= before + beyond {
            return;
        }
        thalweg_runtime::sleep(Duration::from_millis(10)).await;
    }
    let held = TAKEN.load(Ordering::Relaxed) - before;
    panic!("{} MiB are still held", held >> 20);
}

async fn limited(database: &Database) -> Session {
    let mut session = database.session();
    session.execute(&format!("SET query_memory_limit = '{}MB'", LIMIT >> 20)).await.unwrap();
    session
}

async fn database() -> Database {
    let database = Database::builder().threads(2).open().unwrap();
    let mut session = database.session();
    for sql in [
        "CREATE TABLE m (g bigint, v text, n double precision)",
        "INSERT INTO m SELECT i % 100001, 'a text of some length ' || i, i \
         FROM generate_series(1, 300000) s(i)",
    ] {
        session.execute(sql).await.unwrap();
    }
    database
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_stay_within_the_limit() {
    let _alone = ALONE.lock().await;
    let database = database().await;
    let mut session = limited(&database).await;
    for sql in [
        "SELECT count(DISTINCT repeat('x', 400000 + i)) FROM generate_series(1, 8000) s(i)",
        "SELECT repeat('x', 1000000000), repeat('y', 1000000000), repeat('z', 1000000000)",
    ] {
        let done = holds(&mut session, sql).await;
        let state = done.as_ref().err().map(Error::state);
        assert_eq!(state, Some(SqlState::OUT_OF_MEMORY), "{sql}: {done:?}");
    }
}

/// Further statements to measure, one a line, from the file that `THALWEG_STATEMENTS` names.
#[expect(clippy::disallowed_methods, reason = "a test that reads a file")]
fn further_statements() -> Vec<String> {
    let file = std::env::var("THALWEG_STATEMENTS").ok();
    let text = file.map(|file| std::fs::read_to_string(file).unwrap()).unwrap_or_default();
    text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// The limit holds for every statement that makes large values. `THALWEG_ONLY` selects statements
/// by a part of their text, and `THALWEG_STATEMENTS` adds those of a file.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn functions_that_make_values_stay_within_the_limit() {
    let _alone = ALONE.lock().await;
    let database = database().await;
    let mut session = limited(&database).await;
    let only = std::env::var("THALWEG_ONLY").unwrap_or_default();
    let mut wrong = Vec::new();
    let further = further_statements();
    let statements = growing::STATEMENTS.iter().copied().chain(further.iter().map(String::as_str));
    for sql in statements.filter(|sql| sql.contains(&only)) {
        let (done, peak) = measured(&mut session, sql).await;
        let state = done.as_ref().err().map_or("00000", |error| error.state().0);
        eprintln!("{:3} MiB {state} {sql}", peak >> 20);
        let ends_well = matches!(state, "00000" | "53200" | "54000");
        if peak > LIMIT + MARGIN || !ends_well {
            wrong.push(format!("{} MiB, {done:?}: {sql}", peak >> 20));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Statements that exceed the limit end all the same, and take a bounded part of the machine.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_that_exceed_the_limit_end() {
    let _alone = ALONE.lock().await;
    let database = database().await;
    let mut session = limited(&database).await;
    for sql in growing::EXCEEDING {
        let (done, peak) = measured(&mut session, sql).await;
        eprintln!("{:3} MiB {sql}", peak >> 20);
        let state = done.as_ref().err().map_or("00000", |error| error.state().0);
        assert!(matches!(state, "00000" | "53200" | "54000"), "{done:?}: {sql}");
        assert!(peak <= EXCEEDING_MAX, "{} MiB: {sql}", peak >> 20);
    }
}

/// Statements whose rows become wide after the first ones, with their numbers of rows. A batch of
/// the usual number of rows is larger than the limit.
const WIDE: [(&str, usize); 6] = [
    ("SELECT g, CASE WHEN n < 9000 THEN v ELSE repeat(v, 1000) END FROM m LIMIT 30000", 30_000),
    (
        "SELECT jsonb_build_object('a', CASE WHEN n < 9000 THEN v ELSE repeat(v, 1000) END) \
         FROM m LIMIT 20000",
        20_000,
    ),
    (
        "SELECT string_to_array(repeat('ab,', CASE WHEN n < 9000 THEN 1 ELSE 3000 END), ',') \
         FROM m LIMIT 12000",
        12_000,
    ),
    ("SELECT id, pad FROM wide", 3_000),
    ("SELECT id, pad FROM wide WHERE id % 7 > 0 AND length(pad) > 10", 1_715),
    ("SELECT upper(pad), id FROM wide WHERE id > 5", 2_995),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wide_rows_stream_within_the_limit() {
    let _alone = ALONE.lock().await;
    let database = database().await;
    for sql in [
        "CREATE TABLE wide (id bigint, pad text)",
        "INSERT INTO wide SELECT i, repeat('p', CASE WHEN i < 1000 THEN 10 ELSE 60000 END) \
         FROM generate_series(1, 3000) s(i)",
    ] {
        database.session().execute(sql).await.unwrap();
    }
    let mut session = limited(&database).await;
    let mut wrong = Vec::new();
    for (sql, expected) in WIDE {
        let (done, peak) = measured(&mut session, sql).await;
        eprintln!("{:3} MiB {done:?} {sql}", peak >> 20);
        if peak > LIMIT + MARGIN || done.as_ref().ok() != Some(&expected) {
            wrong.push(format!("{} MiB, {done:?}: {sql}", peak >> 20));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Values that nest as deeply as they may, and ten and thirty times as deeply.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deep_values_take_little_memory() {
    let _alone = ALONE.lock().await;
    let database = database().await;
    let mut session = database.session();
    for form in growing::DEEP {
        for depth in [6_000, 60_000, 200_000] {
            let sql = form(depth);
            let (done, peak) = measured(&mut session, &sql).await;
            let state = done.as_ref().err().map_or("00000", |error| error.state().0);
            let shown = &sql[..sql.len().min(70)];
            eprintln!("{:3} MiB {state} {depth} {shown}", peak >> 20);
            assert!(peak <= 100 << 20, "{} MiB at {depth}: {shown}", peak >> 20);
        }
    }
}

/// A statement's tokens and its tree count before it is planned.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_texts_stay_within_the_limit() {
    let _alone = ALONE.lock().await;
    let database = database().await;
    let mut session = limited(&database).await;
    let mut wrong = Vec::new();
    for (form, times) in growing::TEXTS {
        for times in [times / 30, times] {
            let sql = form(times);
            let (done, peak) = measured(&mut session, &sql).await;
            let state = done.as_ref().err().map_or("00000", |error| error.state().0);
            let shown = &sql[..sql.len().min(40)];
            eprintln!("{:3} MiB {state} {times} {shown}", peak >> 20);
            if peak > LIMIT + MARGIN || !matches!(state, "00000" | "53200" | "42601" | "54011") {
                wrong.push(format!("{} MiB, {done:?}: {times} {shown}", peak >> 20));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Prepared statements count, one by one and together.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prepared_statements_of_a_session_have_a_limit() {
    let _alone = ALONE.lock().await;
    let database = database().await;
    let mut session = database.session();
    let before = TAKEN.load(Ordering::Relaxed);
    let prepare = |number: usize| {
        format!("PREPARE p{number} AS SELECT '{}', 1 IN ({}1)", "x".repeat(9_000), "1,".repeat(500))
    };
    let mut number = 0;
    let refused = loop {
        let sql = prepare(number);
        match session.execute(&sql).await {
            Ok(_) => number += 1,
            Err(refused) => break refused,
        }
        assert!(number < 100_000, "there is no limit");
    };
    assert_eq!(refused.state(), SqlState::OUT_OF_MEMORY, "{refused}");
    let held = TAKEN.load(Ordering::Relaxed) - before;
    assert!(number > 100 && held < 160 << 20, "{number} statements hold {} MiB", held >> 20);
    session.execute("DEALLOCATE p0").await.unwrap();
    session.execute(&prepare(0)).await.unwrap();
    session.execute("DEALLOCATE ALL").await.unwrap();
    falls_back_to(before, 24 << 20).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn canceled_statements_give_their_memory_back() {
    let _alone = ALONE.lock().await;
    let database = database().await;
    for sql in [
        "SELECT g, mode() WITHIN GROUP (ORDER BY v) FROM m GROUP BY g",
        "SELECT generate_series(0, 9223372036854775807)",
        "SELECT count(*) FROM (SELECT generate_series(1, i) FROM generate_series(1, 90000) s(i)) x",
        "SELECT a.v, b.v FROM m a CROSS JOIN m b ORDER BY a.v, b.v",
        "SELECT string_agg(v, ',' ORDER BY n), g % 10 FROM m GROUP BY g % 10 ORDER BY 1",
        "SELECT array_agg(v) OVER (ORDER BY n) FROM m",
    ] {
        let mut session = database.session();
        session.execute("SET query_memory_limit = '1GB'").await.unwrap();
        let before = TAKEN.load(Ordering::Relaxed);
        let handle = session.cancel_handle();
        let canceling = async {
            thalweg_runtime::sleep(Duration::from_millis(500)).await;
            handle.cancel();
        };
        let running = thalweg_runtime::timeout(HANGS_AFTER, rows(&mut session, sql));
        let (done, ()) = futures::future::join(running, canceling).await;
        let done = done.unwrap_or_else(|_| panic!("it does not hear of the cancel: {sql}"));
        drop(done);
        drop(session);
        falls_back_to(before, 24 << 20).await;
    }
}
