//! All workers at once, each read on its own lane: no queue between the socket and the reader, and
//! nothing that threads share.
//!
//! Of the workers that have begun to answer a lane reads few at a time, to their end. The others
//! have sent what their windows hold, and rest: they do not compete for the processor, and what is
//! read lies in its cache. Where those that are read are slow, others are read beside them.

use std::time::Duration;

use futures::{StreamExt as _, stream};

use super::first_first::FirstFirst;
use super::gather::{Asked, Opened, Share, Shared, whole};
use super::{Reader, Stop, Stopwatch};

/// What is read before the connections are let take in what has come since.
const TURN_BYTES: usize = 256 << 10;
/// How long a lane waits for the workers that it reads, while others have something.
const PATIENCE: Duration = Duration::from_millis(3);

pub(super) async fn run<R: Reader>(share: Share<R>) -> Result<(), Stop> {
    let Share { asked, reader, watch, read_max } = share;
    let (reader, watch) = (&reader, watch.as_ref());
    let pieces = asked.into_iter().map(|asked| {
        stream::try_unfold(Worker::Asked(asked), move |worker| next(worker, reader, watch))
    });
    let mut streams = FirstFirst::new(pieces.map(Box::pin), read_max, PATIENCE);
    let mut turn = 0;
    while let Some(bytes) = streams.next().await {
        turn += bytes?;
        if turn >= TURN_BYTES {
            turn = 0;
            tokio::task::yield_now().await;
        }
    }
    Ok(())
}

enum Worker {
    Asked(Asked),
    Opened(Opened),
}

/// Opens a worker, or takes in its next piece. Gives the bytes of that.
async fn next<R: Reader>(
    worker: Worker,
    reader: &Shared<R>,
    watch: &Stopwatch,
) -> Result<Option<(usize, Worker)>, Stop> {
    let mut opened = match worker {
        Worker::Asked(asked) => return Ok(Some((0, Worker::Opened(asked.open(watch).await?)))),
        Worker::Opened(opened) => opened,
    };
    let Some(piece) = opened.answer.piece().await? else {
        whole(&opened)?;
        return Ok(None);
    };
    reader.feed(opened.place, &mut opened.cutter, &piece, watch)?;
    Ok(Some((piece.len(), Worker::Opened(opened))))
}
