//! Analytical systems in Python processes, with the same queries over the same files.

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::json;
use thalweg_types::Result;

use crate::context::Context;
use crate::samples::Samples;

const SCRIPT: &str = include_str!("../../../../bench/peers/questions_peer.py");

/// The Python module of each, and its usual name.
const ENGINES: [(&str, &str); 4] =
    [("duckdb", "DuckDB"), ("polars", "Polars"), ("datafusion", "DataFusion"), ("chdb", "chdb")];

#[derive(Deserialize)]
struct Answer {
    seconds: Vec<Vec<f64>>,
}

/// A peer's name, and its seconds for each query; empty for queries that it cannot answer.
pub struct Answered {
    pub engine: &'static str,
    pub seconds: Vec<Samples>,
}

/// Runs the queries on all installed peers, if peers are wanted.
///
/// # Errors
/// If a peer breaks down.
pub fn ask_all(
    context: &Context,
    threads: usize,
    repetitions: usize,
    tables: &[(&str, PathBuf)],
    queries: &[&str],
) -> Result<Vec<Answered>> {
    let mut answered = Vec::new();
    if !context.peers {
        return Ok(answered);
    }
    for (module, engine) in ENGINES {
        let Some(python) = context.python(module) else { continue };
        let tables: serde_json::Map<String, serde_json::Value> = tables
            .iter()
            .map(|(name, path)| ((*name).to_owned(), json!(path.display().to_string())))
            .collect();
        let request = json!({ "tables": tables, "queries": queries }).to_string();
        let arguments = [module, &threads.to_string(), &repetitions.to_string()];
        let answer: Answer = python.run_with_input(SCRIPT, &arguments, &request)?;
        let seconds = answer.seconds.into_iter().map(Samples::from_iter).collect();
        answered.push(Answered { engine, seconds });
    }
    Ok(answered)
}

/// The fastest peer's times for a query, by the median.
#[must_use]
pub fn fastest(answered: &[Answered], question: usize) -> Option<(&'static str, &Samples)> {
    let answers = answered.iter().map(|peer| (peer.engine, &peer.seconds[question]));
    answers
        .filter(|(_, samples)| !samples.is_empty())
        .min_by(|(_, a), (_, b)| a.median().total_cmp(&b.median()))
}
