//! Limits of memory: of the process, as the system counts it, and of one statement.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arrow::util::pretty::pretty_format_batches;
use futures::StreamExt;
use thalweg_env::{Env, Memory};
use thalweg_query::{Database, Session};
use thalweg_types::{Error, Result, SqlState};

const LIMIT: u64 = 160 << 20;
/// Of which rows may have seven eighths.
const OF_ROWS: u64 = 140 << 20;

/// A system that says what it is told.
#[derive(Default)]
struct ReportedMemory(AtomicU64);

impl Memory for ReportedMemory {
    fn give_back(&self) {}

    fn used_bytes(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed))
    }
}

fn database(reports: &Arc<ReportedMemory>) -> Database {
    let (env, ..) = Env::simulated(1);
    let env = Env { memory: Arc::clone(reports) as _, ..env };
    Database::builder().threads(2).env(env).process_memory_limit(LIMIT).open().unwrap()
}

/// How many rows a statement gives, all of them read.
async fn rows(session: &mut Session, sql: &str) -> Result<usize> {
    let Some(mut batches) = session.execute(sql).await?.rows else { return Ok(0) };
    let mut rows = 0;
    while let Some(batch) = batches.next().await {
        rows += batch?.num_rows();
    }
    Ok(rows)
}

async fn refused(session: &mut Session, sql: &str) -> Error {
    rows(session, sql).await.expect_err(sql)
}

const MANY: &str =
    "INSERT INTO t SELECT i, repeat('x', 20) || i FROM generate_series(100, 400000) s(i)";

#[tokio::test]
async fn rows_are_refused_where_the_process_has_too_much() {
    let reports = Arc::new(ReportedMemory::default());
    let database = database(&reports);
    let mut session = database.session();
    for sql in [
        "CREATE TABLE t (id bigint PRIMARY KEY, name text)",
        "INSERT INTO t SELECT i, 'a' FROM generate_series(1, 10) s(i)",
    ] {
        session.execute(sql).await.unwrap();
    }
    session.execute(MANY).await.unwrap();
    session.execute("DELETE FROM t WHERE id >= 100").await.unwrap();
    reports.0.store(OF_ROWS + 1, Ordering::Relaxed);
    // What was taken by then makes it ask the system again.
    let error = refused(&mut session, MANY).await;
    assert_eq!(error.state(), SqlState::OUT_OF_MEMORY);
    assert_eq!(error.message(), "out of memory for rows");
    let error_text = "For rows, the process has 141 MiB of memory, of which 140 MiB are allowed.";
    assert_eq!(error.detail(), Some(error_text));
    for sql in [
        "INSERT INTO t VALUES (11, 'b')",
        "UPDATE t SET name = 'b'",
        "CREATE TABLE u AS SELECT * FROM t",
    ] {
        assert_eq!(refused(&mut session, sql).await.state(), SqlState::OUT_OF_MEMORY, "{sql}");
    }
    // Nothing of it happened, looking goes on, and so does deleting, which makes room.
    assert_eq!(rows(&mut session, "SELECT * FROM t ORDER BY name, id").await.unwrap(), 10);
    rows(&mut session, "DELETE FROM t WHERE id > 5").await.unwrap();
    reports.0.store(OF_ROWS - (1 << 20), Ordering::Relaxed);
    rows(&mut session, "INSERT INTO t VALUES (11, 'b')").await.unwrap();
    assert_eq!(rows(&mut session, "SELECT * FROM t").await.unwrap(), 6);
}

#[tokio::test]
async fn blocks_do_not_gather_rows_without_end() {
    let reports = Arc::new(ReportedMemory(AtomicU64::new(OF_ROWS - (6 << 20))));
    let database = database(&reports);
    let mut session = database.session();
    session.execute("CREATE TABLE t (id bigint, name text)").await.unwrap();
    session.execute("BEGIN").await.unwrap();
    let sql = "INSERT INTO t SELECT i, 'a' FROM generate_series(1, 50000) s(i)";
    let mut statements = 0;
    let error = loop {
        match rows(&mut session, sql).await {
            Ok(_) => statements += 1,
            Err(error) => break error,
        }
        reports.0.fetch_add(2 << 20, Ordering::Relaxed);
        assert!(statements < 100, "nobody stops it");
    };
    assert_eq!(error.state(), SqlState::OUT_OF_MEMORY);
    session.execute("ROLLBACK").await.unwrap();
    assert_eq!(rows(&mut session, "SELECT * FROM t").await.unwrap(), 0);
}

