//! The disk stage: one thread that makes groups durable, publishes them and acknowledges them.
//!
//! It takes everything that is ready, writes it with one call, syncs once, and only then lets
//! anybody know: durable, then visible, then acknowledged.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use thalweg_env::Clock;
use thalweg_log::{LogWriter, RecordRef};
use thalweg_types::{Error, Lsn, Result, SqlState};

use crate::Durability;
use crate::engine::Shared;
use crate::figures::Counters;
use crate::hand_over::{Receiver, Sender};
use crate::published::{GroupEffects, Publisher};
use crate::record::{GROUP_RECORD, STAGED_RECORD};
use crate::stage::{Inlet, Stage};
use crate::staging::{Closing, StagingArea};
use crate::transaction_stage::Request;
use crate::waiter::Waiter;

/// How many bytes of groups one write takes at most, so that the first of many is not kept waiting.
const WRITE_BYTES_MAX: usize = 64 << 20;

/// How many bytes of a group are written by the one who brings it. Of more, others can be applied
/// meanwhile.
const QUICK_BYTES_MAX: usize = 4 << 10;

pub(crate) enum DiskCommand {
    Group(PendingGroup),
    Stage(StagedRecord),
    /// Removes segments that hold only groups before this one.
    RemoveBefore(Lsn),
    /// Tells how many bytes that would free.
    BytesBefore(Lsn, Sender<u64>),
    /// Ends the state of failure: hands back every group that was refused, in order.
    Resume(Sender<Vec<PendingGroup>>),
    Close(Sender<Result<()>>),
}

/// A bulk chunk on its way to the log.
pub(crate) struct StagedRecord {
    /// The stage's id, then the chunk.
    pub(crate) parts: Vec<Vec<u8>>,
    /// Set when the log refused it, so that no commit can name it.
    pub(crate) lost: Arc<AtomicBool>,
}

/// A group that was applied, and waits to be durable.
pub(crate) struct PendingGroup {
    pub(crate) lsn: Lsn,
    /// Empty for changes that the log need not know.
    pub(crate) payload: Vec<Vec<u8>>,
    pub(crate) durability: Durability,
    pub(crate) effects: GroupEffects,
    pub(crate) acknowledge: Waiter,
}

pub(crate) struct DiskStage {
    /// `None` for a database that lives in memory only.
    log: Option<LogWriter>,
    publisher: Arc<Publisher>,
    staging: Arc<StagingArea>,
    transactions: Arc<Inlet<Request>>,
    /// Groups that a failing log refused; they wait to be undone.
    refused: Vec<PendingGroup>,
    /// Why groups are refused at the moment.
    failure: Option<Error>,
    /// The last group in the log, for records that are not groups.
    last_lsn: Lsn,
    log_bytes: Arc<AtomicU64>,
    clock: Arc<dyn Clock>,
    counters: Arc<Counters>,
}

/// What one round of the loop gathered, in order of arrival.
#[derive(Default)]
struct Batch {
    groups: Vec<PendingGroup>,
    staged: Vec<StagedRecord>,
    bytes: usize,
    /// The command that ended the gathering, to be carried out after the write.
    last: Option<DiskCommand>,
}

impl Batch {
    /// All that is ready, up to a limit, beginning with what came first.
    fn gather(first: DiskCommand, inbox: &Receiver<DiskCommand>) -> Batch {
        let mut batch = Batch::default();
        let mut next = Some(first);
        while let Some(command) = next {
            match command {
                DiskCommand::Group(group) => {
                    batch.bytes += total(&group.payload);
                    batch.groups.push(group);
                }
                DiskCommand::Stage(staged) => {
                    batch.bytes += total(&staged.parts);
                    batch.staged.push(staged);
                }
                other => {
                    batch.last = Some(other);
                    break;
                }
            }
            next = if batch.bytes < WRITE_BYTES_MAX { inbox.try_recv().ok() } else { None };
        }
        batch
    }

