//! Sequences on a disk: no number is handed out twice, after any crash.

use std::sync::Arc;

use thalweg_env::{Env, SimulatedDisk};
use thalweg_types::DataType;

use super::world::options;
use crate::{
    CatalogChange, Durability, Engine, Object, Position, Sequence, SequenceCounter,
    SequenceOptions, Transaction,
};

fn numbers_up() -> SequenceOptions {
    SequenceOptions {
        data_type: DataType::Int8,
        start: 1,
        increment: 1,
        min: 1,
        max: i64::MAX,
        cache: 1,
        cycles: false,
    }
}

fn commit(engine: &Engine, change: CatalogChange) {
    let mut transaction = Transaction::new(engine.snapshot());
    transaction.change_catalog(change).unwrap();
    let write_set = transaction.into_write_set().unwrap();
    engine.commit_and_wait(write_set, Durability::Fsync).unwrap();
}

fn define(sequence: Sequence, name: &str, replace: bool) -> CatalogChange {
    let object = Object::Sequence(sequence);
    let (namespace, name) = ("public".to_owned(), name.to_owned());
    CatalogChange::Define { namespace, name, object, replace }
}

fn create(engine: &Engine, options: SequenceOptions) {
    let position = Position { last: options.start, is_called: false };
    let counter = Arc::new(SequenceCounter::new(position));
    let id = engine.allocate_table_id();
    commit(engine, define(Sequence { id, options, owned_by: None, counter }, "s", false));
}

fn sequence(engine: &Engine) -> Sequence {
    let snapshot = engine.snapshot();
    let (_, _, sequence) = snapshot.catalog().sequences().next().unwrap();
    sequence.clone()
}

fn next(engine: &Engine, count: usize) -> Vec<i64> {
    engine.take_numbers(&sequence(engine), count).unwrap()
}

fn crash(disk: &mut SimulatedDisk, env: &Env) -> Engine {
    *disk = disk.crash();
    Engine::open(env.with_files(disk.clone()), options()).unwrap()
}

#[test]
fn numbers_go_on_behind_those_before_a_crash() {
    for (count, has_checkpoint) in [(1, false), (40, false), (1, true), (100, true)] {
        let (env, mut disk, _) = Env::simulated(1);
        let engine = Engine::open(env.clone(), options()).unwrap();
        create(&engine, numbers_up());
        let mut greatest = 0;
        for _ in 0..3 {
            greatest = *next(&engine, count).last().unwrap();
        }
        if has_checkpoint {
            engine.checkpoint().unwrap();
            greatest = next(&engine, count)[count - 1];
        }
        // The crash comes before the engine is closed.
        let after = crash(&mut disk, &env);
        let first = next(&after, 1)[0];
        assert!(first > greatest, "{first} after {greatest}");
        assert!(first <= greatest + 33, "{first} after {greatest}");
        assert_ne!(next(&after, 1)[0], first);
    }
}

#[test]
fn a_database_that_was_closed_goes_on_without_a_gap() {
    let (env, disk, _) = Env::simulated(2);
    let engine = Engine::open(env.clone(), options()).unwrap();
    create(&engine, numbers_up());
    assert_eq!(next(&engine, 5), [1, 2, 3, 4, 5]);
    engine.close().unwrap();
    drop(engine);
    let again = Engine::open(env.with_files(disk), options()).unwrap();
    assert_eq!(next(&again, 2), [6, 7]);
}

#[test]
fn a_position_that_was_set_survives_a_crash() {
    let (env, mut disk, _) = Env::simulated(3);
    let engine = Engine::open(env.clone(), options()).unwrap();
    create(&engine, numbers_up());
    next(&engine, 100);
    let position = Position { last: 7, is_called: false };
    engine.set_position(&sequence(&engine), position).unwrap();
    let after = crash(&mut disk, &env);
    assert_eq!(sequence(&after).counter.position(), position);
    assert_eq!(next(&after, 2), [7, 8]);
}

#[test]
fn an_altered_sequence_keeps_its_counter_and_voids_what_was_reserved() {
    let (env, mut disk, _) = Env::simulated(4);
    let engine = Engine::open(env.clone(), options()).unwrap();
    create(&engine, numbers_up());
    assert_eq!(next(&engine, 3), [1, 2, 3]);
    let mut altered = sequence(&engine);
    altered.options.increment = 10;
    commit(&engine, define(altered, "renamed", true));
    assert_eq!(next(&engine, 2), [13, 23]);
    let after = crash(&mut disk, &env);
    assert!(next(&after, 1)[0] > 23);
}

#[test]
fn a_short_sequence_ends_or_begins_again() {
    let (env, _disk, _) = Env::simulated(5);
    let engine = Engine::open(env, options()).unwrap();
    create(&engine, SequenceOptions { max: 3, ..numbers_up() });
    assert_eq!(next(&engine, 5), [1, 2, 3]);
    assert_eq!(next(&engine, 1), [] as [i64; 0]);
    let mut cycling = sequence(&engine);
    cycling.options.cycles = true;
    commit(&engine, define(cycling, "s", true));
    assert_eq!(next(&engine, 4), [1, 2, 3, 1]);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "several threads take numbers")]
fn threads_never_get_the_same_number() {
    let (env, _disk, _) = Env::simulated(6);
    let engine = Engine::open(env, options()).unwrap();
    create(&engine, numbers_up());
    let sequence = sequence(&engine);
    let mut all: Vec<i64> = std::thread::scope(|scope| {
        let take = |ahead: bool| {
            let (engine, sequence) = (&engine, &sequence);
            move || {
                let each = (0..200).flat_map(|_| match ahead {
                    true => engine.take_numbers_ahead(sequence, 3),
                    false => engine.take_numbers(sequence, 3).unwrap(),
                });
                each.collect::<Vec<i64>>()
            }
        };
        let threads: Vec<_> = (0..6).map(|n| scope.spawn(take(n % 2 == 0))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let taken = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!((all.len(), taken), (3_600, 3_600));
    assert_eq!(all.last(), Some(&3_600));
}
