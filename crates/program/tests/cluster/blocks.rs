//! Transaction blocks whose rows compaction moves on their workers before the block is done.

use std::time::Duration;

use thalweg::{Session, SqlState};
use thalweg_query::{FanIn, Gathering, Stages};

use super::support::*;

const ALL: &str = "SELECT count(*), sum(v), count(DISTINCT id) FROM many";

/// A table of the rows 1 to 80,000 on two workers, each of which has some in a closed chunk.
async fn filled(gathering: Gathering) -> (Cluster, Session) {
    let cluster = Cluster::start_with(2, gathering).await;
    let mut session = cluster.session();
    done(&mut session, "CREATE TABLE many (id int PRIMARY KEY, v bigint)").await;
    let insert = "INSERT INTO many SELECT i, i FROM generate_series(1, 80000) AS g(i)";
    done(&mut session, insert).await;
    (cluster, session)
}

/// Deletes all rows from 5,001 on, and waits until the workers have moved those that are left.
async fn move_the_rest(cluster: &Cluster) {
    done(&mut cluster.session(), "DELETE FROM many WHERE id > 5000").await;
    let mut ticks = tokio::time::interval(Duration::from_millis(50));
    for worker in &cluster.workers {
        let mut session = worker.session();
        let dead = "SELECT dead_rows FROM pg_catalog.thalweg_tables WHERE tablename = 'many'";
        let mut last = Vec::new();
        for _ in 0..1_200 {
            last = rows(&mut session, dead).await.unwrap();
            if last == ["0"] {
                break;
            }
            ticks.tick().await;
        }
        assert_eq!(last, ["0"], "nothing was compacted");
    }
}

async fn expect(session: &mut Session, sql: &str, wanted: &[&str]) {
    match rows(session, sql).await {
        Ok(found) => assert_eq!(found, wanted, "{sql}"),
        Err(error) => panic!("{sql}: {} {error}", error.state().0),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_reads_what_it_changed_wherever_that_lies_now() {
    let hybrid = Gathering::default();
    let staged = Gathering { stages: Stages::On, ..hybrid };
    let queued = Gathering { fan_in: FanIn::Async, ..hybrid };
    for gathering in [hybrid, staged, queued] {
        let (cluster, mut session) = filled(gathering).await;
        done(&mut session, "BEGIN").await;
        done(&mut session, "UPDATE many SET v = v + 1 WHERE id <= 1000").await;
        move_the_rest(&cluster).await;
        expect(&mut session, ALL, &["5000|12503500|5000"]).await;
        done(&mut session, "UPDATE many SET v = v + 1 WHERE id BETWEEN 501 AND 1500").await;
        expect(&mut session, ALL, &["5000|12504500|5000"]).await;
        done(&mut session, "DELETE FROM many WHERE id <= 100").await;
        expect(&mut session, ALL, &["4900|12499350|4900"]).await;
        // Rows that the block deleted, changed twice and did not touch, and one that is gone.
        let upsert = "INSERT INTO many VALUES (50, 7), (700, 10), (3000, 10), (6000, 1) \
                      ON CONFLICT (id) DO UPDATE SET v = many.v + excluded.v";
        done(&mut session, upsert).await;
        done(&mut session, "INSERT INTO many VALUES (60, 1)").await;
        expect(&mut session, ALL, &["4903|12499379|4903"]).await;
        let some = "SELECT id, v FROM many WHERE id IN (50, 60, 70, 700, 3000, 6000) ORDER BY id";
        expect(&mut session, some, &["50|7", "60|1", "700|712", "3000|3010", "6000|1"]).await;
        expect(&mut session, "SELECT id FROM many ORDER BY id LIMIT 2", &["50", "60"]).await;
        let pairs = "SELECT count(*) FROM many a JOIN many b ON a.id = b.v WHERE a.id > 100";
        expect(&mut session, pairs, &["4900"]).await;
        let taken = rows(&mut session, "INSERT INTO many VALUES (3000, 1)").await.unwrap_err();
        assert_eq!(taken.state(), SqlState::UNIQUE_VIOLATION);
        done(&mut session, "ROLLBACK").await;
        expect(&mut session, ALL, &["5000|12502500|5000"]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_commits_what_it_changed_wherever_that_lies_now() {
    let (cluster, mut session) = filled(Gathering::default()).await;
    done(&mut session, "BEGIN").await;
    done(&mut session, "DELETE FROM many WHERE id = 9").await;
    move_the_rest(&cluster).await;
    // Nothing but a scan: its workers leave the row out themselves.
    expect(&mut session, "SELECT id FROM many WHERE id = 9", &[]).await;
    let few = "SELECT id FROM many WHERE id BETWEEN 8 AND 10 ORDER BY id";
    expect(&mut session, few, &["8", "10"]).await;
    expect(&mut session, "SELECT count(*) FROM many", &["4999"]).await;
    let plan = plan(&mut session, "SELECT count(*) FROM many").await;
    assert!(plan.contains("hidden=1") && plan.contains("partial aggregate"), "{plan}");
    done(&mut session, "INSERT INTO many VALUES (9, 0)").await;
    done(&mut session, "UPDATE many SET v = v + 5 WHERE id = 9").await;
    expect(&mut session, few, &["8", "9", "10"]).await;
    done(&mut session, "COMMIT").await;
    let mut other = cluster.session();
    expect(&mut other, "SELECT v FROM many WHERE id = 9", &["5"]).await;
    expect(&mut other, ALL, &["5000|12502496|5000"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_ends_where_others_changed_its_rows() {
    let (cluster, mut session) = filled(Gathering::default()).await;
    let mut other = cluster.session();
    for look in [
        "SELECT count(*) FROM many",
        "INSERT INTO many VALUES (9, 0) ON CONFLICT (id) DO UPDATE SET v = 1",
        "COMMIT",
    ] {
        done(&mut session, "BEGIN").await;
        done(&mut session, "UPDATE many SET v = 0 WHERE id = 9").await;
        done(&mut other, "UPDATE many SET v = v + 1 WHERE id = 9").await;
        let refused = rows(&mut session, look).await.unwrap_err();
        assert_eq!(refused.state(), SqlState::SERIALIZATION_FAILURE, "{look}: {refused}");
        if look != "COMMIT" {
            done(&mut session, "ROLLBACK").await;
        }
    }
    expect(&mut other, "SELECT v FROM many WHERE id = 9", &["12"]).await;
}
