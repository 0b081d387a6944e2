//! Statements that take long to plan: whatever their shape, their own client hears of cancels,
//! time-outs and its end, others are served meanwhile, and nothing is planned on afterwards.

use std::fmt::Write as _;
use std::time::Duration;

use thalweg_server::Server;
use tokio::time::timeout;
use tokio_postgres::{Client, NoTls};

use crate::support::*;

/// Ten times what a server may take on a machine that does nothing else, and more.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a statement may end with that is too much for the server, or was canceled.
const REFUSALS: [&str; 5] = ["57014", "54001", "54011", "53200", "53300"];

/// A text of `levels` parts, each around the one before.
fn nested(levels: usize, wrap: impl Fn(&str) -> String, innermost: &str) -> String {
    (0..levels).fold(innermost.to_owned(), |inner, _| wrap(&inner))
}

fn list(count: usize, separator: &str, item: impl Fn(usize) -> String) -> String {
    (0..count).map(item).collect::<Vec<_>>().join(separator)
}

fn chain(count: usize, link: impl Fn(usize) -> String) -> String {
    let mut sql = "WITH c0 AS (SELECT id AS x FROM t)".to_owned();
    for number in 1..=count {
        let _ = write!(sql, ", c{number} AS ({})", link(number - 1));
    }
    sql + &format!(" SELECT x FROM c{count}")
}

fn columns(count: usize) -> String {
    list(count, ", ", |number| format!("id + {number}"))
}

/// Statements of many shapes, each too large to be planned at once.
fn monsters() -> Vec<(&'static str, String)> {
    let below = |inner: &str| format!("(SELECT max(id) FROM t WHERE id < {inner})");
    let exists = |inner: &str| format!("EXISTS (SELECT 1 FROM t WHERE {inner} AND id > 1)");
    let within = |inner: &str| format!("id IN (SELECT id FROM t WHERE {inner})");
    let from = |inner: &str| format!("(SELECT * FROM {inner} AS s WHERE id > 0)");
    vec![
        ("scalar subqueries", format!("SELECT {}", nested(20, below, "50"))),
        ("EXISTS", format!("SELECT 1 FROM t WHERE {}", nested(20, exists, "true"))),
        ("IN", format!("SELECT 1 FROM t WHERE {}", nested(20, within, "true"))),
        ("derived tables", format!("SELECT * FROM {} AS s", nested(80, from, "t"))),
        ("chain of WITH", chain(1_500, |before| format!("SELECT x + 1 AS x FROM c{before}"))),
        (
            "WITH used twice",
            chain(40, |before| format!("SELECT a.x FROM c{before} a JOIN c{before} b USING (x)")),
        ),
        (
            "LATERAL",
            format!("SELECT 1 FROM t, {}", list(300, ", ", |n| format!("LATERAL (SELECT 1) l{n}"))),
        ),
        (
            "joins",
            format!(
                "SELECT count(*) FROM t {}",
                list(200, " ", |n| format!("JOIN t AS t{n} ON t.id = t{n}.id"))
            ),
        ),
        ("CUBE of 16", format!("SELECT count(*) FROM t GROUP BY CUBE ({})", columns(16))),
        ("CUBE of 12", format!("SELECT count(*) FROM t GROUP BY CUBE ({})", columns(12))),
        ("long IN", {
            let items = list(200_000, ", ", |number| format!("{number} + id"));
            format!("SELECT 1 FROM t WHERE id IN ({items})")
        }),
        ("VALUES", format!("VALUES {}", list(200_000, ", ", |n| format!("({n}, 'x')")))),
        ("UNION", list(2_000, " UNION ALL ", |number| format!("SELECT id + {number} FROM t"))),
        ("a long series", "SELECT generate_series(0, 9223372036854775807)".to_owned()),
        ("columns", format!("SELECT {} FROM t", columns(1_600))),
        (
            "conditions",
            format!("SELECT 1 FROM t WHERE {}", {
                list(20_000, " OR ", |number| format!("(id > {number} AND x <> '{number}')"))
            }),
        ),
    ]
}

/// How a statement ended; `None` where it gave rows.
async fn ended(client: &Client, name: &str, sql: &str) -> Option<String> {
    let ran = timeout(PATIENCE, client.simple_query(sql)).await;
    let ran = ran.unwrap_or_else(|_| panic!("{name}: nothing was heard in time"));
    ran.err().map(|error| state(&error))
}

