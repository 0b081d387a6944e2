//! Files of other projects: what of them Thalweg answers alike, as a summary.
//!
//! ```text
//! THALWEG_SLT=sqlite/test cargo test -p thalweg-query --test sqllogictest elsewhere -- --nocapture
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sqllogictest::parse_with_name;

use crate::embedded::Embedded;
use crate::suite::{self, Expectation, Strictness};

/// Directives of DuckDB's runner that ours can do without.
const PASSED_OVER: [&str; 6] = ["require ", "mode ", "load ", "tags ", "reconnect", "unzip "];
const FREQUENT_MAX: usize = 40;

/// Runs what `THALWEG_SLT` names, if anything, and prints what became of it.
pub async fn run_and_print(path: PathBuf) {
    let files =
        if path.is_dir() { suite::files_of(&path, &["slt", "test"]) } else { vec![path.clone()] };
    let (mut passed, mut failed, mut unread) = (0, 0, 0);
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for file in &files {
        let Some(records) = records_of(file) else {
            unread += 1;
            println!("{:>7} {:>7}  {}", "-", "-", file.display());
            continue;
        };
        match suite::run(Embedded::in_memory(), records, Strictness::Loose).await {
            Err(refusal) => println!("{}: {refusal}", file.display()),
            Ok(report) => {
                println!("{:>7} {:>7}  {}", report.passed, report.failures.len(), file.display());
                passed += report.passed;
                failed += report.failures.len();
                for failure in report.failures {
                    if std::env::var_os("THALWEG_SLT_ALL").is_some() {
                        println!("{failure}");
                    }
                    *reasons.entry(reason_of(&failure)).or_default() += 1;
                }
            }
        }
    }
    println!("{passed} records passed, {failed} failed; {unread} files could not be read");
    let mut reasons: Vec<(String, usize)> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    for (reason, count) in reasons.into_iter().take(FREQUENT_MAX) {
        println!("{count:>7}  {reason}");
    }
}

/// `None` where the file is written for another runner's language.
#[expect(clippy::disallowed_methods, reason = "scripts are no files of a database")]
fn records_of(path: &Path) -> Option<Vec<Expectation>> {
    let text = std::fs::read_to_string(path).ok()?;
    let lines = text.lines().filter(|line| !PASSED_OVER.iter().any(|word| line.starts_with(word)));
    let text: String = lines.flat_map(|line| [line, "\n"]).collect();
    parse_with_name(&text, path.to_string_lossy()).ok()
}

/// A failure without its names and numbers, so that equal ones are counted together.
fn reason_of(failure: &str) -> String {
    let first = failure.lines().next().unwrap_or_default();
    let first = first.split(" DETAIL: ").next().and_then(|first| first.split(" HINT: ").next());
    let mut reason = String::new();
    let mut in_quotes = false;
    for character in first.unwrap_or_default().chars() {
        if character == '"' {
            in_quotes = !in_quotes;
        }
        if !in_quotes && !character.is_ascii_digit() {
            reason.push(character);
        }
    }
    reason
}
