//! Chunks that are closed and compacted while transactions hold old row ids.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use thalweg_env::{DiskCondition, Fault, FileSystem, Memory, OpenMode};
use thalweg_types::TableId;

use super::model::{Row, schema};
use super::session::Outcome;
use super::world::{End, World, maintenance, options};
use crate::Durability;

fn row(value: i64) -> Row {
    Row { tag: None, numbers: vec![Some(value)] }
}

/// A world with one empty table.
fn world(seed: u64) -> (World, TableId) {
    let mut world = World::new(seed);
    world.start().unwrap();
    let id = world.engine().allocate_table_id();
    let (mut session, stamp) = (world.begin(), world.stamp());
    session.create(schema(id, "t"), stamp);
    world.commit(session, Durability::Fsync).unwrap();
    (world, id)
}

fn add_bulk(world: &mut World, id: TableId, first: i64, count: i64) -> Outcome {
    let (mut session, stamp) = (world.begin(), world.stamp());
    let rows: Vec<_> = (first..first + count).map(|key| (key, row(key))).collect();
    session.bulk(world.engine(), id, &rows, stamp);
    world.commit(session, Durability::Fsync)
}

fn remove(world: &mut World, id: TableId, keys: impl Iterator<Item = i64>) -> Outcome {
    let mut session = world.begin();
    for key in keys {
        session.remove(id, key)?;
    }
    world.commit(session, Durability::Fsync)
}

#[test]
fn old_row_ids_lead_to_moved_rows() {
    let (mut world, id) = world(11);
    add_bulk(&mut world, id, 0, 100).unwrap();
    let (mut wins, mut loses) = (world.begin(), world.begin());
    for session in [&mut wins, &mut loses] {
        session.remove(id, 70).unwrap();
        session.insert(id, 70, row(-70), 1_000_000);
    }
    remove(&mut world, id, (0..100).filter(|key| key % 3 == 0)).unwrap();
    let mut late = world.begin();
    late.remove(id, 71).unwrap();
    let chunk = |world: &World| {
        let snapshot = world.engine().snapshot();
        snapshot.table(id).unwrap().chunks().next().unwrap().number()
    };
    let before = chunk(&world);
    world.compact();
    // One of the two meets the row where it lies now; the other meets the winner.
    world.commit_all(vec![wins, loses, late], Durability::Fsync).unwrap();
    assert_ne!(chunk(&world), before, "the chunk was compacted");
    world.hold_snapshot().unwrap();
    remove(&mut world, id, (80..100).filter(|key| key % 3 != 0)).unwrap();
    world.compact();
    for end in [End::Kill, End::Crash, End::Close] {
        world.restart(end).unwrap();
    }
    remove(&mut world, id, [1, 2].into_iter()).unwrap();
}

#[test]
fn a_table_that_was_compacted_away_goes_on_after_a_checkpoint() {
    let (mut world, id) = world(11);
    add_bulk(&mut world, id, 0, 40).unwrap();
    remove(&mut world, id, 0..40).unwrap();
    world.compact();
    world.checkpoint().unwrap();
    world.restart(End::Kill).unwrap();
    for first in [0, 100, 200] {
        add_bulk(&mut world, id, first, 20).unwrap();
        world.restart(End::Crash).unwrap();
    }
}

/// Whoever knows a row by its id must not take another one for it.
#[test]
fn no_chunk_has_the_number_of_one_that_is_gone() {
    let (mut world, id) = world(12);
    let mut numbers = Vec::new();
    for first in [0, 40, 80] {
        add_bulk(&mut world, id, first, 40).unwrap();
        let snapshot = world.engine().snapshot();
        numbers.extend(snapshot.table(id).unwrap().chunks().map(|chunk| chunk.number()));
        drop(snapshot);
        let mut session = world.begin();
        session.truncate(id);
        world.commit(session, Durability::Fsync).unwrap();
        // The second checkpoint knows of numbers from the first one alone.
        for end in [End::Kill, End::Close] {
            world.checkpoint().unwrap();
            world.restart(end).unwrap();
        }
    }
    assert_eq!(numbers.len(), 3);
    assert!(numbers.is_sorted_by(|before, after| before < after), "{numbers:?}");
}

/// Adds rows with keys from `first` on until the log has grown by so much; returns the next key.
fn grow_log(world: &mut World, id: TableId, mut first: i64, bytes: u64) -> i64 {
    let enough = world.engine().log_bytes() + bytes;
    while world.engine().log_bytes() < enough {
        add_bulk(world, id, first, 50).unwrap();
        first += 50;
    }
    first
}

