//! Workers that are watched: over HTTP, and by `thalweg status`.

#![expect(clippy::disallowed_types, reason = "a test asks over HTTP as any client does")]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use super::processes::{Node, Processes, thalweg};

fn get(address: &str, path: &str) -> String {
    let mut socket = TcpStream::connect(address).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    answer
}

async fn until(address: &str, path: &str, is_right: impl Fn(&str) -> bool) -> String {
    let mut ticks = tokio::time::interval(std::time::Duration::from_millis(50));
    for _ in 0..600 {
        ticks.tick().await;
        let answer = get(address, path);
        if is_right(&answer) {
            return answer;
        }
    }
    panic!("{path} goes on to say {}", get(address, path));
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_of_a_process_share_a_port_for_health_and_metrics() {
    let cluster = Processes::start(0).await;
    let data = tempfile::tempdir().unwrap();
    let mut workers = thalweg(&["worker", "--listen", "127.0.0.1:0", "--join", &cluster.join]);
    workers.args(["--logical", "2", "--threads", "2", "--http-port", "0", "--data"]);
    let (_node, [http]) = Node::start(workers.arg(data.path()), ["Health and metrics http://"]);
    let http = http.strip_suffix("/metrics").unwrap();
    assert!(get(http, "/health/live").starts_with("HTTP/1.1 200"));
    until(http, "/health/ready", |answer| answer.starts_with("HTTP/1.1 200")).await;
    cluster.until_joined(2).await;
    cluster.ask("CREATE TABLE t (id bigint PRIMARY KEY)").await.unwrap();
    cluster.ask("INSERT INTO t SELECT generate_series(1, 1000)").await.unwrap();
    let page = get(http, "/metrics");
    let log_bytes = page.lines().find_map(|line| line.strip_prefix("thalweg_log_bytes "));
    assert!(log_bytes.unwrap().parse::<f64>().unwrap() > 0.0, "{page}");
    assert!(get(http, "/sql").starts_with("HTTP/1.1 404"));
    let healthy = cluster.status(&["--format".to_owned(), "json".to_owned()]);
    let healthy: serde_json::Value = serde_json::from_str(&healthy).unwrap();
    assert_eq!(healthy["workers"][0]["storage"], serde_json::json!([]));
    // One of the directories goes away.
    let (own, elsewhere) = (data.path().join("worker-2"), data.path().join("elsewhere"));
    assert!(std::process::Command::new("mv").args([own, elsewhere]).status().unwrap().success());
    let error_text =
        until(http, "/health/ready", |answer| answer.starts_with("HTTP/1.1 503")).await;
    assert!(error_text.contains("directory_gone: "), "{error_text}");
    let status = cluster.status(&["--format".to_owned(), "json".to_owned()]);
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    let faults: Vec<_> = status["workers"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|worker| worker["storage"].as_array().unwrap())
        .map(|fault| (fault["reason"].as_str().unwrap(), fault["refuses_writes"].clone()))
        .collect();
    assert_eq!(faults, [("directory_gone", true.into())], "{status}");
    let table = cluster.status(&[]);
    assert!(table.contains("storage fault: directory_gone, writes are refused ("), "{table}");
}
