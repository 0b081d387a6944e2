//! The files of `tests/slt` on a gateway with four workers, over PostgreSQL's wire.

use std::path::{Path, PathBuf};

use tokio::runtime::Runtime;

use super::postgres::Postgres;
use super::suite::{self, Strictness};
use super::support::Cluster;

/// Records that a cluster answers otherwise, by file: how many they are, and why.
const KNOWN: &[(&str, usize, &str)] = &[];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/slt")
}

#[test]
fn files() {
    let runtime = Runtime::new().unwrap();
    let (mut passed, mut wrong) = (0, Vec::new());
    for file in suite::files_of(&root(), &["slt"]) {
        let records = suite::read(&file);
        let name = file.strip_prefix(root()).unwrap().display().to_string();
        let cluster = runtime.block_on(Cluster::start(4));
        let route = runtime.block_on(Postgres::over(cluster.gateway.clone()));
        let report = runtime.block_on(suite::run(route, records, Strictness::Unordered));
        let report = report.unwrap_or_else(|refusal| panic!("{name}: {refusal}"));
        passed += report.passed;
        let expected = KNOWN.iter().find(|(known, ..)| *known == name).map_or(0, |known| known.1);
        if report.failures.len() != expected {
            let (count, all) = (report.failures.len(), report.failures.join("\n"));
            wrong.push(format!("{name}: {count} failed and not {expected}\n{all}"));
        }
    }
    println!("{passed} records passed");
    assert!(wrong.is_empty(), "{}\n{passed} passed", wrong.join("\n"));
}
