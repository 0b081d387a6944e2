//! Streams of which the first one that can go on is polled.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures::task::AtomicWaker;
use futures::{Stream, StreamExt as _};
use parking_lot::Mutex;

/// Gives what its streams give until all have ended. Only those that were woken are looked at.
pub(super) struct FirstFirst<S> {
    streams: Vec<Option<Polled<S>>>,
    left: usize,
    woken: Arc<Woken>,
}

struct Polled<S> {
    stream: S,
    place: Arc<Place>,
    waker: Waker,
}

/// The streams that can go on, and whoever waits for one.
#[derive(Default)]
struct Woken {
    places: Mutex<BinaryHeap<Reverse<usize>>>,
    waiting: AtomicWaker,
}

/// Where a stream stands.
struct Place {
    number: usize,
    is_woken: AtomicBool,
    woken: Arc<Woken>,
}

impl Place {
    /// Whether it was not marked before.
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

impl<S: Stream + Unpin> FirstFirst<S> {
    pub(super) fn new(streams: impl IntoIterator<Item = S>) -> FirstFirst<S> {
        let woken = Arc::new(Woken::default());
        let polled = |(number, stream)| {
            let woken = Arc::clone(&woken);
            let place = Arc::new(Place { number, is_woken: AtomicBool::new(false), woken });
            place.mark();
            let waker = Waker::from(Arc::clone(&place));
            Some(Polled { stream, place, waker })
        };
        let streams: Vec<_> = streams.into_iter().enumerate().map(polled).collect();
        FirstFirst { left: streams.len(), streams, woken }
    }
}

impl<S: Stream + Unpin> Stream for FirstFirst<S> {
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<S::Item>> {
        let this = &mut *self;
        this.woken.waiting.register(context.waker());
        while this.left > 0 {
            let first = this.woken.places.lock().pop();
            let Some(Reverse(number)) = first else { return Poll::Pending };
            // One that ended may be woken still.
            let Some(polled) = &mut this.streams[number] else { continue };
            polled.place.is_woken.store(false, Ordering::Release);
            match polled.stream.poll_next_unpin(&mut Context::from_waker(&polled.waker)) {
                Poll::Ready(Some(item)) => {
                    polled.place.mark();
                    return Poll::Ready(Some(item));
                }
                Poll::Ready(None) => {
                    this.streams[number] = None;
                    this.left -= 1;
                }
                Poll::Pending => {}
            }
        }
        Poll::Ready(None)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use futures::channel::mpsc;

    use super::*;

    #[tokio::test]
    async fn the_first_goes_first_and_nobody_waits_for_it() {
        let (senders, streams): (Vec<_>, Vec<_>) = (0..3).map(|_| mpsc::unbounded()).unzip();
        let mut all = FirstFirst::new(streams);
        let send = |stream: usize, item: u32| senders[stream].unbounded_send(item).unwrap();
        assert!(all.next().now_or_never().is_none());
        send(2, 20);
        send(2, 21);
        send(1, 10);
        assert_eq!(all.next().await, Some(10));
        assert_eq!(all.next().await, Some(20));
        send(0, 1);
        assert_eq!(all.next().await, Some(1));
        assert_eq!(all.next().await, Some(21));
        assert!(all.next().now_or_never().is_none());
        drop(senders);
        assert_eq!(all.next().await, None);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn none_of_what_other_threads_send_is_missed() {
        let (senders, streams): (Vec<_>, Vec<_>) = (0..4).map(|_| mpsc::unbounded()).unzip();
        for sender in senders {
            drop(tokio::spawn(async move {
                for item in 0..10_000_u64 {
                    sender.unbounded_send(item).unwrap();
                }
            }));
        }
        let sum = FirstFirst::new(streams).fold(0, |sum, item| async move { sum + item }).await;
        assert_eq!(sum, 4 * (0..10_000_u64).sum::<u64>());
    }
}
