//! Row locks: who waits for whom, and what a transaction sees of others at READ COMMITTED.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array};
use arrow::record_batch::RecordBatch;
use thalweg_env::Env;
use thalweg_store::Put;
use thalweg_types::{Lsn, Result, RowId, SqlState, TableId};

use super::foreign_keys::add_foreign_key;
use super::keyed::{create, put, rows, write};
use crate::stage_queues::{Receiver, channel};
use crate::{
    CatalogChange, Durability, Engine, Failing, LockOutcome, LockOwner, LockRequest, LockWait,
    Options, RowLock, RowLockTerm, Savepoint, Transaction,
};

const TABLE: TableId = TableId(1);

fn engine() -> Engine {
    let engine = Engine::open(Env::real(), Options { threads: 1, ..Options::default() }).unwrap();
    create(&engine);
    let first = put(&engine, 1, Put::Create, &[(0, 1, 10), (1, 2, 20)]);
    assert!(write(&engine, vec![first], Failing::LeaveOut).unwrap().failures.is_empty());
    engine
}

/// A block at READ COMMITTED.
struct Block {
    owner: LockOwner,
    term: Option<RowLockTerm>,
    transaction: Transaction,
}

type Answer<T> = Receiver<Result<T>>;

impl Block {
    fn new(engine: &Engine) -> Block {
        let owner = engine.allocate_lock_owner();
        let term = Some(engine.row_lock_term(owner));
        Block { owner, term, transaction: Transaction::new(engine.snapshot()).owned_by(owner) }
    }

    fn find(&mut self, key: i64) -> Option<RowId> {
        let state = self.transaction.state(TABLE).unwrap();
        let schema = Arc::clone(state.schema());
        let key: ArrayRef = Arc::new(Int64Array::from(vec![key]));
        state.find(schema.primary_key.as_ref().unwrap(), &[key])
    }

    /// Gives a key a value: replaces its row, or adds one.
    fn set(&mut self, engine: &Engine, key: i64, value: i64) -> Savepoint {
        self.transaction.rebase(&engine.snapshot()).unwrap();
        let before = self.transaction.savepoint();
        if let Some(row) = self.find(key) {
            self.transaction.kill(TABLE, &[row]).unwrap();
        }
        let state = self.transaction.state(TABLE).unwrap();
        let columns: Vec<ArrayRef> =
            vec![Arc::new(Int64Array::from(vec![key])), Arc::new(Int64Array::from(vec![value]))];
        let batch = RecordBatch::try_new(Arc::clone(state.arrow_schema()), columns).unwrap();
        self.transaction.append(TABLE, batch).unwrap();
        before
    }

    fn lock(&mut self, before: &Savepoint, wait: LockWait) -> Answer<LockOutcome> {
        let tables = self.transaction.locks_since(before).unwrap();
        let (sender, receiver) = channel();
        let request = LockRequest { owner: self.owner, tables, wait };
        let reply = move |outcome| sender.send(outcome).unwrap();
        self.term.as_ref().unwrap().lock(request, Box::new(reply));
        receiver
    }

    fn commit(mut self, engine: &Engine) -> Result<Lsn> {
        let write_set = self.transaction.clone().into_write_set()?;
        let committed = engine.commit_and_wait(write_set, Durability::None);
        self.term = None;
        committed
    }
}

fn granted(answer: &Answer<LockOutcome>) -> bool {
    matches!(answer.recv().unwrap(), Ok(LockOutcome::Granted { .. }))
}

fn state_of<T: std::fmt::Debug + Send>(answer: &Answer<T>) -> SqlState {
    answer.recv().unwrap().unwrap_err().state()
}

/// Commits on another thread's behalf: the answer comes once the commit does not wait any more.
fn commit_later(engine: &Engine, block: &Block) -> Answer<Lsn> {
    let (sender, receiver) = channel();
    let write_set = block.transaction.clone().into_write_set().unwrap();
    let reply = move |outcome| sender.send(outcome).unwrap();
    engine.commit(write_set, Durability::None, Box::new(reply));
    receiver
}