#[tokio::test]
async fn statements_that_cannot_spill_fail_alone() {
    let reports = Arc::new(ReportedMemory(AtomicU64::new(LIMIT)));
    let database = database(&reports);
    let mut session = database.session();
    let join = "SELECT * FROM generate_series(1, 300000) a(x) \
                JOIN generate_series(1, 300000) b(y) ON a.x = b.y";
    let crossed = "SELECT * FROM generate_series(1, 300000) a(x) \
                   CROSS JOIN generate_series(1, 300000) b(y)";
    let error = refused(&mut session, crossed).await;
    assert_eq!(error.state(), SqlState::OUT_OF_MEMORY);
    assert!(error.message().starts_with("out of memory in "), "{}", error.message());
    let hint = error.hint().unwrap();
    assert!(hint.starts_with("Raise database.process_memory_limit"), "{hint}");
    reports.0.store(0, Ordering::Relaxed);
    assert_eq!(rows(&mut session, join).await.unwrap(), 300_000);
}

/// Whose memory is too small is told by the name of the setting that gives more.
#[tokio::test]
async fn all_statements_share_one_limit() {
    let database = Database::builder().threads(2).memory_limit(4 << 20).open().unwrap();
    let mut session = database.session();
    // A join without keys cannot spill.
    let joined = "SELECT * FROM generate_series(1, 2000000) a(x) \
                  CROSS JOIN generate_series(1, 2000000) b(y)";
    let error = refused(&mut session, joined).await;
    assert_eq!(error.state(), SqlState::OUT_OF_MEMORY);
    let hint = error.hint().unwrap();
    assert!(hint.starts_with("Raise database.memory_limit"), "{hint}");
}

/// They gather whole partitions, and cannot go to disk.
#[tokio::test]
async fn windows_count_what_they_gather() {
    let database = Database::builder().threads(2).open().unwrap();
    let (mut session, mut other) = (database.session(), database.session());
    for sql in [
        "CREATE TABLE w (id integer, kind integer, name text)",
        "INSERT INTO w SELECT n, n % 1000, 'a name that is rather long: ' || n \
         FROM generate_series(1, 100000) AS s(n)",
        "SET query_memory_limit = '4MB'",
    ] {
        session.execute(sql).await.unwrap();
    }
    let whole = "SELECT id, name, sum(id) OVER () FROM w";
    let error = refused(&mut session, whole).await;
    assert_eq!(error.state(), SqlState::OUT_OF_MEMORY);
    assert_eq!(error.message(), "out of memory in WindowAggExec");
    assert!(error.hint().unwrap().starts_with("Raise query_memory_limit"), "{error:?}");
    assert_eq!(rows(&mut other, whole).await.unwrap(), 100_000);
    // One that goes with its rows holds few of them.
    let running = "SELECT id, sum(id) OVER (ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) FROM w";
    assert_eq!(rows(&mut session, running).await.unwrap(), 100_000);
    session.execute("SET query_memory_limit = '64MB'").await.unwrap();
    assert_eq!(rows(&mut session, whole).await.unwrap(), 100_000);
}

#[tokio::test]
async fn one_statement_has_its_part() {
    let database = Database::builder().threads(2).open().unwrap();
    let mut session = database.session();
    session.execute("SET query_memory_limit = '3MB'").await.unwrap();
    let mut other = database.session();
    let sorted =
        "SELECT x, repeat('x', 50) AS y FROM generate_series(1, 200000) a(x) ORDER BY y, x";
    let joined = "SELECT * FROM generate_series(1, 300000) a(x) \
                  JOIN generate_series(1, 300000) b(y) ON a.x = b.y";
    assert_eq!(rows(&mut session, sorted).await.unwrap(), 200_000, "it spills");
    assert_eq!(rows(&mut session, joined).await.unwrap(), 300_000, "both sides spill");
    let crossed = "SELECT * FROM generate_series(1, 1000000) a(x) \
                   CROSS JOIN generate_series(1, 1000000) b(y)";
    let error = refused(&mut session, crossed).await;
    assert_eq!(error.state(), SqlState::OUT_OF_MEMORY);
    let hint = error.hint().unwrap();
    assert!(hint.starts_with("Raise query_memory_limit"), "{hint}");
    assert_eq!(rows(&mut other, joined).await.unwrap(), 300_000);
    session.execute("SET query_memory_limit = 0").await.unwrap();
    assert_eq!(rows(&mut session, joined).await.unwrap(), 300_000);
}

