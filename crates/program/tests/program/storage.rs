//! A server whose storage fails says so, in its log and to those who watch it.

#![expect(clippy::disallowed_types, reason = "a test asks over HTTP as any client does")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::run::{command, text};

/// A server, which ends with the test.
struct Server {
    child: Child,
    http: String,
    log: Arc<Mutex<String>>,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn start(arguments: &[&str]) -> Server {
        let mut child = command(arguments).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let http = loop {
            let line = lines.next().expect("it says where it listens").unwrap();
            if let Some((_, address)) = line.split_once("http://") {
                break address.split('/').next().unwrap().to_owned();
            }
        };
        let log = Arc::<Mutex<String>>::default();
        let error_text = Arc::clone(&log);
        let read = move || {
            lines.map_while(Result::ok).for_each(|line| {
                let mut log = error_text.lock().unwrap();
                log.push_str(&line);
                log.push('\n');
            });
        };
        std::thread::Builder::new().spawn(read).unwrap();
        Server { child, http, log }
    }

    fn get(&self, path: &str) -> String {
        let mut socket = TcpStream::connect(&self.http).unwrap();
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        socket.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Asks until the answer is right.
    fn until(&self, path: &str, is_right: impl Fn(&str) -> bool) -> String {
        for _ in 0..600 {
            let answer = self.get(path);
            if is_right(&answer) {
                return answer;
            }
            std::thread::park_timeout(Duration::from_millis(50));
        }
        panic!("{path} goes on to say {}", self.get(path));
    }
}

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
