//! All workers at once, each read on its own lane: no queue between the socket and the reader, and
//! nothing that threads share.
//!
//! Of the workers that have sent something a lane reads the first one, again and again, so that the
//! others wait with what their windows hold: few workers compete for the processor, and what is
//! read lies in its cache. A slow one keeps nobody waiting.

use futures::{StreamExt as _, stream};

use super::first_first::FirstFirst;
use super::gather::{Asked, Opened, Share, Shared, whole};
use super::{Reader, Stop, Stopwatch};

/// What is read before the connections are let take in what has come since.
const TURN_BYTES: usize = 64 << 10;

pub(super) async fn run<R: Reader>(share: Share<R>) -> Result<(), Stop> {
    let Share { asked, reader, watch } = share;
    let (reader, watch) = (&reader, watch.as_ref());
    let pieces = asked.into_iter().map(|asked| {
        stream::try_unfold(Worker::Asked(asked), move |worker| next(worker, reader, watch))
    });
    let mut streams = FirstFirst::new(pieces.map(Box::pin));
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

/// Takes in a worker's next piece. Gives its bytes.
async fn next<R: Reader>(
    worker: Worker,
    reader: &Shared<R>,
    watch: &Stopwatch,
) -> Result<Option<(usize, Worker)>, Stop> {
    let mut opened = match worker {
        Worker::Asked(asked) => asked.open(watch).await?,
        Worker::Opened(opened) => opened,
    };
    let Some(piece) = opened.answer.piece().await? else {
        whole(&opened)?;
        return Ok(None);
    };
    reader.feed(opened.place, &mut opened.cutter, &piece, watch)?;
    Ok(Some((piece.len(), Worker::Opened(opened))))
}
