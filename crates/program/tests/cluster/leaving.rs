//! Clients that leave in the middle, and statements that are refused: what was begun is whole or
//! nothing, and nothing of it goes on or is left over.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use futures::StreamExt as _;
use thalweg::SqlState;

use super::support::*;

/// Polls something so often at most, and drops it then; what it gave, if it ended before.
async fn ends_within<T>(mut polls: usize, work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    poll_fn(|context| {
        if let Poll::Ready(done) = work.as_mut().poll(context) {
            return Poll::Ready(Some(done));
        }
        polls -= 1;
        if polls == 0 { Poll::Ready(None) } else { Poll::Pending }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_whose_client_leaves_is_whole_or_nothing() {
    let cluster = Cluster::start(2).await;
    let mut session = cluster.session();
    let (mut polls, mut ended) = (0, None);
    while ended.is_none() {
        polls += 1;
        let begun = format!("CREATE TABLE begun_{polls} (id int PRIMARY KEY)");
        let mut leaving = cluster.session();
        ended = ends_within(polls, leaving.execute(&begun)).await;
        // Whatever became of it, the next one follows on it.
        done(&mut session, &format!("CREATE TABLE next_{polls} (id int PRIMARY KEY)")).await;
        let last = cluster.gateway.last_definition();
        let journal = cluster.gateway.definitions_after(0).await.unwrap();
        assert!(journal.iter().map(|one| one.number).eq(1..=last), "after {polls} polls");
        for worker in cluster.status.status().await {
            assert_eq!(worker.seen.unwrap().definitions, last, "after {polls} polls");
        }
        match rows(&mut session, &format!("SELECT count(*) FROM begun_{polls}")).await {
            Ok(count) => assert_eq!(count, ["0"]),
            Err(error) => assert_eq!(error.state(), SqlState::UNDEFINED_TABLE, "{error}"),
        }
    }
    ended.unwrap().unwrap();
    assert!(polls > 1, "it never waited");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_follows_a_definition_whoever_waits_for_that() {
    let cluster = Cluster::start(1).await;
    let mut session = cluster.session();
    for number in 0..4 {
        done(&mut session, &format!("CREATE TABLE t{number} (id int PRIMARY KEY)")).await;
    }
    let worker = memory();
    worker.keep_journal().await.unwrap();
    let shards = worker.shards();
    let definitions = cluster.gateway.definitions_after(0).await.unwrap();
    for (polls, definition) in (1..).zip(&definitions) {
        ends_within(polls, shards.define(definition)).await;
        // Whoever told it of that and left tells it again.
        shards.define(definition).await.unwrap();
        assert_eq!(worker.last_definition(), definition.number);
        let journal = worker.definitions_after(0).await.unwrap();
        assert_eq!(journal.last(), Some(definition));
    }
}

/// Rows on all workers, and many more of one key.
async fn wide(cluster: &Cluster) {
    let mut session = cluster.session();
    done(&mut session, "CREATE TABLE t (k bigint, note text) WITH (shard_key = 'k')").await;
    let insert = "INSERT INTO t SELECT n, 'note ' || n FROM generate_series(1, 200000) AS s(n)";
    done(&mut session, insert).await;
    let insert = "INSERT INTO t SELECT 8, 'note ' || n FROM generate_series(1, 60000) AS s(n)";
    done(&mut session, insert).await;
}

/// More than fits anywhere on the way, of the workers that have rows.
const ALL: &str = "SELECT k, repeat(note, 100) FROM t";

/// Waits until workers have so many streams open, the one with the most behind the others.
async fn until_open(cluster: &Cluster, streams: [&str; 4]) {
    let mut session = cluster.session();
    let mut ticks = tokio::time::interval(Duration::from_millis(10));
    let mut last = Vec::new();
    for _ in 0..2_000 {
        ticks.tick().await;
        let asked = "SELECT streams FROM thalweg_cluster.nodes ORDER BY streams";
        last = rows(&mut session, asked).await.unwrap();
        if last == streams {
            return;
        }
    }
    panic!("{last:?} are open, and not {streams:?}");
}

const NONE: [&str; 4] = ["0"; 4];

#[tokio::test(flavor = "multi_thread")]
async fn workers_stop_when_nobody_wants_their_rows() {
    let cluster = Cluster::start(4).await;
    wide(&cluster).await;
    let mut session = cluster.session();
    let of_one = session.execute(&format!("{ALL} WHERE k = 8")).await.unwrap();
    until_open(&cluster, ["0", "0", "0", "1"]).await;
    drop(of_one);
    until_open(&cluster, NONE).await;
    assert_eq!(rows(&mut session, &format!("{ALL} LIMIT 3")).await.unwrap().len(), 3);
    until_open(&cluster, NONE).await;
    let mut all = session.execute(ALL).await.unwrap().rows.unwrap();
    until_open(&cluster, ["1"; 4]).await;
    session.cancel_handle().cancel();
    let error = loop {
        if let Err(error) = all.next().await.expect("it does not end well") {
            break error;
        }
    };
    assert_eq!(error.state(), SqlState::QUERY_CANCELED);
    until_open(&cluster, NONE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_that_are_refused_leave_nothing_with_workers() {
    let cluster = Cluster::start(3).await;
    let mut session = cluster.session();
    done(&mut session, "CREATE TABLE t (id bigint PRIMARY KEY)").await;
    done(&mut session, "INSERT INTO t VALUES (1)").await;
    let insert =
        |first: u32| format!("INSERT INTO t SELECT n FROM generate_series({first}, 40) s(n)");
    // More than a worker keeps.
    for _ in 0..1_100 {
        let refused = rows(&mut session, &insert(1)).await.unwrap_err();
        assert_eq!(refused.state(), SqlState::UNIQUE_VIOLATION, "{refused}");
    }
    done(&mut session, &insert(2)).await;
    assert_eq!(rows(&mut session, "SELECT count(*) FROM t").await.unwrap(), ["40"]);
}
