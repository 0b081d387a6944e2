//! Merges streams and polls only the first few that are ready, while the others rest.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker, ready};
use std::time::Duration;

use futures::task::AtomicWaker;
use futures::{Stream, StreamExt as _};
use parking_lot::Mutex;
use thalweg_runtime::{Interval, interval};

/// Returns the items of all streams until all have ended. It polls only streams that were woken.
///
/// The first item of each stream is taken as soon as it is there. After that, only a few streams
/// are *read* at a time, each to its end. If these give nothing for a while though others could,
/// they count as slow. Slow streams are still read, and as many others beside them.
pub(super) struct FirstFirst<S> {
    streams: Vec<Option<Polled<S>>>,
    left: usize,
    woken: Arc<Woken>,
    /// Streams that were woken, and rest.
    resting: BTreeSet<usize>,
    /// Number of streams that are read and not slow.
    read: usize,
    read_max: usize,
    slow: usize,
    patience: Patience,
}

struct Polled<S> {
    stream: S,
    stage: Stage,
    place: Arc<Place>,
    waker: Waker,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// No item has come yet.
    Begins,
    Rests,
    Read,
    Slow,
}

/// The streams that are ready, and the task that waits for one.
#[derive(Default)]
struct Woken {
    places: Mutex<BinaryHeap<Reverse<usize>>>,
    waiting: AtomicWaker,
}

/// State of a stream's waker.
struct Place {
    number: usize,
    is_woken: AtomicBool,
    woken: Arc<Woken>,
}

impl Place {
    /// Marks the stream as woken. Returns true if it was not marked before.
    fn mark(&self) -> bool {
        let is_new = !self.is_woken.swap(true, Ordering::AcqRel);
        if is_new {
            self.woken.places.lock().push(Reverse(self.number));
        }
        is_new
    }
}

impl Wake for Place {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.mark() {
            self.woken.waiting.wake();
        }
    }
}

/// Measures silence by ticks, so that no timer is set for each wait.
struct Patience {
    ticks: Interval,
    /// True if an item came since the last tick.
    came: bool,
    is_over: bool,
}

impl Patience {
    fn new(patience: Duration) -> Patience {
        let ticks = interval(patience);
        // The first tick completes at once and must not end the patience.
        Patience { ticks, came: true, is_over: false }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while !self.is_over {
            ready!(self.ticks.poll_tick(context));
            if std::mem::take(&mut self.came) {
                continue;
            }
            // This task may be late itself, so streams that were woken meanwhile are polled first.
            self.is_over = true;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.renew();
        Poll::Ready(())
    }

    /// Starts a new period, after an item or after the patience was used up.
    fn renew(&mut self) {
        self.came = true;
        self.is_over = false;
    }
}

impl<S: Stream + Unpin> FirstFirst<S> {
    /// Reads `read_max` streams at a time, and more after silence for `patience`. Uses the current
    /// runtime's timer.
    pub(super) fn new(
        streams: impl IntoIterator<Item = S>,
        read_max: usize,
        patience: Duration,
    ) -> FirstFirst<S> {
        let woken = Arc::new(Woken::default());
        let polled = |(number, stream)| {
            let woken = Arc::clone(&woken);
            let place = Arc::new(Place { number, is_woken: AtomicBool::new(false), woken });
            place.mark();
            let waker = Waker::from(Arc::clone(&place));
            Some(Polled { stream, stage: Stage::Begins, place, waker })
        };
        let streams: Vec<_> = streams.into_iter().enumerate().map(polled).collect();
        FirstFirst {
            left: streams.len(),
            streams,
            woken,
            resting: BTreeSet::new(),
            read: 0,
            read_max,
            slow: 0,
            patience: Patience::new(patience),
        }
    }

    /// Changes the limit. Streams that are read already are not stopped.
    pub(super) fn read_at_most(&mut self, read_max: usize) {
        self.read_max = read_max;
    }

    /// True if one more stream may be read. The number of slow ones doubles with each period of
    /// silence.
    fn has_room(&self) -> bool {
        self.read < self.read_max.max(self.slow)
    }

