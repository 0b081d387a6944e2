//! Row locks of transaction blocks: the table of their holders.
//!
//! The transaction stage owns the table. It takes a lock between two groups, so that no group can
//! change a row between the check of the row and the lock. A group that changes a locked row waits
//! in the stage until the lock is released (`lock_stage.rs`). Keys of rows that a block has added
//! are locked as well, so that another transaction that adds the same key waits for the block. Keys
//! to which foreign keys refer have shared locks besides (`foreign_keys/locks.rs`).
//!
//! Locks are not logged. They decide who waits; the commit still checks that each row that it
//! changes is alive.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use arrow::array::{Array, ArrayRef};
use arrow::record_batch::RecordBatch;
use thalweg_types::{Lsn, RowId, TableId};

use crate::transaction::RowLock;

/// Maximum number of rows and keys that an owner locks one by one in a table. Beyond it the owner
/// locks the whole table, so that the memory of locks stays bounded. Beyond as many keys that its
/// rows refer to, it locks no more of these keys.
pub(crate) const LOCKS_OF_TABLE_MAX: usize = 65_536;

/// Identifies the holder of row locks: a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LockOwner(pub(crate) u64);

/// The reaction to a row that another transaction has locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockWait {
    /// Wait for the end of the other transaction.
    Wait,
    /// Fail (`55P03`).
    NoWait,
    /// Take no lock, and report the rows that cannot be locked.
    Skip,
    /// Wait like [`Wait`](LockWait::Wait), but take no lock.
    Probe,
}

/// The locks that a statement needs in one table.
#[derive(Clone, Debug)]
pub struct TableLocks {
    pub table: TableId,
    /// The table's version that the statement has read.
    pub version: Lsn,
    /// Rows with the strength of their lock, by their ids in the statement's snapshot.
    pub rows: Vec<(RowId, RowLock)>,
    /// New rows, whose keys are locked.
    pub added: Vec<RecordBatch>,
    /// True if the transaction has removed all rows of its snapshot.
    pub truncated: bool,
    /// Keys to which foreign keys refer.
    pub keys: Option<KeyLocks>,
    /// The last group of the statement's snapshot, for `keys`.
    pub snapshot: Lsn,
}

/// Locks on keys to which foreign keys refer. A shared one belongs to a row that refers to the key,
/// and leaves others free to change the row with the key as long as the key stays. An exclusive one
/// belongs to the removal of the key.
#[derive(Clone, Debug)]
pub struct KeyLocks {
    /// Position of the key among the table's keys.
    pub number: usize,
    /// The keys' values, none of which is NULL.
    pub columns: Vec<ArrayRef>,
    pub lock: RowLock,
}

/// A request for locks.
#[derive(Clone, Debug)]
pub struct LockRequest {
    pub owner: LockOwner,
    pub tables: Vec<TableLocks>,
    pub wait: LockWait,
}

impl LockRequest {
    pub(crate) fn row_count(&self) -> usize {
        let of_table = |table: &TableLocks| {
            let added: usize = table.added.iter().map(RecordBatch::num_rows).sum();
            let keys = table.keys.as_ref().and_then(|keys| keys.columns.first());
            table.rows.len() + added + keys.map_or(0, |column| column.len())
        };
        self.tables.iter().map(of_table).sum()
    }
}

/// Outcome of a request for locks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockOutcome {
    /// All locks are held. `count` is the number of locks that the owner holds now.
    Granted { count: usize },
    /// A row was changed, or a lock was released, after the statement's snapshot. The statement
    /// must run again on a new snapshot, which shows the change.
    Changed,
    /// These rows cannot be locked now. No lock was taken.
    Skip(Vec<(TableId, RowId)>),
}

/// A lock that an owner holds, in the order in which it took them.
enum Taken {
    Row(TableId, RowId, RowLock),
    Key(TableId, KeyHash),
    /// A shared lock on a key that a foreign key refers to.
    Reference(TableId, KeyHash),
    Table(TableId),
}

/// The position of a key among the table's keys, and the hash of its values. Two keys with the same
/// hash exclude each other, which costs a wait and no correctness.
pub(crate) type KeyHash = (u32, u32);

/// The locked rows and keys of one table.
#[derive(Default)]
struct LockedTable {
    rows: HashMap<RowId, Vec<(LockOwner, RowLock)>>,
    /// The owner that has added or removed a key.
    keys: HashMap<KeyHash, LockOwner>,
    /// Owners whose new rows refer to a key.
    references: HashMap<KeyHash, Vec<LockOwner>>,
    /// The owner that has locked all rows and keys.
    whole: Option<LockOwner>,
    /// Number of rows and keys that each owner has locked.
    counts: HashMap<LockOwner, usize>,
    /// Number of keys that the rows of each owner refer to.
    reference_counts: HashMap<LockOwner, usize>,
}

