//! Workers that are expected, that are gone for good, and whose address somebody else has.

use std::process::Stdio;

use super::processes::{Node, Processes, Setting, connect, error_text, thalweg};

/// A worker in a directory of its own, at an address.
fn worker(cluster: &Processes, name: &str, listen: &str) -> (Node, u64, String) {
    let data = cluster.directory_of(0).with_file_name(name);
    let mut command = thalweg(&["worker", "--listen", listen, "--join", &cluster.join]);
    command.args(["--threads", "2", "--data"]).arg(data);
    let (node, [rest]) = Node::start(&mut command, ["Worker"]);
    let (id, address) = rest.split_once(" listens on ").expect("it says who it is, and where");
    (node, id.parse().unwrap(), address.to_owned())
}

/// What a command says, and its exit status.
fn printed(arguments: &[&str]) -> (String, i32) {
    let output = thalweg(arguments).output().unwrap();
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    (text, output.status.code().unwrap_or(-1))
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_wait_for_the_expected_workers() {
    let shown = vec!["--expect-workers".to_owned(), "2".to_owned()];
    let cluster = Processes::start_in(Setting { gateway: shown, ..Setting::default() }, 0).await;
    let create = "CREATE TABLE t (id int PRIMARY KEY)";
    let refused = cluster.ask(create).await.unwrap_err();
    assert_eq!(error_text(&refused), "no worker has joined yet");
    let _first = worker(&cluster, "a", "127.0.0.1:0");
    cluster.until_joined(1).await;
    let refused = cluster.ask(create).await.unwrap_err();
    assert_eq!(error_text(&refused), "1 of 2 expected workers have joined");
    assert_eq!(refused.code().unwrap().code(), "57P03");
    let _second = worker(&cluster, "b", "127.0.0.1:0");
    cluster.until_joined(2).await;
    cluster.ask(create).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_whose_address_another_one_has_is_unreachable_and_can_be_removed() {
    let cluster = Processes::start(0).await;
    let _first = worker(&cluster, "a", "127.0.0.1:0");
    let (second, id, address) = worker(&cluster, "b", "127.0.0.1:0");
    cluster.until_joined(2).await;
    cluster.ask("CREATE TABLE t (id int PRIMARY KEY)").await.unwrap();
    cluster.ask("INSERT INTO t SELECT generate_series(1, 1000)").await.unwrap();
    // SIGKILL.
    drop(second);
    let (_third, other, _) = worker(&cluster, "c", &address);
    let joined = format!("SELECT count(*) FROM thalweg_cluster.nodes WHERE id = {other}");
    while cluster.ask(&joined).await.unwrap() != ["1"] {}
    let refused = cluster.ask("SELECT count(*) FROM t").await.unwrap_err();
    assert_eq!(refused.code().unwrap().code(), "08006", "{}", error_text(&refused));
    assert!(error_text(&refused).contains(&format!("worker {other} answers at its address")));
    // It is in nobody's way.
    cluster.ask("CREATE TABLE u (id int PRIMARY KEY)").await.unwrap();
    let remove = |id: u64, more: &[&str]| {
        let id = id.to_string();
        printed(&[&["remove-worker", &id, "--connect", &cluster.join], more].concat())
    };
    let (why, status) = remove(other, &["--lose-rows"]);
    assert!(why.contains("still runs") && status == 3, "{why}");
    let (why, status) = remove(id, &[]);
    assert!(why.contains("rows would be lost") && status == 3, "{why}");
    // Elsewhere it is itself again.
    let (second, same, _) = worker(&cluster, "b", "127.0.0.1:0");
    assert_eq!(same, id);
    assert_eq!(cluster.at_last("SELECT count(*) FROM t").await, ["1000"]);
    drop(second);
    let (removed, status) = remove(id, &["--lose-rows"]);
    assert!(removed.contains("is removed") && status == 0, "{removed}");
    let left: i32 = cluster.at_last("SELECT count(*) FROM t").await[0].parse().unwrap();
    assert!((1..1000).contains(&left), "{left} rows are on the worker that is left");
    cluster.ask("INSERT INTO u SELECT generate_series(1, 1000)").await.unwrap();
    assert_eq!(cluster.ask("SELECT count(*) FROM u").await.unwrap(), ["1000"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn status_is_json_for_programs() {
    let cluster = Processes::start(2).await;
    let (text, status) = printed(&["status", "--format", "json", "--connect", &cluster.join]);
    assert_eq!(status, 0, "{text}");
    let it: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(it["gateways"][0]["is_first"], true);
    let workers = it["workers"].as_array().unwrap();
    assert_eq!(workers.len(), 2);
    assert!(
        workers.iter().all(|worker| worker["answers"] == true && worker["rows"] == 0),
        "{text}"
    );
}

/// Children of `thalweg cluster` end with it, however it ends.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_cluster_leaves_no_process() {
    let [postgres, grpc, http, nodes] = free_ports().await.map(|port| port.to_string());
    let mut command = thalweg(&["cluster", "--workers", "2", "--durability", "none"]);
    command.args(["--postgres-port", &postgres, "--grpc-port", &grpc]);
    command.args(["--http-port", &http, "--nodes-port", &nodes]).stdout(Stdio::null());
    let (cluster, printed) = Node::start(&mut command, ["process"; 3]);
    let client = connect(&format!("127.0.0.1:{postgres}")).await;
    client.simple_query("SELECT 1").await.unwrap();
    let runs = |process: &String| std::path::Path::new("/proc").join(process).exists();
    assert!(printed.iter().all(runs));
    // SIGKILL.
    drop(cluster);
    let mut ticks = tokio::time::interval(std::time::Duration::from_millis(50));
    for _ in 0..600 {
        ticks.tick().await;
        if !printed.iter().any(runs) {
            return;
        }
    }
    panic!("some of the processes {printed:?} run on");
}

async fn free_ports() -> [u16; 4] {
    let mut taken = Vec::new();
    for _ in 0..4 {
        taken.push(tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap());
    }
    std::array::from_fn(|at| taken[at].local_addr().unwrap().port())
}
