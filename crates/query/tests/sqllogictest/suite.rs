//! Runs files and tells every record that did not answer as the file says.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sqllogictest::{DefaultColumnType, Record, Runner, parse_file};
use thalweg_types::Error;

use crate::route::{Refusal, Route};

/// After how many records a route is restarted; a prime, so that files of regular shape are cut at
/// different places.
const RECORDS_BETWEEN_RESTARTS: usize = 7;

pub type Expectation = Record<DefaultColumnType>;

/// How closely answers must be what a file says.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Strictness {
    /// To the character, and with the same types of columns.
    Exact,
    /// White space and types may differ.
    Loose,
}

/// What became of one file.
#[derive(Default)]
pub struct Report {
    pub passed: usize,
    /// One text for each record that failed.
    pub failures: Vec<String>,
}

/// All `.slt` files in a directory and below, in order.
pub fn files_of(directory: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let entries = fs::read_dir(directory).expect("the directory can be listed");
    for entry in entries {
        let path = entry.expect("the directory can be listed").path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        if path.is_dir() {
            files.extend(files_of(&path, extensions));
        } else if extension.is_some_and(|extension| extensions.contains(&extension)) {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// The records of a file of this repository.
pub fn read(path: &Path) -> Vec<Expectation> {
    parse_file(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Asks every record of a file on a fresh database; a record that fails doesn't end the file.
pub async fn run<R: Route>(
    route: Result<Arc<R>, Error>,
    records: Vec<Expectation>,
    strictness: Strictness,
) -> Result<Report, Refusal> {
    let route = route?;
    let mut runner = Runner::new(|| Arc::clone(&route).connect());
    if strictness == Strictness::Exact {
        runner.with_normalizer(Clone::clone);
        runner.with_column_validator(types_agree);
    }
    let mut report = Report::default();
    for (index, record) in records.into_iter().enumerate() {
        let asks = matches!(record, Record::Statement { .. } | Record::Query { .. });
        match runner.run_async(record).await {
            Ok(_) => report.passed += usize::from(asks),
            Err(error) => report.failures.push(error.to_string()),
        }
        if index % RECORDS_BETWEEN_RESTARTS == 0 {
            route.restart().await?;
        }
    }
    runner.shutdown_async().await;
    route.restart().await?;
    Ok(report)
}

/// Whether columns are of the types that a file names; `?` stands for all.
#[expect(clippy::ptr_arg, reason = "the form that the runner asks for")]
fn types_agree(actual: &Vec<DefaultColumnType>, expected: &Vec<DefaultColumnType>) -> bool {
    let agree = |(actual, expected)| expected == &DefaultColumnType::Any || actual == expected;
    actual.len() == expected.len() && actual.iter().zip(expected).all(agree)
}
