//! Shared parts of the tests of requests that write rows.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use thalweg_server::auth::AuthConfig;
use thalweg_server::{Server, ServerConfig};

use super::{Answer, sql, started};

pub(super) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A server whose points create tables.
pub(super) async fn open(method: AuthConfig) -> Server {
    let mut config = ServerConfig::default();
    config.auth.method = method;
    config.ingest.create_tables = true;
    started(config).await
}

/// The rows of a query, as JSON.
pub(super) async fn rows(server: &Server, query: &str) -> Vec<Value> {
    let answer = sql(server, query).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A report without the texts of its errors.
pub(super) fn counts(answer: &Answer) -> Value {
    let body = answer.json();
    let errors = body["errors"].as_array().cloned().unwrap_or_default();
    let numbered = |error: &Value| {
        let number = error.get("row").or(error.get("line"));
        json!([number, error["sqlstate"]])
    };
    json!(errors.iter().map(numbered).collect::<Vec<_>>())
}
