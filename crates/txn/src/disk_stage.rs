//! The disk stage: one thread that makes groups durable, publishes them and acknowledges them.
//!
//! It takes all groups that are ready, writes them with one call and syncs once (group commit).
//! Only then it publishes and acknowledges them: durable, then visible, then acknowledged.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use thalweg_env::Clock;
use thalweg_log::{LogWriter, RecordRef};
use thalweg_types::{Error, Lsn, Result, SqlState};

use crate::Durability;
use crate::engine::Shared;
use crate::log_segments::LogSegments;
use crate::pipeline_metrics::Counters;
use crate::published::{GroupEffects, Publisher};
use crate::record::{GROUP_RECORD, STAGED_RECORD};
use crate::stage::{Inlet, Stage};
use crate::stage_queues::{Receiver, Sender};
use crate::staging::{Closing, StagingArea};
use crate::storage_health::{Part, StorageHealth, StorageReason};
use crate::transaction_stage::Request;
use crate::waiter::Waiter;

/// Greatest number of bytes in one write, so that the first of many groups does not wait long.
const WRITE_BYTES_MAX: usize = 64 << 20;

/// Largest group, in bytes, that the calling thread writes itself. Larger ones go to the stage's
/// thread, so that other groups can be applied meanwhile.
const QUICK_BYTES_MAX: usize = 4 << 10;

pub(crate) enum DiskCommand {
    Group(PendingGroup),
    Stage(StagedRecord),
    /// Removes segments that hold only groups before this one.
    RemoveBefore(Lsn),
    /// Asks for a [probe](DiskStage::probe) of a log that failed.
    ProbeLog,
    /// Ends the failed state: sends every group that was refused back to the transaction stage, in
    /// order.
    Resume,
    Close(Sender<Result<()>>),
}

/// A bulk chunk on its way to the log.
pub(crate) struct StagedRecord {
    /// The stage's id, then the chunk.
    pub(crate) parts: Vec<Vec<u8>>,
    /// Set if the log refused the chunk, so that no commit can refer to it.
    pub(crate) lost: Arc<AtomicBool>,
}

/// A group that was applied and is not durable yet.
pub(crate) struct PendingGroup {
    pub(crate) lsn: Lsn,
    /// Empty for changes that are not logged.
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
    /// Groups that a failing log refused, and that the transaction stage will undo.
    refused: Vec<PendingGroup>,
    /// The error for which groups are being refused.
    failure: Option<Error>,
    storage: Arc<StorageHealth>,
    /// True if the log's last write failed.
    is_log_faulty: bool,
    /// The last group in the log, for records that are not groups.
    last_lsn: Lsn,
    log_bytes: Arc<AtomicU64>,
    segments: Arc<LogSegments>,
    /// Number of complete segments when they were last posted.
    posted_segments: usize,
    durable_lsn: Arc<AtomicU64>,
    clock: Arc<dyn Clock>,
    counters: Arc<Counters>,
}

/// Tells the transaction stage that the disk stage's thread ended, even by a panic. A transaction
/// stage that waits for refused groups would otherwise wait for ever.
pub(crate) struct Ended(pub(crate) Arc<Inlet<Request>>);

impl Drop for Ended {
    fn drop(&mut self) {
        // After a clean close the transaction stage has ended before.
        let _ = self.0.send(Request::DiskEnded);
    }
}

/// Commands of one round of the loop, in order of arrival.
#[derive(Default)]
struct Batch {
    groups: Vec<PendingGroup>,
    staged: Vec<StagedRecord>,
    bytes: usize,
    /// The command that ended the batch, executed after the write.
    last: Option<DiskCommand>,
}