    fn next_woken(&mut self) -> Option<usize> {
        if self.has_room()
            && let Some(number) = self.resting.pop_first()
        {
            return Some(number);
        }
        self.woken.places.lock().pop().map(|Reverse(number)| number)
    }

    /// Waits for the streams that are read, while patience lasts. Then these count as slow.
    fn poll_silence(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.resting.is_empty() {
            return Poll::Pending;
        }
        ready!(self.patience.poll(context));
        let read = self.streams.iter_mut().flatten().filter(|polled| polled.stage == Stage::Read);
        read.for_each(|polled| polled.stage = Stage::Slow);
        self.slow += std::mem::take(&mut self.read);
        Poll::Ready(())
    }

    /// Polls a stream that was woken. Returns `None` if it rests, waits or has ended.
    fn poll_one(&mut self, number: usize) -> Option<S::Item> {
        let has_room = self.has_room();
        // A stream that has ended may still be woken.
        let polled = self.streams[number].as_mut()?;
        if polled.stage == Stage::Rests && !has_room {
            self.resting.insert(number);
            return None;
        }
        polled.place.is_woken.store(false, Ordering::Release);
        match polled.stream.poll_next_unpin(&mut Context::from_waker(&polled.waker)) {
            Poll::Ready(Some(item)) => {
                match polled.stage {
                    Stage::Begins => polled.stage = Stage::Rests,
                    Stage::Rests => {
                        polled.stage = Stage::Read;
                        self.read += 1;
                    }
                    Stage::Read | Stage::Slow => {}
                }
                polled.place.mark();
                self.patience.renew();
                Some(item)
            }
            Poll::Ready(None) => {
                match polled.stage {
                    Stage::Read => self.read -= 1,
                    Stage::Slow => self.slow -= 1,
                    Stage::Begins | Stage::Rests => {}
                }
                self.streams[number] = None;
                self.left -= 1;
                None
            }
            Poll::Pending => None,
        }
    }
}

impl<S: Stream + Unpin> Stream for FirstFirst<S> {
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<S::Item>> {
        let this = &mut *self;
        this.woken.waiting.register(context.waker());
        while this.left > 0 {
            match this.next_woken() {
                Some(number) => {
                    if let Some(item) = this.poll_one(number) {
                        return Poll::Ready(Some(item));
                    }
                }
                None => ready!(this.poll_silence(context)),
            }
        }
        Poll::Ready(None)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};

    use super::*;

    const LONG: Duration = Duration::from_secs(3_600);
    const SHORT: Duration = Duration::from_millis(1);

    struct Streams {
        senders: Vec<Option<UnboundedSender<u32>>>,
        all: FirstFirst<UnboundedReceiver<u32>>,
    }

    impl Streams {
        /// Streams that have all given their first item.
        async fn begun(count: usize, read_max: usize, patience: Duration) -> Streams {
            let (senders, streams): (Vec<_>, Vec<_>) = (0..count).map(|_| unbounded()).unzip();
            let senders = senders.into_iter().map(Some).collect();
            let mut streams =
                Streams { senders, all: FirstFirst::new(streams, read_max, patience) };
            (0..count).rev().for_each(|stream| streams.send(stream, [0]));
            for _ in 0..count {
                assert_eq!(streams.all.next().await, Some(0));
            }
            assert!(streams.at_once().is_empty());
            streams
        }

        fn send<const N: usize>(&self, stream: usize, items: [u32; N]) {
            let sender = self.senders[stream].as_ref().unwrap();
            items.into_iter().for_each(|item| sender.unbounded_send(item).unwrap());
        }

        fn end(&mut self, stream: usize) {
            self.senders[stream] = None;
        }

        /// All items that are ready.
        fn at_once(&mut self) -> Vec<u32> {
            std::iter::from_fn(|| self.all.next().now_or_never().flatten()).collect()
        }
    }