/// A checkpoint is worth writing for what it frees: not while a load holds the log.
#[test]
fn a_load_under_way_makes_no_checkpoint_due() {
    const ENOUGH: u64 = 20_000;
    let (mut world, id) = world(3);
    let (mut load, stamp) = (world.begin(), world.stamp());
    load.bulk(world.engine(), id, &[(-1, row(-1))], stamp);
    let first = grow_log(&mut world, id, 0, 2 * ENOUGH);
    assert!(!maintenance(world.engine()).checkpoint_frees(ENOUGH));
    world.checkpoint().unwrap();
    assert!(world.engine().log_bytes() >= 2 * ENOUGH, "the load's rows are in the log alone");
    world.commit(load, Durability::Fsync).unwrap();
    add_bulk(&mut world, id, first, 50).unwrap();
    assert!(maintenance(world.engine()).checkpoint_frees(ENOUGH));
    world.checkpoint().unwrap();
    assert!(!maintenance(world.engine()).checkpoint_frees(ENOUGH));
    world.restart(End::Kill).unwrap();
}

#[derive(Default)]
struct CountingMemory(AtomicUsize);

impl Memory for CountingMemory {
    fn give_back(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn spare_memory_goes_back_after_a_large_load() {
    let mut world = World::new(7);
    let memory = Arc::new(CountingMemory::default());
    world.env.memory = Arc::clone(&memory) as _;
    world.start().unwrap();
    let id = world.engine().allocate_table_id();
    let (mut session, stamp) = (world.begin(), world.stamp());
    session.create(schema(id, "t"), stamp);
    world.commit(session, Durability::Fsync).unwrap();
    add_bulk(&mut world, id, 0, 100).unwrap();
    maintenance(world.engine()).look_around();
    assert_eq!(memory.0.load(Ordering::Relaxed), 0, "little was loaded");
    let (mut session, stamp) = (world.begin(), world.stamp());
    let long = |key: i64| Row { tag: Some(format!("{key:04000}")), numbers: vec![None] };
    let rows: Vec<_> = (1_000..6_000).map(|key| (key, long(key))).collect();
    session.bulk(world.engine(), id, &rows, stamp);
    world.commit(session, Durability::Fsync).unwrap();
    maintenance(world.engine()).look_around();
    assert!(memory.0.load(Ordering::Relaxed) > 0, "20 MB were loaded");
}

/// The names of the log's segments.
fn segments(world: &World) -> Vec<PathBuf> {
    let log = options().directory.unwrap().join("log");
    let names = world.disk.list(&log).unwrap();
    names.iter().map(|name| log.join(name)).collect()
}

/// A checkpoint says which segments are superfluous, should the process die before it removes
/// them; and it keeps those whose staged chunks a later group takes in.
#[test]
fn segments_that_a_checkpoint_makes_superfluous_may_be_damaged() {
    let (mut world, id) = world(3);
    let first = grow_log(&mut world, id, 0, 20_000);
    let superfluous = segments(&world);
    let (mut load, stamp) = (world.begin(), world.stamp());
    load.bulk(world.engine(), id, &[(-1, row(-1))], stamp);
    grow_log(&mut world, id, first, 20_000);
    let kept: Vec<(PathBuf, Vec<u8>)> =
        superfluous.iter().map(|path| (path.clone(), world.bytes(path))).collect();
    world.checkpoint().unwrap();
    world.commit(load, Durability::Fsync).unwrap();
    world.stop();
    assert!(segments(&world).len() > 2, "the load's chunk holds them");
    let is_there = |world: &World, path: &PathBuf| segments(world).contains(path);
    let removed = kept.iter().filter(|(path, _)| !is_there(&world, path));
    let came_back: Vec<&PathBuf> = removed.map(|(path, _)| path).collect();
    assert!(came_back.len() > 2, "most segments were removed");
    for (path, bytes) in kept.iter().filter(|(path, _)| came_back.contains(&path)) {
        let file = world.disk.open(path, OpenMode::CreateNew).unwrap();
        file.write_all_at(&bytes[..bytes.len() / 2], 0).unwrap();
        file.write_all_at(b"damage", 0).unwrap();
    }
    world.start().unwrap();
    assert!(!came_back.iter().any(|path| is_there(&world, path)), "they are removed again");
    remove(&mut world, id, [-1].into_iter()).unwrap();
}

#[test]
fn full_chunks_are_closed_where_no_group_follows() {
    let (mut world, id) = world(12);
    let version = world.stamp();
    let rows: Vec<_> = (0..70_000).map(|key| (key, row(key))).collect();
    for some in rows.chunks(10_000) {
        let mut session = world.begin();
        session.insert_all(id, some, version);
        world.commit(session, Durability::Write).unwrap();
    }
    // What is asked for on one thread comes back on another.
    let is_closed = (0..1_000).any(|_| {
        world.engine().maintain();
        let snapshot = world.engine().snapshot();
        let mut chunks = snapshot.table(id).unwrap().chunks();
        matches!(chunks.next().unwrap().chunk(), thalweg_store::Chunk::Closed(_))
    });
    assert!(is_closed, "the first chunk is full");
}

#[test]
fn full_chunks_are_closed_between_transactions() {
    const STEP: i64 = 16_000;
    let (mut world, id) = world(11);
    let mut old = None;
    for first in (0..5 * STEP).step_by(STEP as usize) {
        let mut session = world.begin();
        let version = world.stamp();
        let rows: Vec<_> = (first..first + STEP).map(|key| (key, row(key))).collect();
        session.insert_all(id, &rows, version);
        world.commit(session, Durability::Write).unwrap();
        let session = old.get_or_insert_with(|| world.begin());
        session.check().unwrap();
    }
    let mut old = old.unwrap();
    old.remove(id, 17).unwrap();
    remove(&mut world, id, 100..120).unwrap();
    // Goes through the queue of chores: those before it are done.
    world.checkpoint().unwrap();
    world.commit(old, Durability::Fsync).unwrap();
    world.check_visible().unwrap();
    let snapshot = world.engine().snapshot();
    let first = snapshot.table(id).unwrap().chunks().next().unwrap();
    assert!(matches!(first.chunk(), thalweg_store::Chunk::Closed(_)), "the first chunk is full");
    drop(snapshot);
    for (end, key) in [(End::Kill, 20_000), (End::Crash, 70_000)] {
        world.restart(end).unwrap();
        remove(&mut world, id, [key].into_iter()).unwrap();
    }
}

/// What an engine builds on a checkpoint must not lose the checkpoint: a chunk that was open is a
/// closed one in it, and may be compacted, which the log before it would not explain.
#[test]
fn a_checkpoint_that_was_read_is_durable() {
    for seed in 0..8 {
        for operation in 0..8 {
            let (mut world, id) = world(seed);
            let (mut session, stamp) = (world.begin(), world.stamp());
            let rows: Vec<_> = (0..40).map(|key| (key, row(key))).collect();
            session.insert_all(id, &rows, stamp);
            world.commit(session, Durability::Fsync).unwrap();
            world.faulty = true;
            world.disk.fault_at(world.disk.operations() + operation, Fault::InputOutput);
            world.checkpoint().unwrap();
            world.restart(End::Close).unwrap();
            remove(&mut world, id, 0..39).unwrap();
            world.compact();
            add_bulk(&mut world, id, 100, 10).unwrap();
            if let Err(what) = world.restart(End::Crash) {
                panic!("seed {seed}, operation {operation}: {what}");
            }
        }
    }
}

#[test]
fn checkpoints_are_remembered_with_what_became_of_them() {
    let (mut world, id) = world(13);
    add_bulk(&mut world, id, 0, 100).unwrap();
    let written = world.engine().checkpoint().unwrap();
    add_bulk(&mut world, id, 100, 100).unwrap();
    // A single fault may meet an operation of another thread.
    world.disk.set_condition(DiskCondition::Full);
    world.engine().checkpoint().unwrap_err();
    world.disk.set_condition(DiskCondition::Healthy);
    let runs = world.engine().checkpoints();
    assert_eq!(runs.len(), 2, "{runs:?}");
    assert!(runs[0].position == written && runs[0].bytes > 0 && runs[0].failure.is_none());
    assert!(runs[1].position > written && runs[1].failure.is_some(), "{runs:?}");
    assert!(runs.iter().all(|run| run.began_micros.is_some() && run.took.is_some()));
    world.restart(End::Close).unwrap();
    let reopened = world.engine().checkpoints();
    assert_eq!((reopened.len(), reopened[0].position), (1, written));
    assert_eq!((reopened[0].bytes, reopened[0].began_micros), (runs[0].bytes, None));
    let status = world.engine().log_status();
    assert_eq!(status.position, world.engine().snapshot().lsn());
    assert!(status.bytes > 0 && status.checkpoint_due_bytes == Some(u64::MAX));
}
