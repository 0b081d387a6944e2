//! All workers at once, each read on its own lane: no queue between the socket and the reader, and
//! nothing that threads share.
//!
//! Of the workers that have begun to answer a lane reads few at a time, to their end. The others
//! have sent what their windows hold, and rest: they do not compete for the processor, and what is
//! read lies in its cache. Where those that are read are slow, others are read beside them. Of
//! those that send small messages, half as many keep a lane busy.

use std::ops::AddAssign;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt as _, Stream, StreamExt as _};

use super::first_first::FirstFirst;
use super::gather::{Opened, Share, Shared, whole};
use super::{Reader, Stop, Stopwatch};

/// What is read before the connections are let take in what has come since.
const TURN_BYTES: usize = 1 << 20;
/// How long a lane waits for the workers that it reads, while others have something. Where cores
/// are short, workers wait for them for some milliseconds.
const PATIENCE: Duration = Duration::from_millis(20);

pub(super) async fn run<R: Reader>(share: Share<R>) -> Result<(), Stop> {
    let Share { asked, reader, watch, at_a_time } = share;
    let (reader, watch) = (&reader, watch.as_ref());
    let workers = asked.into_iter().map(|asked| {
        let stage = Stage::Asked(asked.open(watch).boxed());
        Worker { stage, reader, watch }
    });
    let mut streams = FirstFirst::new(workers, at_a_time.of_small(), PATIENCE);
    let (mut all, mut turn_bytes) = (Taken::default(), 0);
    while let Some(taken) = streams.next().await {
        let taken = taken?;
        all += taken;
        streams.read_at_most(at_a_time.of(all.messages, all.bytes));
        turn_bytes += taken.bytes;
        if turn_bytes >= TURN_BYTES {
            turn_bytes = 0;
            tokio::task::yield_now().await;
        }
    }
    Ok(())
}

/// What was taken in.
#[derive(Clone, Copy, Default)]
struct Taken {
    bytes: usize,
    /// Those that are whole.
    messages: usize,
}

impl AddAssign for Taken {
    fn add_assign(&mut self, more: Taken) {
        self.bytes += more.bytes;
        self.messages += more.messages;
    }
}

/// What comes of a worker, as much at a time as is there.
struct Worker<'a, R> {
    stage: Stage<'a>,
    reader: &'a Shared<R>,
    watch: &'a Stopwatch,
}

enum Stage<'a> {
    Asked(BoxFuture<'a, thalweg_types::Result<Opened>>),
    Opened(Opened),
}

impl<R: Reader> Stream for Worker<'_, R> {
    type Item = Result<Taken, Stop>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Taken, Stop>>> {
        let this = &mut *self;
        match &mut this.stage {
            Stage::Asked(opening) => {
                this.stage = Stage::Opened(ready!(opening.as_mut().poll(context))?);
                Poll::Ready(Some(Ok(Taken::default())))
            }
            Stage::Opened(opened) => take_in(opened, this.reader, this.watch, context),
        }
    }
}

fn take_in<R: Reader>(
    opened: &mut Opened,
    reader: &Shared<R>,
    watch: &Stopwatch,
    context: &mut Context<'_>,
) -> Poll<Option<Result<Taken, Stop>>> {
    let mut taken = Taken::default();
    loop {
        match opened.answer.poll_piece(context)? {
            Poll::Ready(Some(piece)) => {
                let from = (opened.place, opened.answer.from());
                let messages = reader.feed(from, &mut opened.cutter, &piece, watch)?;
                taken += Taken { bytes: piece.len(), messages };
            }
            Poll::Ready(None) => return Poll::Ready(whole(opened).err().map(Err)),
            Poll::Pending if taken.bytes == 0 => return Poll::Pending,
            // No more than a window: nothing is let in meanwhile.
            Poll::Pending => return Poll::Ready(Some(Ok(taken))),
        }
    }
}
