//! A server as a process, with what it announced and what it logs.

#![expect(clippy::disallowed_types, reason = "a test asks over HTTP as any client does")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::run::command;

/// A server, which is killed when this is dropped.
pub struct Server {
    child: Child,
    /// The lines that it printed up to the one that says that it is ready.
    pub announcement: String,
    /// The lines that it printed since.
    pub log: Arc<Mutex<String>>,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    pub fn start(arguments: &[&str]) -> Server {
        Server::run(command(arguments))
    }

    /// Runs a command that becomes a server, and waits until it is ready.
    pub fn run(mut command: Command) -> Server {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut announcement = String::new();
        while !announcement.contains("Ready.") {
            let line = lines.next().unwrap_or_else(|| panic!("no server:\n{announcement}"));
            announcement.push_str(&line.unwrap());
            announcement.push('\n');
        }
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
        Server { child, announcement, log }
    }

    /// The port of the announced line that begins with these words.
    pub fn port(&self, words: &str) -> &str {
        let mut lines = self.announcement.lines();
        let line = lines.find(|line| line.starts_with(words)).expect("a server announces it");
        let (_, port) = line.rsplit_once("127.0.0.1:").expect("a server listens on loopback");
        port.split('/').next().expect("a split has a first part")
    }

    pub fn get(&self, path: &str) -> String {
        let mut socket = TcpStream::connect(format!("127.0.0.1:{}", self.port("HTTP"))).unwrap();
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        socket.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Asks until the answer is right.
    pub fn until(&self, path: &str, is_right: impl Fn(&str) -> bool) -> String {
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
