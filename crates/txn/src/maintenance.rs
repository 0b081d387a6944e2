//! Background work: full chunks become closed ones, mostly dead chunks are rewritten, chunks are
//! put in the orders of indexes, the log is cut short by checkpoints, and memory that a load left
//! over goes back to the system.
//!
//! The thread builds from snapshots and hands results to the transaction stage; it changes nothing
//! itself.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use thalweg_store::{CompactionPolicy, FullChunk, ThisThread, plan_compaction};
use thalweg_types::{Lsn, Result, TableId};

use crate::checkpoint;
use crate::engine::Shared;
use crate::hand_over::{Receiver, RecvTimeoutError, Sender, channel};
use crate::transaction_stage::Request;

/// How long the thread waits for a chore before it looks around by itself: each time that it finds
/// nothing new twice as long, up to the maximum.
const LOOK_AROUND: Duration = Duration::from_millis(100);
const LOOK_AROUND_MAX: Duration = Duration::from_millis(3_200);

/// Loads that change the tables by less leave little memory over.
const SPARE_BYTES_MIN: usize = 16 << 20;

/// While groups come, what the directory knows of its log is synced this often: after a power
/// failure it is at most so old.
const HEADS_SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// A database that changed has a checkpoint after this time, where its log is not small beside it.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(300);

/// The log counts as at least this long for such a checkpoint, so that a small database has one.
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
    /// The last published group when the thread looked around before.
    seen: Lsn,
    /// Whether nothing had been published since the time before that.
    rests: bool,
    /// What the tables took when spare memory was given back.
    settled_bytes: usize,
    /// When the heads were synced.
    heads_synced: Duration,
    /// When the thread looked whether the checkpoint is old.
    checkpoint_looked: Duration,
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
                    let written = checkpoint::write(&self.shared);
                    let _ = reply.send(written);
                }
                Ok(Chore::LookAround(reply)) => {
                    self.look_around();
                    // The one who asked may have given up waiting.
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
            // Under constant load the inbox never runs dry: look around all the same.
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
        if self.checkpoint_is_old() {
            // The log holds everything; the next one may succeed.
            let _ = checkpoint::write(&self.shared);
        }
    }

    /// Looks whether the directory is still there, and syncs what it knows of its log.
    fn look_after_directory(&mut self) {
        let Some(directory) = &self.shared.directory else { return };
        directory.look_for_itself(&self.shared.env);
        let now = self.shared.env.clock.monotonic();
        if now.saturating_sub(self.heads_synced) >= HEADS_SYNC_INTERVAL {
            self.heads_synced = now;
            // A head that is older vouches for less; the next sync covers this one.
            let _ = directory.sync_heads();
        }
    }

    /// Whether rows changed since the last checkpoint, that is long ago, and the log is not small
    /// beside what a checkpoint would write.
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
        let changed = snapshot.lsn() > written.map_or(Lsn(0), |run| run.position);
        let bytes: u64 = snapshot.tables().map(|(_, state)| state.memory_bytes() as u64).sum();
        let log_bytes = self.shared.log_bytes.load(Ordering::Relaxed).max(SMALL_LOG_BYTES);
        changed && bytes / checkpoint::CHECKPOINT_SHARE <= log_bytes
    }

    /// Rewrites the chunks of every table that are worth it.
    pub(crate) fn compact(&self, policy: CompactionPolicy) {
        let snapshot = self.shared.publisher.snapshot();
        for (table, state) in snapshot.tables() {
            if let Some(plan) = plan_compaction(state, policy) {
                self.request(Request::Compact { table, built: plan.build() });
            }
        }
    }

    /// Makes what is missing of the orders of indexes: after a start all, then those of rows that
    /// were loaded.
    fn prepare_indexes(&self) {
        let snapshot = self.shared.publisher.snapshot();
        for (_, state) in snapshot.tables() {
            state.schema().indexes.iter().for_each(|index| state.prepare(index, &ThisThread));
        }
    }

    /// Lets spare memory go once the tables rest after they have changed by much.
    fn give_back_memory(&mut self) {
        let snapshot = self.shared.publisher.snapshot();
        let bytes: usize = snapshot.tables().map(|(_, state)| state.memory_bytes()).sum();
        if bytes.abs_diff(self.settled_bytes) >= SPARE_BYTES_MIN {
            self.shared.env.memory.give_back();
            self.settled_bytes = bytes;
        }
    }

    fn checkpoint_if_due(&self) {
        let due = self.shared.checkpoint_due.load(Ordering::Relaxed);
        if !self.checkpoint_frees(due) {
            return;
        }
        if checkpoint::write(&self.shared).is_err() {
            // Most likely the disk is full. The log holds everything; try again after as much
            // again.
            self.shared.checkpoint_due.store(due.saturating_mul(2), Ordering::Relaxed);
        }
    }

    /// Whether a checkpoint written now would free so much of the log. A load that is under way
    /// may keep most of it.
    pub(crate) fn checkpoint_frees(&self, bytes: u64) -> bool {
        // The length of the whole log is known without asking the disk stage.
        if self.shared.log_bytes.load(Ordering::Relaxed) < bytes {
            return false;
        }
        let (reply, superfluous) = channel();
        self.request(Request::BytesBefore(checkpoint::first_needed(&self.shared), reply));
        // Stages that have ended write no log.
        superfluous.recv().is_ok_and(|superfluous| superfluous >= bytes)
    }

    fn request(&self, request: Request) {
        // A stage that has ended needs no maintenance.
        let _ = self.shared.requests.send(request);
    }
}
