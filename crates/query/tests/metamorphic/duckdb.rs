//! DuckDB in a Python process, asked the same questions.
//!
//! `THALWEG_DUCKDB` names a Python that has it. Questions are generated so that both mean the same
//! by them, but for what `dialect` puts right.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

const SCRIPT: &str = include_str!("../../../../bench/peers/duckdb_peer.py");

pub struct DuckDb {
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl DuckDb {
    /// Starts the one that the environment names, if it names one.
    #[expect(clippy::disallowed_methods, reason = "DuckDB is a program of its own")]
    pub fn start() -> Option<DuckDb> {
        let python = std::env::var_os("THALWEG_DUCKDB")?;
        let mut child = Command::new(python)
            .args(["-c", SCRIPT, ":memory:"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the Python that THALWEG_DUCKDB names starts");
        let requests = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        let mut peer = DuckDb { child, requests, answers };
        // The first line says that it is ready.
        peer.line();
        // Whole numbers are divided as in PostgreSQL.
        peer.rows("SET integer_division = true").unwrap();
        Some(peer)
    }

    /// Does a statement.
    pub fn done(&mut self, statement: &str) {
        self.answer(&json!({ "sql": dialect(statement) }))
            .unwrap_or_else(|error| panic!("DuckDB: {statement}: {error}"));
    }

    /// The rows of a query as texts, or what DuckDB says against it.
    pub fn rows(&mut self, query: &str) -> Result<Vec<Vec<Option<String>>>, String> {
        let answer = self.answer(&json!({ "sql": dialect(query), "fetch": true }))?;
        Ok(serde_json::from_value(answer["rows"].clone()).unwrap())
    }

    fn answer(&mut self, request: &Value) -> Result<Value, String> {
        writeln!(self.requests, "{request}").unwrap();
        let answer: Value = serde_json::from_str(&self.line()).unwrap();
        match answer["error"].as_str() {
            Some(error) => Err(error.to_owned()),
            None => Ok(answer),
        }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "DuckDB ended without an answer");
        line
    }
}

impl Drop for DuckDb {
    fn drop(&mut self) {
        // A process that already ended needs no end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// In DuckDB no character escapes another one unless a pattern says so. A table of the seed before
/// goes.
fn dialect(sql: &str) -> String {
    sql.replace(r"'a\%'", r"'a\%' ESCAPE '\'").replace("CREATE TABLE", "CREATE OR REPLACE TABLE")
}

/// A value as DuckDB's Arrow shows it in Python, in the words that ours is shown in.
pub fn in_our_words(value: Option<&str>, is_moment: bool, is_float: bool) -> String {
    match value {
        None => "NULL".to_owned(),
        Some("True") => "true".to_owned(),
        Some("False") => "false".to_owned(),
        Some(text) if is_moment && !text.contains('.') => format!("{text}.000000"),
        Some(text) if is_float => {
            let float: f64 = text.parse().expect("a float is shown as a number");
            super::database::float_text(float)
        }
        Some(text) => text.to_owned(),
    }
}
