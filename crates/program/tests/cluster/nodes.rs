//! What is told of a cluster's nodes, and several of them in one process.

use super::processes::{Node, Processes, thalweg};
use super::support::*;

#[tokio::test(flavor = "multi_thread")]
async fn nodes_are_told_of_with_what_they_have() {
    let cluster = Cluster::start(3).await;
    let mut session = cluster.session();
    done(&mut session, "CREATE TABLE t (id bigint PRIMARY KEY)").await;
    done(&mut session, "INSERT INTO t SELECT n FROM generate_series(1, 1000) AS s(n)").await;
    let each = "SELECT id, answers, streams, definitions FROM thalweg_cluster.nodes ORDER BY id";
    let each = rows(&mut session, each).await.unwrap();
    assert_eq!(each, ["1|true|0|1", "2|true|0|1", "3|true|0|1"]);
    let all = "SELECT sum(buckets), sum(rows), min(rows) > 100, min(bytes) > 0, \
               count(DISTINCT address) FROM thalweg_cluster.nodes";
    assert_eq!(rows(&mut session, all).await.unwrap(), ["16384|1000|true|true|3"]);
    let owned = "SELECT count(*) FROM thalweg_cluster.nodes n JOIN (SELECT node, count(*) AS owned \
                 FROM thalweg_cluster.buckets GROUP BY node) b \
                 ON b.node = n.id AND b.owned = n.buckets";
    assert_eq!(rows(&mut session, owned).await.unwrap(), ["3"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_process_is_several_workers() {
    let cluster = Processes::start(0).await;
    let data = tempfile::tempdir().unwrap();
    let start = || {
        let mut workers = thalweg(&["worker", "--listen", "127.0.0.1:0", "--join", &cluster.join]);
        workers.args(["--logical", "3", "--threads", "2", "--data"]).arg(data.path());
        Node::start(&mut workers, ["listens on"; 3]).0
    };
    let workers = start();
    cluster.until_joined(3).await;
    cluster.ask("CREATE TABLE t (id bigint PRIMARY KEY, g int)").await.unwrap();
    let insert = "INSERT INTO t SELECT n, n % 3 FROM generate_series(1, 3000) AS s(n)";
    cluster.ask(insert).await.unwrap();
    let groups = "SELECT g, count(*) FROM t GROUP BY g ORDER BY g";
    assert_eq!(cluster.ask(groups).await.unwrap(), ["1000"; 3]);
    let error_text = cluster.ask(&format!("EXPLAIN {groups}")).await.unwrap().join("\n");
    assert!(error_text.contains("workers=all 3/3 streams=1"), "{error_text}");
    // SIGKILL.
    drop(workers);
    assert!(cluster.ask(groups).await.is_err());
    let _workers = start();
    assert_eq!(cluster.at_last(groups).await, ["1000"; 3]);
    let holding = "SELECT count(*) FROM thalweg_cluster.nodes WHERE answers AND rows > 500";
    assert_eq!(cluster.ask(holding).await.unwrap(), ["3"]);
}
