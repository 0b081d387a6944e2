//! Every fault at every operation.

use thalweg_env::{Fault, SimulatedDisk};

use super::world::{Item, Step, World, workload};

/// What a run came to: the operations it took, and what was there in the end.
pub type Trace = (u64, Vec<Item>);

/// Runs a workload with a fault at one operation, kills the machine at its end, and checks what is
/// recovered; then goes on for a while, and kills the machine once more.
pub fn run(seed: u64, appends: usize, fault: Option<(u64, Fault)>) -> Result<Trace, String> {
    run_on(seed, appends, fault, |_| {})
}

/// As [`run`], on disks that were prepared.
pub fn run_on(
    seed: u64,
    appends: usize,
    fault: Option<(u64, Fault)>,
    prepare: impl Fn(&SimulatedDisk),
) -> Result<Trace, String> {
    let mut world = World::new(seed);
    prepare(&world.disk);
    if let Some((operation, fault)) = fault {
        world.disk.fault_at(operation, fault);
    }
    for step in workload(seed, appends) {
        world.step(&step)?;
        if world.disk.crashed() {
            break;
        }
    }
    let operations = world.disk.operations();
    if !world.disk.crashed() {
        // One operation failed, long ago: at most a new start, and it works again.
        world.step(&Step::Sync)?;
        if !world.is_running() {
            return Err("it does not work again after one failure".into());
        }
    }
    world.crash()?;
    prepare(&world.disk);
    for step in workload(seed + 1, 8) {
        world.step(&step)?;
    }
    world.step(&Step::Append(vec![700, 900]))?;
    world.crash()?;
    Ok((operations, world.attempted().to_vec()))
}

/// Runs a workload with every fault at every operation; returns how many operations there are.
fn try_all(seed: u64, appends: usize) -> u64 {
    let (operations, _) = run(seed, appends, None).unwrap();
    for operation in 0..operations {
        for fault in Fault::ALL {
            if let Err(what) = run(seed, appends, Some((operation, fault))) {
                panic!("seed {seed}, {fault:?} at operation {operation}: {what}");
            }
        }
    }
    operations
}

#[test]
fn every_fault_at_every_operation_loses_nothing() {
    assert!(try_all(0, 120) > 300);
}

/// What a crash leaves is a matter of chance: the more seeds, the more of it is seen.
#[test]
fn every_fault_in_many_short_workloads_loses_nothing() {
    for seed in 1..60 {
        try_all(seed, 5);
    }
}

#[test]
fn many_crashes_without_faults_lose_nothing() {
    for seed in 0..300 {
        if let Err(what) = run(seed, 20, None) {
            panic!("seed {seed}: {what}");
        }
    }
}

#[test]
fn crashes_during_recovery_lose_nothing() {
    for seed in 0..20 {
        let mut world = World::new(seed);
        for step in workload(seed, 20) {
            world.step(&step).unwrap();
        }
        for operation in 0..40 {
            for fault in [Fault::CrashTorn, Fault::CrashAfter, Fault::InputOutput] {
                world.step(&Step::Append(vec![300, 1200, 5])).unwrap();
                world.kill();
                world.disk.fault_at(world.disk.operations() + operation, fault);
                for step in [Step::Sync, Step::Sync, Step::Append(vec![70]), Step::Sync] {
                    world.step(&step).unwrap();
                }
                if let Err(what) = world.crash() {
                    panic!("seed {seed}, {fault:?} at operation {operation}: {what}");
                }
            }
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 0..10 {
        let fault = Some((40 + seed * 7, Fault::CrashTorn));
        assert_eq!(run(seed, 60, fault), run(seed, 60, fault));
    }
}
