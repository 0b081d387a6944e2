//! The transaction stage's side of row locks: requests for locks, and the requests that wait.
//!
//! A request that meets a lock of another owner waits in a list of the stage, without a thread. The
//! release of a lock lets the requests that wait for its owner continue: a commit is checked and
//! applied, and a request for locks is answered, so that its statement runs again on a new
//! snapshot. A wait that would close a cycle of waiting owners fails (`40P01`).

use arrow::array::{Array, ArrayRef};
use arrow::record_batch::RecordBatch;
use thalweg_store::{Table, arrow_schema};
use thalweg_types::{Error, Result, RowId, SqlState, TableId};

use crate::Durability;
use crate::catalog::CatalogChange;
use crate::disk_stage::{DiskCommand, PendingGroup};
use crate::keyed::{KeyedChange, KeyedRows, RowGroup};
use crate::published::GroupEffects;
use crate::row_locks::{LockOutcome, LockOwner, LockRequest, LockWait, TableLocks};
use crate::transaction::RowLock;
use crate::transaction_stage::{Request, TransactionStage};
use crate::waiter::Waiter;
use crate::write_set::{NewRows, TableChanges, WriteSet};

/// A request that waits for the locks of an owner.
pub(crate) struct Parked {
    /// The owner that waits; `None` for rows that are written by key.
    owner: Option<LockOwner>,
    /// The owner that it waits for.
    blocker: LockOwner,
    request: Request,
}

impl Parked {
    /// True if the release of its lock takes little work.
    pub(crate) fn is_quick(&self) -> bool {
        matches!(self.request, Request::Lock { .. })
    }
}

/// The outcome of one try to take locks.
pub(crate) enum Attempt {
    Granted,
    /// A row was changed after the statement's snapshot.
    Stale,
    Blocked {
        by: LockOwner,
        table: TableId,
    },
    Skip(Vec<(TableId, RowId)>),
}

impl TransactionStage {
    pub(crate) fn lock_rows(&mut self, request: LockRequest, reply: Waiter<LockOutcome>) {
        let owner = request.owner;
        let before = self.row_locks.count(owner);
        let attempt = self.try_lock(&request);
        let is_granted = matches!(attempt, Ok(Attempt::Granted));
        if request.wait == LockWait::Skip && !is_granted {
            self.row_locks.release(owner, before);
        }
        match attempt {
            Ok(Attempt::Granted) => {
                let count = self.row_locks.count(owner);
                reply.tell(Ok(LockOutcome::Granted { count }));
            }
            Ok(Attempt::Skip(rows)) => reply.tell(Ok(LockOutcome::Skip(rows))),
            Ok(Attempt::Stale) => self.reply_once_published(reply),
            Ok(Attempt::Blocked { table, .. }) if request.wait == LockWait::NoWait => {
                reply.tell(Err(self.not_available(table)));
            }
            Ok(Attempt::Blocked { by, .. }) => {
                self.park(Some(owner), by, Request::Lock { request, reply });
            }
            Err(error) => reply.tell(Err(error)),
        }
    }

    /// Takes locks in their order until one cannot be had. The earlier ones stay.
    fn try_lock(&mut self, request: &LockRequest) -> Result<Attempt> {
        let mut skipped = Vec::new();
        for wanted in &request.tables {
            // A table that the owner created is unknown to all others.
            let Some(entry) = self.catalog.table(wanted.table) else { continue };
            if entry.version != wanted.version {
                return Ok(Attempt::Stale);
            }
            let mut attempt = self.try_lock_rows(request, wanted, &mut skipped);
            if attempt.is_none() {
                attempt = self.try_lock_keys(request, wanted)?;
            }
            if attempt.is_none()
                && let Some(keys) = &wanted.keys
            {
                attempt = self.try_lock_references(request.owner, wanted, keys)?;
            }
            if let Some(attempt) = attempt {
                return Ok(attempt);
            }
        }
        Ok(if skipped.is_empty() { Attempt::Granted } else { Attempt::Skip(skipped) })
    }

