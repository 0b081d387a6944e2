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
}

impl Maintenance {
    pub(crate) fn new(shared: Arc<Shared>, inbox: Receiver<Chore>, seen: Lsn) -> Maintenance {
        Maintenance { shared, inbox, seen, rests: false, settled_bytes: 0 }
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

    fn close(&self, table: TableId, full: &FullChunk) {
        let number = full.number;
        self.request(Request::Swap { table, number, chunk: full.build() });
        if number.is_multiple_of(16) {
            // Under constant load the inbox never runs dry: look around all the same.
            self.compact(CompactionPolicy::Busy);
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
        self.checkpoint_if_due();
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