#[test]
fn a_block_waits_for_a_locked_row_and_sees_its_new_version() {
    let engine = engine();
    let (mut alice, mut bob) = (Block::new(&engine), Block::new(&engine));
    let before = alice.set(&engine, 1, 11);
    assert!(granted(&alice.lock(&before, LockWait::Wait)));
    let before = bob.set(&engine, 1, 12);
    assert_eq!(state_of(&bob.lock(&before, LockWait::NoWait)), SqlState::LOCK_NOT_AVAILABLE);
    bob.transaction.roll_back_to(&before);
    let before = bob.set(&engine, 1, 12);
    let waiting = bob.lock(&before, LockWait::Wait);
    assert!(engine.is_waiting_for_row(bob.owner) && engine.has_row_locks());
    alice.commit(&engine).unwrap();
    assert_eq!(waiting.recv().unwrap().unwrap(), LockOutcome::Changed);
    bob.transaction.roll_back_to(&before);
    bob.transaction.rebase(&engine.snapshot()).unwrap();
    let (row, state) = (bob.find(1).unwrap(), bob.transaction.state(TABLE).unwrap());
    assert_eq!(state.rows_at(&[row]).unwrap().column(1).as_ref(), &Int64Array::from(vec![11]));
    let before = bob.set(&engine, 1, 13);
    assert!(granted(&bob.lock(&before, LockWait::Wait)));
    // A block sees what others commit beside its own changes, whose commit cannot fail.
    let other = put(&engine, 1, Put::Upsert, &[(0, 2, 21), (1, 5, 50)]);
    write(&engine, vec![other], Failing::LeaveOut).unwrap();
    let before = bob.set(&engine, 1, 14);
    assert!(granted(&bob.lock(&before, LockWait::Wait)));
    assert!(bob.find(5).is_some());
    bob.commit(&engine).unwrap();
    assert_eq!(rows(&engine, 1), BTreeMap::from([(1, 14), (2, 21), (5, 50)]));
    assert!(!engine.has_row_locks());
}

#[test]
fn a_stale_row_is_no_row_to_lock() {
    let engine = engine();
    let mut alice = Block::new(&engine);
    let before = alice.set(&engine, 1, 11);
    let other = put(&engine, 1, Put::Upsert, &[(0, 1, 100)]);
    write(&engine, vec![other], Failing::LeaveOut).unwrap();
    let answer = alice.lock(&before, LockWait::Wait).recv().unwrap().unwrap();
    assert_eq!(answer, LockOutcome::Changed);
    alice.transaction.roll_back_to(&before);
    let before = alice.set(&engine, 1, 12);
    assert!(granted(&alice.lock(&before, LockWait::Wait)));
    alice.commit(&engine).unwrap();
    assert_eq!(rows(&engine, 1)[&1], 12);
}

#[test]
fn keys_that_are_being_added_are_locked() {
    let engine = engine();
    let (mut alice, mut bob) = (Block::new(&engine), Block::new(&engine));
    let before = alice.set(&engine, 7, 1);
    assert!(granted(&alice.lock(&before, LockWait::Wait)));
    let before = bob.set(&engine, 7, 2);
    let waiting = bob.lock(&before, LockWait::Wait);
    assert!(engine.is_waiting_for_row(bob.owner));
    drop(alice);
    assert_eq!(waiting.recv().unwrap().unwrap(), LockOutcome::Changed);
    bob.transaction.roll_back_to(&before);
    let before = bob.set(&engine, 7, 3);
    assert!(granted(&bob.lock(&before, LockWait::Wait)));
    bob.commit(&engine).unwrap();
    assert_eq!(rows(&engine, 1)[&7], 3);
}

#[test]
fn a_wait_in_a_circle_is_a_deadlock() {
    let engine = engine();
    let (mut alice, mut bob) = (Block::new(&engine), Block::new(&engine));
    let before = alice.set(&engine, 1, 11);
    assert!(granted(&alice.lock(&before, LockWait::Wait)));
    let before = bob.set(&engine, 2, 22);
    assert!(granted(&bob.lock(&before, LockWait::Wait)));
    let before = alice.set(&engine, 2, 12);
    let waiting = alice.lock(&before, LockWait::Wait);
    let in_circle = bob.set(&engine, 1, 21);
    assert_eq!(state_of(&bob.lock(&in_circle, LockWait::Wait)), SqlState::DEADLOCK_DETECTED);
    drop(bob);
    assert_eq!(waiting.recv().unwrap().unwrap(), LockOutcome::Changed);
}

