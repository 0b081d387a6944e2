//! SQL and its answers, by area, from `tests/slt` at the root of the repository.
//!
//! Each file is asked four times: on a database in memory, on a durable one that is closed and
//! opened again between the statements, on one in memory where queries are prepared and run twice,
//! so that plans are kept, and on one whose fused aggregates are all shared out between executors
//! that are sent bytes ([`remote`]). What files expect is what PostgreSQL 15 answers; where a
//! statement is Thalweg's own, the file says so. In a file:
//!
//! - values are written as PostgreSQL writes them, `NULL` for NULL, `(empty)` for the empty text;
//! - `T`, `I` and `R` are texts, integers and other numbers, `?` is any type;
//! - errors are matched as `SQLSTATE: message DETAIL: … HINT: …` by a regular expression, or by
//!   `(SQLSTATE)` where the words are Thalweg's own;
//! - `connection name` leads the next record to a session of its own;
//! - `$__TEST_DIR__` is a directory that goes with the file, after `control substitution on`.
//!
//! `THALWEG_SLT` names a file or directory elsewhere to try: see [`elsewhere`].

mod elsewhere;
mod embedded;
mod remote;
mod route;
#[expect(clippy::disallowed_methods, reason = "scripts are no files of a database")]
mod suite;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use embedded::Embedded;
use remote::Remote;
use suite::{Report, Strictness};
use thalweg_query::Database;
use tokio::runtime::Runtime;

/// Ways into a database: a name, and how a fresh one is made.
type Fresh = fn() -> thalweg_types::Result<Arc<Embedded>>;
const ROUTES: [(&str, Fresh); 4] = [
    ("memory", Embedded::in_memory),
    ("durable", Embedded::durable),
    ("prepared", Embedded::prepared),
    ("remote", remote),
];

fn remote() -> thalweg_types::Result<Arc<Embedded>> {
    Embedded::over(Database::builder().scheduler(Arc::new(Remote)).open()?)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/slt")
}

#[expect(clippy::disallowed_methods, reason = "tests run on a runtime of their own")]
fn runtime() -> Runtime {
    Runtime::new().expect("a runtime can be made")
}

fn check(area: &str) {
    let files = suite::files_of(&root().join(area), &["slt"]);
    assert!(!files.is_empty(), "there are no files in tests/slt/{area}");
    let runtime = runtime();
    let mut all = Report::default();
    for file in files {
        for (name, fresh) in ROUTES {
            let records = suite::read(&file);
            match runtime.block_on(suite::run(fresh(), records, Strictness::Exact)) {
                Ok(report) => {
                    all.passed += report.passed;
                    let failures = report.failures.into_iter();
                    all.failures.extend(failures.map(|failure| format!("[{name}] {failure}")));
                }
                Err(refusal) => {
                    all.failures.push(format!("[{name}] {}: {refusal}", file.display()))
                }
            }
        }
    }
    let asked = remote::ASKED.load(Ordering::Relaxed);
    assert!(area != "aggregates" || asked > 100, "executors were asked {asked} questions");
    let failed = all.failures.len();
    assert!(failed == 0, "{}\n{failed} failed, {} passed", all.failures.join("\n"), all.passed);
}

macro_rules! areas {
    ($($area:ident)*) => {
        const AREAS: &[&str] = &[$(stringify!($area)),*];

        $(#[test] fn $area() { check(stringify!($area)); })*
    };
}

areas! {
    aggregates catalog copy ddl dml errors expressions queries roles settings transactions types
}

#[test]
#[expect(clippy::disallowed_methods, reason = "scripts are no files of a database")]
fn every_directory_is_an_area() {
    let entries = std::fs::read_dir(root()).expect("tests/slt can be listed");
    for entry in entries {
        let name = entry.expect("tests/slt can be listed").file_name();
        let name = name.to_str().expect("areas have plain names");
        assert!(AREAS.contains(&name), "nothing runs tests/slt/{name}");
    }
}

#[test]
fn elsewhere() {
    if let Some(path) = std::env::var_os("THALWEG_SLT") {
        runtime().block_on(elsewhere::run_and_print(PathBuf::from(path)));
    }
}