    /// `None` if all rows were locked or added to `skipped`.
    fn try_lock_rows(
        &mut self,
        request: &LockRequest,
        wanted: &TableLocks,
        skipped: &mut Vec<(TableId, RowId)>,
    ) -> Option<Attempt> {
        let (owner, id) = (request.owner, wanted.table);
        let table = &self.tables.get(&id)?.table;
        let skips = request.wait == LockWait::Skip;
        if self.row_locks.needs_table(owner, id, wanted.rows.len()) {
            match self.row_locks.other_in_table(Some(owner), id) {
                Some(by) if !skips => return Some(Attempt::Blocked { by, table: id }),
                // The rows that others have not locked are locked one by one.
                Some(_) => {}
                None => self.row_locks.take_table(owner, id),
            }
        }
        for (row, lock) in &wanted.rows {
            let Some(current) = table.locate(*row) else {
                if skips {
                    skipped.push((id, *row));
                    continue;
                }
                return Some(Attempt::Stale);
            };
            match self.row_locks.other_on_row(Some(owner), (id, current), *lock) {
                Some(_) if skips => skipped.push((id, *row)),
                Some(by) => return Some(Attempt::Blocked { by, table: id }),
                None if request.wait == LockWait::Probe => {}
                None => self.row_locks.take_row(owner, (id, current), *lock),
            }
        }
        None
    }

    /// `None` if all keys of the new rows were locked.
    fn try_lock_keys(
        &mut self,
        request: &LockRequest,
        wanted: &TableLocks,
    ) -> Result<Option<Attempt>> {
        let (owner, id) = (request.owner, wanted.table);
        let Some(writer) = self.tables.get(&id) else { return Ok(None) };
        let schema = writer.table.schema();
        for rows in &wanted.added {
            for (number, key) in schema.keys().enumerate() {
                let positions = schema.key_positions(key);
                let columns = pick(rows, &positions);
                let hashes = Table::key_hashes(&columns);
                let holders = writer.table.key_holders(number, &columns)?;
                for (row, (hash, holder)) in hashes.into_iter().zip(holders).enumerate() {
                    if columns.iter().any(|column| column.is_null(row)) {
                        continue;
                    }
                    if let Some(holder) = holder.filter(|_| !wanted.truncated) {
                        // A row that the owner replaces keeps others from its key.
                        if self.row_locks.is_locked_by(owner, id, holder) {
                            continue;
                        }
                        let place = (id, holder);
                        let by = self.row_locks.other_on_row(Some(owner), place, RowLock::Share);
                        return Ok(Some(match by {
                            Some(by) => Attempt::Blocked { by, table: id },
                            None => Attempt::Stale,
                        }));
                    }
                    let hash = (number as u32, hash);
                    if let Some(by) = self.row_locks.other_on_key(Some(owner), id, hash) {
                        return Ok(Some(Attempt::Blocked { by, table: id }));
                    }
                    self.row_locks.take_key(owner, id, hash);
                }
            }
        }
        Ok(None)
    }

    /// Answers once all groups that are applied so far are visible.
    fn reply_once_published(&mut self, reply: Waiter<LockOutcome>) {
        let on_result = move |result: Result<_>| reply.tell(result.map(|_| LockOutcome::Changed));
        self.send(DiskCommand::Group(PendingGroup {
            lsn: self.lsn,
            payload: Vec::new(),
            durability: Durability::None,
            effects: GroupEffects::default(),
            acknowledge: Waiter::new(Box::new(on_result)),
        }));
    }

    /// Lets a request wait for an owner's locks.
    pub(crate) fn park(&mut self, owner: Option<LockOwner>, blocker: LockOwner, request: Request) {
        if owner.is_some_and(|owner| self.closes_cycle(owner, blocker)) {
            return request.refuse(&deadlock());
        }
        self.parked.push(Parked { owner, blocker, request });
    }

    /// True if an owner's wait for another one would close a cycle.
    fn closes_cycle(&self, owner: LockOwner, blocker: LockOwner) -> bool {
        let mut reached = vec![blocker];
        let mut at = 0;
        while at < reached.len() {
            let waiting = reached[at];
            if waiting == owner {
                return true;
            }
            for parked in self.parked.iter().filter(|parked| parked.owner == Some(waiting)) {
                if !reached.contains(&parked.blocker) {
                    reached.push(parked.blocker);
                }
            }
            at += 1;
        }
        false
    }

    /// True if an owner waits for a row lock.
    pub(crate) fn is_parked(&self, owner: LockOwner) -> bool {
        self.parked.iter().any(|parked| parked.owner == Some(owner))
    }

