//! The transaction stage: one thread that owns every table's writing half.
//!
//! It checks and applies write sets in the order of arrival, and passes each on to the disk stage
//! without waiting. If the log rejects a group, this stage undoes it and every group queued behind
//! it, newest first.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use thalweg_env::MemoryWatch;
use thalweg_store::{Built, ClosedChunk, Effect, Table};
use thalweg_types::{Error, Lsn, Result, TableId};

use crate::Durability;
use crate::apply;
use crate::catalog::{Catalog, CatalogChange};
use crate::disk_stage::{DiskCommand, DiskStage, PendingGroup, refused};
use crate::foreign_keys::RecentReferences;
use crate::keyed::{self, RowGroup, Written};
use crate::lock_stage::Parked;
use crate::maintenance::Chore;
use crate::memory_budget;
use crate::parallel::Threads;
use crate::pipeline_metrics::Counters;
use crate::published::{GroupEffects, Step};
use crate::record::{GroupEncoder, bitmap_bytes};
use crate::row_locks::{LockOutcome, LockOwner, LockRequest, RowLocks};
use crate::sequence::SequenceChange;
use crate::stage::Stage;
use crate::stage_queues::{Receiver, Sender};
use crate::waiter::Waiter;
use crate::write_set::WriteSet;

pub(crate) enum Request {
    Commit {
        write_set: Box<WriteSet>,
        durability: Durability,
        acknowledge: Waiter,
    },
    /// Finds out whether a write set can be applied.
    Check {
        write_set: Box<WriteSet>,
        acknowledge: Waiter,
    },
    /// Drops a namespace with everything in it.
    DropNamespace(String),
    Rows {
        group: RowGroup,
        durability: Durability,
        acknowledge: Waiter<Written>,
    },
    /// Takes row locks for a transaction block.
    Lock {
        request: LockRequest,
        reply: Waiter<LockOutcome>,
    },
    /// Releases an owner's row locks except the first ones.
    Unlock {
        owner: LockOwner,
        keep: usize,
    },
    /// Ends an owner's wait for a row lock.
    GiveUp(LockOwner),
    /// Asks if an owner waits for a row lock.
    IsParked(LockOwner, Sender<bool>),
    /// Writes the position of a sequence.
    Sequence {
        change: SequenceChange,
        durability: Durability,
        acknowledge: Waiter,
    },
    /// Replaces a full chunk by its closed form, with the same rows and number.
    Swap {
        table: TableId,
        number: u32,
        chunk: Arc<ClosedChunk>,
    },
    Compact {
        table: TableId,
        built: Built,
    },
    /// Sends full chunks to be closed, even if no further group arrives.
    CloseFull,
    RemoveBefore(Lsn),
    /// Finds out whether a log that failed takes writes again.
    ProbeLog,
    /// A deliberate bug for tests: foreign keys are not checked from now on.
    SkipForeignKeys,
    /// The log refuses groups until this stage has undone those that it refused.
    DiskFailed {
        error: Error,
        permanent: bool,
    },
    /// The groups that the log refused, in the order of their application.
    Refused(Vec<PendingGroup>),
    /// The disk stage's thread has ended.
    DiskEnded,
    Close(Sender<Result<()>>),
}

impl Request {
    fn is_group(&self) -> bool {
        matches!(self, Request::Commit { .. } | Request::Rows { .. })
    }
}

/// A table's writing half.
pub(crate) struct Writer {
    pub(crate) table: Table,
    /// The last group that changed the table's rows or columns.
    pub(crate) changed: Lsn,
}

impl Writer {
    /// Sends full chunks to the maintenance thread, which closes them.
    fn hand_over_full_chunks(&mut self, id: TableId, chores: &Sender<Chore>) {
        for full in self.table.take_full() {
            // Without maintenance the chunk stays open: larger, but readable.
            let _ = chores.send(Chore::Close { table: id, full });
        }
    }
}

/// Greatest number of rows that the calling thread applies. Larger groups go to the stage's thread,
/// so that their callers can read the next group meanwhile.
const QUICK_ROWS_MAX: usize = 16;

