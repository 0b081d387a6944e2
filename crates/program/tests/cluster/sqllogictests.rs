//! The files of `tests/slt` on a gateway with four workers, over PostgreSQL's wire and over Flight
//! SQL, rows that the workers encoded among them; with queries that are prepared and run twice; and
//! with workers that share processes.
//!
//! `known.txt` has the files of which a cluster answers some records otherwise: how many, and why.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thalweg::{Database, Error};
use thalweg_query::{Gathering, Stages};
use tokio::runtime::Runtime;

use super::embedded::Embedded;
use super::flight::OverFlight;
use super::postgres::Postgres;
use super::route::Route;
use super::suite::{self, Strictness};
use super::support::Cluster;

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// How many records of a file fail, by file: a number, or `least..most` where it depends on who is
/// first.
fn known() -> BTreeMap<String, RangeInclusive<usize>> {
    let text = std::fs::read_to_string(here("tests/cluster/known.txt")).unwrap();
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let known = lines.map(|line| {
        let mut words = line.splitn(3, ' ');
        let file = words.next().unwrap().to_owned();
        let count = words.next().unwrap();
        let (least, most) = count.split_once("..").unwrap_or((count, count));
        let count = least.parse().unwrap()..=most.parse().unwrap();
        let why = words.next().unwrap_or_default();
        assert!(!why.trim().is_empty(), "{line}: a reason is missing");
        (file, count)
    });
    known.collect()
}

/// Workers, each in a process of its own.
const WORKERS: [u64; 4] = [1; 4];
/// The same, two in each process.
const IN_PROCESSES: [u64; 2] = [2; 2];

/// Runs all files, each on a cluster of its own, and expects of each as many failures as are known.
fn run<R: Route>(
    processes: &[u64],
    gathering: Gathering,
    over: impl AsyncFn(Database) -> Result<Arc<R>, Error>,
) {
    let runtime = Runtime::new().unwrap();
    let (root, mut known) = (here("../../tests/slt"), known());
    let (mut passed, mut wrong) = (0, Vec::new());
    for file in suite::files_of(&root, &["slt"]) {
        let records = suite::read(&file);
        let name = file.strip_prefix(&root).unwrap().display().to_string();
        let cluster = runtime.block_on(Cluster::start_in(processes, gathering));
        let route = runtime.block_on(over(cluster.gateway.clone()));
        let report = runtime.block_on(suite::run(route, records, Strictness::Unordered));
        let report = report.unwrap_or_else(|refusal| panic!("{name}: {refusal}"));
        passed += report.passed;
        let expected = known.remove(&name).unwrap_or(0..=0);
        if !expected.contains(&report.failures.len()) {
            let (count, all) = (report.failures.len(), report.failures.join("\n"));
            wrong.push(format!("{name}: {count} failed and not {expected:?}\n{all}"));
        }
    }
    println!("{passed} records passed");
    assert!(known.is_empty(), "there are no such files: {known:?}");
    assert!(wrong.is_empty(), "{}\n{passed} passed", wrong.join("\n"));
}

#[test]
fn files() {
    run(&WORKERS, Gathering::default(), Postgres::over);
}

#[test]
fn files_over_flight() {
    run(&WORKERS, Gathering::default(), OverFlight::over);
}

#[test]
fn files_of_workers_in_processes() {
    run(&IN_PROCESSES, Gathering::default(), Postgres::over);
}

#[test]
fn files_in_stages() {
    run(&WORKERS, Gathering { stages: Stages::On, ..Gathering::default() }, Postgres::over);
}

#[test]
fn files_prepared() {
    run(&WORKERS, Gathering::default(), async |database| Embedded::prepared_over(database));
}
