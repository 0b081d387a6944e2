//! A server whose storage fails says so, in its log and to those who watch it.

use crate::run::text;
use crate::server::Server;

#[test]
fn a_directory_that_is_moved_away_is_noticed_though_nobody_writes() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let server = Server::start(&[
        "serve",
        "--data",
        text(&data),
        "--postgres-port",
        "0",
        "--grpc-port",
        "0",
        "--http-port",
        "0",
    ]);
    server.until("/health/ready", |answer| answer.starts_with("HTTP/1.1 200"));
    let elsewhere = directory.path().join("elsewhere");
    let moved = std::process::Command::new("mv").args([&data, &elsewhere]).status().unwrap();
    assert!(moved.success());
    let error_text = server.until("/health/ready", |answer| answer.starts_with("HTTP/1.1 503"));
    assert!(error_text.contains("directory_gone: "), "{error_text}");
    let page = server.get("/metrics");
    assert!(page.contains("thalweg_storage_healthy{reason=\"directory_gone\"} 0\n"), "{page}");
    assert!(page.contains("thalweg_storage_healthy{reason=\"disk_full\"} 1\n"), "{page}");
    // The log says it once.
    let said = || server.log.lock().unwrap().matches("storage fault: ").count();
    server.until("/health/live", |_| said() > 0);
    assert_eq!(said(), 1, "{}", server.log.lock().unwrap());
    assert!(server.log.lock().unwrap().contains("directory_gone"));
}