/// All row locks of a database.
#[derive(Default)]
pub(crate) struct RowLocks {
    /// Only tables with locks have an entry.
    tables: HashMap<TableId, LockedTable>,
    taken: HashMap<LockOwner, Vec<Taken>>,
}

impl RowLocks {
    pub(crate) fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// True if somebody has locked a row or a key of the table.
    pub(crate) fn has_table(&self, table: TableId) -> bool {
        self.tables.contains_key(&table)
    }

    /// Number of locks of an owner.
    pub(crate) fn count(&self, owner: LockOwner) -> usize {
        self.taken.get(&owner).map_or(0, Vec::len)
    }

    /// Another owner with a lock in the table.
    pub(crate) fn other_in_table(
        &self,
        owner: Option<LockOwner>,
        table: TableId,
    ) -> Option<LockOwner> {
        let locked = self.tables.get(&table)?;
        let rows = locked.rows.values().flatten().map(|(holder, _)| *holder);
        let references = locked.references.values().flatten().copied();
        let keys = locked.keys.values().copied().chain(references);
        // The smallest one, so that the answer does not depend on the order of a hash table.
        rows.chain(keys).chain(locked.whole).filter(|holder| Some(*holder) != owner).min()
    }

    /// Another owner that has changed rows or keys of the table. Locks of rows that refer to the
    /// table do not count.
    pub(crate) fn other_changing(
        &self,
        owner: Option<LockOwner>,
        table: TableId,
    ) -> Option<LockOwner> {
        let locked = self.tables.get(&table)?;
        let rows = locked.rows.values().flatten().filter(|(_, lock)| *lock == RowLock::Update);
        let holders = rows.map(|(holder, _)| *holder).chain(locked.keys.values().copied());
        // The smallest one, so that the answer does not depend on the order of a hash table.
        holders.chain(locked.whole).filter(|holder| Some(*holder) != owner).min()
    }

    /// Another owner that excludes a lock on a row.
    pub(crate) fn other_on_row(
        &self,
        owner: Option<LockOwner>,
        (table, row): (TableId, RowId),
        lock: RowLock,
    ) -> Option<LockOwner> {
        let locked = self.tables.get(&table)?;
        if let Some(holder) = locked.whole {
            return (Some(holder) != owner).then_some(holder);
        }
        let holders = locked.rows.get(&row)?;
        let excludes = |held: RowLock| held == RowLock::Update || lock == RowLock::Update;
        let other = holders.iter().find(|(holder, held)| Some(*holder) != owner && excludes(*held));
        other.map(|(holder, _)| *holder)
    }

    /// Another owner that has added or removed a key of this hash, or has locked the whole table.
    pub(crate) fn other_on_key(
        &self,
        owner: Option<LockOwner>,
        table: TableId,
        key: KeyHash,
    ) -> Option<LockOwner> {
        let locked = self.tables.get(&table)?;
        let holder = locked.whole.or_else(|| locked.keys.get(&key).copied())?;
        (Some(holder) != owner).then_some(holder)
    }

    /// Another owner whose rows refer to a key of this hash.
    pub(crate) fn other_referring(
        &self,
        owner: Option<LockOwner>,
        table: TableId,
        key: KeyHash,
    ) -> Option<LockOwner> {
        let holders = self.tables.get(&table)?.references.get(&key)?;
        holders.iter().copied().find(|holder| Some(*holder) != owner)
    }

    /// True if an owner has locked a row for itself alone.
    pub(crate) fn is_locked_by(&self, owner: LockOwner, table: TableId, row: RowId) -> bool {
        self.tables.get(&table).is_some_and(|locked| {
            let holders = locked.rows.get(&row);
            locked.whole == Some(owner)
                || holders.is_some_and(|holders| holders.contains(&(owner, RowLock::Update)))
        })
    }

    /// True if an owner must lock the whole table before it locks so many more rows of it.
    pub(crate) fn needs_table(&self, owner: LockOwner, table: TableId, more: usize) -> bool {
        let locked = self.tables.get(&table);
        let count = locked.and_then(|locked| locked.counts.get(&owner)).copied().unwrap_or(0);
        let is_whole = locked.is_some_and(|locked| locked.whole == Some(owner));
        !is_whole && count + more > LOCKS_OF_TABLE_MAX
    }

    /// Locks all rows and keys of a table in which no other owner has a lock.
    pub(crate) fn take_table(&mut self, owner: LockOwner, table: TableId) {
        self.tables.entry(table).or_default().whole = Some(owner);
        self.taken.entry(owner).or_default().push(Taken::Table(table));
    }

