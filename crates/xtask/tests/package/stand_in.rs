//! A program that looks like the server from outside: it takes its flags, keeps something in its
//! directory, answers health checks, and ends well on SIGTERM.

use std::io::{Read, Write};
use std::net::TcpListener;

unsafe extern "C" {
    fn signal(number: i32, handler: usize) -> usize;
    fn _exit(status: i32) -> !;
}

extern "C" fn end(_: i32) {
    // SAFETY: `_exit` may be called from the handler of a signal.
    unsafe { _exit(0) }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let value = |flag: &str| {
        let place = arguments.iter().position(|argument| argument == flag)?;
        arguments.get(place + 1)
    };
    if arguments.first().map(String::as_str) != Some("serve") {
        println!("thalweg 0.0.0");
        return;
    }
    // SAFETY: the handler has the signature that the system calls, and SIGTERM is 15.
    unsafe { signal(15, end as *const () as usize) };
    if let Some(config) = value("--config") {
        let text = std::fs::read_to_string(config).expect("the configuration can be read");
        assert!(text.contains("[listen]"), "the configuration has a section for addresses");
    }
    let data = value("--data").expect("the unit and the image name a directory");
    std::fs::write(format!("{data}/FORMAT"), "stand-in").expect("the directory can be written");
    let listener = TcpListener::bind("127.0.0.1:7472").expect("the port is free");
    eprintln!("Ready.");
    for stream in listener.incoming() {
        let mut stream = stream.expect("a connection");
        let mut request = [0; 1024];
        let _ = stream.read(&mut request);
        let _ = stream.write_all(b"HTTP/1.0 200 OK\r\nContent-Length: 6\r\n\r\nready\n");
    }
}
