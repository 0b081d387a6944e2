//! Random transactions, checkpoints and ends of the engine, without faults.

use super::cases;
use super::session::Outcome;
use super::steps::Steps;
use super::world::{End, World};

const STEPS: usize = 60;

fn run(seed: u64) -> Outcome {
    let (mut world, mut steps) = (World::new(seed), Steps::new(seed));
    world.start()?;
    for _ in 0..STEPS {
        steps.step(&mut world)?;
    }
    for end in [End::Kill, End::Crash, End::Close] {
        steps.restart(&mut world, end)?;
    }
    Ok(())
}

#[test]
fn the_engine_agrees_with_the_model() {
    for seed in 0..cases(120) {
        if let Err(what) = run(seed) {
            panic!("seed {seed}: {what}");
        }
    }
}
