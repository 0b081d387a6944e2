//! What a statement may take holds on workers, too.

use thalweg::{Error, Session, SqlState};

use super::stages::answer;
use super::support::*;

/// Each worker has half of the rows, and a hash table of them in a join by names.
const TABLES: [&str; 2] = [
    "CREATE TABLE numbers (id bigint PRIMARY KEY, name text)",
    "INSERT INTO numbers SELECT n, 'number ' || n || repeat('.', 40) \
     FROM generate_series(1, 60000) AS s(n)",
];
const JOIN: &str = "SELECT count(*) FROM numbers a JOIN numbers b ON a.name = b.name";

async fn filled(workers: u64) -> (Cluster, Session) {
    let cluster = Cluster::start(workers).await;
    let mut session = cluster.session();
    for sql in TABLES {
        done(&mut session, sql).await;
    }
    done(&mut session, "SET stages = on").await;
    (cluster, session)
}

async fn refused(session: &mut Session, sql: &str) -> Error {
    match rows(session, sql).await {
        Ok(found) => panic!("{sql}: {found:?}"),
        Err(error) => error,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statements_limit_holds_in_its_tasks() {
    let (cluster, mut session) = filled(2).await;
    let mut other = cluster.session();
    assert!(plan(&mut session, JOIN).await.contains("Stages:"));
    assert_eq!(answer(&mut session, JOIN).await, ["60000"]);
    done(&mut session, "SET query_memory_limit = '1MB'").await;
    let error = refused(&mut session, JOIN).await;
    assert_eq!(error.state(), SqlState::OUT_OF_MEMORY, "{error}");
    assert!(error.message().contains("HashJoin"), "{error}");
    let hint = error.hint().unwrap_or_default();
    assert!(hint.starts_with("Raise query_memory_limit"), "{hint}");
    // It failed alone, and the session goes on.
    assert_eq!(answer(&mut other, JOIN).await, ["60000"]);
    assert_eq!(answer(&mut session, "SELECT count(*) FROM numbers").await, ["60000"]);
    done(&mut session, "RESET query_memory_limit").await;
    assert_eq!(answer(&mut session, JOIN).await, ["60000"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_of_workers_go_to_disk_below_a_statements_limit() {
    let (_cluster, mut session) = filled(2).await;
    let groups = "SELECT count(*), sum(n) FROM \
                  (SELECT name, count(*) AS n FROM numbers GROUP BY name) g";
    let expected = answer(&mut session, groups).await;
    for stages in ["on", "off"] {
        done(&mut session, &format!("SET stages = {stages}")).await;
        done(&mut session, "SET query_memory_limit = '24MB'").await;
        assert_eq!(answer(&mut session, groups).await, expected, "stages {stages}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn windows_of_a_gateway_count_as_well() {
    let (_cluster, mut session) = filled(2).await;
    let window = "SELECT max(c) FROM (SELECT count(name) OVER () AS c FROM numbers) w";
    done(&mut session, "SET stages = off").await;
    assert_eq!(answer(&mut session, window).await, ["60000"]);
    done(&mut session, "SET query_memory_limit = '1MB'").await;
    let error = refused(&mut session, window).await;
    assert_eq!(error.state(), SqlState::OUT_OF_MEMORY, "{error}");
    assert!(error.message().contains("WindowAggExec"), "{error}");
}