    #[tokio::test]
    async fn one_is_read_to_its_end_while_others_rest() {
        let mut streams = Streams::begun(3, 1, LONG).await;
        streams.send(1, [10]);
        assert_eq!(streams.at_once(), [10]);
        streams.send(2, [20, 21]);
        streams.send(0, [1]);
        assert!(streams.at_once().is_empty(), "the second is read");
        streams.send(1, [11]);
        assert_eq!(streams.at_once(), [11]);
        streams.end(1);
        assert_eq!(streams.at_once(), [1], "the first of those that have something");
        streams.end(0);
        assert_eq!(streams.at_once(), [20, 21]);
        streams.end(2);
        assert_eq!(streams.all.next().await, None);
    }

    #[tokio::test]
    async fn as_many_are_read_as_may_be() {
        let mut streams = Streams::begun(4, 2, LONG).await;
        (0..4).for_each(|stream| streams.send(stream, [stream as u32]));
        assert_eq!(streams.at_once(), [0, 1]);
        streams.send(1, [11]);
        streams.send(0, [10]);
        assert_eq!(streams.at_once(), [10, 11]);
        streams.end(0);
        assert_eq!(streams.at_once(), [2]);
    }

    #[tokio::test]
    async fn fewer_are_read_once_those_that_are_read_have_ended() {
        let mut streams = Streams::begun(4, 2, LONG).await;
        (0..4).for_each(|stream| streams.send(stream, [stream as u32]));
        assert_eq!(streams.at_once(), [0, 1]);
        streams.all.read_at_most(1);
        streams.send(1, [11]);
        assert_eq!(streams.at_once(), [11]);
        streams.end(0);
        assert!(streams.at_once().is_empty(), "the second is read");
        streams.end(1);
        assert_eq!(streams.at_once(), [2]);
    }

    #[tokio::test]
    async fn one_that_has_not_begun_is_taken_as_it_comes() {
        let (senders, streams): (Vec<_>, Vec<_>) = (0..3).map(|_| unbounded()).unzip();
        let mut all = FirstFirst::new(streams, 1, LONG);
        for item in [10, 11] {
            senders[1].unbounded_send(item).unwrap();
            assert_eq!(all.next().now_or_never(), Some(Some(item)));
        }
        senders[0].unbounded_send(0).unwrap();
        assert_eq!(all.next().now_or_never(), Some(Some(0)));
    }

    #[tokio::test]
    async fn nobody_waits_long_for_those_that_are_silent() {
        let mut streams = Streams::begun(10, 1, SHORT).await;
        for stream in 0..10 {
            streams.send(stream, [stream as u32]);
        }
        // No stream ends or gives more.
        for stream in 0..10 {
            assert_eq!(streams.all.next().await, Some(stream));
        }
        streams.send(0, [100]);
        assert_eq!(streams.all.next().await, Some(100), "a slow one is read on");
    }

    #[tokio::test]
    async fn slow_ones_that_end_leave_no_room() {
        let mut streams = Streams::begun(5, 1, SHORT).await;
        (0..3).for_each(|stream| streams.send(stream, [stream as u32]));
        for stream in 0..3 {
            assert_eq!(streams.all.next().await, Some(stream));
        }
        (0..3).for_each(|stream| streams.end(stream));
        assert!(streams.at_once().is_empty());
        assert_eq!((streams.all.read, streams.all.slow, streams.all.left), (0, 0, 2));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn none_of_what_other_threads_send_is_missed() {
        for read_max in [1, 2, usize::MAX] {
            let (senders, streams): (Vec<_>, Vec<_>) = (0..4).map(|_| unbounded()).unzip();
            for sender in senders {
                drop(thalweg_runtime::spawn(async move {
                    for item in 0..10_000_u64 {
                        sender.unbounded_send(item).unwrap();
                    }
                }));
            }
            let all = FirstFirst::new(streams, read_max, SHORT);
            let sum = all.fold(0, |sum, item| async move { sum + item }).await;
            assert_eq!(sum, 4 * (0..10_000_u64).sum::<u64>());
        }
    }
}