#[tokio::test]
async fn what_cannot_be_spilled_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let builder = Database::builder().threads(2).spill_directory(directory.path());
    let database = builder.spill_limit(50_000).open().unwrap();
    let mut session = database.session();
    let sorted =
        "SELECT x, repeat('x', 50) AS y FROM generate_series(1, 200000) a(x) ORDER BY y, x DESC";
    session.execute("SET query_memory_limit = '3MB'").await.unwrap();
    let error = refused(&mut session, sorted).await;
    assert_eq!(error.state(), SqlState::DISK_FULL, "{error:?}");
    assert_eq!(error.message(), "no room for temporary files");
    let hint = error.hint().unwrap();
    assert!(hint.starts_with("Raise database.spill_limit"), "{hint}");
    session.execute("SET query_memory_limit = 0").await.unwrap();
    assert_eq!(rows(&mut session, sorted).await.unwrap(), 200_000, "it need not spill");
}

/// Two tables, each many times as large as a statement with `query_memory_limit` may be.
async fn large_tables(database: &Database) -> Session {
    let mut session = database.session();
    for table in ["a", "b"] {
        session.execute(&format!("CREATE TABLE {table} (id bigint, pad text)")).await.unwrap();
        let insert = format!(
            "INSERT INTO {table} SELECT i, repeat('{table}', 100) || i \
             FROM generate_series(1::bigint, 150000::bigint) s(i)"
        );
        session.execute(&insert).await.unwrap();
    }
    session.execute("DELETE FROM b WHERE id % 10 = 0 OR id > 120000").await.unwrap();
    session.execute("SET query_memory_limit = '4MB'").await.unwrap();
    session
}

#[tokio::test]
async fn groupings_and_joins_that_find_no_room_on_disk_say_so() {
    let directory = tempfile::tempdir().unwrap();
    let builder = Database::builder().threads(2).spill_directory(directory.path());
    let database = builder.spill_limit(50_000).open().unwrap();
    let mut session = large_tables(&database).await;
    for (sql, found) in [
        ("SELECT pad, count(*), sum(id), min(id), max(id) FROM a GROUP BY pad", 150_000),
        ("SELECT a.pad, b.pad FROM a JOIN b ON a.id = b.id", 108_000),
    ] {
        let error = refused(&mut session, sql).await;
        assert_eq!(error.state(), SqlState::DISK_FULL, "{sql}: {error:?}");
        assert_eq!(error.message(), "no room for temporary files");
        let hint = error.hint().unwrap();
        assert!(hint.starts_with("Raise database.spill_limit"), "{hint}");
        let unlimited = rows(&mut database.session(), sql).await;
        assert_eq!(unlimited.unwrap(), found, "{sql} need not spill");
    }
    assert_eq!(rows(&mut session, "SELECT id FROM a LIMIT 5").await.unwrap(), 5);
}

async fn shown(session: &mut Session, sql: &str) -> String {
    let mut rows = session.execute(sql).await.unwrap().rows.expect("a query gives rows");
    let mut batches = Vec::new();
    while let Some(batch) = rows.next().await {
        batches.push(batch.unwrap());
    }
    pretty_format_batches(&batches).unwrap().to_string()
}

/// Whether an operator says of each time it is in a plan that it went to disk.
fn has_spilled(plan: &str, operator: &str) -> bool {
    let mut error_text =
        plan.lines().filter(|line| line.contains(&format!("{operator}:"))).peekable();
    error_text.peek().is_some()
        && error_text.all(|line| line.contains("spill_count=") && !line.contains("spill_count=0"))
}

