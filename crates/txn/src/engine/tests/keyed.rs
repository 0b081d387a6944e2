//! Rows written by key: what a group becomes, and what is found after the machine died.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arrow::array::{ArrayRef, AsArray, Int64Array};
use arrow::datatypes::Int64Type;
use arrow::record_batch::RecordBatch;
use thalweg_env::{Env, Memory, MemoryWatch};
use thalweg_store::{Put, arrow_schema};
use thalweg_types::{
    Column, ColumnId, DataType, Error, Key, Lsn, Result, SqlState, TableId, TableSchema,
};

use super::world::options;
use crate::stage_queues::channel;
use crate::{
    CatalogChange, Durability, Engine, Failing, KeyedChange, KeyedRows, Options, Patch, RowGroup,
    WriteSet, Written,
};

fn column(id: u32, name: &str) -> Column {
    Column {
        id: ColumnId(id),
        name: name.to_owned(),
        data_type: DataType::Int8,
        nullable: false,
        default: None,
        identity: None,
        second_digits: None,
    }
}

fn schema(id: u32) -> TableSchema {
    TableSchema {
        id: TableId(id),
        namespace: "public".to_owned(),
        name: format!("t{id}"),
        columns: vec![column(1, "key"), column(2, "value")],
        primary_key: Some(Key { name: format!("t{id}_pkey"), columns: vec![ColumnId(1)] }),
        unique: Vec::new(),
        checks: Vec::new(),
        indexes: Vec::new(),
        foreign_keys: Vec::new(),
        shard_key: Some(ColumnId(1)),
        next_column_id: 3,
    }
}

/// Tables 1 and 2.
pub(super) fn create(engine: &Engine) {
    let catalog = [1, 2].map(|id| CatalogChange::CreateTable { schema: schema(id) });
    let write_set = WriteSet { catalog: catalog.into(), ..WriteSet::default() };
    engine.commit_and_wait(write_set, Durability::Fsync).unwrap();
}

