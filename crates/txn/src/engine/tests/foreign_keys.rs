//! Foreign keys: groups that the transaction stage refuses.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array};
use arrow::record_batch::RecordBatch;
use thalweg_env::Env;
use thalweg_store::Put;
use thalweg_types::{ColumnId, Error, ForeignKey, SqlState, TableId};

use super::keyed::{create, put, remove, rows, write};
use super::world::options;
use crate::{CatalogChange, Durability, Engine, Failing, Transaction, find_children};

/// Table 2, whose values are keys of table 1.
fn refer(engine: &Engine) {
    let mut transaction = Transaction::new(engine.snapshot());
    add_foreign_key(&mut transaction);
    commit(engine, transaction).unwrap();
}

/// Lets the values of table 2 refer to the keys of table 1.
pub(super) fn add_foreign_key(transaction: &mut Transaction) {
    let mut schema = transaction.catalog().table(TableId(2)).unwrap().schema.as_ref().clone();
    schema.foreign_keys.push(ForeignKey {
        name: "t2_value_fkey".to_owned(),
        columns: vec![ColumnId(2)],
        parent: TableId(1),
        parent_columns: vec![ColumnId(1)],
        on_delete: Default::default(),
        on_update: Default::default(),
        deferrable: false,
        initially_deferred: false,
        unvalidated: false,
    });
    let change = CatalogChange::AlterTable { schema, added: None, expected: None };
    transaction.change_catalog(change).unwrap();
}

fn commit(engine: &Engine, transaction: Transaction) -> Result<(), Error> {
    engine.commit_and_wait(transaction.into_write_set()?, Durability::Fsync).map(drop)
}

/// Deletes the row of a key of table 1.
fn delete(transaction: &mut Transaction, key: i64) {
    let state = transaction.state(TableId(1)).unwrap();
    let primary = state.schema().primary_key.clone().unwrap();
    let row = state.find(&primary, &[Arc::new(Int64Array::from(vec![key])) as _]);
    transaction.kill(TableId(1), &[row.unwrap()]).unwrap();
}

#[test]
fn rows_by_key_need_the_rows_that_they_refer_to() {
    let (env, ..) = Env::simulated(3);
    let engine = Engine::open(env.clone(), options()).unwrap();
    create(&engine);
    refer(&engine);
    write(&engine, vec![put(&engine, 1, Put::Create, &[(0, 1, 0), (1, 2, 0)])], Failing::LeaveOut)
        .unwrap();
    let children = [(0, 10, 1), (1, 11, 7), (2, 12, 2), (3, 13, 8)];
    let group = || vec![put(&engine, 2, Put::Upsert, &children)];
    let written = write(&engine, group(), Failing::LeaveOut).unwrap();
    let failed: Vec<u32> = written.failures.iter().map(|failure| failure.place).collect();
    assert_eq!((written.rows, failed), (2, vec![1, 3]));
    assert_eq!(written.failures[0].error.state(), SqlState::FOREIGN_KEY_VIOLATION);
    let detail = "Key (value)=(7) is not present in table \"t1\".";
    assert_eq!(written.failures[0].error.detail(), Some(detail));
    assert_eq!(rows(&engine, 2), [(10, 1), (12, 2)].into());
    // Both ends in one group, the referring rows first.
    let both = vec![
        put(&engine, 2, Put::Upsert, &[(0, 14, 3)]),
        put(&engine, 1, Put::Upsert, &[(1, 3, 0)]),
    ];
    assert!(write(&engine, both, Failing::LeaveOut).unwrap().failures.is_empty());
    let written = write(&engine, vec![remove(&engine, 1, &[(0, 1)])], Failing::LeaveOut).unwrap();
    assert_eq!(written.failures[0].error.state(), SqlState::FEATURE_NOT_SUPPORTED);
    engine.close().unwrap();
    drop(engine);
    let engine = Engine::open(env, options()).unwrap();
    let written = write(
        &engine,
        vec![put(&engine, 2, Put::Upsert, &[(0, 15, 9), (1, 16, 1)])],
        Failing::LeaveOut,
    );
    assert_eq!(written.unwrap().failures.len(), 1);
    assert_eq!(rows(&engine, 2), [(10, 1), (12, 2), (14, 3), (16, 1)].into());
}