    fn commands(&self) -> usize {
        self.groups.len() + self.staged.len() + usize::from(self.last.is_some())
    }
}

impl DiskStage {
    pub(crate) fn new(shared: &Shared, log: Option<LogWriter>, last_lsn: Lsn) -> DiskStage {
        DiskStage {
            log,
            publisher: Arc::clone(&shared.publisher),
            staging: Arc::clone(&shared.staging),
            transactions: Arc::clone(&shared.requests),
            refused: Vec::new(),
            failure: None,
            last_lsn,
            log_bytes: Arc::clone(&shared.log_bytes),
            clock: Arc::clone(&shared.env.clock),
            counters: Arc::clone(&shared.counters),
        }
    }

    /// What the stage's thread does.
    pub(crate) fn run(
        stage: &Stage<DiskStage, DiskCommand>,
        inbox: &Receiver<DiskCommand>,
        staging: Arc<StagingArea>,
    ) {
        let _closing = Closing(staging);
        while let Ok(first) = inbox.recv() {
            if stage.work(|disk| disk.round(first, inbox)).is_none() {
                return;
            }
        }
    }

    /// Takes all that is ready; returns how many commands that were, or nothing at the end.
    fn round(&mut self, first: DiskCommand, inbox: &Receiver<DiskCommand>) -> Option<usize> {
        let batch = Batch::gather(first, inbox);
        let commands = batch.commands();
        self.counters.disk.took(batch.groups.len());
        let staged_bytes = batch.staged.iter().map(|staged| total(&staged.parts)).sum();
        let last = self.write(batch);
        self.staging.release(staged_bytes);
        match last {
            Some(DiskCommand::Close(reply)) => {
                self.give_up_refused();
                let closed = self.log.take().map_or(Ok(()), LogWriter::close);
                // The one who asked may have given up waiting.
                let _ = reply.send(closed);
                return None;
            }
            Some(command) => self.carry_out(command),
            None => {}
        }
        Some(commands)
    }

    /// Whether a command is a group that takes no sync, nor anything else that takes long.
    pub(crate) fn is_quick(&self, command: &DiskCommand) -> bool {
        let DiskCommand::Group(group) = command else { return false };
        let Some(log) = &self.log else { return true };
        let bytes = total(&group.payload);
        group.durability != Durability::Fsync
            && bytes <= QUICK_BYTES_MAX
            && (bytes == 0 || log.is_prepared_for(bytes))
    }

    /// Concludes a group that is quick.
    pub(crate) fn do_here(&mut self, command: DiskCommand) {
        let DiskCommand::Group(group) = command else { unreachable!("groups alone are quick") };
        self.counters.disk.took(1);
        let bytes = total(&group.payload);
        self.write(Batch { groups: vec![group], bytes, ..Batch::default() });
    }

    /// Writes, syncs, publishes and acknowledges; or refuses all groups of the batch.
    fn write(&mut self, batch: Batch) -> Option<DiskCommand> {
        let Batch { groups, staged, bytes, last } = batch;
        if self.failure.is_some() {
            lose(&staged);
            self.refused.extend(groups);
            return last;
        }
        let must_sync = groups.iter().any(|group| group.durability == Durability::Fsync);
        let written = self.append(&groups, &staged, bytes).and_then(|()| self.sync(must_sync));
        if written.is_err() {
            lose(&staged);
        }
        self.conclude(groups, written);
        if let Some(log) = &mut self.log {
            log.vouch();
        }
        last
    }