fn numbers(values: impl Iterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

/// Rows of a table, with their places in the group.
pub(super) fn put(engine: &Engine, table: u32, put: Put, rows: &[(u32, i64, i64)]) -> KeyedRows {
    let columns =
        vec![numbers(rows.iter().map(|row| row.1)), numbers(rows.iter().map(|row| row.2))];
    let rows_batch = RecordBatch::try_new(arrow_schema(&schema(table)), columns).unwrap();
    keyed(engine, table, KeyedChange::Put(put), rows_batch, rows.iter().map(|row| row.0).collect())
}

pub(super) fn remove(engine: &Engine, table: u32, keys: &[(u32, i64)]) -> KeyedRows {
    let batch = RecordBatch::try_from_iter([("key", numbers(keys.iter().map(|key| key.1)))]);
    let places = keys.iter().map(|key| key.0).collect();
    keyed(engine, table, KeyedChange::Remove, batch.unwrap(), places)
}

fn keyed(
    engine: &Engine,
    table: u32,
    change: KeyedChange,
    rows: RecordBatch,
    places: Vec<u32>,
) -> KeyedRows {
    let table = TableId(table);
    let version = engine.snapshot().catalog().table(table).unwrap().version;
    KeyedRows { table, version, change, rows, places, expected: None }
}

pub(super) fn write(engine: &Engine, rows: Vec<KeyedRows>, failing: Failing) -> Result<Written> {
    let (sender, receiver) = channel();
    let group = RowGroup { rows, failing, has_failed: false };
    let outcomes = move |written| sender.send(written).unwrap();
    engine.write_rows(group, Durability::Fsync, Box::new(outcomes));
    receiver.recv().unwrap()
}

pub(super) fn rows(engine: &Engine, table: u32) -> BTreeMap<i64, i64> {
    let snapshot = engine.snapshot();
    let state = snapshot.table(TableId(table)).unwrap();
    let mut rows = BTreeMap::new();
    for chunk in state.chunks() {
        let columns = chunk.columns(&[0, 1]);
        let column = |at: usize| columns[at].as_primitive::<Int64Type>().values();
        for place in 0..chunk.rows() {
            if chunk.dead().is_none_or(|dead| !dead.contains(place as u32)) {
                assert_eq!(rows.insert(column(0)[place], column(1)[place]), None);
            }
        }
    }
    rows
}

fn failed(written: &Written) -> Vec<(u32, SqlState)> {
    written.failures.iter().map(|failure| (failure.place, failure.error.state())).collect()
}

#[test]
fn groups_are_found_again_after_the_machine_died() {
    let (env, disk, _) = Env::simulated(7);
    let engine = Engine::open(env.clone(), options()).unwrap();
    create(&engine);
    let mut expected = [BTreeMap::new(), BTreeMap::new()];
    for round in 0..30_i64 {
        let new: Vec<_> = (0..50).map(|n| (n as u32, (round * 7 + n * 3) % 90, round)).collect();
        let gone: Vec<_> = (50..60).map(|n| (n as u32, (round * 11 + n) % 120)).collect();
        let table = 1 + (round % 2) as u32;
        let group = vec![put(&engine, table, Put::Upsert, &new), remove(&engine, table, &gone)];
        let written = write(&engine, group, Failing::LeaveOut).unwrap();
        let model = &mut expected[table as usize - 1];
        model.extend(new.iter().map(|row| (row.1, row.2)));
        let missing = gone.iter().filter(|key| model.remove(&key.1).is_none()).count();
        assert_eq!(written.failures.len(), missing);
        assert_eq!(written.rows, 60 - missing as u64);
    }
    let engine = {
        drop(engine);
        Engine::open(env.with_files(disk.crash()), options()).unwrap()
    };
    assert_eq!([rows(&engine, 1), rows(&engine, 2)], expected);
}

#[test]
fn a_failure_leaves_out_a_row_all_behind_it_or_the_whole_group() {
    let (env, ..) = Env::simulated(8);
    let engine = Engine::open(env, options()).unwrap();
    create(&engine);
    let group = |engine: &Engine| {
        vec![
            put(engine, 1, Put::Create, &[(0, 1, 0), (3, 1, 0), (4, 2, 0)]),
            put(engine, 2, Put::Create, &[(1, 1, 0), (2, 2, 0), (5, 3, 0)]),
        ]
    };
    let exists = SqlState::UNIQUE_VIOLATION;
    let undone = write(&engine, group(&engine), Failing::Undo(None)).unwrap();
    assert_eq!((undone.rows, failed(&undone)), (0, vec![(3, exists)]));
    assert!(rows(&engine, 1).is_empty() && rows(&engine, 2).is_empty());
    let mark = Arc::new(AtomicBool::new(false));
    let stopped = write(&engine, group(&engine), Failing::Stop(Arc::clone(&mark))).unwrap();
    assert_eq!((stopped.rows, failed(&stopped)), (3, vec![(3, exists)]));
    assert_eq!((rows(&engine, 1).len(), rows(&engine, 2).len()), (1, 2));
    assert!(mark.load(Ordering::Relaxed));
    let later = write(&engine, group(&engine), Failing::Stop(mark)).unwrap();
    assert_eq!((later.rows, failed(&later)), (0, vec![]));
    let others = write(&engine, group(&engine), Failing::LeaveOut).unwrap();
    let places = [(0, exists), (1, exists), (2, exists), (3, exists)];
    assert_eq!((others.rows, failed(&others)), (2, places.to_vec()));
    assert_eq!((rows(&engine, 1).len(), rows(&engine, 2).len()), (2, 3));
}

#[test]
fn rows_for_another_version_of_the_table_are_refused() {
    let (env, ..) = Env::simulated(9);
    let engine = Engine::open(env, options()).unwrap();
    create(&engine);
    let mut stale = put(&engine, 1, Put::Upsert, &[(0, 1, 1), (1, 2, 2)]);
    stale.version = Lsn(0);
    let other = put(&engine, 2, Put::Upsert, &[(2, 1, 1)]);
    let written = write(&engine, vec![stale, other], Failing::LeaveOut).unwrap();
    let altered = SqlState::SERIALIZATION_FAILURE;
    assert_eq!((written.rows, failed(&written)), (1, vec![(0, altered), (1, altered)]));
    engine.close().unwrap();
    let closed = write(&engine, Vec::new(), Failing::LeaveOut).unwrap_err();
    assert_eq!(closed.state(), SqlState::SHUTTING_DOWN);
}

/// A system that says what it is told.
struct Says(AtomicU64);

impl Memory for Says {
    fn give_back(&self) {}

    fn used_bytes(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed))
    }
}

