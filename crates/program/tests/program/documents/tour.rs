//! `docs/tour.md`, done by a reader who types everything that it shows.
//!
//! The blocks of each part (a heading of the second level) run in their order, in a new directory:
//!
//! - `sh server` starts a server and shows its announcement. A server of the part that still runs
//!   is killed before.
//! - `sh` runs in bash, `sql` in psql.
//! - `text` is the output of the block before it, errors included. A block without it prints
//!   nothing.
//!
//! In an output, `…` stands for any text within a line, and a line of `…` alone for any number of
//! lines. Blanks at the ends of lines do not count.
//!
//! The page's ports are replaced by those of the server; `thalweg` is the program that was built.
//! Servers log errors alone, since warnings depend on the machine.

use std::path::Path;
use std::process::Command;

use super::{Block, blocks};
use crate::run::{finish, tool};
use crate::server::Server;

const TOUR: &str = include_str!("../../../../../docs/tour.md");

/// The beginning of a line of the announcement, and the port in the document.
const PORTS: [(&str, &str); 3] =
    [("PostgreSQL clients", "7471"), ("Flight SQL, records", "7470"), ("HTTP", "7472")];

/// Programs that a reader needs.
const TOOLS: [&str; 3] = ["bash", "psql", "curl"];

const OTHER_PORTS: &str = "--postgres-port=0 --grpc-port=0 --http-port=0";

/// True if an output is as the document shows it.
fn is_as_shown(shown: &str, output: &str) -> bool {
    let lines =
        |text: &str| text.trim_end().lines().map(str::trim_end).map(str::to_owned).collect();
    let (shown, output): (Vec<String>, Vec<String>) = (lines(shown), lines(output));
    are_lines(&shown, &output)
}

fn are_lines(shown: &[String], output: &[String]) -> bool {
    let Some((first, rest)) = shown.split_first() else { return output.is_empty() };
    if first == "…" {
        return (0..=output.len()).any(|skipped| are_lines(rest, &output[skipped..]));
    }
    let Some((line, others)) = output.split_first() else { return false };
    is_line(first, line) && are_lines(rest, others)
}

fn is_line(shown: &str, line: &str) -> bool {
    let Some((before, after)) = shown.split_once('…') else { return shown == line };
    let Some(line) = line.strip_prefix(before) else { return false };
    let ends = line.char_indices().map(|(end, _)| end).chain([line.len()]);
    ends.into_iter().any(|end| is_line(after, &line[end..]))
}

/// A reader with a directory of its own.
struct Reader {
    directory: tempfile::TempDir,
    server: Option<Server>,
}

impl Reader {
    fn new() -> Reader {
        Reader { directory: tempfile::tempdir().unwrap(), server: None }
    }

    /// Does what a block says and returns what was printed.
    fn run(&mut self, block: &Block<'_>) -> String {
        match block.info {
            "sh server" => self.start_server(&block.text),
            "sh" => self.type_into(&["bash", "-euo", "pipefail"], &block.text),
            "sql" => {
                let address = ["psql", "-h", "127.0.0.1", "-p", "7471", "-U", "thalweg", "thalweg"];
                let quiet = ["-X", "-v", "ON_ERROR_STOP=1"];
                self.type_into(&[&address[..], &quiet].concat(), &block.text)
            }
            info => panic!("line {}: nothing runs a block of {info:?}", block.line),
        }
    }

    fn start_server(&mut self, text: &str) -> String {
        drop(self.server.take());
        let mut command = self.tool("bash");
        command.args(["-c", &format!("exec env {text} {OTHER_PORTS}")]);
        command.env("THALWEG__LOG__FILTER", "error");
        let server = Server::run(command);
        let announced = PORTS.iter().fold(server.announcement.clone(), |text, (words, port)| {
            text.replace(server.port(words), port)
        });
        self.server = Some(server);
        announced
    }

    fn type_into(&self, words: &[&str], text: &str) -> String {
        let server = self.server.as_ref().expect("a server was started before");
        let at_its_ports = |text: &str| {
            PORTS
                .iter()
                .fold(text.to_owned(), |text, (words, port)| text.replace(port, server.port(words)))
        };
        let mut command = self.tool("bash");
        // Errors come where a reader sees them.
        command.args(["-c", r#"exec "$@" 2>&1"#, "bash"]);
        command.args(words.iter().map(|word| at_its_ports(word)));
        let run = finish(command, at_its_ports(text).as_bytes());
        assert_eq!(run.code, 0, "{text}\n{}", run.stdout);
        run.stdout
    }

    fn tool(&self, program: &str) -> Command {
        let program_directory = Path::new(env!("CARGO_BIN_EXE_thalweg")).parent();
        let mut path =
            program_directory.expect("a file lies in a directory").as_os_str().to_owned();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        let mut command = tool(program);
        command.current_dir(self.directory.path()).env("PATH", path);
        command
    }
}

fn is_there(program: &str) -> bool {
    let mut command = tool("sh");
    command.args(["-c", &format!("command -v {program}")]);
    finish(command, b"").code == 0
}

#[test]
fn the_tour_prints_what_it_shows() {
    if let Some(missing) = TOOLS.iter().find(|program| !is_there(program)) {
        eprintln!("no {missing} here: docs/tour.md is left out");
        return;
    }
    let blocks = blocks(TOUR);
    let parts: Vec<&[Block<'_>]> = blocks.chunk_by(|one, next| one.part == next.part).collect();
    assert_eq!(parts.len(), 3, "customer profiles, market ticks, telemetry");
    for part in parts {
        let mut reader = Reader::new();
        let mut rest = part.iter().peekable();
        while let Some(block) = rest.next() {
            let shown = rest.next_if(|next| next.info == "text");
            let shown = shown.map_or("", |block| block.text.as_str());
            let output = reader.run(block);
            assert!(
                is_as_shown(shown, &output),
                "docs/tour.md, line {}\nshown:\n{shown}\nprinted:\n{output}",
                block.line
            );
        }
    }
}

#[test]
fn an_output_that_differs_is_found() {
    assert!(is_as_shown("a\nb … c\n…\nd", "a \nb 17 c\nx\ny\nd\n\n"));
    assert!(is_as_shown("a …\n…", "a 1"));
    assert!(!is_as_shown("a\nb", "a\nc"));
    assert!(!is_as_shown("a\n", "a\nb"));
    assert!(!is_as_shown("a … c", "a b"));
    assert!(!is_as_shown("a\n…\nd", "a\nb"));
    assert!(!is_as_shown("", "a"));
}