impl Batch {
    /// Collects all commands that are ready, up to a limit, beginning with `first`.
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
        let mut stage = DiskStage {
            log,
            publisher: Arc::clone(&shared.publisher),
            staging: Arc::clone(&shared.staging),
            transactions: Arc::clone(&shared.requests),
            refused: Vec::new(),
            failure: None,
            storage: Arc::clone(&shared.storage),
            is_log_faulty: false,
            last_lsn,
            log_bytes: Arc::clone(&shared.log_bytes),
            segments: Arc::clone(&shared.segments),
            posted_segments: 0,
            durable_lsn: Arc::clone(&shared.durable_lsn),
            clock: Arc::clone(&shared.env.clock),
            counters: Arc::clone(&shared.counters),
        };
        stage.post_log_size();
        stage
    }

    /// The loop of the stage's thread.
    pub(crate) fn run(
        stage: &Stage<DiskStage, DiskCommand>,
        inbox: &Receiver<DiskCommand>,
        (staging, transactions): (Arc<StagingArea>, Arc<Inlet<Request>>),
    ) {
        let _ended = Ended(transactions);
        let _closing = Closing(staging);
        while let Ok(first) = inbox.recv() {
            if stage.work(|disk| disk.round(first, inbox)).is_none() {
                return;
            }
        }
    }

    /// Processes all commands that are ready. Returns their number, or `None` when the stage ends.
    pub(crate) fn round(
        &mut self,
        first: DiskCommand,
        inbox: &Receiver<DiskCommand>,
    ) -> Option<usize> {
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
                // The caller may have stopped waiting.
                let _ = reply.send(closed);
                return None;
            }
            Some(command) => self.carry_out(command),
            None => {}
        }
        Some(commands)
    }

    /// True if a command is a small group that needs no sync nor anything else that takes long.
    pub(crate) fn is_quick(&self, command: &DiskCommand) -> bool {
        let DiskCommand::Group(group) = command else { return false };
        let Some(log) = &self.log else { return true };
        let bytes = total(&group.payload);
        group.durability != Durability::Fsync
            && bytes <= QUICK_BYTES_MAX
            && (bytes == 0 || log.is_prepared_for(bytes))
    }

    /// Processes a quick group on the calling thread.
    pub(crate) fn do_here(&mut self, command: DiskCommand) {
        let DiskCommand::Group(group) = command else { unreachable!("groups alone are quick") };
        self.counters.disk.took(1);
        let bytes = total(&group.payload);
        self.write(Batch { groups: vec![group], bytes, ..Batch::default() });
    }

    /// Writes, syncs, publishes and acknowledges the batch, or refuses all of its groups.
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
        } else if self.is_log_faulty && bytes > 0 {
            self.note_log_works();
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
        // Staged chunks precede the groups that may refer to them.
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
        self.post_log_size();
        Ok(())
    }

    /// Tells other threads the log's size, and its complete segments if their number changed.
    fn post_log_size(&mut self) {
        let Some(log) = &self.log else { return };
        self.log_bytes.store(log.bytes_on_disk(), Ordering::Relaxed);
        let complete = log.complete_segments();
        if complete.len() != self.posted_segments {
            self.posted_segments = complete.len();
            self.segments.post(complete.collect());
        }
    }

    fn sync(&mut self, wanted: bool) -> Result<()> {
        match &mut self.log {
            Some(log) if wanted => {
                let began = self.clock.monotonic();
                log.sync()?;
                self.counters.synced(self.clock.monotonic() - began);
                self.durable_lsn.store(self.last_lsn.0, Ordering::Release);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Reports that the log failed. Returns whether it takes no more writes until a restart.
    fn note_log_failed(&mut self, error: &Error) -> bool {
        let Some(log) = &self.log else { return false };
        let permanent = log.is_poisoned();
        if log.is_directory_gone() {
            self.storage.failed(StorageReason::DirectoryGone, error, true);
        } else {
            self.is_log_faulty = true;
            self.storage.failed(StorageReason::of_log(error), error, permanent);
        }
        permanent
    }

    fn note_log_works(&mut self) {
        self.is_log_faulty = false;
        self.storage.works(Part::Log);
    }

    /// Probes a log that failed, and ends its fault if it takes writes again. Without the probe the
    /// fault could last for ever, because clients write nothing while the server is not ready.
    fn probe(&mut self) {
        if !self.is_log_faulty || self.failure.is_some() {
            return;
        }
        let Some(log) = &mut self.log else { return };
        match log.probe() {
            Ok(()) => self.note_log_works(),
            Err(error) => drop(self.note_log_failed(&error)),
        }
    }

    fn conclude(&mut self, groups: Vec<PendingGroup>, written: Result<()>) {
        if let Err(error) = written {
            let permanent = self.note_log_failed(&error);
            self.failure = Some(refused(&error, permanent));
            self.refused.extend(groups);
            // Without a transaction stage nothing is left to undo.
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

    /// Reports the failure to the writers of refused groups when no stage is left to undo them.
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
                    // A segment that cannot be removed costs only space: the next checkpoint tries
                    // again.
                    let _ = log.remove_before(lsn);
                    self.post_log_size();
                }
            }
            DiskCommand::ProbeLog => self.probe(),
            DiskCommand::Resume => {
                self.failure = None;
                let groups = std::mem::take(&mut self.refused);
                // The transaction stage asked for the groups, and ends only on a request that it
                // processes after them.
                let _ = self.transactions.send(Request::Refused(groups));
            }
            DiskCommand::Group(_) | DiskCommand::Stage(_) | DiskCommand::Close(_) => {
                unreachable!("groups and chunks are gathered, and closing ends the loop")
            }
        }
    }
}

/// The error of a group that was refused because an earlier one failed or the log failed
/// permanently.
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
