//! Async mode: all pieces go through one queue that all lanes share.
//!
//! A stream sends its next piece only after the last one was taken. So at most one of its pieces is
//! in the queue, messages keep their order, and no stream runs ahead.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use thalweg_cluster::chunks::Cutter;
use thalweg_cluster::link::NodeName;
use thalweg_types::Error;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::gather::{Opened, Share, whole};
use super::{Reader, Stop};

pub(super) struct Queue {
    events: Mutex<VecDeque<Event>>,
    some: Notify,
    /// Streams that have not ended.
    open: AtomicUsize,
}

struct Event {
    stream: Arc<Stream>,
    piece: Bytes,
}

/// State for handling an event on any lane.
struct Stream {
    place: usize,
    from: NodeName,
    cutter: Mutex<Cutter>,
    taken: Notify,
}

impl Queue {
    pub(super) fn new(streams: usize) -> Queue {
        Queue { events: Mutex::default(), some: Notify::new(), open: AtomicUsize::new(streams) }
    }

    fn push(&self, event: Event) {
        self.events.lock().push_back(event);
        self.some.notify_one();
    }

    /// The next event; `None` when all streams have ended.
    async fn next(&self) -> Option<Event> {
        loop {
            let waiting = self.some.notified();
            if let Some(event) = self.events.lock().pop_front() {
                return Some(event);
            }
            if self.open.load(Ordering::Acquire) == 0 {
                // Wakes the next waiting task, so that all of them see the end.
                self.some.notify_one();
                return None;
            }
            waiting.await;
        }
    }

    fn ended(&self) {
        if self.open.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.some.notify_one();
        }
    }
}

pub(super) async fn run<R: Reader>(share: Share<R>, queue: Arc<Queue>) -> Result<(), Stop> {
    let mut streams = JoinSet::new();
    for asked in share.asked {
        let (queue, watch) = (Arc::clone(&queue), Arc::clone(&share.watch));
        streams.spawn(async move {
            let opened = asked.open(&watch).await?;
            watched(opened, &queue).await
        });
    }
    let take = async {
        while let Some(Event { stream, piece }) = queue.next().await {
            let mut cutter = stream.cutter.lock();
            let from = (stream.place, &stream.from);
            share.reader.feed(from, &mut cutter, &piece, &share.watch)?;
            drop(cutter);
            stream.taken.notify_one();
        }
        Ok(())
    };
    tokio::try_join!(finish(streams), take).map(drop)
}

/// Waits for all streams, or for the first one that stops. The others are then dropped.
async fn finish(mut streams: JoinSet<Result<(), Stop>>) -> Result<(), Stop> {
    while let Some(ended) = streams.join_next().await {
        ended.map_err(|died| Error::internal(died.to_string()))??;
    }
    Ok(())
}

async fn watched(mut opened: Opened, queue: &Queue) -> Result<(), Stop> {
    let cutter = std::mem::replace(&mut opened.cutter, Cutter::new(0));
    let stream = Arc::new(Stream {
        place: opened.place,
        from: opened.answer.from().clone(),
        cutter: Mutex::new(cutter),
        taken: Notify::new(),
    });
    while let Some(piece) = opened.answer.piece().await? {
        queue.push(Event { stream: Arc::clone(&stream), piece });
        stream.taken.notified().await;
    }
    std::mem::swap(&mut opened.cutter, &mut stream.cutter.lock());
    queue.ended();
    whole(&opened)
}
