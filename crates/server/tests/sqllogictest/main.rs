//! The files of `tests/slt` over a server's ports: what they expect is what they expect of the
//! database in this process.

mod postgres;
#[path = "../../../query/tests/sqllogictest/route.rs"]
mod route;
#[path = "../../../query/tests/sqllogictest/suite.rs"]
mod suite;

use std::path::{Path, PathBuf};

use postgres::Postgres;
use suite::{Report, Strictness};
use thalweg_query::Database;
use tokio::runtime::Runtime;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/slt")
}

/// Every area on one server's PostgreSQL port, each file on a fresh database.
#[test]
fn postgres() {
    let runtime = Runtime::new().expect("a runtime can be made");
    let mut all = Report::default();
    for file in suite::files_of(&root(), &["slt"]) {
        let records = suite::read(&file);
        let route = Database::in_memory().and_then(|db| runtime.block_on(Postgres::over(db)));
        match runtime.block_on(suite::run(route, records, Strictness::Exact)) {
            Ok(report) => {
                all.passed += report.passed;
                all.failures.extend(report.failures);
            }
            Err(refusal) => all.failures.push(format!("{}: {refusal}", file.display())),
        }
    }
    let failed = all.failures.len();
    assert!(all.passed > 0, "there are no files in tests/slt");
    assert!(failed == 0, "{}\n{failed} failed, {} passed", all.failures.join("\n"), all.passed);
}