#[test]
fn a_removal_loses_to_a_reference_after_its_snapshot() {
    let (env, ..) = Env::simulated(4);
    let engine = Engine::open(env, options()).unwrap();
    create(&engine);
    refer(&engine);
    let parents = [(0, 1, 0), (1, 2, 0), (2, 3, 0)];
    write(&engine, vec![put(&engine, 1, Put::Create, &parents)], Failing::LeaveOut).unwrap();
    let mut early = Transaction::new(engine.snapshot());
    delete(&mut early, 1);
    let mut unrelated = Transaction::new(engine.snapshot());
    delete(&mut unrelated, 2);
    write(&engine, vec![put(&engine, 2, Put::Create, &[(0, 10, 1)])], Failing::LeaveOut).unwrap();
    let error = commit(&engine, early).unwrap_err();
    assert_eq!(error.state(), SqlState::SERIALIZATION_FAILURE);
    commit(&engine, unrelated).unwrap();
    // The statement that runs again sees the row.
    let mut again = Transaction::new(engine.snapshot());
    delete(&mut again, 1);
    let error = again.check_removed_keys(0, crate::ConstraintTime::Whole, &|| Ok(())).unwrap_err();
    assert_eq!(error.state(), SqlState::FOREIGN_KEY_VIOLATION);
    let state = again.state(TableId(2)).unwrap();
    let keys = [Arc::new(Int64Array::from(vec![Some(1), None, Some(3)])) as _];
    let found = find_children(&state, &[ColumnId(2)], &keys, &|| Ok(())).unwrap();
    let canceled = || Err(Error::internal("canceled"));
    assert!(find_children(&state, &[ColumnId(2)], &keys, &canceled).is_err());
    assert_eq!(found.iter().map(|(_, key)| *key).collect::<Vec<_>>(), [0]);
    // A constraint that is newer than the snapshot of a removal was not looked at.
    let mut late = Transaction::new(engine.snapshot());
    delete(&mut late, 3);
    refer(&engine);
    assert_eq!(commit(&engine, late).unwrap_err().state(), SqlState::SERIALIZATION_FAILURE);
}

#[test]
fn a_removal_does_not_move_past_a_new_foreign_key() {
    let (env, ..) = Env::simulated(5);
    let engine = Engine::open(env, options()).unwrap();
    create(&engine);
    let parents = [(0, 1, 0), (1, 2, 0), (2, 3, 0)];
    write(&engine, vec![put(&engine, 1, Put::Create, &parents)], Failing::LeaveOut).unwrap();
    let mut removing = Transaction::new(engine.snapshot());
    delete(&mut removing, 1);
    let mut unchanged = Transaction::new(engine.snapshot());
    unchanged.state(TableId(1)).unwrap();
    refer(&engine);
    write(&engine, vec![put(&engine, 2, Put::Create, &[(0, 10, 1)])], Failing::LeaveOut).unwrap();
    let error = removing.rebase(&engine.snapshot()).unwrap_err();
    assert_eq!(error.state(), SqlState::SERIALIZATION_FAILURE);
    unchanged.rebase(&engine.snapshot()).unwrap();
    delete(&mut unchanged, 2);
    // Other changes of the referring table do not end the block.
    let mut altering = Transaction::new(engine.snapshot());
    let mut schema = altering.catalog().table(TableId(2)).unwrap().schema.as_ref().clone();
    schema.foreign_keys[0].name = "renamed".to_owned();
    let change = CatalogChange::AlterTable { schema, added: None, expected: None };
    altering.change_catalog(change).unwrap();
    commit(&engine, altering).unwrap();
    unchanged.rebase(&engine.snapshot()).unwrap();
    commit(&engine, unchanged).unwrap();
}