    /// Locks a row that no other owner excludes.
    pub(crate) fn take_row(
        &mut self,
        owner: LockOwner,
        (table, row): (TableId, RowId),
        lock: RowLock,
    ) {
        let locked = self.tables.entry(table).or_default();
        if locked.whole == Some(owner) {
            return;
        }
        let holders = locked.rows.entry(row).or_default();
        let has = |(holder, held): &(LockOwner, RowLock)| {
            *holder == owner && (*held == lock || *held == RowLock::Update)
        };
        if !holders.iter().any(has) {
            holders.push((owner, lock));
            *locked.counts.entry(owner).or_default() += 1;
            self.taken.entry(owner).or_default().push(Taken::Row(table, row, lock));
        }
    }

    /// Locks a key that no other owner has locked.
    pub(crate) fn take_key(&mut self, owner: LockOwner, table: TableId, key: KeyHash) {
        let locked = self.tables.entry(table).or_default();
        if locked.whole == Some(owner) {
            return;
        }
        if let Entry::Vacant(free) = locked.keys.entry(key) {
            free.insert(owner);
            *locked.counts.entry(owner).or_default() += 1;
            self.taken.entry(owner).or_default().push(Taken::Key(table, key));
        }
    }

    /// True if an owner may lock so many more keys of a table that its rows refer to.
    pub(crate) fn has_room_for_references(
        &self,
        owner: LockOwner,
        table: TableId,
        more: usize,
    ) -> bool {
        let locked = self.tables.get(&table);
        let count = locked.and_then(|locked| locked.reference_counts.get(&owner));
        count.copied().unwrap_or(0) + more <= LOCKS_OF_TABLE_MAX
    }

    /// Locks a key that rows of the owner refer to, and that no other owner has locked.
    pub(crate) fn take_reference(&mut self, owner: LockOwner, table: TableId, key: KeyHash) {
        let locked = self.tables.entry(table).or_default();
        let holders = locked.references.entry(key).or_default();
        if !holders.contains(&owner) {
            holders.push(owner);
            *locked.reference_counts.entry(owner).or_default() += 1;
            self.taken.entry(owner).or_default().push(Taken::Reference(table, key));
        }
    }

    /// Releases the locks of an owner except its first `keep` ones.
    pub(crate) fn release(&mut self, owner: LockOwner, keep: usize) {
        let Some(taken) = self.taken.get_mut(&owner) else { return };
        let released = taken.split_off(keep.min(taken.len()));
        if taken.is_empty() {
            self.taken.remove(&owner);
        }
        for lock in released {
            let (Taken::Row(table, ..)
            | Taken::Key(table, _)
            | Taken::Reference(table, _)
            | Taken::Table(table)) = lock;
            let locked = self.tables.get_mut(&table).expect("a table with locks has an entry");
            match lock {
                Taken::Row(_, row, mode) => {
                    locked.release_row(row, (owner, mode));
                    count_release(&mut locked.counts, owner);
                }
                Taken::Key(_, key) => {
                    locked.keys.remove(&key);
                    count_release(&mut locked.counts, owner);
                }
                Taken::Reference(_, key) => {
                    if let Entry::Occupied(mut holders) = locked.references.entry(key) {
                        holders.get_mut().retain(|holder| *holder != owner);
                        if holders.get().is_empty() {
                            holders.remove();
                        }
                    }
                    count_release(&mut locked.reference_counts, owner);
                }
                Taken::Table(_) => locked.whole = None,
            }
            if locked.is_empty() {
                self.tables.remove(&table);
            }
        }
    }
}

impl LockedTable {
    fn is_empty(&self) -> bool {
        self.rows.is_empty()
            && self.keys.is_empty()
            && self.references.is_empty()
            && self.whole.is_none()
    }

    fn release_row(&mut self, row: RowId, released: (LockOwner, RowLock)) {
        let Entry::Occupied(mut holders) = self.rows.entry(row) else { return };
        holders.get_mut().retain(|held| *held != released);
        if holders.get().is_empty() {
            holders.remove();
        }
    }
}

