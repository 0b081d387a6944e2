use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// A change of some bytes.
#[derive(Clone, Debug)]
enum Mutation {
    Set(usize, u8),
    Remove(usize, usize),
    Insert(usize, Vec<u8>),
    /// A length, in the order of the network, that means more or less than is there.
    Length(usize, u32),
    Repeat(usize, usize),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let lengths = prop_oneof![
        any::<u32>(),
        0..9_u32,
        Just(i32::MAX as u32),
        Just(1 << 31),
        Just(u32::MAX),
        Just(0x00ff_ffff),
    ];
    prop_oneof![
        (any::<usize>(), any::<u8>()).prop_map(|(at, byte)| Mutation::Set(at, byte)),
        (any::<usize>(), 0..20_usize).prop_map(|(at, count)| Mutation::Remove(at, count)),
        (any::<usize>(), vec(any::<u8>(), 0..9)).prop_map(|(at, new)| Mutation::Insert(at, new)),
        (any::<usize>(), lengths).prop_map(|(at, length)| Mutation::Length(at, length)),
        (any::<usize>(), 0..40_usize).prop_map(|(at, count)| Mutation::Repeat(at, count)),
    ]
}

fn apply(bytes: &mut Vec<u8>, mutation: &Mutation) {
    let size = bytes.len();
    let place = |at: usize| at % (size + 1);
    match mutation {
        Mutation::Set(at, byte) => {
            if let Some(old) = bytes.get_mut(place(*at)) {
                *old = *byte;
            }
        }
        Mutation::Remove(at, count) => {
            let at = place(*at);
            bytes.drain(at..size.min(at + count));
        }
        Mutation::Insert(at, new) => {
            let at = place(*at);
            bytes.splice(at..at, new.iter().copied());
        }
        Mutation::Length(at, length) => {
            if let Some(old) = bytes.get_mut(place(*at)..).and_then(|rest| rest.get_mut(..4)) {
                old.copy_from_slice(&length.to_be_bytes());
            }
        }
        Mutation::Repeat(at, count) => {
            let at = place(*at);
            let again = bytes[at..size.min(at + count)].to_vec();
            bytes.splice(at..at, again);
        }
    }
}

fn config() -> ProptestConfig {
    let cases = std::env::var("THALWEG_CASES").ok().and_then(|text| text.parse().ok());
    let cases = cases.unwrap_or(500);
    // What was found becomes a seed in the source.
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

#[test]
fn what_is_valid_is_taken() {
    for target in &TARGETS {
        for seed in (target.seeds)() {
            assert!((target.take)(&seed) > 0, "{}: {seed:?}", target.name);
        }
    }
}

/// All prefixes of what is valid: what is cut off is taken for nothing else.
#[test]
fn what_is_cut_off_is_no_panic() {
    for target in &TARGETS {
        for seed in (target.seeds)() {
            for end in 0..seed.len() {
                (target.take)(&seed[..end]);
            }
        }
    }
}

#[test]
fn every_target_has_its_program_and_no_program_is_alone() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/fuzz_targets");
    let mut programs: Vec<String> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let mut expected: Vec<String> =
        TARGETS.iter().map(|target| format!("{}.rs", target.name)).collect();
    programs.sort();
    expected.sort();
    assert_eq!(programs, expected);
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn no_bytes_are_a_panic(bytes in vec(any::<u8>(), 0..300)) {
        for target in &TARGETS {
            (target.take)(&bytes);
        }
    }

    #[test]
    fn nothing_that_is_almost_valid_is_a_panic(
        seed in any::<usize>(),
        mutations in vec(mutation(), 1..6),
    ) {
        for target in &TARGETS {
            let seeds = (target.seeds)();
            let mut bytes = seeds[seed % seeds.len()].clone();
            mutations.iter().for_each(|mutation| apply(&mut bytes, mutation));
            (target.take)(&bytes);
        }
    }
}
