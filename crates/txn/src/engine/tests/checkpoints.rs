//! Bytes and files of checkpoints.

use std::collections::BTreeMap;
use std::path::Path;

use thalweg_env::FileSystem;
use thalweg_log::{Finding, verify};
use thalweg_types::{TableId, TableSchema};

use super::model::{Row, add_number, schema};
use super::world::{End, World, options};
use crate::Durability;

/// Rows of a chunk, and of the table. The chunks are so few that none are merged.
const CHUNK: i64 = 5_000;
const ROWS: i64 = 4 * CHUNK;

/// Number of columns of numbers.
const NUMBERS: i64 = 6;

fn row(key: i64) -> Row {
    let number = |column| Some(key * (1_000_003 + column) % 9_999_991);
    // The model compares each text with all others, which takes long.
    Row { tag: None, numbers: (0..NUMBERS).map(number).collect() }
}

fn rows(keys: impl Iterator<Item = i64>) -> Vec<(i64, Row)> {
    keys.map(|key| (key, row(key))).collect()
}

fn wide(id: TableId, name: &str) -> TableSchema {
    let mut schema = schema(id, name);
    (1..NUMBERS).for_each(|_| add_number(&mut schema));
    schema
}

/// A table of closed chunks, and a checkpoint of it.
fn world() -> (World, TableId) {
    let mut world = World::new(21);
    world.start().unwrap();
    let (mut session, stamp) = (world.begin(), world.stamp());
    let id = world.engine().allocate_table_id();
    session.create(wide(id, "t"), stamp);
    for first in (0..ROWS).step_by(CHUNK as usize) {
        session.bulk(world.engine(), id, &rows(first..first + CHUNK), stamp);
    }
    world.commit(session, Durability::Fsync).unwrap();
    world.checkpoint().unwrap();
    (world, id)
}

/// The files in the directory of checkpoints, with their lengths.
fn files(world: &World) -> BTreeMap<String, u64> {
    let directory = options().directory.unwrap().join("checkpoint");
    let names = world.disk.list(&directory).unwrap();
    let length = |name: &String| world.bytes(&directory.join(name)).len() as u64;
    names.iter().map(|name| (name.clone(), length(name))).collect()
}

/// Writes a checkpoint, and returns the bytes that it wrote: those of the files that are new.
fn checkpoint(world: &mut World) -> u64 {
    let before = files(world);
    world.checkpoint().unwrap();
    let after = files(world);
    let new = after.iter().filter(|(name, _)| !before.contains_key(*name));
    let bytes = new.map(|(_, bytes)| bytes).sum();
    assert_eq!(world.engine().checkpoints().last().unwrap().bytes, bytes);
    bytes
}

/// Replaces one of so many rows, by rows of the open chunk or of a closed one.
fn update(world: &mut World, id: TableId, step: usize, closed: bool) {
    let (mut session, stamp) = (world.begin(), world.stamp());
    let keys: Vec<i64> = session.view.tables[&id].rows.keys().copied().step_by(step).collect();
    for key in &keys {
        session.remove(id, *key).unwrap();
    }
    let rows = rows(keys.into_iter());
    if closed {
        session.bulk(world.engine(), id, &rows, stamp);
    } else {
        session.insert_all(id, &rows, stamp);
    }
    world.commit(session, Durability::Fsync).unwrap();
}

fn is_sound(world: &mut World) {
    world.restart(End::Kill).unwrap();
    world.stop();
    let path = options().directory.unwrap();
    assert_eq!(verify(&world.env, &path, &mut |_| {}).unwrap().problems, 0);
    world.start().unwrap();
}

#[test]
fn a_checkpoint_after_few_changes_writes_few_bytes() {
    let (mut world, id) = world();
    let whole = world.engine().checkpoints().last().unwrap().bytes;
    assert!(whole > 10 * ROWS as u64, "{whole} bytes");
    for restarts in [false, true] {
        if restarts {
            // The engine knows the columns in chunk files after a start, too.
            is_sound(&mut world);
        }
        update(&mut world, id, 100, false);
        let bytes = checkpoint(&mut world);
        assert!(bytes * 20 <= whole, "{bytes} of {whole} bytes after 1 % of the rows changed");
        let (mut session, stamp) = (world.begin(), world.stamp());
        session.rely_on(id);
        session.insert(id, ROWS + i64::from(restarts), row(-1 - i64::from(restarts)), stamp);
        world.commit(session, Durability::Fsync).unwrap();
    }
    is_sound(&mut world);
}

