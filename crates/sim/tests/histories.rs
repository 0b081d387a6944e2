//! Histories on machines that fail, and on machines that do not.

use thalweg_sim::workloads::{self, Workload};
use thalweg_sim::{Plan, Report, cases};
use thalweg_txn::Durability;

/// Plays a workload with many seeds.
fn play(workload: Workload, seeds: u64, plan: impl Fn(u64) -> Plan) -> Report {
    let mut sum = Report::default();
    for seed in 0..cases(seeds) {
        match workloads::run(&plan(seed), workload) {
            Ok(report) => sum += report,
            Err(what) => panic!("seed {seed}: {what}"),
        }
    }
    println!("{sum:?}");
    sum
}

/// Enough happened for the absence of anomalies to mean something.
fn check_rates(sum: &Report) {
    let seconds = sum.simulated.as_secs();
    assert!(seconds > 0 && sum.faults >= seconds, "{} faults in {seconds} s", sum.faults);
    assert!(sum.crashes >= seconds / 2, "{} deaths in {seconds} s", sum.crashes);
    assert!(sum.done >= 20 * seconds, "{} operations in {seconds} s", sum.done);
    assert!(sum.in_doubt >= seconds / 2, "{} in doubt in {seconds} s", sum.in_doubt);
    assert!(sum.in_doubt * 4 < sum.done, "{} in doubt of {}", sum.in_doubt, sum.done);
}

fn fail_and_go_on(workload: Workload) {
    let sum = play(workload, 40, Plan::faulty);
    check_rates(&sum);
}

#[test]
fn keys_are_linearizable_while_disks_fail_and_machines_die() {
    fail_and_go_on(workloads::registers::play);
}

#[test]
fn lists_are_snapshot_isolated_while_disks_fail_and_machines_die() {
    fail_and_go_on(workloads::lists::play);
}

#[test]
fn no_money_is_made_while_disks_fail_and_machines_die() {
    fail_and_go_on(workloads::bank::play);
}

/// What the operating system was given survives the process.
#[test]
fn writes_without_sync_survive_the_process() {
    for (_, workload) in workloads::ALL {
        let plan = |seed| Plan { durability: Durability::Write, ..Plan::faulty(1_000 + seed) };
        let sum = play(workload, 10, plan);
        assert!(sum.faults >= sum.simulated.as_secs() && sum.done > 0);
    }
}

#[test]
fn clients_that_nothing_disturbs_see_the_same_database() {
    for durability in [Durability::Fsync, Durability::None] {
        for (name, workload) in workloads::ALL {
            let seeds = 4;
            let sum = play(workload, seeds, |seed| Plan::busy(2_000 + seed, durability));
            let plan = Plan::busy(0, durability);
            let asked = cases(seeds) * (plan.clients * plan.eras * plan.operations) as u64;
            assert_eq!((sum.faults, sum.in_doubt), (0, 0));
            assert!(sum.done > asked / 3, "{name}: {} of {asked}", sum.done);
        }
    }
}
