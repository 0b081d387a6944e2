//! Background work: it closes full chunks, rewrites chunks that are mostly dead, sorts chunks for
//! indexes, shortens the log by checkpoints, and returns memory that a load left over to the
//! system.
//!
//! The thread builds from snapshots and sends results to the transaction stage. It changes no
//! shared state itself.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use thalweg_store::{CompactionPolicy, FullChunk, ThisThread, plan_compaction};
use thalweg_types::{Lsn, Result, TableId};

use crate::checkpoint;
use crate::engine::Shared;
use crate::stage_queues::{Receiver, RecvTimeoutError, Sender};
use crate::storage_health::{Part, StorageReason};
use crate::transaction_stage::Request;

/// Time that the thread waits for a chore before it looks for work by itself. It doubles each time
/// that nothing is new, up to the maximum.
const LOOK_AROUND: Duration = Duration::from_millis(100);
const LOOK_AROUND_MAX: Duration = Duration::from_millis(3_200);

/// Smallest change of the tables' size, in bytes, after which spare memory is returned.
const SPARE_BYTES_MIN: usize = 16 << 20;

/// Interval at which head records are synced while groups arrive. After a power failure they are at
/// most so old.
const HEADS_SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// A database that changed gets a checkpoint after this time, unless its log is small beside the
/// checkpoint.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(300);

/// A checkpoint that failed is tried again after this time, then after twice as long each time, up
/// to [`CHECKPOINT_INTERVAL`].
const CHECKPOINT_RETRY: Duration = Duration::from_secs(10);

/// Lower bound of the log's size in that comparison, so that small databases get checkpoints too.
const SMALL_LOG_BYTES: u64 = 8 << 20;

pub(crate) enum Chore {
    Close { table: TableId, full: FullChunk },
    Checkpoint(Sender<Result<Lsn>>),
    LookAround(Sender<()>),
    Stop,
}

pub(crate) struct Maintenance {
    shared: Arc<Shared>,
    inbox: Receiver<Chore>,
    /// The last published group as of the previous look around.
    seen: Lsn,
    /// True if nothing was published between the last two looks around.
    rests: bool,
    /// Size of the tables when spare memory was last returned.
    settled_bytes: usize,
    /// When the head records were last synced.
    heads_synced: Duration,
    /// When the thread last checked the checkpoint's age.
    checkpoint_looked: Duration,
    /// The last checkpoint failed.
    checkpoint_retry: Option<Retry>,
}

/// When something that failed is tried again, and how long the thread waited for that.
#[derive(Clone, Copy)]
struct Retry {
    at: Duration,
    wait: Duration,
}

impl Maintenance {
    pub(crate) fn new(shared: Arc<Shared>, inbox: Receiver<Chore>, seen: Lsn) -> Maintenance {
        let now = shared.env.clock.monotonic();
        Maintenance {
            shared,
            inbox,
            seen,
            rests: false,
            settled_bytes: 0,
            heads_synced: now,
            checkpoint_looked: now,
            checkpoint_retry: None,
        }
    }