/// Chunks share the columns that an alteration leaves as they are, and an added one.
#[test]
fn a_checkpoint_after_an_alteration_writes_no_old_column() {
    let (mut world, id) = world();
    let whole = world.engine().checkpoints().last().unwrap().bytes;
    for added in [true, false] {
        let (mut session, stamp) = (world.begin(), world.stamp());
        let mut schema = session.view.tables[&id].schema.clone();
        if added {
            add_number(&mut schema);
        } else {
            schema.columns.pop();
        }
        session.alter(schema, added.then_some(7), stamp);
        world.commit(session, Durability::Fsync).unwrap();
        let bytes = checkpoint(&mut world);
        assert!(bytes * 20 <= whole, "{bytes} of {whole} bytes");
        is_sound(&mut world);
        assert!(checkpoint_again(&mut world, id) * 20 <= whole);
    }
}

/// A start reads a shared section once for each of its chunks. A checkpoint that moves the section
/// writes it once.
#[test]
fn a_shared_column_is_moved_once_after_a_start() {
    let (mut world, id) = world();
    let (mut session, stamp) = (world.begin(), world.stamp());
    let mut schema = session.view.tables[&id].schema.clone();
    add_number(&mut schema);
    session.alter(schema, Some(7), stamp);
    world.commit(session, Durability::Fsync).unwrap();
    let (mut session, stamp) = (world.begin(), world.stamp());
    let other = world.engine().allocate_table_id();
    session.create(wide(other, "u"), stamp);
    session.bulk(world.engine(), other, &rows(0..CHUNK), stamp);
    world.commit(session, Durability::Fsync).unwrap();
    checkpoint(&mut world);
    is_sound(&mut world);
    // Without this table, the added column is alone in its chunk file.
    let (mut session, stamp) = (world.begin(), world.stamp());
    session.drop_table(other, stamp);
    world.commit(session, Durability::Fsync).unwrap();
    checkpoint(&mut world);
    world.stop();
    let mut sections = Vec::new();
    let mut report = |finding: Finding| {
        if let Finding::Chunks { sections: count, .. } = finding {
            sections.push(count);
        }
    };
    let path = options().directory.unwrap();
    assert_eq!(verify(&world.env, &path, &mut report).unwrap().problems, 0);
    assert_eq!((sections.len(), sections.last()), (2, Some(&1)), "{sections:?}");
    world.start().unwrap();
}

/// A checkpoint after one more row.
fn checkpoint_again(world: &mut World, id: TableId) -> u64 {
    let (mut session, stamp) = (world.begin(), world.stamp());
    let key = ROWS * 10 + stamp as i64;
    let numbers = session.view.tables[&id].schema.columns.len() - 2;
    let row = Row { tag: None, numbers: vec![None; numbers] };
    session.insert(id, key, row, stamp);
    world.commit(session, Durability::Fsync).unwrap();
    checkpoint(world)
}

/// Files are removed or rewritten as their rows go: the directory stays within three times the size
/// of a table without dead rows. Dead rows take room until their chunk is compacted.
#[test]
fn garbage_is_removed() {
    let (mut world, id) = world();
    let whole: u64 = files(&world).values().sum();
    for _ in 0..12 {
        update(&mut world, id, 4, true);
        world.compact();
        checkpoint(&mut world);
        let bytes: u64 = files(&world).values().sum();
        assert!(bytes < 3 * whole, "{bytes} bytes for {whole}");
    }
    is_sound(&mut world);
    let mut session = world.begin();
    session.truncate(id);
    world.commit(session, Durability::Fsync).unwrap();
    checkpoint(&mut world);
    let left = files(&world);
    assert_eq!(left.len(), 1, "{left:?}");
    assert!(left.keys().all(|name| Path::new(name).extension().is_some_and(|end| end == "tck")));
    is_sound(&mut world);
}

/// A dropped table's columns go with it, and those of others stay.
#[test]
fn a_dropped_table_leaves_nothing() {
    let (mut world, id) = world();
    let (mut session, stamp) = (world.begin(), world.stamp());
    let other = world.engine().allocate_table_id();
    session.create(wide(other, "u"), stamp);
    session.bulk(world.engine(), other, &rows(0..CHUNK), stamp);
    world.commit(session, Durability::Fsync).unwrap();
    checkpoint(&mut world);
    assert_eq!(files(&world).len(), 3);
    let (mut session, stamp) = (world.begin(), world.stamp());
    session.drop_table(id, stamp);
    world.commit(session, Durability::Fsync).unwrap();
    checkpoint(&mut world);
    assert_eq!(files(&world).len(), 2);
    is_sound(&mut world);
}
