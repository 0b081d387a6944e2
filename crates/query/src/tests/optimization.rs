//! The size of plans of nested queries.

use std::fmt::Write as _;
use std::time::Duration;

use futures::StreamExt as _;

use crate::{Database, Session};

/// Writes a statement of a given depth.
type Nesting = fn(usize) -> String;

fn wrapped(depth: usize, inner: &str, wrap: fn(usize, &str) -> String) -> String {
    (0..depth).rev().fold(inner.to_owned(), |inner, level| wrap(level, &inner))
}

fn chained(depth: usize, link: fn(usize) -> String) -> String {
    (1..depth).fold(String::new(), |mut chain, level| {
        let _ = write!(chain, ", {}", link(level));
        chain
    })
}

const NESTINGS: [(&str, Nesting); 8] = [
    ("scalar", |depth| {
        let wrap = |_, inner: &str| format!("(SELECT max(x) FROM t WHERE x < {inner})");
        format!("SELECT {}", wrapped(depth, "50", wrap))
    }),
    ("EXISTS", |depth| {
        let wrap = |_, inner: &str| format!("EXISTS (SELECT 1 FROM t WHERE {inner})");
        format!("SELECT count(*) FROM t WHERE {}", wrapped(depth, "x > 0", wrap))
    }),
    ("correlated EXISTS", |depth| {
        let wrap = |level: usize, inner: &str| {
            let own = level + 1;
            format!("EXISTS (SELECT 1 FROM t t{own} WHERE t{own}.x = t{level}.x AND {inner})")
        };
        format!("SELECT count(*) FROM t t0 WHERE {}", wrapped(depth, "true", wrap))
    }),
    ("IN", |depth| {
        let wrap = |_, inner: &str| format!("x IN (SELECT x FROM t WHERE {inner})");
        format!("SELECT count(*) FROM t WHERE {}", wrapped(depth, "x > 0", wrap))
    }),
    ("NOT IN", |depth| {
        let wrap = |_, inner: &str| format!("x NOT IN (SELECT x FROM t WHERE {inner})");
        format!("SELECT count(*) FROM t WHERE {}", wrapped(depth, "x > 0", wrap))
    }),
    ("LATERAL", |depth| {
        let link = |own: usize| {
            let before = own - 1;
            format!("LATERAL (SELECT l{before}.x + 1 AS x) l{own}")
        };
        format!("SELECT count(*) FROM t l0{}", chained(depth, link))
    }),
    ("WITH", |depth| {
        let link = |own: usize| format!("c{own} AS (SELECT x FROM c{})", own - 1);
        let last = depth - 1;
        format!("WITH c0 AS (SELECT x FROM t){} SELECT count(*) FROM c{last}", chained(depth, link))
    }),
    ("WITH read twice", |depth| {
        let link = |own: usize| {
            let before = own - 1;
            format!("c{own} AS (SELECT a.x FROM c{before} a JOIN c{before} b ON a.x = b.x)")
        };
        let last = depth - 1;
        format!("WITH c0 AS (SELECT x FROM t){} SELECT count(*) FROM c{last}", chained(depth, link))
    }),
];

async fn lines(session: &mut Session, sql: &str) -> usize {
    let mut rows = session.execute(sql).await.unwrap().rows.unwrap();
    let mut lines = 0;
    while let Some(batch) = rows.next().await {
        lines += arrow::util::pretty::pretty_format_batches(&[batch.unwrap()])
            .unwrap()
            .to_string()
            .lines()
            .count();
    }
    lines
}

/// If the work doubled with each level, this would not end before the limit.
#[tokio::test]
async fn plans_of_nested_queries_grow_linearly() {
    let database = Database::in_memory().unwrap();
    let mut session = database.session();
    session.execute("CREATE TABLE t (x int)").await.unwrap();
    for (kind, nesting) in NESTINGS {
        let mut sizes = Vec::new();
        for depth in [8, 16, 32] {
            let sql = format!("EXPLAIN {}", nesting(depth));
            let planned = lines(&mut session, &sql);
            let limited = thalweg_runtime::timeout(Duration::from_secs(120), planned).await;
            sizes.push(limited.unwrap_or_else(|_| panic!("{kind}, depth {depth}: no end")));
        }
        assert!(sizes[2] <= 3 * sizes[1] && sizes[1] <= 3 * sizes[0], "{kind}: {sizes:?}");
    }
}