    pub(crate) fn run(mut self) {
        let mut wait = LOOK_AROUND;
        loop {
            match self.inbox.recv_timeout(wait) {
                Ok(Chore::Close { table, full }) => {
                    self.close(table, &full);
                    wait = LOOK_AROUND;
                }
                Ok(Chore::Checkpoint(reply)) => {
                    let _ = reply.send(self.write_checkpoint());
                }
                Ok(Chore::LookAround(reply)) => {
                    self.look_around();
                    // The caller may have stopped waiting.
                    let _ = reply.send(());
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.look_around();
                    wait = if self.rests { LOOK_AROUND_MAX.min(wait * 2) } else { LOOK_AROUND };
                }
                Ok(Chore::Stop) | Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn close(&mut self, table: TableId, full: &FullChunk) {
        let number = full.number;
        self.request(Request::Swap { table, number, chunk: full.build() });
        if number.is_multiple_of(16) {
            // Under constant load the inbox never runs empty, so look around here too.
            self.compact(CompactionPolicy::Busy);
            self.look_after_directory();
            self.checkpoint_if_due();
        }
    }

    pub(crate) fn look_around(&mut self) {
        let lsn = self.shared.publisher.snapshot().lsn();
        let idle = lsn == self.seen;
        self.seen = lsn;
        if !idle {
            self.request(Request::CloseFull);
        }
        if idle && !self.rests {
            self.give_back_memory();
        }
        if !(idle && self.rests) {
            self.prepare_indexes();
        }
        self.rests = idle;
        self.compact(if idle { CompactionPolicy::Idle } else { CompactionPolicy::Busy });
        self.look_after_directory();
        self.checkpoint_if_due();
        if self.checkpoint_is_old() || self.checkpoint_retry_is_due() {
            // The log holds everything; the next one may succeed.
            let _ = self.write_checkpoint();
        }
    }

    /// Writes a checkpoint. One that fails is tried again later.
    fn write_checkpoint(&mut self) -> Result<Lsn> {
        let written = checkpoint::write(&self.shared);
        self.checkpoint_retry = match written {
            Ok(_) => None,
            Err(_) => {
                let before = self.checkpoint_retry.map(|retry| retry.wait * 2);
                let wait = before.unwrap_or(CHECKPOINT_RETRY).min(CHECKPOINT_INTERVAL);
                Some(Retry { at: self.shared.env.clock.monotonic() + wait, wait })
            }
        };
        written
    }

    /// True if it is time to try a failed checkpoint again.
    fn checkpoint_retry_is_due(&self) -> bool {
        let now = self.shared.env.clock.monotonic();
        self.checkpoint_retry.is_some_and(|retry| retry.at <= now)
    }

    /// Checks that the directory still exists, syncs its head records, and asks for a probe of a
    /// log that may recover.
    fn look_after_directory(&mut self) {
        let Some(directory) = &self.shared.directory else { return };
        let storage = &self.shared.storage;
        directory.look_for_itself(&self.shared.env);
        if let Err(error) = directory.check_present() {
            storage.failed(StorageReason::DirectoryGone, &error, true);
        }
        let now = self.shared.env.clock.monotonic();
        if now.saturating_sub(self.heads_synced) >= HEADS_SYNC_INTERVAL {
            self.heads_synced = now;
            // A head that is older vouches for less; the next sync covers this one.
            match directory.sync_heads() {
                Ok(()) => storage.works(Part::Heads),
                Err(error) => storage.failed(StorageReason::HeadsFailed, &error, false),
            }
            if storage.may_log_recover() {
                self.request(Request::ProbeLog);
            }
        }
    }

    /// True if rows changed since the last checkpoint, the checkpoint is old, and the log is not
    /// small beside what a new checkpoint would write.
    fn checkpoint_is_old(&mut self) -> bool {
        let now = self.shared.env.clock.monotonic();
        let wanted = self.shared.options.checkpoint_bytes < u64::MAX;
        if !wanted || now.saturating_sub(self.checkpoint_looked) < CHECKPOINT_INTERVAL {
            return false;
        }
        self.checkpoint_looked = now;
        let runs = self.shared.checkpoints.all();
        let written = runs.iter().rev().find(|run| run.failure.is_none());
        let snapshot = self.shared.publisher.snapshot();
        if snapshot.lsn() <= written.map_or(Lsn(0), |run| run.position) {
            return false;
        }
        let (stored, rows_min) =
            (self.shared.stored.lock(), self.shared.options.chunk_file_rows_min);
        let bytes: u64 =
            snapshot.tables().map(|(_, state)| stored.bytes_to_write(state, rows_min)).sum();
        let log_bytes = self.shared.log_bytes.load(Ordering::Relaxed).max(SMALL_LOG_BYTES);
        bytes / checkpoint::CHECKPOINT_SHARE <= log_bytes
    }

    /// Rewrites the chunks of all tables that are worth it.
    pub(crate) fn compact(&self, policy: CompactionPolicy) {
        let snapshot = self.shared.publisher.snapshot();
        for (table, state) in snapshot.tables() {
            if let Some(plan) = plan_compaction(state, policy) {
                self.request(Request::Compact { table, built: plan.build() });
            }
        }
    }

    /// Builds missing index runs: all of them after a start, later those of newly loaded rows.
    fn prepare_indexes(&self) {
        let snapshot = self.shared.publisher.snapshot();
        for (_, state) in snapshot.tables() {
            state.schema().indexes.iter().for_each(|index| state.prepare(index, &ThisThread));
        }
    }

    /// Returns spare memory to the system once the tables are idle after a large change.
    fn give_back_memory(&mut self) {
        let snapshot = self.shared.publisher.snapshot();
        let bytes: usize = snapshot.tables().map(|(_, state)| state.memory_bytes()).sum();
        if bytes.abs_diff(self.settled_bytes) >= SPARE_BYTES_MIN {
            self.shared.env.memory.give_back();
            self.settled_bytes = bytes;
        }
    }

    fn checkpoint_if_due(&mut self) {
        let due = self.shared.checkpoint_due.load(Ordering::Relaxed);
        if !self.checkpoint_frees(due) {
            return;
        }
        if self.write_checkpoint().is_err() {
            // Most likely the disk is full. The log holds everything; try again after a while, or
            // after as much again.
            self.shared.checkpoint_due.store(due.saturating_mul(2), Ordering::Relaxed);
        }
    }

    /// True if a checkpoint written now would free so many bytes of the log. A running bulk load
    /// may hold most of the log.
    pub(crate) fn checkpoint_frees(&self, bytes: u64) -> bool {
        self.shared.segments.bytes_before(checkpoint::first_needed(&self.shared)) >= bytes
    }

    fn request(&self, request: Request) {
        // A stage that has ended needs no maintenance.
        let _ = self.shared.requests.send(request);
    }
}
