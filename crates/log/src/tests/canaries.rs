//! Deliberate bugs, each of which the crash tests must catch within 20 seeds.

use thalweg_env::{Fault, Lie};

use super::crashes::{run, run_on};
use crate::checkpoint::canary as checkpoints;
use crate::checksum::canary;

const SEEDS: u64 = 20;
const APPENDS: usize = 30;

/// The number of seeds, out of all, that catch a bug.
fn caught(run: impl Fn(u64, Option<(u64, Fault)>) -> bool) -> usize {
    let crash_at = |seed: u64| Some((30 + seed * 5, Fault::CrashTorn));
    (0..SEEDS).filter(|seed| run(*seed, crash_at(*seed))).count()
}

#[test]
fn without_a_bug_nothing_is_caught() {
    assert_eq!(caught(|seed, fault| run(seed, APPENDS, fault).is_err()), 0);
}

#[test]
fn a_forgotten_directory_sync_is_caught() {
    let lie = Lie::DirectorySync;
    let bug = |seed, fault| run_on(seed, APPENDS, fault, |disk| disk.lie(lie)).is_err();
    assert!(caught(bug) > 0);
}

#[test]
fn an_acknowledgement_before_the_sync_is_caught() {
    let lie = Lie::FileSync;
    let bug = |seed, fault| run_on(seed, APPENDS, fault, |disk| disk.lie(lie)).is_err();
    assert!(caught(bug) > 0);
}

#[test]
fn a_skipped_checksum_is_caught() {
    let bug = |seed, fault| canary::skip(|| run(seed, APPENDS, fault).is_err());
    assert!(caught(bug) > 0);
}

#[test]
fn a_checkpoint_that_removes_a_file_which_it_names_is_caught() {
    let bug = |seed, fault| checkpoints::removing_needed(|| run(seed, APPENDS, fault).is_err());
    assert!(caught(bug) > 0);
}

#[test]
fn a_manifest_that_is_durable_before_its_chunk_file_is_caught() {
    let bug = |seed, fault| checkpoints::manifest_first(|| run(seed, APPENDS, fault).is_err());
    assert!(caught(bug) > 0);
}