#[tokio::test]
async fn joins_go_to_disk() {
    let database = Database::builder().threads(2).open().unwrap();
    let mut session = large_tables(&database).await;
    let mut unlimited = database.session();
    let figures = "count(*) AS n, sum(length(a.pad)) AS long, min(b.pad) AS first, \
                   sum(a.id * 7 % 1000 - b.id) AS sum";
    for from in [
        "a JOIN b ON a.id = b.id",
        // Scans that wait for keys are told that there are none.
        "a JOIN b ON a.id = b.id AND a.id % 2 = 0",
        "a LEFT JOIN b ON a.id = b.id",
        "a JOIN b ON a.id = b.id AND a.pad < b.pad AND a.id * 3 % 7 > b.id % 5",
        "a RIGHT JOIN b ON a.id = b.id + 5",
        "a FULL JOIN b ON a.id = b.id + 7",
    ] {
        let sql = format!("SELECT {figures} FROM {from}");
        let expected = shown(&mut unlimited, &sql).await;
        assert_eq!(shown(&mut session, &sql).await, expected, "{from}");
        let run = shown(&mut session, &format!("EXPLAIN ANALYZE {sql}")).await;
        assert!(run.contains("SortMergeJoinExec:") && has_spilled(&run, "SortExec"), "{run}");
    }
    // What comes of a join in an order still does.
    let ordered = "SELECT a.id, b.id FROM b JOIN a ON a.pad < b.pad AND a.id = b.id * 9 \
                   ORDER BY a.id DESC LIMIT 5";
    assert_eq!(shown(&mut session, ordered).await, shown(&mut unlimited, ordered).await);
    for condition in [
        "EXISTS (SELECT 1 FROM b WHERE b.pad > 'b' AND b.id = a.id)",
        "NOT EXISTS (SELECT 1 FROM b WHERE b.id = a.id)",
        "id IN (SELECT id FROM b) OR id % 17 = 3",
    ] {
        let sql = format!("SELECT count(*), sum(id), max(pad) FROM a WHERE {condition}");
        let expected = shown(&mut unlimited, &sql).await;
        assert_eq!(shown(&mut session, &sql).await, expected, "{condition}");
    }
    // What is joined by more than equal keys, and keeps rows that meet none, is not merged.
    let further = "SELECT count(b.id) FROM a LEFT JOIN b ON a.id = b.id AND a.pad < b.pad";
    let error = refused(&mut session, further).await;
    assert_eq!(error.state(), SqlState::OUT_OF_MEMORY);
}

/// Groups that workers have no memory for wait on disk, partition by partition.
#[tokio::test]
async fn groupings_go_to_disk() {
    let database = Database::builder().threads(2).open().unwrap();
    let mut unlimited = database.session();
    for sql in [
        "CREATE TABLE g (id bigint, name text, amount double precision, n integer)",
        "INSERT INTO g SELECT i * 7919 % 300000, \
         CASE WHEN i % 9 > 0 THEN repeat('g', 30) || i % 200000 END, i % 1000 + 0.5, i % 77 \
         FROM generate_series(1::bigint, 500000::bigint) s(i)",
        "DELETE FROM g WHERE id % 11 = 3",
    ] {
        unlimited.execute(sql).await.unwrap();
    }
    for (limit, select) in [
        (
            "8MB",
            "SELECT id, count(*) AS a, sum(n) AS b, min(n) AS c, avg(amount) AS d FROM g \
             GROUP BY id",
        ),
        (
            "16MB",
            "SELECT name, count(*) AS a, max(id) AS b, count(DISTINCT n) AS c, stddev(n) AS d \
             FROM g GROUP BY name",
        ),
        (
            "12MB",
            "SELECT id, n, count(*) AS a, first_value(amount ORDER BY n) AS b, min(name) AS c, \
             1 AS d FROM g GROUP BY id, n",
        ),
    ] {
        let sql = format!(
            "SELECT count(*), sum(a), sum(b), min(md5(c::text)), sum(length(c::text)), \
             round(sum(d)::numeric, 3) FROM ({select}) AS x"
        );
        let expected = shown(&mut unlimited, &sql).await;
        let mut session = database.session();
        session.execute(&format!("SET query_memory_limit = '{limit}'")).await.unwrap();
        assert_eq!(shown(&mut session, &sql).await, expected, "{select}");
        let run = shown(&mut session, &format!("EXPLAIN ANALYZE {select}")).await;
        let fused = run.lines().find(|line| line.contains("FusedAggregate:")).unwrap();
        assert!(fused.contains("spilled_bytes=") && !fused.contains("spilled_bytes=0"), "{fused}");
    }
}

