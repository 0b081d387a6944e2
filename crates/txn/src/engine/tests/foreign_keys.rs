//! Foreign keys: groups that the transaction stage refuses.

use arrow::array::Int64Array;
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
    let row = state.find(&primary, &[std::sync::Arc::new(Int64Array::from(vec![key])) as _]);
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
    let keys = [std::sync::Arc::new(Int64Array::from(vec![Some(1), None, Some(3)])) as _];
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
