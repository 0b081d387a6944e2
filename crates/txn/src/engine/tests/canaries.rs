//! Disks that break a promise, which the harness must notice within 20 seeds.

use thalweg_env::{Fault, Lie};

use super::crash_points::run_on;

const SEEDS: u64 = 20;
const STEPS: usize = 20;

/// Whether a run on a disk that lies goes wrong.
fn is_noticed(lie: Lie) -> bool {
    let crash_at = |seed| Some((40 + seed * 5, Fault::CrashTorn));
    (0..SEEDS).any(|seed| run_on(seed, STEPS, crash_at(seed), |disk| disk.lie(lie)).is_err())
}

#[test]
fn on_an_honest_disk_nothing_is_wrong() {
    for seed in 0..SEEDS {
        let fault = Some((40 + seed * 5, Fault::CrashTorn));
        run_on(seed, STEPS, fault, |_| {}).unwrap();
    }
}

#[test]
fn a_forgotten_sync_of_files_is_noticed() {
    assert!(is_noticed(Lie::FileSync));
}

#[test]
fn a_forgotten_sync_of_directories_is_noticed() {
    assert!(is_noticed(Lie::DirectorySync));
}
