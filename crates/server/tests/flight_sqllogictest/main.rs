//! The files of SQL under `tests/slt`, asked over Flight SQL. Answers and errors must be those that
//! they are embedded, to the character.

mod flight;
#[path = "../../../query/tests/sqllogictest/route.rs"]
mod route;
#[path = "../../../query/tests/sqllogictest/suite.rs"]
mod suite;

use std::path::Path;

use thalweg_query::Database;

use flight::OverFlight;
use suite::{Report, Strictness};

#[test]
fn every_file_is_answered_as_embedded() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/slt");
    let files = suite::files_of(&root, &["slt"]);
    assert!(!files.is_empty(), "there are no files in tests/slt");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be made");
    let mut all = Report::default();
    for file in files {
        let records = suite::read(&file);
        let report = runtime.block_on(async {
            let route = OverFlight::over(Database::in_memory().expect("memory is there")).await;
            suite::run(route, records, Strictness::Exact).await
        });
        match report {
            Ok(report) => {
                all.passed += report.passed;
                all.failures.extend(report.failures);
            }
            Err(refusal) => all.failures.push(format!("{}: {refusal}", file.display())),
        }
    }
    let failed = all.failures.len();
    assert!(failed == 0, "{}\n{failed} failed, {} passed", all.failures.join("\n"), all.passed);
}
