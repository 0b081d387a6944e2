//! Each deliberate bug is noticed.

use thalweg_sim::workloads::{self, Workload};
use thalweg_sim::{Mischief, Plan};

const SEEDS: u64 = 20;

/// The first of a few seeds with which a bug is noticed.
fn noticed(mischief: Mischief, workload: Workload) -> Option<(u64, String)> {
    (0..SEEDS).find_map(|seed| {
        let told = workloads::run(&Plan::faulty(seed).with(mischief), workload);
        Some((seed, told.err()?))
    })
}

fn is_noticed_by(mischief: Mischief, by: &[Workload]) {
    for (name, workload) in workloads::ALL {
        if !by.iter().any(|by| std::ptr::fn_addr_eq(*by, workload)) {
            continue;
        }
        let (seed, what) = noticed(mischief, workload)
            .unwrap_or_else(|| panic!("{mischief:?} is not noticed by {name}"));
        let first = what.lines().next().unwrap_or_default();
        println!("{mischief:?}: {name}, seed {seed}: {first}");
    }
}

const REGISTERS: Workload = workloads::registers::play;
const LISTS: Workload = workloads::lists::play;
const BANK: Workload = workloads::bank::play;

#[test]
fn lost_writes_are_noticed() {
    is_noticed_by(Mischief::AcknowledgeBeforeSync, &[REGISTERS, LISTS, BANK]);
    is_noticed_by(Mischief::ForgetFileSync, &[REGISTERS, LISTS, BANK]);
    is_noticed_by(Mischief::ForgetDirectorySync, &[REGISTERS, LISTS, BANK]);
    is_noticed_by(Mischief::AcknowledgeFailure, &[REGISTERS, LISTS, BANK]);
    is_noticed_by(Mischief::LoseTailOfLog, &[REGISTERS, LISTS, BANK]);
}

#[test]
fn groups_in_parts_are_noticed() {
    is_noticed_by(Mischief::SplitGroups, &[LISTS, BANK]);
    is_noticed_by(Mischief::ApplyRefused, &[LISTS, BANK]);
    is_noticed_by(Mischief::ReadRefused, &[LISTS]);
}

#[test]
fn lost_updates_are_noticed() {
    is_noticed_by(Mischief::ForgetExpectations, &[LISTS, BANK]);
    is_noticed_by(Mischief::OverwriteConflicts, &[LISTS, BANK]);
    is_noticed_by(Mischief::ForgetRemovals, &[REGISTERS]);
    is_noticed_by(Mischief::CreateOverwrites, &[REGISTERS]);
    is_noticed_by(Mischief::RepeatWrites, &[REGISTERS]);
}

#[test]
fn snapshots_that_are_none_are_noticed() {
    is_noticed_by(Mischief::StaleReads, &[REGISTERS, LISTS, BANK]);
    is_noticed_by(Mischief::TornReads, &[LISTS, BANK]);
}