/// Batches that two tasks deal out to two others, none of which may wait for the others for ever:
/// <https://github.com/apache/datafusion/issues/24883>. A fifth of the attempts did.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitions_of_a_grouping_do_not_wait_for_each_other() {
    let database = Database::builder().threads(2).open().unwrap();
    let mut session = database.session();
    for sql in [
        "CREATE TABLE m (v text)",
        "INSERT INTO m SELECT 'a text of some length ' || i FROM generate_series(1, 300000) s(i)",
        "SET query_memory_limit = '16MB'",
    ] {
        session.execute(sql).await.unwrap();
    }
    for attempt in 0..16 {
        let distinct = rows(&mut session, "SELECT DISTINCT repeat(v, 100) FROM m");
        let done = thalweg_runtime::timeout(Duration::from_secs(60), distinct).await;
        match done.unwrap_or_else(|_| panic!("attempt {attempt} does not end")) {
            Ok(count) => assert_eq!(count, 300_000),
            Err(error) => assert_eq!(error.state(), SqlState::OUT_OF_MEMORY),
        }
    }
}

/// NaN is one group wherever it comes from, both zeros are one, and so is NULL, though each was
/// written to disk several times.
#[tokio::test]
async fn groups_of_floats_come_back_from_disk_as_they_went() {
    let database = Database::builder().threads(2).open().unwrap();
    let mut unlimited = database.session();
    for sql in [
        "CREATE TABLE f (i bigint, x double precision)",
        "INSERT INTO f SELECT i, CASE i % 1000 WHEN 1 THEN 'NaN'::float8 \
         WHEN 2 THEN 'Infinity'::float8 - 'Infinity'::float8 WHEN 3 THEN '-0'::float8 \
         WHEN 4 THEN 0::float8 WHEN 5 THEN NULL ELSE (i * 7919 % 300000)::float8 + 0.5 END \
         FROM generate_series(1::bigint, 500000::bigint) s(i)",
    ] {
        unlimited.execute(sql).await.unwrap();
    }
    let mut session = database.session();
    session.execute("SET query_memory_limit = '6MB'").await.unwrap();
    let groups = "SELECT x, count(*) AS n, sum(i) AS s FROM f GROUP BY x";
    // Other numbers have few rows each.
    let special = format!(
        "SELECT x = 'NaN' AS is_nan, x = 0 AS is_zero, n, s::bigint AS s \
         FROM ({groups} HAVING count(*) > 100) AS g ORDER BY s"
    );
    let found = shown(&mut session, &special).await;
    let rows: Vec<&str> = found.lines().skip(3).filter(|line| !line.starts_with('+')).collect();
    let expected = [
        "|        |         | 500  | 124752500 |",
        "| true   | false   | 1000 | 249501500 |",
        "| false  | true    | 1000 | 249503500 |",
    ];
    assert_eq!(rows, expected, "{found}");
    let all = format!("SELECT count(*), count(x), sum(n), sum(s) FROM ({groups}) AS g");
    let expected = shown(&mut unlimited, &all).await;
    assert_eq!(shown(&mut session, &all).await, expected);
    let run = shown(&mut session, &format!("EXPLAIN ANALYZE {groups}")).await;
    let fused = run.lines().find(|line| line.contains("FusedAggregate:")).unwrap();
    assert!(fused.contains("spilled_bytes=") && !fused.contains("spilled_bytes=0"), "{fused}");
}

#[tokio::test]
async fn sorts_of_tables_go_to_disk() {
    let database = Database::builder().threads(2).open().unwrap();
    let mut session = large_tables(&database).await;
    let sql = "SELECT id FROM a ORDER BY id % 1000, pad DESC";
    let expected = shown(&mut database.session(), sql).await;
    assert!(shown(&mut session, sql).await == expected);
    let run = shown(&mut session, &format!("EXPLAIN ANALYZE {sql}")).await;
    assert!(has_spilled(&run, "SortExec"), "{run}");
}

/// What a window gives as one batch is cut. Whoever holds on to the parts is given copies, of which
/// each counts as what it is.
#[tokio::test]
async fn parts_of_windows_are_copied_for_whoever_holds_on_to_them() {
    let database = Database::builder().threads(2).open().unwrap();
    let mut session = database.session();
    session.execute("CREATE TABLE a (id bigint)").await.unwrap();
    session.execute("INSERT INTO a VALUES (1), (2), (3)").await.unwrap();
    let window = "SELECT id, count(*) OVER (PARTITION BY id % 5) AS n FROM a";
    let error_text = shown(&mut session, &format!("EXPLAIN {window}")).await;
    assert!(
        error_text.contains("SmallBatches") && !error_text.contains("SmallBatches: own"),
        "{error_text}"
    );
    let sorted = format!("{window} ORDER BY n, id DESC");
    let error_text = shown(&mut session, &format!("EXPLAIN {sorted}")).await;
    assert!(error_text.contains("SmallBatches: own"), "{error_text}");
}

