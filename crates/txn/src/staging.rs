//! Bulk chunks on their way to the log ahead of their commit.
//!
//! A load of gigabytes would make a commit wait for all its bytes at once. So each chunk is written
//! as soon as it is built; the commit only names it. What no commit names is ignored at recovery.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::{Condvar, Mutex};
use thalweg_store::ClosedChunk;
use thalweg_types::Lsn;

use crate::record::StageId;

/// How many bytes may wait for the disk before loaders wait too.
const WAITING_BYTES_MAX: usize = 128 << 20;

/// A chunk whose bytes are in the log, or on their way there.
pub struct Staged {
    pub(crate) id: StageId,
    pub(crate) chunk: Arc<ClosedChunk>,
    pub(crate) lost: Arc<AtomicBool>,
    area: Arc<StagingArea>,
    floor: Lsn,
}

impl Staged {
    #[must_use]
    pub fn chunk(&self) -> &Arc<ClosedChunk> {
        &self.chunk
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        self.area.leave(self.floor);
    }
}

/// Keeps the log from forgetting staged chunks, and loaders from outrunning the disk.
#[derive(Default)]
pub(crate) struct StagingArea {
    /// For each live chunk, a sequence number at or before its record's; counted.
    floors: Mutex<BTreeMap<Lsn, usize>>,
    waiting_bytes: Mutex<usize>,
    written: Condvar,
}

impl StagingArea {
    pub(crate) fn enter(
        self: &Arc<Self>,
        id: StageId,
        chunk: Arc<ClosedChunk>,
        floor: Lsn,
    ) -> Staged {
        *self.floors.lock().entry(floor).or_default() += 1;
        Staged { id, chunk, lost: Arc::default(), area: Arc::clone(self), floor }
    }

    fn leave(&self, floor: Lsn) {
        let mut floors = self.floors.lock();
        let count = floors.get_mut(&floor).expect("a staged chunk entered before it leaves");
        *count -= 1;
        if *count == 0 {
            floors.remove(&floor);
        }
    }

    /// No record from here on may be removed from the log.
    pub(crate) fn floor(&self) -> Option<Lsn> {
        self.floors.lock().keys().next().copied()
    }

    /// Waits until `bytes` may be queued for the disk.
    pub(crate) fn reserve(&self, bytes: usize) {
        let mut waiting = self.waiting_bytes.lock();
        while *waiting > 0 && *waiting + bytes > WAITING_BYTES_MAX {
            self.written.wait(&mut waiting);
        }
        *waiting += bytes;
    }

    pub(crate) fn release(&self, bytes: usize) {
        *self.waiting_bytes.lock() -= bytes;
        self.written.notify_all();
    }
}