fn count_release(counts: &mut HashMap<LockOwner, usize>, owner: LockOwner) {
    if let Entry::Occupied(mut count) = counts.entry(owner) {
        *count.get_mut() -= 1;
        if *count.get() == 0 {
            count.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: TableId = TableId(7);
    const ROW: (TableId, RowId) = (TABLE, RowId(3));

    #[test]
    fn exclusive_locks_exclude_and_shared_ones_are_shared() {
        let (alice, bob) = (LockOwner(1), LockOwner(2));
        let mut locks = RowLocks::default();
        locks.take_row(alice, ROW, RowLock::Share);
        assert_eq!(locks.other_on_row(Some(bob), ROW, RowLock::Share), None);
        assert_eq!(locks.other_on_row(Some(bob), ROW, RowLock::Update), Some(alice));
        assert_eq!(locks.other_on_row(None, ROW, RowLock::Update), Some(alice));
        assert_eq!(locks.other_on_row(Some(alice), ROW, RowLock::Update), None);
        locks.take_row(bob, ROW, RowLock::Share);
        assert_eq!(locks.other_on_row(Some(alice), ROW, RowLock::Update), Some(bob));
        locks.release(bob, 0);
        locks.take_row(alice, ROW, RowLock::Update);
        assert!(locks.is_locked_by(alice, TABLE, ROW.1));
        assert_eq!(locks.other_on_row(Some(bob), ROW, RowLock::Share), Some(alice));
    }

    #[test]
    fn many_locks_become_one_of_the_table() {
        let (alice, bob) = (LockOwner(1), LockOwner(2));
        let mut locks = RowLocks::default();
        locks.take_row(alice, ROW, RowLock::Share);
        let mark = locks.count(alice);
        assert!(!locks.needs_table(alice, TABLE, LOCKS_OF_TABLE_MAX - 1));
        assert!(locks.needs_table(alice, TABLE, LOCKS_OF_TABLE_MAX));
        assert!(!locks.needs_table(bob, TABLE, LOCKS_OF_TABLE_MAX));
        locks.take_table(alice, TABLE);
        assert!(!locks.needs_table(alice, TABLE, LOCKS_OF_TABLE_MAX));
        let other = (TABLE, RowId(8));
        locks.take_row(alice, other, RowLock::Update);
        locks.take_key(alice, TABLE, (0, 9));
        assert_eq!(locks.count(alice), 2);
        assert!(locks.is_locked_by(alice, TABLE, other.1));
        assert_eq!(locks.other_on_row(Some(bob), other, RowLock::Share), Some(alice));
        assert_eq!(locks.other_on_key(Some(bob), TABLE, (1, 1)), Some(alice));
        assert_eq!(locks.other_in_table(Some(bob), TABLE), Some(alice));
        assert_eq!(locks.other_on_row(Some(alice), other, RowLock::Update), None);
        locks.release(alice, mark);
        assert_eq!(locks.other_on_row(Some(bob), other, RowLock::Share), None);
        assert_eq!(locks.other_on_row(Some(bob), ROW, RowLock::Update), Some(alice));
        locks.release(alice, 0);
        assert!(locks.is_empty() && locks.taken.is_empty());
    }

    #[test]
    fn a_savepoint_releases_the_locks_taken_since() {
        let (alice, bob) = (LockOwner(1), LockOwner(2));
        let mut locks = RowLocks::default();
        locks.take_row(alice, ROW, RowLock::Share);
        let mark = locks.count(alice);
        locks.take_row(alice, ROW, RowLock::Update);
        locks.take_key(alice, TABLE, (0, 9));
        locks.take_key(alice, TABLE, (0, 9));
        assert_eq!(locks.count(alice), 3);
        assert_eq!(locks.other_on_key(Some(bob), TABLE, (0, 9)), Some(alice));
        locks.release(alice, mark);
        assert_eq!(locks.other_on_key(Some(bob), TABLE, (0, 9)), None);
        assert_eq!(locks.other_on_row(Some(bob), ROW, RowLock::Share), None);
        assert_eq!(locks.other_in_table(Some(bob), TABLE), Some(alice));
        locks.release(alice, 0);
        assert!(locks.is_empty() && locks.taken.is_empty());
    }

    #[test]
    fn references_are_bounded_per_owner_and_table() {
        let (alice, bob) = (LockOwner(1), LockOwner(2));
        let mut locks = RowLocks::default();
        locks.take_reference(alice, TABLE, (0, 1));
        let mark = locks.count(alice);
        locks.take_reference(alice, TABLE, (0, 1));
        locks.take_reference(alice, TABLE, (0, 2));
        locks.take_reference(bob, TABLE, (0, 1));
        assert!(locks.has_room_for_references(alice, TABLE, LOCKS_OF_TABLE_MAX - 2));
        assert!(!locks.has_room_for_references(alice, TABLE, LOCKS_OF_TABLE_MAX - 1));
        assert!(locks.has_room_for_references(bob, TABLE, LOCKS_OF_TABLE_MAX - 1));
        assert!(locks.has_room_for_references(alice, TableId(8), LOCKS_OF_TABLE_MAX));
        locks.release(alice, mark);
        assert!(locks.has_room_for_references(alice, TABLE, LOCKS_OF_TABLE_MAX - 1));
        assert_eq!(locks.other_referring(Some(bob), TABLE, (0, 1)), Some(alice));
        // References do not lead to a lock of the whole table.
        assert!(!locks.needs_table(alice, TABLE, LOCKS_OF_TABLE_MAX));
        locks.release(alice, 0);
        locks.release(bob, 0);
        assert!(locks.is_empty() && locks.taken.is_empty());
    }
}
