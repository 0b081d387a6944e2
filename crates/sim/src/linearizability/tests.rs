use thalweg_env::{Random, SeededRandom};

use super::{Model, OPERATIONS_MAX, check};
use crate::history::{Operation, Outcome};

/// A number that is written, read, and replaced if it is the expected one.
struct Register;

#[derive(Clone, Debug)]
enum Action {
    Read,
    Write(u64),
    Replace(u64, u64),
}

use Action::{Read, Replace, Write};

/// A read tells the number, the others whether they did anything.
impl Model for Register {
    type State = u64;
    type Action = Action;
    type Observed = u64;

    fn initial() -> u64 {
        0
    }

    fn step(state: &u64, action: &Action, told: Option<&u64>) -> Option<u64> {
        let (next, tells) = match action {
            Read => (*state, *state),
            Write(new) => (*new, 1),
            Replace(old, new) if old == state => (*new, 1),
            Replace(..) => (*state, 0),
        };
        told.is_none_or(|told| *told == tells).then_some(next)
    }
}

type Observed = Operation<Action, u64>;

fn done(invoked: u64, completed: u64, action: Action, told: u64) -> Observed {
    Operation { client: 0, invoked, completed, action, outcome: Outcome::Done(told) }
}

fn in_doubt(invoked: u64, completed: u64, action: Action) -> Observed {
    Operation { client: 0, invoked, completed, action, outcome: Outcome::InDoubt }
}

fn is_linearizable(history: &[Observed]) -> bool {
    check::<Register>(history).is_ok()
}

#[test]
fn what_happens_one_after_the_other_is_seen_so() {
    assert!(is_linearizable(&[]));
    let write_then_read = |seen| [done(0, 1, Write(7), 1), done(2, 3, Read, seen)];
    assert!(is_linearizable(&write_then_read(7)));
    assert!(!is_linearizable(&write_then_read(0)));
    assert!(!is_linearizable(&write_then_read(8)));
}

#[test]
fn what_overlaps_may_come_in_either_order() {
    let during = |seen| [done(0, 3, Write(7), 1), done(1, 2, Read, seen)];
    assert!(is_linearizable(&during(0)) && is_linearizable(&during(7)));
    // Once somebody saw the new value, nobody sees the old one again.
    let twice = |first, second| {
        [done(0, 9, Write(7), 1), done(1, 2, Read, first), done(3, 4, Read, second)]
    };
    assert!(is_linearizable(&twice(0, 7)) && is_linearizable(&twice(7, 7)));
    assert!(!is_linearizable(&twice(7, 0)));
}

/// All overlap, and only one of their orders makes each tell what it told.
#[test]
fn the_one_possible_order_is_found() {
    let history = [
        done(0, 10, Write(1), 1),
        done(1, 11, Replace(1, 2), 1),
        done(2, 12, Replace(2, 3), 1),
        done(3, 13, Replace(3, 4), 1),
        done(4, 14, Replace(9, 5), 0),
        done(15, 16, Read, 4),
    ];
    assert!(is_linearizable(&history));
    let mut other = history.to_vec();
    other[5] = done(15, 16, Read, 3);
    assert!(!is_linearizable(&other));
}

#[test]
fn two_cannot_both_replace_the_same() {
    let race = |told| [done(0, 5, Replace(0, 1), 1), done(1, 4, Replace(0, 2), told)];
    assert!(is_linearizable(&race(0)));
    assert!(!is_linearizable(&race(1)));
    // A refusal says that there was something else.
    assert!(!is_linearizable(&[done(0, 1, Replace(0, 1), 0)]));
}

#[test]
fn what_is_in_doubt_happened_or_not_but_not_after_its_era() {
    let seen = |first, second| {
        [in_doubt(0, 9, Write(7)), done(1, 2, Read, first), done(3, 4, Read, second)]
    };
    assert!(is_linearizable(&seen(0, 0)));
    assert!(is_linearizable(&seen(0, 7)));
    assert!(is_linearizable(&seen(7, 7)));
    assert!(!is_linearizable(&seen(7, 0)));
    let across = |before, first, second| {
        let reads = [done(1, 2, Read, before), done(11, 12, Read, first)];
        [&[in_doubt(0, 9, Write(7))], &reads[..], &[done(13, 14, Read, second)]].concat()
    };
    assert!(is_linearizable(&across(0, 7, 7)));
    assert!(is_linearizable(&across(0, 0, 0)));
    assert!(!is_linearizable(&across(0, 0, 7)));
    assert!(!is_linearizable(&across(7, 0, 0)));
}

#[test]
fn a_violation_names_what_cannot_be() {
    let history = [done(0, 1, Write(7), 1), done(2, 3, Read, 7), done(4, 5, Read, 8)];
    let text = format!("{:?}", check::<Register>(&history).unwrap_err());
    assert!(text.contains("the state is 7") && text.contains("Done(8)"), "{text}");
}

/// Operations that take place one at a time, told as clients would see them; `overlap` says how
/// many are under way at a time.
fn honest(random: &SeededRandom, operations: u64, overlap: u64, doubtful: u64) -> Vec<Observed> {
    let (mut state, mut history) = (0, Vec::new());
    for number in 1..=operations {
        let action = match random.below(3) {
            0 => Read,
            1 => Write(number),
            _ if random.coin() => Replace(state, number),
            _ => Replace(number - 1, number),
        };
        let happened = 10 * number;
        let invoked = happened - random.below(10 * overlap).min(happened);
        let completed = happened + 1 + random.below(10 * overlap);
        let lost = random.below(100) < doubtful;
        if lost && random.coin() {
            history.push(in_doubt(invoked, completed, action));
            continue;
        }
        let next = Register::step(&state, &action, None).unwrap();
        let told = match action {
            Read => state,
            Write(_) => 1,
            Replace(old, _) => u64::from(old == state),
        };
        state = next;
        history.push(match lost {
            true => in_doubt(invoked, completed, action),
            false => done(invoked, completed, action, told),
        });
    }
    history
}

#[test]
fn honest_histories_pass_and_changed_ones_fail() {
    let mut noticed = 0;
    for seed in 0..100 {
        let random = SeededRandom::new(seed);
        let mut history = honest(&random, 200, 1 + seed % 6, 4);
        if let Err(violation) = check::<Register>(&history) {
            panic!("seed {seed}: {violation:?}");
        }
        let reads = history.iter_mut().filter(|read| matches!(read.action, Read));
        let read = reads.filter(|read| !read.is_in_doubt()).nth(10).unwrap();
        read.outcome = Outcome::Done(1_000 + random.next_u64());
        noticed += usize::from(!is_linearizable(&history));
    }
    assert_eq!(noticed, 100);
}

#[test]
fn the_longest_history_is_judged() {
    let random = SeededRandom::new(1);
    let history = honest(&random, OPERATIONS_MAX as u64, 8, 3);
    assert!(is_linearizable(&history));
}