/// A sort for the first rows holds these; where they have no room, all rows are sorted on disk.
#[tokio::test]
async fn sorts_for_the_first_rows_go_to_disk() {
    let database = Database::builder().threads(2).open().unwrap();
    let mut session = large_tables(&database).await;
    for sql in [
        "SELECT id, pad FROM a ORDER BY id % 1000, pad DESC LIMIT 100000",
        "SELECT id, pad FROM a ORDER BY id % 1000, pad DESC LIMIT 50000 OFFSET 40000",
        // A few rows, each of two thousand letters.
        "SELECT id, repeat(pad, 20) AS wide FROM a WHERE id <= 6000 ORDER BY id % 7, id LIMIT 5000",
    ] {
        let expected = shown(&mut database.session(), sql).await;
        assert!(shown(&mut session, sql).await == expected, "{sql}");
        let run = shown(&mut session, &format!("EXPLAIN ANALYZE {sql}")).await;
        assert!(has_spilled(&run, "SortExec"), "{run}");
    }
}

/// A join that has no equal keys goes through its first side in parts, and gives rows that meet
/// none once.
#[tokio::test]
async fn joins_without_equal_keys_go_to_disk() {
    let database = Database::builder().threads(2).open().unwrap();
    let mut session = database.session();
    for sql in [
        "CREATE TABLE few (id bigint, pad text)",
        "INSERT INTO few SELECT i, repeat('f', 2000) || i FROM generate_series(1, 2200) s(i)",
        "CREATE TABLE many (id bigint, pad text)",
        "INSERT INTO many SELECT i, repeat('m', 300) || i FROM generate_series(1, 70000) s(i)",
        "SET query_memory_limit = '2MB'",
    ] {
        session.execute(sql).await.unwrap();
    }
    let mut unlimited = database.session();
    let meets = "many.id > few.id * 35 AND many.id < few.id * 35 + 3";
    for join in ["JOIN", "LEFT JOIN", "RIGHT JOIN"] {
        let sql = format!(
            "SELECT count(*), count(many.id), count(few.id), sum(length(few.pad)), \
             sum(length(many.pad)) FROM few {join} many ON {meets}"
        );
        let expected = shown(&mut unlimited, &sql).await;
        assert_eq!(shown(&mut session, &sql).await, expected, "{join}");
        let run = shown(&mut session, &format!("EXPLAIN ANALYZE {sql}")).await;
        assert!(has_spilled(&run, "NestedLoopJoinExec"), "{run}");
    }
}

#[tokio::test]
async fn a_join_that_cannot_go_to_disk_says_who_wanted_what() {
    let database = Database::builder().threads(2).open().unwrap();
    let mut session = large_tables(&database).await;
    let error = refused(&mut session, "SELECT * FROM a CROSS JOIN b").await;
    assert_eq!(error.state(), SqlState::OUT_OF_MEMORY);
    assert_eq!(error.message(), "out of memory in CrossJoinExec");
    let hint = error.hint().unwrap();
    assert!(hint.starts_with("Raise query_memory_limit"), "{hint}");
    // The session goes on, and so do others.
    assert_eq!(rows(&mut session, "SELECT id FROM a LIMIT 5").await.unwrap(), 5);
}

/// Rows that several readers share stay until the statement ends, within its memory.
#[tokio::test]
async fn a_materialised_with_query_is_accounted_for() {
    let database = Database::builder().threads(2).open().unwrap();
    let mut session = database.session();
    let shared = |rows: usize| {
        format!(
            "WITH s AS (SELECT i, repeat('x', 100) || i AS t FROM generate_series(1, {rows}) g(i)) \
             SELECT count(a.t), count(b.t) FROM s a, s b WHERE a.i = b.i AND b.i < 10"
        )
    };
    session.execute("SET query_memory_limit = '8MB'").await.unwrap();
    assert_eq!(rows(&mut session, &shared(1000)).await.unwrap(), 1);
    let error = refused(&mut session, &shared(1_000_000)).await;
    assert_eq!(error.state(), SqlState::OUT_OF_MEMORY);
    // A limit above ends what has no end.
    let endless = "WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s) \
                   SELECT n FROM (SELECT n FROM s LIMIT 3) a UNION ALL (SELECT n FROM s LIMIT 2)";
    assert_eq!(rows(&mut session, endless).await.unwrap(), 5);
}
