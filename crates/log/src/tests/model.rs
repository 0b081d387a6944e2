//! Any sequence of steps agrees with the model.

use proptest::prelude::*;

use super::world::{Step, World};

/// A step, or a death: of the process or of the machine.
#[derive(Clone, Debug)]
enum Event {
    Step(Step),
    Kill,
    Crash,
}

fn length() -> impl Strategy<Value = i16> {
    prop_oneof![
        Just(0),
        -200_i16..200,
        -3000_i16..3000,
        prop::sample::select(vec![384_i16, 448, 512, 896, 960, -448, -960, 8128, 8191, 8192]),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => prop::collection::vec(length(), 0..5).prop_map(|all| Event::Step(Step::Append(all))),
        4 => Just(Event::Step(Step::Sync)),
        1 => any::<bool>().prop_map(|synced| Event::Step(Step::Checkpoint { synced })),
        1 => any::<bool>().prop_map(|clean| Event::Step(Step::Reopen { clean })),
        1 => Just(Event::Kill),
        1 => Just(Event::Crash),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_steps_agree_with_the_model(
        seed: u64,
        events in prop::collection::vec(event(), 1..60),
    ) {
        let mut world = World::new(seed);
        for event in events {
            let outcome = match event {
                Event::Step(step) => world.step(&step),
                Event::Kill => {
                    world.kill();
                    Ok(())
                }
                Event::Crash => world.crash(),
            };
            prop_assert_eq!(outcome, Ok(()));
        }
        prop_assert_eq!(world.crash(), Ok(()));
    }
}
