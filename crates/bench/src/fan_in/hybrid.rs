//! Hybrid mode: all workers at once, each read on its own lane. There is no queue between the
//! socket and the reader, and threads share no state.
//!
//! A lane reads few of the workers that have begun to answer at a time, to their end. The others
//! have filled their windows and rest. They do not compete for the processor, and the bytes being
//! read stay in its cache. If the workers that are read are slow, others are read beside them. If
//! messages are small, half as many workers keep a lane busy.

use std::ops::AddAssign;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt as _, Stream, StreamExt as _};
use thalweg_cluster::times::Stopwatch;

use super::first_first::FirstFirst;
use super::gather::{Opened, Share, Shared, whole};
use super::{Reader, Stop};

/// Bytes to read before the connections may receive more.
const TURN_BYTES: usize = 1 << 20;
/// Time that a lane waits for the workers that it reads while others have data. If cores are short,
/// workers wait for one for some milliseconds.
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

/// Data that was read.
#[derive(Clone, Copy, Default)]
struct Taken {
    bytes: usize,
    /// Number of complete messages.
    messages: usize,
}

impl AddAssign for Taken {
    fn add_assign(&mut self, more: Taken) {
        self.bytes += more.bytes;
        self.messages += more.messages;
    }
}

/// A stream of a worker's data; each item is all that was available.
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
            // At most one window is read, since the connection receives nothing meanwhile.
            Poll::Pending => return Poll::Ready(Some(Ok(taken))),
        }
    }
}