#[test]
fn the_bytes_of_rows_count_for_the_limit_of_memory() {
    let (env, ..) = Env::simulated(10);
    let says = Arc::new(Says(AtomicU64::new(0)));
    let watch = MemoryWatch::new(Arc::clone(&says) as _, 100 << 20);
    let options = Options { memory: Some(Arc::new(watch)), ..Options::default() };
    let engine = Engine::open(env, options).unwrap();
    create(&engine);
    let spread = |n: i64| n.wrapping_mul(0x1E37_79B9_7F4A_7C15);
    let new: Vec<_> = (0..100_000).map(|n| (n as u32, n, spread(n))).collect();
    let upsert = || write(&engine, vec![put(&engine, 1, Put::Upsert, &new)], Failing::LeaveOut);
    assert_eq!(upsert().unwrap().rows, 100_000);
    says.0.store(100 << 20, Ordering::Relaxed);
    // Each has a mebibyte. The system is asked again after some of them.
    let refused = (0..20).find_map(|_| upsert().err()).unwrap();
    assert_eq!(refused.state(), SqlState::OUT_OF_MEMORY);
    let gone = write(&engine, vec![remove(&engine, 1, &[(0, 7)])], Failing::LeaveOut).unwrap();
    assert_eq!(gone.rows, 1);
}

/// New values for the rows of some keys, none of which may be 13.
fn patch(engine: &Engine, rows: &[(u32, i64, i64)]) -> KeyedRows {
    let batch = RecordBatch::try_from_iter([
        ("value", numbers(rows.iter().map(|row| row.2))),
        ("key", numbers(rows.iter().map(|row| row.1))),
    ]);
    let check = |whole: &RecordBatch| match whole.column(1).as_primitive::<Int64Type>() {
        values if values.values().contains(&13) => Err(Error::internal("13")),
        _ => Ok(()),
    };
    let change = Patch { columns: vec![1, 0], check: Some(Arc::new(check)) };
    let places = rows.iter().map(|row| row.0).collect();
    keyed(engine, 1, KeyedChange::Patch(Arc::new(change)), batch.unwrap(), places)
}

#[test]
fn patches_find_what_those_before_them_left() {
    let (env, disk, _) = Env::simulated(10);
    let engine = Engine::open(env.clone(), options()).unwrap();
    create(&engine);
    let new: Vec<_> = (0..10).map(|n| (n as u32, n, 0)).collect();
    write(&engine, vec![put(&engine, 1, Put::Create, &new)], Failing::LeaveOut).unwrap();
    let (missing, broken) = (SqlState::NO_DATA_FOUND, SqlState::INTERNAL_ERROR);
    let changes = [(0, 1, 5), (1, 2, 6), (2, 1, 7), (3, 99, 1), (4, 3, 13), (5, 1, 8), (6, 4, 9)];
    let written = write(&engine, vec![patch(&engine, &changes)], Failing::LeaveOut).unwrap();
    assert_eq!((written.rows, failed(&written)), (5, vec![(3, missing), (4, broken)]));
    let values = |engine: &Engine| rows(engine, 1).into_values().collect::<Vec<_>>();
    assert_eq!(values(&engine), [0, 8, 6, 0, 9, 0, 0, 0, 0, 0]);

    let stop = || Failing::Stop(Arc::default());
    let stopped = write(&engine, vec![patch(&engine, &changes[..5])], stop()).unwrap();
    assert_eq!((stopped.rows, failed(&stopped)), (3, vec![(3, missing)]));
    let stopped = write(&engine, vec![patch(&engine, &changes[4..])], stop()).unwrap();
    assert_eq!((stopped.rows, failed(&stopped)), (0, vec![(4, broken)]));
    assert_eq!(values(&engine), [0, 7, 6, 0, 9, 0, 0, 0, 0, 0]);
    let undone = write(&engine, vec![patch(&engine, &changes)], Failing::Undo(None)).unwrap();
    assert_eq!(undone.rows, 0);
    drop(engine);
    let engine = Engine::open(env.with_files(disk.crash()), options()).unwrap();
    assert_eq!(values(&engine), [0, 7, 6, 0, 9, 0, 0, 0, 0, 0]);
}