    /// Releases the locks of an owner except its first `keep` ones, and lets the requests continue
    /// that wait for it.
    pub(crate) fn unlock_rows(&mut self, owner: LockOwner, keep: usize) {
        self.row_locks.release(owner, keep);
        let parked = std::mem::take(&mut self.parked);
        let (ready, waiting): (Vec<_>, Vec<_>) =
            parked.into_iter().partition(|parked| parked.blocker == owner);
        self.parked = waiting;
        for Parked { request, .. } in ready {
            match request {
                Request::Lock { reply, .. } => reply.tell(Ok(LockOutcome::Changed)),
                // Only a request to close breaks the loop, and that never waits for a lock.
                request => {
                    let _ = self.carry_out(request);
                }
            }
        }
    }

    /// Ends the waits of an owner, whose statement was canceled.
    pub(crate) fn give_up(&mut self, owner: LockOwner) {
        let parked = std::mem::take(&mut self.parked);
        let (given_up, waiting): (Vec<_>, Vec<_>) =
            parked.into_iter().partition(|parked| parked.owner == Some(owner));
        self.parked = waiting;
        let canceled = Error::new(SqlState::QUERY_CANCELED, "the wait for a row was canceled");
        given_up.into_iter().for_each(|parked| parked.request.refuse(&canceled));
    }

    /// An owner whose locks a write set must wait for.
    pub(crate) fn blocker_of(&self, write_set: &WriteSet) -> Option<LockOwner> {
        let owner = write_set.owner;
        let mut altered = write_set.catalog.iter().filter_map(|change| match change {
            CatalogChange::AlterTable { schema, .. } => Some(schema.id),
            CatalogChange::DropTable { id } => Some(*id),
            _ => None,
        });
        let in_altered = altered.find_map(|id| self.row_locks.other_in_table(owner, id));
        // A block that changes the referenced table did not look for rows of a new foreign key.
        let mut defined = write_set.catalog.iter().filter_map(|change| match change {
            CatalogChange::CreateTable { schema } | CatalogChange::AlterTable { schema, .. } => {
                Some(schema)
            }
            _ => None,
        });
        let in_referenced = || {
            defined.find_map(|schema| {
                let mut parents = self.catalog.newly_referenced(schema).into_iter();
                parents.find_map(|id| self.row_locks.other_changing(owner, id))
            })
        };
        let by_rows =
            || write_set.tables.iter().find_map(|changes| self.blocker_of_changes(owner, changes));
        let by_references = || match self.catalog.has_foreign_keys() {
            true => self.blocker_of_references(owner, &write_set.tables),
            false => None,
        };
        in_altered.or_else(in_referenced).or_else(by_rows).or_else(by_references)
    }

    fn blocker_of_changes(
        &self,
        owner: Option<LockOwner>,
        changes: &TableChanges,
    ) -> Option<LockOwner> {
        let id = changes.table;
        if !self.row_locks.has_table(id) {
            return None;
        }
        if changes.truncate {
            return self.row_locks.other_in_table(owner, id);
        }
        let table = &self.tables.get(&id)?.table;
        let on_row = |row: &RowId, lock| {
            let current = table.locate(*row)?;
            self.row_locks.other_on_row(owner, (id, current), lock)
        };
        let on_rows = changes.kill.iter().find_map(|row| on_row(row, RowLock::Update));
        let on_held = || changes.hold.iter().find_map(|row| on_row(row, RowLock::Share));
        let on_keys = || changes.append.iter().find_map(|new| self.blocker_of_new(owner, id, new));
        on_rows.or_else(on_held).or_else(on_keys)
    }

    fn blocker_of_new(
        &self,
        owner: Option<LockOwner>,
        id: TableId,
        new: &NewRows,
    ) -> Option<LockOwner> {
        let schema = self.tables.get(&id)?.table.schema();
        let of_chunk = |chunk: &thalweg_store::ClosedChunk| {
            (chunk.column_count() == schema.columns.len())
                .then(|| chunk.batch(&arrow_schema(schema)))
        };
        let rows = match new {
            NewRows::Batch { rows, .. } => Some(rows.clone()),
            NewRows::Chunk { chunk, .. } => of_chunk(chunk),
            NewRows::Staged(staged) => of_chunk(staged.chunk()),
        };
        self.blocker_of_keys(owner, id, &rows?, Some)
    }