/// Rows of a table with two columns.
fn batch(transaction: &mut Transaction, table: u32, rows: &[(i64, i64)]) -> RecordBatch {
    let column = |of: fn(&(i64, i64)) -> i64| {
        Arc::new(Int64Array::from_iter_values(rows.iter().map(of))) as ArrayRef
    };
    let schema = Arc::clone(transaction.state(TableId(table)).unwrap().arrow_schema());
    RecordBatch::try_new(schema, vec![column(|row| row.0), column(|row| row.1)]).unwrap()
}

#[test]
fn new_rows_lock_each_referenced_key_once_and_not_too_many() {
    const KEYS: i64 = 70_000;
    let (env, ..) = Env::simulated(6);
    let engine = Engine::open(env, options()).unwrap();
    create(&engine);
    refer(&engine);
    let mut parents = Transaction::new(engine.snapshot());
    let rows: Vec<(i64, i64)> = (0..KEYS).map(|key| (key, 0)).collect();
    let rows = batch(&mut parents, 1, &rows);
    parents.append(TableId(1), rows).unwrap();
    commit(&engine, parents).unwrap();
    for (keys, locked) in [(2, 2), (1_000, 1_000), (KEYS, 0)] {
        let mut block = Transaction::new(engine.snapshot());
        let before = block.savepoint();
        for part in 0..2 {
            let rows: Vec<(i64, i64)> =
                (0..KEYS).map(|row| (part * KEYS + row, row % keys)).collect();
            let rows = batch(&mut block, 2, &rows);
            block.append(TableId(2), rows).unwrap();
        }
        let locks = block.locks_since(&before).unwrap();
        let keys = locks.iter().filter_map(|locks| locks.keys.as_ref());
        assert_eq!(keys.map(|keys| keys.columns[0].len()).sum::<usize>(), locked);
    }
}

#[test]
fn a_replaced_row_that_keeps_its_key_is_not_recorded() {
    let (env, ..) = Env::simulated(7);
    let engine = Engine::open(env, options()).unwrap();
    create(&engine);
    refer(&engine);
    let parents = [(0, 1, 0), (1, 2, 0), (2, 3, 0)];
    write(&engine, vec![put(&engine, 1, Put::Create, &parents)], Failing::LeaveOut).unwrap();
    for (new, recorded) in [
        ([(1, 5), (2, 5), (3, 5)], None),
        ([(1, 5), (4, 5), (3, 5)], Some((vec![2], vec![4]))),
        ([(7, 0), (8, 0), (9, 0)], Some((vec![1, 2, 3], vec![7, 8, 9]))),
    ] {
        let mut block = Transaction::new(engine.snapshot());
        let state = block.state(TableId(1)).unwrap();
        let primary = state.schema().primary_key.clone().unwrap();
        let keys = Arc::new(Int64Array::from(vec![1, 2, 3])) as ArrayRef;
        let rows: Vec<_> = state.probe(&primary, &[keys]).into_iter().flatten().collect();
        let new = batch(&mut block, 1, &new);
        block.kill_replaced(TableId(1), &rows, &new).unwrap();
        assert_eq!(block.removed_count(), usize::from(recorded.is_some()));
        let child = Arc::clone(&block.catalog().table(TableId(2)).unwrap().schema);
        for (removed, (old, new)) in block.removed_from(0).iter().zip(recorded) {
            let keys = removed.keys(&child.foreign_keys[0]).unwrap().unwrap();
            assert_eq!(keys.old[0].as_ref(), &Int64Array::from(old));
            assert_eq!(keys.new.unwrap()[0].as_ref(), &Int64Array::from(new));
        }
    }
}
