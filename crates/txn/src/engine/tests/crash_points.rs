//! Every fault at every operation of the disk.

use thalweg_env::{Fault, SimulatedDisk};

use super::cases;
use super::session::Outcome;
use super::steps::Steps;
use super::world::{End, World};

/// Runs a workload with a fault at one operation, checks what is left of it, goes on for a while
/// and kills the machine. Returns how many operations the workload took.
pub fn run_on(
    seed: u64,
    steps: usize,
    fault: Option<(u64, Fault)>,
    prepare: impl Fn(&SimulatedDisk),
) -> Outcome<u64> {
    let (mut world, mut source) = (World::new(seed), Steps::new(seed));
    source.restarts = false;
    prepare(&world.disk);
    if let Some((operation, fault)) = fault {
        world.disk.fault_at(operation, fault);
        world.faulty = true;
    }
    world.start()?;
    for step in 0..steps {
        if world.disk.crashed() {
            break;
        }
        source.step(&mut world)?;
        if step == steps / 2 && !world.disk.crashed() {
            source.restart(&mut world, End::Close)?;
        }
    }
    let operations = world.disk.operations();
    world.check_held()?;
    world.restart_if_broken()?;
    let mut source = Steps::new(seed + 1);
    for _ in 0..4 {
        source.restart(&mut world, End::Crash)?;
        prepare(&world.disk);
        source.step(&mut world)?;
    }
    source.restart(&mut world, End::Crash)?;
    Ok(operations)
}

fn try_all(seed: u64, steps: usize) -> u64 {
    let operations = run_on(seed, steps, None, |_| {}).unwrap();
    for operation in 0..operations {
        for fault in Fault::ALL {
            if let Err(what) = run_on(seed, steps, Some((operation, fault)), |_| {}) {
                panic!("seed {seed}, {fault:?} at operation {operation}: {what}");
            }
        }
    }
    operations
}

#[test]
fn every_fault_at_every_operation_loses_nothing() {
    for seed in 0..cases(2) {
        assert!(try_all(seed, 24) > 60);
    }
}

#[test]
fn every_fault_in_short_workloads_loses_nothing() {
    for seed in 100..100 + cases(6) {
        try_all(seed, 4);
    }
}
