//! Runs files and tells every record that did not answer as the file says.

// Wherever this file is a module of, that one lies beside it.
#[path = "order.rs"]
mod order;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sqllogictest::{
    DefaultColumnType, Normalizer, QueryExpect, Record, Runner, TestError, TestErrorKind,
    default_validator, parse_file,
};
use thalweg_types::Error;

use self::order::Order;
use crate::route::{Refusal, Route};

/// After how many records a route is restarted; a prime, so that files of regular shape are cut at
/// different places.
const RECORDS_BETWEEN_RESTARTS: usize = 7;

/// From how many values on SQLite's files hold their hash, where they do not say.
const SQLITE_HASH_THRESHOLD: usize = 8;

pub type Expectation = Record<DefaultColumnType>;

/// How closely answers must be what a file says.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Strictness {
    /// To the character, and with the same types of columns.
    Exact,
    /// White space, types and the words of errors may differ.
    Loose,
    /// As exact, but rows that a query does not order may come in any order, and columns may be of
    /// other types.
    Unordered,
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
    } else if strictness == Strictness::Unordered {
        runner.with_normalizer(Clone::clone);
        runner.with_validator(same_rows);
    } else {
        runner.with_validator(rows_or_values);
        if records.iter().any(holds_hash) {
            runner.with_hash_threshold(SQLITE_HASH_THRESHOLD);
        }
    }
    let mut report = Report::default();
    for (index, record) in records.into_iter().enumerate() {
        let asks = matches!(record, Record::Statement { .. } | Record::Query { .. });
        let order = match strictness {
            Strictness::Unordered => Order::of(&record),
            Strictness::Exact | Strictness::Loose => None,
        };
        match runner.run_async(record).await {
            Ok(output) => match order.and_then(|order| order.broken_by(&output)) {
                Some(failure) => report.failures.push(failure),
                None => report.passed += usize::from(asks),
            },
            Err(error) if strictness == Strictness::Loose && only_words_differ(&error) => {
                report.passed += 1;
            }
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

/// Rows of several machines come as they come; where a query orders them, [`Order`] looks at that.
fn same_rows(normalizer: Normalizer, actual: &[Vec<String>], expected: &[String]) -> bool {
    if default_validator(normalizer, actual, expected) {
        return true;
    }
    let mut actual: Vec<String> = actual.iter().map(|row| row.join(" ")).collect();
    let mut expected: Vec<String> = expected.iter().map(normalizer).collect();
    actual.sort();
    expected.sort();
    actual == expected
}

/// SQLite's files hold one value a line, others one row.
fn rows_or_values(normalizer: Normalizer, actual: &[Vec<String>], expected: &[String]) -> bool {
    let values = actual.iter().flatten().map(normalizer);
    default_validator(normalizer, actual, expected) || values.eq(expected.iter().map(normalizer))
}

/// Whether a record's answer is only a hash of the values.
fn holds_hash(record: &Expectation) -> bool {
    let Record::Query { expected: QueryExpect::Results { results, .. }, .. } = record else {
        return false;
    };
    results.first().is_some_and(|first| first.contains(" values hashing to "))
}

/// Whether both refused, each in its own words.
fn only_words_differ(error: &TestError) -> bool {
    matches!(error.kind(), TestErrorKind::ErrorMismatch { .. })
}