    fn append(
        &mut self,
        groups: &[PendingGroup],
        staged: &[StagedRecord],
        bytes: usize,
    ) -> Result<()> {
        let Some(log) = &mut self.log else { return Ok(()) };
        let staged_parts: Vec<Vec<&[u8]>> = staged.iter().map(|s| slices(&s.parts)).collect();
        let group_parts: Vec<Vec<&[u8]>> = groups.iter().map(|g| slices(&g.payload)).collect();
        // Staged chunks come before the groups that may name them.
        let staged_records = staged_parts.iter().map(|parts| RecordRef {
            lsn: self.last_lsn,
            kind: STAGED_RECORD,
            payload: parts,
        });
        let group_records =
            groups.iter().zip(&group_parts).filter(|(group, _)| !group.payload.is_empty()).map(
                |(group, parts)| RecordRef { lsn: group.lsn, kind: GROUP_RECORD, payload: parts },
            );
        let records: Vec<_> = staged_records.chain(group_records).collect();
        let Some(last) = records.last().map(|record| record.lsn) else { return Ok(()) };
        log.append(&records)?;
        self.counters.wrote(bytes);
        self.last_lsn = last;
        self.log_bytes.store(log.bytes_on_disk(), Ordering::Relaxed);
        Ok(())
    }

    fn sync(&mut self, wanted: bool) -> Result<()> {
        match &mut self.log {
            Some(log) if wanted => {
                let began = self.clock.monotonic();
                log.sync()?;
                self.counters.synced(self.clock.monotonic() - began);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn conclude(&mut self, groups: Vec<PendingGroup>, written: Result<()>) {
        if let Err(error) = written {
            let permanent = self.log.as_ref().is_some_and(LogWriter::is_poisoned);
            self.failure = Some(refused(&error, permanent));
            self.refused.extend(groups);
            // Without a transaction stage there is nobody left to undo anything for.
            let _ = self.transactions.send(Request::DiskFailed { error, permanent });
            return;
        }
        let Some(lsn) = groups.last().map(|group| group.lsn) else { return };
        let (waiting, effects): (Vec<_>, Vec<_>) =
            groups.into_iter().map(|group| ((group.acknowledge, group.lsn), group.effects)).unzip();
        let leftovers = self.publisher.publish(lsn, effects);
        for (acknowledge, lsn) in waiting {
            acknowledge.tell(Ok(lsn));
        }
        drop(leftovers);
    }

    /// Tells those whose group was refused when there is nobody left to undo it.
    fn give_up_refused(&mut self) {
        let Some(error) = self.failure.take() else { return };
        for group in self.refused.drain(..) {
            group.acknowledge.tell(Err(error.clone()));
        }
    }

    fn carry_out(&mut self, command: DiskCommand) {
        match command {
            DiskCommand::RemoveBefore(lsn) => {
                if let Some(log) = &mut self.log {
                    // A segment that cannot be removed costs space, not correctness: the next
                    // checkpoint tries again.
                    let _ = log.remove_before(lsn);
                    self.log_bytes.store(log.bytes_on_disk(), Ordering::Relaxed);
                }
            }
            DiskCommand::BytesBefore(lsn, reply) => {
                let bytes = self.log.as_ref().map_or(0, |log| log.bytes_before(lsn));
                let _ = reply.send(bytes);
            }
            DiskCommand::Resume(reply) => {
                self.failure = None;
                let _ = reply.send(std::mem::take(&mut self.refused));
            }
            DiskCommand::Group(_) | DiskCommand::Stage(_) | DiskCommand::Close(_) => {
                unreachable!("groups and chunks are gathered, and closing ends the loop")
            }
        }
    }
}

/// The error for a group that was refused because of one before it, or because the log is gone.
pub(crate) fn refused(error: &Error, permanent: bool) -> Error {
    if permanent {
        Error::new(SqlState::IO_ERROR, "the log failed: this database accepts no more writes")
            .with_detail(error.message().to_owned())
            .with_hint("Reads go on. Repair or replace the disk, then start again.")
    } else {
        error.clone()
    }
}

fn lose(staged: &[StagedRecord]) {
    for record in staged {
        record.lost.store(true, Ordering::Release);
    }
}

fn slices(parts: &[Vec<u8>]) -> Vec<&[u8]> {
    parts.iter().map(Vec::as_slice).collect()
}

fn total(parts: &[Vec<u8>]) -> usize {
    parts.iter().map(Vec::len).sum()
}