#[test]
fn a_patch_expects_the_version_that_is_there() {
    let (env, ..) = Env::simulated(11);
    let engine = Engine::open(env, options()).unwrap();
    create(&engine);
    let new = [(0, 1, 0), (1, 2, 0)];
    write(&engine, vec![put(&engine, 1, Put::Create, &new)], Failing::LeaveOut).unwrap();
    let key = schema(1).primary_key.unwrap();
    let snapshot = engine.snapshot();
    let found = snapshot.table(TableId(1)).unwrap().probe(&key, &[numbers([1, 2].into_iter())]);
    let version = |row: usize| found[row].unwrap().0;
    let mut changes = patch(&engine, &[(0, 1, 5), (1, 1, 6), (2, 2, 7), (3, 9, 8), (4, 9, 8)]);
    changes.expected = Some(vec![version(0), version(0), version(0), version(1), 0]);
    let written = write(&engine, vec![changes], Failing::LeaveOut).unwrap();
    let changed = SqlState::SERIALIZATION_FAILURE;
    let others = vec![(1, changed), (2, changed), (3, changed), (4, SqlState::NO_DATA_FOUND)];
    assert_eq!((written.rows, failed(&written)), (1, others));
    assert_eq!(rows(&engine, 1).into_values().collect::<Vec<_>>(), [5, 0]);
}

/// Rows of which some columns count where they are there already.
fn merge(engine: &Engine, columns: &[usize], rows: &[(u32, i64, i64)]) -> KeyedRows {
    let patch = Arc::new(Patch { columns: columns.to_vec(), check: None });
    KeyedRows { change: KeyedChange::Merge(patch), ..put(engine, 1, Put::Upsert, rows) }
}

#[test]
fn merged_rows_come_in_or_keep_what_they_are_not_given() {
    let (env, disk, _) = Env::simulated(12);
    let engine = Engine::open(env.clone(), options()).unwrap();
    create(&engine);
    let new: Vec<_> = (0..3).map(|n| (n as u32, n, n)).collect();
    write(&engine, vec![put(&engine, 1, Put::Create, &new)], Failing::LeaveOut).unwrap();
    let keys = merge(&engine, &[0], &[(0, 1, 5), (1, 7, 6), (2, 7, 9), (3, 8, 4), (4, 2, 9)]);
    let written = write(&engine, vec![keys], Failing::LeaveOut).unwrap();
    assert_eq!((written.rows, failed(&written)), (5, vec![]));
    let there = |pairs: &[(i64, i64)]| pairs.iter().copied().collect::<BTreeMap<_, _>>();
    assert_eq!(rows(&engine, 1), there(&[(0, 0), (1, 1), (2, 2), (7, 6), (8, 4)]));

    let values = merge(&engine, &[1, 0], &[(0, 7, 1), (1, 9, 2), (2, 9, 3)]);
    assert_eq!(write(&engine, vec![values], Failing::LeaveOut).unwrap().rows, 3);
    let changed = SqlState::SERIALIZATION_FAILURE;
    let mut expecting = merge(&engine, &[0, 1], &[(0, 5, 5), (1, 5, 6), (2, 6, 6), (3, 0, 9)]);
    expecting.expected = Some(vec![0, 0, 77, 0]);
    let written = write(&engine, vec![expecting], Failing::LeaveOut).unwrap();
    let others = vec![(1, changed), (2, changed), (3, changed)];
    assert_eq!((written.rows, failed(&written)), (1, others));
    let all = there(&[(0, 0), (1, 1), (2, 2), (5, 5), (7, 1), (8, 4), (9, 3)]);
    assert_eq!(rows(&engine, 1), all);
    drop(engine);
    let engine = Engine::open(env.with_files(disk.crash()), options()).unwrap();
    assert_eq!(rows(&engine, 1), all);
}
