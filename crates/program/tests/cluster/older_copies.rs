//! Nodes that come back with an older copy of their data directory.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::processes::{Processes, error_text};

const COUNT: &str = "SELECT count(*) FROM t";

/// Copies a directory, in the place of what is there.
fn copy(from: &Path, to: &Path) {
    assert!(Command::new("rm").arg("-rf").arg(to).status().unwrap().success());
    assert!(Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
}

/// A cluster with a table of so many rows.
async fn cluster(workers: usize, rows: usize) -> Processes {
    let cluster = Processes::start(workers).await;
    cluster.ask("CREATE TABLE t (id bigint PRIMARY KEY)").await.unwrap();
    insert(&cluster, 1, rows).await;
    cluster
}

async fn insert(cluster: &Processes, from: usize, to: usize) {
    let insert = format!("INSERT INTO t SELECT generate_series({from}, {to})");
    cluster.ask(&insert).await.unwrap();
}

/// The error that a statement ends with, once the worker is reached.
async fn refusal(cluster: &Processes) -> String {
    let mut ticks = tokio::time::interval(Duration::from_millis(50));
    let mut last = String::new();
    for _ in 0..600 {
        ticks.tick().await;
        match cluster.ask(COUNT).await {
            Ok(rows) => panic!("{rows:?} rows are served"),
            Err(error) if error_text(&error).contains("older copy") => return error_text(&error),
            Err(error) => last = error_text(&error),
        }
    }
    panic!("it is not refused: {last}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_copy_of_a_worker_is_refused() {
    let mut cluster = cluster(2, 1_000).await;
    let (directory, older, newest) =
        (cluster.directory_of(1), cluster.directory_of(11), cluster.directory_of(12));
    copy(&directory, &older);
    insert(&cluster, 1_001, 2_000).await;
    cluster.kill(1);
    copy(&directory, &newest);
    copy(&older, &directory);
    cluster.restart(1);
    let why = refusal(&cluster).await;
    assert!(why.contains("its log ends at group"), "{why}");
    // A gateway that is started again remembers. It stores its record once a second.
    let mut ticks = tokio::time::interval(Duration::from_secs(2));
    ticks.tick().await;
    ticks.tick().await;
    cluster.restart_gateway().await;
    refusal(&cluster).await;
    // The newest directory is taken.
    cluster.kill(1);
    copy(&newest, &directory);
    cluster.restart(1);
    assert_eq!(cluster.at_last(COUNT).await, ["2000"]);
    // The older one is taken if that is wanted.
    cluster.kill(1);
    copy(&older, &directory);
    cluster.restart(1);
    refusal(&cluster).await;
    cluster.setting.gateway.push("--accept-restored".to_owned());
    cluster.restart_gateway().await;
    let left: usize = cluster.at_last(COUNT).await[0].parse().unwrap();
    assert!((1_000..2_000).contains(&left), "{left} rows");
    insert(&cluster, 2_001, 2_100).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_copy_of_a_gateway_is_refused_by_workers() {
    let mut cluster = cluster(2, 10).await;
    let directory = cluster.directory_of(0).with_file_name("gateway");
    let (older, newest) = (cluster.directory_of(11), cluster.directory_of(12));
    copy(&directory, &older);
    cluster.ask("CREATE TABLE u (id bigint GENERATED ALWAYS AS IDENTITY, n int)").await.unwrap();
    cluster.ask("DROP TABLE u").await.unwrap();
    cluster.ask(COUNT).await.unwrap();
    cluster.gateway.child.kill().unwrap();
    cluster.gateway.child.wait().unwrap();
    copy(&directory, &newest);
    copy(&older, &directory);
    cluster.restart_gateway().await;
    let why = refusal(&cluster).await;
    assert!(why.contains("this gateway is an older copy"), "{why}");
    cluster.gateway.child.kill().unwrap();
    cluster.gateway.child.wait().unwrap();
    copy(&newest, &directory);
    cluster.restart_gateway().await;
    assert_eq!(cluster.at_last(COUNT).await, ["10"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_is_restored_as_a_whole_opens() {
    let mut cluster = cluster(2, 1_000).await;
    let directories = [
        cluster.directory_of(0).with_file_name("gateway"),
        cluster.directory_of(0),
        cluster.directory_of(1),
    ];
    let copies = [21, 22, 23].map(|number| cluster.directory_of(number));
    let stop = |cluster: &mut Processes| {
        cluster.gateway.child.kill().unwrap();
        cluster.gateway.child.wait().unwrap();
        (0..2).for_each(|number| cluster.kill(number));
    };
    stop(&mut cluster);
    directories.iter().zip(&copies).for_each(|(directory, to)| copy(directory, to));
    let start = async |cluster: &mut Processes| {
        cluster.restart_gateway().await;
        (0..2).for_each(|number| cluster.restart(number));
    };
    start(&mut cluster).await;
    assert_eq!(cluster.at_last(COUNT).await, ["1000"]);
    insert(&cluster, 1_001, 2_000).await;
    stop(&mut cluster);
    directories.iter().zip(&copies).for_each(|(directory, from)| copy(from, directory));
    start(&mut cluster).await;
    assert_eq!(cluster.at_last(COUNT).await, ["1000"]);
    insert(&cluster, 1_001, 1_500).await;
    assert_eq!(cluster.at_last(COUNT).await, ["1500"]);
}