/// A roll-back that waits for the refused groups.
pub(crate) struct RollBack {
    /// The error of the refused groups' writers.
    error: Error,
    permanent: bool,
    /// Requests that arrived meanwhile, in order. They must not see the changes that will be
    /// undone.
    deferred: Vec<Request>,
}

pub(crate) struct TransactionStage {
    pub(crate) tables: HashMap<TableId, Writer>,
    pub(crate) catalog: Arc<Catalog>,
    /// The last group that was applied.
    pub(crate) lsn: Lsn,
    pub(crate) disk: Arc<Stage<DiskStage, DiskCommand>>,
    pub(crate) chores: Sender<Chore>,
    /// Threads for work that is too long for one, such as the keys of bulk loads.
    pub(crate) threads: Threads,
    pub(crate) memory: Option<Arc<MemoryWatch>>,
    /// The error for which no more writes are accepted.
    pub(crate) stopped: Option<Error>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) row_locks: RowLocks,
    /// Requests that wait for row locks, in the order of arrival.
    pub(crate) parked: Vec<Parked>,
    pub(crate) references: RecentReferences,
    pub(crate) roll_back: Option<RollBack>,
}

impl TransactionStage {
    /// The loop of the stage's thread.
    pub(crate) fn run(stage: &Stage<TransactionStage, Request>, inbox: &Receiver<Request>) {
        while let Ok(first) = inbox.recv() {
            if stage.work(|transactions| transactions.round(first, inbox)).is_none() {
                return;
            }
        }
    }

    /// Processes all requests that are ready. Returns their number, or `None` when the stage ends.
    pub(crate) fn round(&mut self, first: Request, inbox: &Receiver<Request>) -> Option<usize> {
        let (mut next, mut requests, mut groups) = (Some(first), 0, 0);
        while let Some(request) = next {
            requests += 1;
            groups += usize::from(request.is_group());
            if self.carry_out(request).is_break() {
                return None;
            }
            next = inbox.try_recv().ok();
        }
        self.counters.transactions.took(groups);
        Some(requests)
    }

    /// True if processing a request takes no longer than waking the stage's thread.
    pub(crate) fn is_quick(&self, request: &Request) -> bool {
        if self.roll_back.is_some() {
            return false;
        }
        match request {
            Request::Rows { group, .. } => group.row_count() <= QUICK_ROWS_MAX,
            Request::Lock { request, .. } => request.row_count() <= QUICK_ROWS_MAX,
            Request::Unlock { .. } => self.parked.iter().all(Parked::is_quick),
            _ => false,
        }
    }

    /// Processes a quick request on the calling thread.
    pub(crate) fn do_here(&mut self, request: Request) {
        self.counters.transactions.took(usize::from(request.is_group()));
        // Only a request to close breaks the loop, and that is not quick.
        let _ = self.carry_out(request);
    }

    /// Processes a request, or defers it to the end of a roll-back. Breaks if the stage ends.
    pub(crate) fn carry_out(&mut self, request: Request) -> ControlFlow<()> {
        match request {
            Request::Refused(groups) => self.finish_roll_back(groups),
            Request::DiskEnded => ControlFlow::Break(()),
            request => match &mut self.roll_back {
                Some(roll_back) => {
                    roll_back.deferred.push(request);
                    ControlFlow::Continue(())
                }
                None => self.process(request),
            },
        }
    }

