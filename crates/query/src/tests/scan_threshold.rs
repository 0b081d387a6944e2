//! That sorts for a few rows have those of sorts for all, and read fewer chunks.

use arrow::util::pretty::pretty_format_batches;
use futures::TryStreamExt;

use crate::{Database, Session};

const ROWS: usize = 200_000;
/// More than anybody asks for.
const MANY: usize = 10_000;

/// A table of several chunks, the last of them an open one: bounds of some columns tell all of a
/// chunk, of others nothing; some chunks have NULL, NaN or both alone at an end.
async fn session(threads: usize) -> (Database, Session) {
    let database = Database::builder().threads(threads).open().unwrap();
    let mut session = database.session();
    let rows = format!(
        "INSERT INTO t SELECT i, (i * 7919 % 1000)::int, \
         CASE WHEN i % 70000 < 5 THEN 'NaN'::float8 WHEN i % 11 = 0 THEN NULL \
         WHEN i % 13 = 0 THEN (-0.0)::float8 ELSE (i % 5000)::float8 - 2500.5 END, \
         CASE WHEN i BETWEEN 65000 AND 140000 THEN i / 10 END, \
         'text ' || (i / 1000), date '2024-01-01' + (i / 100)::int \
         FROM generate_series(1::bigint, {ROWS}::bigint) AS g(i)"
    );
    for sql in [
        "CREATE TABLE t (id bigint, v int, f float8, n bigint, s text, d date)",
        rows.as_str(),
        "DELETE FROM t WHERE id % 1000 = 999 OR id BETWEEN 1 AND 20",
        "CREATE TABLE few (v int)",
        "INSERT INTO few VALUES (3), (77), (500)",
    ] {
        session.execute(sql).await.unwrap();
    }
    (database, session)
}

/// The first rows of an answer.
async fn lines(session: &mut Session, sql: &str, most: usize) -> Vec<String> {
    let mut rows = session.execute(sql).await.unwrap().rows.expect("a query gives rows");
    let (mut batches, mut count) = (Vec::new(), 0);
    while count < most
        && let Some(batch) = rows.try_next().await.unwrap()
    {
        let few = batch.slice(0, batch.num_rows().min(most - count));
        count += few.num_rows();
        batches.push(few);
    }
    let table = pretty_format_batches(&batches).unwrap().to_string();
    let rows = table.lines().skip(3).filter(|line| !line.starts_with('+'));
    rows.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

/// What a run says of its scan of the table.
async fn figure(session: &mut Session, sql: &str, name: &str) -> usize {
    let run = lines(session, &format!("EXPLAIN ANALYZE {sql}"), MANY).await;
    let scan = run.iter().find(|line| line.contains("ShardScan: t ")).unwrap();
    let (_, figure) = scan.split_once(&format!("{name}=")).unwrap_or_else(|| panic!("{scan}"));
    let figure = figure.split([',', ']', ' ', '/']).next().unwrap_or_default();
    figure.parse().unwrap_or_else(|_| panic!("{scan}"))
}

const ORDERS: &[&str] = &[
    "id",
    "id DESC",
    "v, id",
    "v DESC, id DESC",
    "f, id",
    "f NULLS FIRST, id",
    "f DESC NULLS FIRST, id",
    "f DESC NULLS LAST, id",
    "n, id DESC",
    "n NULLS FIRST, id DESC",
    "n DESC NULLS FIRST, id",
    "n DESC NULLS LAST, id",
    "s, id",
    "s DESC, id",
    "d DESC, v, id",
    "d, f DESC NULLS LAST, id",
    "-id",
];

#[tokio::test]
async fn few_rows_are_the_first_of_all() {
    for threads in [1, 2] {
        let (_database, mut session) = session(threads).await;
        for order in ORDERS {
            for condition in ["true", "v % 3 = 1 AND (n IS NULL OR n > 9000)"] {
                let all = format!("SELECT id FROM t WHERE {condition} ORDER BY {order}");
                let first = lines(&mut session, &format!("{all} LIMIT 7 OFFSET 2"), MANY).await;
                let all = lines(&mut session, &all, 9).await;
                assert_eq!(first, all[2..], "{condition} {order}");
            }
        }
    }
}

#[tokio::test]
async fn joins_and_subqueries_keep_their_rows() {
    let (_database, mut session) = session(2).await;
    for (from, order) in [
        ("few JOIN t ON t.v = few.v", "t.id DESC"),
        ("few JOIN t ON t.v = few.v", "t.v DESC, t.id"),
        ("few LEFT JOIN t ON t.v = few.v", "t.id DESC"),
        ("(SELECT id AS v, v AS id FROM t WHERE id % 3 = 0) AS t", "t.v DESC"),
        ("(SELECT * FROM t ORDER BY id LIMIT 100000) AS t", "t.id DESC"),
        ("(SELECT max(id) AS id FROM t GROUP BY v) AS t", "t.id DESC"),
        ("(SELECT id FROM t UNION ALL SELECT v FROM t WHERE v > 998) AS t", "t.id DESC"),
    ] {
        let all = format!("SELECT t.* FROM {from} ORDER BY {order}");
        let first = lines(&mut session, &format!("{all} LIMIT 5"), MANY).await;
        assert_eq!(first, lines(&mut session, &all, 5).await, "{from} {order}");
    }
}

#[tokio::test]
async fn chunks_beyond_the_threshold_are_not_read() {
    let (_database, mut session) = session(1).await;
    for (order, read) in [("id DESC", 1), ("id", 2), ("d DESC", 1), ("n DESC NULLS LAST", 3)] {
        let sql = format!("SELECT id, n FROM t ORDER BY {order} LIMIT 10");
        let all = figure(&mut session, &sql, "chunks").await;
        assert!(all > 3, "{all}");
        let chunks = figure(&mut session, &sql, "chunks_read").await;
        let pruned = figure(&mut session, &sql, "chunks_pruned").await;
        assert_eq!(chunks + pruned, all, "{order}");
        // An open chunk is read in any case, and first.
        assert!(chunks <= read, "{order}: {chunks}");
    }
    // Bounds of all chunks are alike.
    let sql = "SELECT id FROM t ORDER BY v LIMIT 300";
    assert_eq!(figure(&mut session, sql, "chunks_pruned").await, 0);
}

#[tokio::test]
async fn kept_plans_have_the_threshold_of_each_run() {
    let (database, mut session) = session(2).await;
    let sql = "SELECT id FROM t ORDER BY id DESC LIMIT 3";
    for more in 1..6_u64 {
        let (less, greatest) = (1_000_000 - more, 1_000_000 + more);
        let insert = format!("INSERT INTO t (id) VALUES ({greatest}), ({less})");
        session.execute(&insert).await.unwrap();
        let found = lines(&mut session, sql, MANY).await;
        assert_eq!(found.len(), 3);
        assert_eq!(found[0], format!("| {greatest} |"));
    }
    assert!(database.shared.plans.figures().runs > 0);
}
