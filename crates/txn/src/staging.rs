//! Bulk chunks on their way to the log ahead of their commit.
//!
//! The commit of a load of gigabytes would have to write all bytes at once. So each chunk is
//! written as soon as it is built, and the commit only refers to it. Recovery ignores chunks that
//! no commit refers to.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use thalweg_env::Condvar;
use thalweg_store::ClosedChunk;
use thalweg_types::{Lsn, Result};

use crate::record::StageId;
use crate::waiter::closed;

/// Number of bytes that may wait for the disk before loaders are blocked.
const WAITING_BYTES_MAX: usize = 128 << 20;

/// A chunk whose bytes are in the log or on their way there. The log keeps them while this value
/// lives.
pub struct Staged {
    pub(crate) id: StageId,
    pub(crate) chunk: Arc<ClosedChunk>,
    pub(crate) lost: Arc<AtomicBool>,
    area: Arc<StagingArea>,
    floor: Lsn,
}

impl Staged {
    /// The chunk's rows, which are in memory too.
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

/// Keeps staged chunks in the log, and loaders from outrunning the disk.
#[derive(Default)]
pub(crate) struct StagingArea {
    /// For each live chunk, a group number at or before its record's, with the count of such
    /// chunks.
    floors: Mutex<BTreeMap<Lsn, usize>>,
    queue: Mutex<Queue>,
    /// Wakes loaders that block their own threads.
    written: Condvar,
}

/// Chunks that wait for the disk.
#[derive(Default)]
struct Queue {
    bytes: usize,
    /// Wakers of loaders that wait asynchronously.
    wakers: Vec<Waker>,
    /// True once nothing is written any more.
    closed: bool,
}

impl Queue {
    /// True if a loader need not wait.
    fn has_room(&self) -> Result<bool> {
        if self.closed {
            return Err(closed());
        }
        Ok(self.bytes < WAITING_BYTES_MAX)
    }
}

/// Closes the area when the disk stage ends, even by a panic.
pub(crate) struct Closing(pub(crate) Arc<StagingArea>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close();
    }
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

    /// The log must keep all records from here on; `None` if nothing is staged.
    pub(crate) fn floor(&self) -> Option<Lsn> {
        self.floors.lock().keys().next().copied()
    }

    /// Counts bytes on their way to the disk.
    pub(crate) fn reserve(&self, bytes: usize) {
        self.queue.lock().bytes += bytes;
    }

    pub(crate) fn release(&self, bytes: usize) {
        let mut queue = self.queue.lock();
        queue.bytes -= bytes;
        self.wake(queue);
    }

    /// Blocks until the disk has caught up.
    pub(crate) fn wait_for_room(&self) -> Result<()> {
        let mut queue = self.queue.lock();
        while !queue.has_room()? {
            self.written.wait(&mut queue);
        }
        Ok(())
    }

    /// Like [`wait_for_room`](Self::wait_for_room), for callers that must not block their thread.
    pub(crate) fn poll_room(&self, context: &Context<'_>) -> Poll<Result<()>> {
        let mut queue = self.queue.lock();
        match queue.has_room() {
            Ok(true) => Poll::Ready(Ok(())),
            Err(error) => Poll::Ready(Err(error)),
            Ok(false) => {
                if !queue.wakers.iter().any(|waker| waker.will_wake(context.waker())) {
                    queue.wakers.push(context.waker().clone());
                }
                Poll::Pending
            }
        }
    }

    fn close(&self) {
        let mut queue = self.queue.lock();
        queue.closed = true;
        self.wake(queue);
    }

    fn wake(&self, mut queue: parking_lot::MutexGuard<'_, Queue>) {
        let wakers = std::mem::take(&mut queue.wakers);
        drop(queue);
        self.written.notify_all();
        wakers.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Calls(AtomicUsize);

    impl Wake for Calls {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a loader on a thread of its own")]
    fn a_loader_is_woken_when_the_disk_caught_up_and_when_it_never_will() {
        let area = Arc::new(StagingArea::default());
        let calls = Arc::new(Calls::default());
        let waker = Waker::from(Arc::clone(&calls));
        let context = Context::from_waker(&waker);
        assert!(matches!(area.poll_room(&context), Poll::Ready(Ok(()))));
        area.reserve(WAITING_BYTES_MAX);
        assert!(area.poll_room(&context).is_pending());
        assert!(area.poll_room(&context).is_pending());
        area.release(1);
        assert_eq!(calls.0.load(Ordering::Relaxed), 1);
        assert!(matches!(area.poll_room(&context), Poll::Ready(Ok(()))));
        area.reserve(1);
        assert!(area.poll_room(&context).is_pending());
        let waiting = std::thread::spawn({
            let area = Arc::clone(&area);
            move || area.wait_for_room()
        });
        drop(Closing(Arc::clone(&area)));
        assert_eq!(calls.0.load(Ordering::Relaxed), 2);
        assert!(matches!(area.poll_room(&context), Poll::Ready(Err(_))));
        assert!(waiting.join().unwrap().is_err());
    }
}