fn assert_clear(name: &str, ended: Option<&str>) {
    let is_clear = ended.is_none_or(|state| REFUSALS.contains(&state));
    assert!(is_clear, "{name} ended with {ended:?}");
}

/// The threads that plan have nothing to do any more.
async fn planned_out(server: &Server) {
    eventually("nothing is planned", async || {
        let page = http(server.addresses().http, "GET /metrics HTTP/1.1\r\n", b"").await;
        let gauges = page.lines().filter(|line| line.starts_with("thalweg_planning_"));
        let counts: Vec<&str> = gauges.filter_map(|line| line.rsplit(' ').next()).collect();
        assert_eq!(counts.len(), 3, "{page}");
        counts.iter().all(|count| *count == "0")
    })
    .await;
}

/// Sends short statements that were never planned before, until it is stopped.
fn others(server: &Server) -> tokio::task::JoinHandle<()> {
    let address = server.addresses().postgres;
    tokio::spawn(async move {
        let config = format!("host={} port={} user=thalweg", address.ip(), address.port());
        let (client, connection) = tokio_postgres::connect(&config, NoTls).await.unwrap();
        tokio::spawn(connection);
        for number in 0_i64.. {
            let sql = format!("SELECT id + {number} FROM t WHERE id = {number}");
            assert_eq!(ended(&client, "a short statement", &sql).await, None);
        }
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn long_planning_ends_with_its_time_out_and_holds_up_nobody() {
    let server = server(|config| config.log.slow_statement_ms = 100).await;
    let others = others(&server);
    let client = admin(&server).await;
    client.batch_execute("SET statement_timeout = '300ms'").await.unwrap();
    for (name, sql) in monsters() {
        assert_clear(name, ended(&client, name, &sql).await.as_deref());
        let explained = ended(&client, name, &format!("EXPLAIN {sql}")).await;
        assert_clear(name, explained.as_deref());
        assert_clear(name, client.prepare(&sql).await.err().map(|error| state(&error)).as_deref());
        let view = ended(&client, name, &format!("CREATE VIEW v AS {sql}")).await;
        // A view of columns without names, or twice the same, is another error.
        if view.is_none() {
            client.batch_execute("DROP VIEW v").await.unwrap();
        }
        // The session goes on beside its own abandoned passes, unless these are too many.
        eventually(name, async || ended(&client, name, "SELECT 1").await.is_none()).await;
    }
    assert!(!others.is_finished(), "others were served all the time");
    others.abort();
    drop(client);
    planned_out(&server).await;
    quiet(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn long_planning_hears_of_cancels() {
    let server = server(|_| {}).await;
    for (name, sql) in monsters() {
        let client = admin(&server).await;
        let token = client.cancel_token();
        let canceling = tokio::spawn(async move {
            loop {
                token.cancel_query(NoTls).await.unwrap();
                tokio::task::yield_now().await;
            }
        });
        assert_clear(name, ended(&client, name, &sql).await.as_deref());
        canceling.abort();
    }
    planned_out(&server).await;
    serves(&server).await;
    quiet(&server).await;
}

/// One of the statements, which takes seconds.
fn endless() -> String {
    let product = |number: usize| format!("generate_series(0, 9223372036854775807) AS s{number}");
    format!("SELECT {}", list(3, ", ", product))
}

#[tokio::test(flavor = "multi_thread")]
async fn long_planning_ends_with_its_connection() {
    let server = server(|_| {}).await;
    let admin = admin(&server).await;
    for (name, sql) in monsters().into_iter().chain([("several series", endless())]) {
        // The client leaves.
        let leaving = connect(&server, "user=eve").await.unwrap();
        let left = sql.clone();
        let asking = tokio::spawn(async move {
            let _ = leaving.simple_query(&left).await;
        });
        tokio::task::yield_now().await;
        asking.abort();
        // The client is sent away.
        let client = connect(&server, "user=thalweg").await.unwrap();
        let id = client.query_one("SELECT pg_backend_pid()::text", &[]).await.unwrap();
        let end = format!("SELECT pg_terminate_backend({})", id.get::<_, &str>(0));
        let ending = async { admin.batch_execute(&end).await.unwrap() };
        let (ran, ()) = tokio::join!(timeout(PATIENCE, client.simple_query(&sql)), ending);
        assert!(ran.is_ok(), "{name}: the client was not sent away in time");
    }
    drop(admin);
    planned_out(&server).await;
    serves(&server).await;
    quiet(&server).await;
}