#[test]
fn commits_of_others_wait_for_a_lock_and_can_be_given_up() {
    let engine = engine();
    let (mut alice, mut bob, mut carol) =
        (Block::new(&engine), Block::new(&engine), Block::new(&engine));
    bob.set(&engine, 1, 12);
    carol.set(&engine, 2, 22);
    let before = alice.set(&engine, 1, 11);
    assert!(granted(&alice.lock(&before, LockWait::Wait)));
    let waiting = commit_later(&engine, &bob);
    assert!(engine.is_waiting_for_row(bob.owner));
    // Other rows are free.
    commit_later(&engine, &carol).recv().unwrap().unwrap();
    engine.stop_waiting(bob.owner);
    assert_eq!(state_of(&waiting), SqlState::QUERY_CANCELED);
    // Rows that are written by key wait as well, in their order.
    let by_key = |value| {
        let (sender, receiver) = channel();
        let rows = vec![put(&engine, 1, Put::Upsert, &[(0, 1, value), (1, 9, value)])];
        let group = crate::RowGroup { rows, failing: Failing::LeaveOut, has_failed: false };
        let reply = move |written: Result<_>| sender.send(written.map(drop)).unwrap();
        engine.write_rows(group, Durability::None, Box::new(reply));
        receiver
    };
    let (first, second) = (by_key(100), by_key(101));
    let waiting = commit_later(&engine, &bob);
    drop(alice);
    first.recv().unwrap().unwrap();
    second.recv().unwrap().unwrap();
    assert_eq!(state_of(&waiting), SqlState::SERIALIZATION_FAILURE);
    assert_eq!(rows(&engine, 1), BTreeMap::from([(1, 101), (2, 22), (9, 101)]));
}

#[test]
fn skipped_rows_are_listed_and_not_locked() {
    let engine = engine();
    let (mut alice, mut bob) = (Block::new(&engine), Block::new(&engine));
    let lock_all = |block: &mut Block, wait| {
        block.transaction.rebase(&engine.snapshot()).unwrap();
        let before = block.transaction.savepoint();
        let rows: Vec<RowId> = [1, 2].into_iter().filter_map(|key| block.find(key)).collect();
        block.transaction.lock(TABLE, &rows, RowLock::Update).unwrap();
        (block.lock(&before, wait), rows)
    };
    let before = alice.set(&engine, 1, 11);
    assert!(granted(&alice.lock(&before, LockWait::Wait)));
    let (answer, rows) = lock_all(&mut bob, LockWait::Skip);
    assert_eq!(answer.recv().unwrap().unwrap(), LockOutcome::Skip(vec![(TABLE, rows[0])]));
    bob.transaction.hide(TABLE, rows[0]).unwrap();
    assert_eq!(bob.find(1), None);
    bob.transaction.show_hidden().unwrap();
    assert_eq!(bob.find(1), Some(rows[0]));
    // Bob has locked nothing.
    let before = alice.set(&engine, 2, 12);
    assert!(granted(&alice.lock(&before, LockWait::NoWait)));
    alice.commit(&engine).unwrap();
    assert!(granted(&lock_all(&mut bob, LockWait::Skip).0));
}

#[test]
fn a_new_foreign_key_waits_for_blocks_that_change_the_referenced_table() {
    let engine = engine();
    let (mut alice, mut bob) = (Block::new(&engine), Block::new(&engine));
    let before = alice.set(&engine, 1, 11);
    assert!(granted(&alice.lock(&before, LockWait::Wait)));
    add_foreign_key(&mut bob.transaction);
    let committed = commit_later(&engine, &bob);
    assert!(engine.is_waiting_for_row(bob.owner));
    alice.commit(&engine).unwrap();
    committed.recv().unwrap().unwrap();
    // The next change of the child adds no reference, and waits for nobody.
    let mut alice = Block::new(&engine);
    let before = alice.set(&engine, 1, 12);
    assert!(granted(&alice.lock(&before, LockWait::Wait)));
    let mut carol = Block::new(&engine);
    let mut schema = carol.transaction.catalog().table(TableId(2)).unwrap().schema.as_ref().clone();
    schema.foreign_keys[0].name = "renamed".to_owned();
    let change = CatalogChange::AlterTable { schema, added: None, expected: None };
    carol.transaction.change_catalog(change).unwrap();
    carol.commit(&engine).unwrap();
    alice.commit(&engine).unwrap();
}