    fn process(&mut self, request: Request) -> ControlFlow<()> {
        match request {
            Request::Commit { write_set, durability, acknowledge } => {
                self.commit(write_set, durability, acknowledge);
            }
            Request::Check { write_set, acknowledge } => {
                acknowledge.tell(self.check(*write_set));
            }
            Request::DropNamespace(namespace) => self.drop_namespace(namespace),
            Request::Rows { group, durability, acknowledge } => {
                self.write_rows(group, durability, acknowledge);
            }
            Request::Lock { request, reply } => self.lock_rows(request, reply),
            Request::Unlock { owner, keep } => self.unlock_rows(owner, keep),
            Request::GiveUp(owner) => self.give_up(owner),
            // The caller may have stopped waiting.
            Request::IsParked(owner, reply) => drop(reply.send(self.is_parked(owner))),
            Request::Sequence { change, durability, acknowledge } => {
                self.write_position(change, durability, acknowledge);
            }
            Request::Swap { table, number, chunk } => self.swap(table, number, chunk),
            Request::Compact { table, built } => self.compact(table, built),
            Request::CloseFull => {
                let mut tables: Vec<_> = self.tables.iter_mut().collect();
                tables.sort_unstable_by_key(|(id, _)| **id);
                for (id, writer) in tables {
                    writer.hand_over_full_chunks(*id, &self.chores);
                }
            }
            Request::RemoveBefore(lsn) => self.send(DiskCommand::RemoveBefore(lsn)),
            Request::SkipForeignKeys => self.references.skips_checks = true,
            Request::ProbeLog => self.send(DiskCommand::ProbeLog),
            Request::DiskFailed { error, permanent } => self.begin_roll_back(&error, permanent),
            Request::Close(reply) => {
                self.write_positions();
                self.send(DiskCommand::Close(reply));
                return ControlFlow::Break(());
            }
            Request::Refused(_) | Request::DiskEnded => {
                unreachable!("answers of the disk stage are never deferred")
            }
        }
        ControlFlow::Continue(())
    }

    fn commit(&mut self, write_set: Box<WriteSet>, durability: Durability, acknowledge: Waiter) {
        if let Some(error) = &self.stopped {
            return acknowledge.tell(Err(error.clone()));
        }
        if !write_set.is_checked
            && write_set.adds_rows_alone()
            && let Err(error) = self.check_memory()
        {
            return acknowledge.tell(Err(error));
        }
        if !self.row_locks.is_empty()
            && let Some(blocker) = self.blocker_of(&write_set)
        {
            let owner = write_set.owner;
            let request = Request::Commit { write_set, durability, acknowledge };
            return self.park(owner, blocker, request);
        }
        let lsn = self.lsn.next();
        let mut effects = GroupEffects::default();
        let mut encoder = GroupEncoder::default();
        let applied = apply::apply(self, *write_set, lsn, &mut effects, &mut encoder);
        if let Err(error) = applied {
            self.undo(effects);
            return acknowledge.tell(Err(error));
        }
        self.hand_on(lsn, effects, encoder, durability, acknowledge);
    }

    /// Applies a write set and undoes it.
    fn check(&mut self, write_set: WriteSet) -> Result<Lsn> {
        if let Some(error) = &self.stopped {
            return Err(error.clone());
        }
        if write_set.adds_rows_alone() {
            self.check_memory()?;
        }
        let (mut effects, mut encoder) = (GroupEffects::default(), GroupEncoder::default());
        let next = self.lsn.next();
        let applied = apply::apply(self, write_set, next, &mut effects, &mut encoder);
        self.undo(effects);
        applied.map(|()| self.lsn)
    }

    fn drop_namespace(&mut self, namespace: String) {
        if !self.catalog.has_namespace(&namespace) {
            return;
        }
        let mut catalog = self.catalog.removal_of_all(&namespace);
        catalog.push(CatalogChange::DropNamespace { name: namespace });
        let write_set = WriteSet { catalog, ..WriteSet::default() };
        self.commit(Box::new(write_set), Durability::None, Waiter::without_waiter());
    }

    fn write_rows(&mut self, group: RowGroup, durability: Durability, waiting: Waiter<Written>) {
        if let Some(error) = &self.stopped {
            return waiting.tell(Err(error.clone()));
        }
        if group.adds_rows()
            && let Err(error) = self.check_memory()
        {
            return waiting.tell(Err(error));
        }
        if !self.row_locks.is_empty()
            && let Some(blocker) = self.blocker_of_rows(&group)
        {
            let request = Request::Rows { group, durability, acknowledge: waiting };
            return self.park(None, blocker, request);
        }
        let mut effects = GroupEffects::default();
        let mut encoder = GroupEncoder::default();
        let (rows, failures) = keyed::apply(self, &group, &mut effects, &mut encoder);
        let on_result = move |result: Result<Lsn>| {
            waiting.tell(result.map(|lsn| Written { lsn, rows, failures }));
        };
        let acknowledge = Waiter::new(Box::new(on_result));
        self.hand_on(self.lsn.next(), effects, encoder, durability, acknowledge);
    }