    /// An owner that keeps others from the keys of some rows. `place` maps the position of a column
    /// in the table to its position in the rows.
    fn blocker_of_keys(
        &self,
        owner: Option<LockOwner>,
        id: TableId,
        rows: &RecordBatch,
        place: impl Fn(usize) -> Option<usize>,
    ) -> Option<LockOwner> {
        let table = &self.tables.get(&id)?.table;
        let schema = table.schema();
        for (number, key) in schema.keys().enumerate() {
            let positions = schema.key_positions(key);
            let places: Option<Vec<usize>> = positions.into_iter().map(&place).collect();
            let Some(places) = places else { continue };
            if places.iter().any(|place| *place >= rows.num_columns()) {
                return None;
            }
            let columns = pick(rows, &places);
            // Rows that were made for another version of the table are refused later.
            let Ok(holders) = table.key_holders(number, &columns) else { return None };
            for (hash, holder) in Table::key_hashes(&columns).into_iter().zip(holders) {
                let on_row = holder
                    .and_then(|row| self.row_locks.other_on_row(owner, (id, row), RowLock::Share));
                let on_key = || self.row_locks.other_on_key(owner, id, (number as u32, hash));
                if let Some(blocker) = on_row.or_else(on_key) {
                    return Some(blocker);
                }
            }
        }
        None
    }

    /// An owner whose locks rows that are written by key must wait for. Rows of a table wait behind
    /// earlier ones, so that they are written in their order.
    pub(crate) fn blocker_of_rows(&self, group: &RowGroup) -> Option<LockOwner> {
        let is_shared = |parked: &&Parked| match &parked.request {
            Request::Rows { group: earlier, .. } => {
                let tables = || earlier.rows.iter().map(|rows| rows.table);
                group.rows.iter().any(|rows| tables().any(|table| table == rows.table))
            }
            _ => false,
        };
        let behind = self.parked.iter().find(is_shared).map(|parked| parked.blocker);
        let of_rows =
            |rows| self.blocker_of_keyed(rows).or_else(|| self.blocker_of_keyed_references(rows));
        behind.or_else(|| group.rows.iter().find_map(of_rows))
    }

    fn blocker_of_keyed(&self, rows: &KeyedRows) -> Option<LockOwner> {
        let id = rows.table;
        if !self.row_locks.has_table(id) {
            return None;
        }
        let table = &self.tables.get(&id)?.table;
        let schema = table.schema();
        let primary = schema.key_positions(schema.primary_key.as_ref()?);
        let place = |position: usize| match &rows.change {
            KeyedChange::Put(_) | KeyedChange::Merge(_) => Some(position),
            KeyedChange::Patch(patch) => patch.columns.iter().position(|at| *at == position),
            KeyedChange::Remove => primary.iter().position(|at| *at == position),
        };
        let shared = || {
            let places: Option<Vec<usize>> = primary.iter().copied().map(place).collect();
            let holders = table.holders(&pick(&rows.rows, &places?)).ok()?;
            let mut holders = holders.into_iter().flatten();
            holders.find_map(|row| self.row_locks.other_on_row(None, (id, row), RowLock::Update))
        };
        self.blocker_of_keys(None, id, &rows.rows, place).or_else(shared)
    }

    fn not_available(&self, table: TableId) -> Error {
        let name = self.catalog.table(table).map_or("", |entry| entry.schema.name.as_str());
        let message = format!("could not obtain lock on row in relation \"{name}\"");
        Error::new(SqlState::LOCK_NOT_AVAILABLE, message)
    }
}

impl Request {
    /// Answers a request that waits for a lock with an error.
    fn refuse(self, error: &Error) {
        let error = error.clone();
        match self {
            Request::Commit { acknowledge, .. } => acknowledge.tell(Err(error)),
            Request::Rows { acknowledge, .. } => acknowledge.tell(Err(error)),
            Request::Lock { reply, .. } => reply.tell(Err(error)),
            _ => unreachable!("other requests do not wait for locks"),
        }
    }
}

fn pick(rows: &RecordBatch, places: &[usize]) -> Vec<ArrayRef> {
    places.iter().map(|place| ArrayRef::clone(rows.column(*place))).collect()
}

fn deadlock() -> Error {
    Error::new(SqlState::DEADLOCK_DETECTED, "deadlock detected")
        .with_detail("Transactions wait for each other's rows.")
        .with_hint("Run the transaction again. Change rows in the same order everywhere.")
}