    /// Writes a position of a sequence. A sequence that was dropped or replaced meanwhile needs no
    /// record.
    fn write_position(&mut self, change: SequenceChange, durability: Durability, waiter: Waiter) {
        if let Some(error) = &self.stopped {
            return waiter.tell(Err(error.clone()));
        }
        let current = self.catalog.sequence(change.id);
        let Some((_, _, sequence)) =
            current.filter(|(_, _, current)| Arc::ptr_eq(&current.counter, &change.counter))
        else {
            return waiter.tell(Ok(self.lsn));
        };
        let (position, before) = change.write(&sequence.options);
        let mut encoder = GroupEncoder::default();
        encoder.sequence(change.id, position);
        let steps = vec![Step::Counted(change.counter, before)];
        let effects = GroupEffects { steps, ..GroupEffects::default() };
        self.hand_on(self.lsn.next(), effects, encoder, durability, waiter);
    }

    /// Writes the positions of all sequences that have numbers reserved, so that a database that
    /// was closed goes on without a gap.
    fn write_positions(&mut self) {
        if self.stopped.is_some() {
            return;
        }
        let mut encoder = GroupEncoder::default();
        for (_, _, sequence) in self.catalog.sequences() {
            if let Some(position) = sequence.counter.unlogged() {
                encoder.sequence(sequence.id, position);
            }
        }
        let waiter = Waiter::without_waiter();
        let effects = GroupEffects::default();
        self.hand_on(self.lsn.next(), effects, encoder, Durability::Write, waiter);
    }

    /// Checks that there is memory for further rows. The size of a group's rows is known only once
    /// they are applied, so it counts for the next group.
    fn check_memory(&self) -> Result<()> {
        memory_budget::reserve(self.memory.as_deref(), 0)
    }

    /// Sends an applied group to the disk stage.
    fn hand_on(
        &mut self,
        lsn: Lsn,
        mut effects: GroupEffects,
        encoder: GroupEncoder,
        durability: Durability,
        acknowledge: Waiter,
    ) {
        let payload = encoder.finish();
        if let Some(memory) = &self.memory {
            memory.took(payload.iter().map(Vec::len).sum());
        }
        // A group that is not logged consumes no group number.
        if !payload.is_empty() {
            self.lsn = lsn;
        }
        self.note_changes(&mut effects);
        for step in &effects.steps {
            if let Step::Changed(id, _) = step
                && let Some(writer) = self.tables.get_mut(id)
            {
                writer.hand_over_full_chunks(*id, &self.chores);
            }
        }
        self.send(DiskCommand::Group(PendingGroup {
            lsn: self.lsn,
            payload,
            durability,
            effects,
            acknowledge,
        }));
    }

    /// Records the tables that the group just applied has changed.
    fn note_changes(&mut self, effects: &mut GroupEffects) {
        for step in &effects.steps {
            if let Step::Changed(id, effect) = step
                && !effect.is_empty()
                && let Some(writer) = self.tables.get_mut(id)
            {
                let before = std::mem::replace(&mut writer.changed, self.lsn);
                effects.changed.push((*id, before));
            }
        }
    }

    fn swap(&mut self, id: TableId, number: u32, chunk: Arc<ClosedChunk>) {
        let Some(Writer { table, .. }) = self.tables.get_mut(&id) else { return };
        let mut effect = Effect::default();
        if table.swap(number, chunk, &mut effect) {
            self.publish_unlogged(id, effect);
        }
    }

    fn compact(&mut self, id: TableId, built: Built) {
        let Some(Writer { table, .. }) = self.tables.get_mut(&id) else { return };
        // A lock is held on a row's id, which compaction would change.
        if self.stopped.is_some() || self.row_locks.has_table(id) {
            return;
        }
        let sources: Vec<(u32, Vec<u8>)> =
            built.sources.iter().map(|(chunk, taken)| (*chunk, bitmap_bytes(taken))).collect();
        let mut effect = Effect::default();
        // If this fails, the table was truncated or altered, or a source was compacted, since the
        // plan was made.
        let Ok(number) = table.apply_compaction(built, &mut effect) else {
            table.undo(effect);
            return;
        };
        let mut encoder = GroupEncoder::default();
        encoder.compact(id, number, &sources);
        self.lsn = self.lsn.next();
        self.send(DiskCommand::Group(PendingGroup {
            lsn: self.lsn,
            payload: encoder.finish(),
            // A lost compaction loses no data, and the next synced group in the log syncs it too.
            durability: Durability::Write,
            effects: GroupEffects {
                steps: vec![Step::Changed(id, effect)],
                ..GroupEffects::default()
            },
            acknowledge: Waiter::without_waiter(),
        }));
    }

    fn publish_unlogged(&mut self, id: TableId, effect: Effect) {
        self.send(DiskCommand::Group(PendingGroup {
            lsn: self.lsn,
            payload: Vec::new(),
            durability: Durability::None,
            effects: GroupEffects {
                steps: vec![Step::Changed(id, effect)],
                ..GroupEffects::default()
            },
            acknowledge: Waiter::without_waiter(),
        }));
    }

    /// Asks for the groups that the log refused. This stage does not wait for them: both stages may
    /// share one thread.
    fn begin_roll_back(&mut self, error: &Error, permanent: bool) {
        let error = refused(error, permanent);
        self.roll_back = Some(RollBack { error, permanent, deferred: Vec::new() });
        self.send(DiskCommand::Resume);
    }

    /// Undoes all groups that the log refused, reports the error to their writers, and processes
    /// the requests that arrived meanwhile.
    fn finish_roll_back(&mut self, groups: Vec<PendingGroup>) -> ControlFlow<()> {
        let roll_back = self.roll_back.take().expect("groups come back once for each roll-back");
        let RollBack { error, permanent, deferred } = roll_back;
        if permanent {
            self.stopped = Some(error.clone());
        }
        let mut waiting = Vec::with_capacity(groups.len());
        for group in groups.into_iter().rev() {
            if !group.payload.is_empty() {
                self.lsn = Lsn(group.lsn.0 - 1);
            }
            self.undo(group.effects);
            waiting.push(group.acknowledge);
        }
        self.references.roll_back_to(self.lsn);
        for acknowledge in waiting.into_iter().rev() {
            acknowledge.tell(Err(error.clone()));
        }
        deferred.into_iter().try_for_each(|request| self.carry_out(request))
    }

    /// Undoes a group's changes to the writing halves, newest first.
    pub(crate) fn undo(&mut self, effects: GroupEffects) {
        if let Some((before, _)) = effects.catalog {
            self.catalog = before;
        }
        for (id, changed) in effects.changed.into_iter().rev() {
            self.tables.get_mut(&id).expect("a changed table is there").changed = changed;
        }
        for step in effects.steps.into_iter().rev() {
            match step {
                Step::Changed(id, effect) => {
                    let writer = self.tables.get_mut(&id).expect("a changed table is there");
                    writer.table.undo(effect);
                }
                Step::Created(id, _) => {
                    self.tables.remove(&id);
                }
                Step::Dropped(id, writer) => {
                    self.tables.insert(id, *writer);
                }
                Step::Counted(counter, before) => counter.undo(before),
            }
        }
    }

    pub(crate) fn send(&self, command: DiskCommand) {
        if let DiskCommand::Group(_) = &command {
            self.counters.disk.queued();
        }
        let Err(command) = self.disk.do_here(command, DiskStage::is_quick, DiskStage::do_here)
        else {
            return;
        };
        let sent = self.disk.send(command);
        // The disk stage ends only after a request of this stage.
        assert!(sent.is_ok(), "the disk stage outlives the transaction stage");
    }
}
