//! Work that runs ahead of its reader by a bounded number of pieces.
//!
//! The work runs in a task of its own, so that rows are computed and encoded while earlier ones are
//! written to the socket. A slow reader holds the work up, and a reader that leaves aborts it. The
//! reader can always distinguish a complete answer from one that broke off.

use std::future::Future;

use thalweg_types::{Error, Result};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinHandle;
use tokio_util::task::AbortOnDropHandle;

/// Number of pieces that the work may be ahead.
const PIECES_AHEAD: usize = 4;

/// The sending end, into which the work pushes its pieces.
pub(crate) struct Pieces<T>(Sender<T>);

impl<T> Pieces<T> {
    /// Waits until there is room. Returns an error if the reader has left; the work should end
    /// then.
    pub(crate) async fn push(&self, piece: T) -> Result<(), ReaderGone> {
        self.0.send(piece).await.map_err(|_| ReaderGone)
    }
}

/// The reader has left.
#[derive(Debug)]
pub(crate) struct ReaderGone;

/// The reader's end.
pub(crate) struct ReadAhead<T> {
    pieces: Receiver<T>,
    /// `None` after the end was returned.
    work: Option<AbortOnDropHandle<Result<()>>>,
}

impl<T: Send + 'static> ReadAhead<T> {
    pub(crate) fn start<F>(work: impl FnOnce(Pieces<T>) -> F) -> ReadAhead<T>
    where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        let (sender, pieces) = channel(PIECES_AHEAD);
        let task: JoinHandle<Result<()>> = tokio::spawn(work(Pieces(sender)));
        ReadAhead { pieces, work: Some(AbortOnDropHandle::new(task)) }
    }

    /// The next piece, the error that ended the work, or `None` at a regular end.
    pub(crate) async fn next(&mut self) -> Option<Result<T>> {
        if let Some(piece) = self.pieces.recv().await {
            return Some(Ok(piece));
        }
        match self.work.take()?.await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(Err(error)),
            Err(panic) => {
                let error = Error::internal("the statement broke down").with_source(panic);
                Some(Err(error))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn pieces_come_in_order_and_the_end_is_told() {
        let mut read_ahead = ReadAhead::start(async |pieces: Pieces<usize>| {
            for number in 0..100 {
                pieces.push(number).await.map_err(|_| Error::internal("left"))?;
            }
            Ok(())
        });
        for number in 0..100 {
            assert_eq!(read_ahead.next().await.unwrap().unwrap(), number);
        }
        assert!(read_ahead.next().await.is_none());
    }

    #[tokio::test]
    async fn errors_and_panics_are_not_good_ends() {
        let mut failing = ReadAhead::<()>::start(async |_| Err(Error::internal("why")));
        assert_eq!(failing.next().await.unwrap().unwrap_err().message(), "why");
        assert!(failing.next().await.is_none());
        let mut panicking = ReadAhead::<()>::start(async |_| panic!("on purpose"));
        assert!(panicking.next().await.unwrap().is_err());
    }

    #[tokio::test]
    async fn work_ends_with_its_reader() {
        let (alive, mut ended) = tokio::sync::mpsc::channel::<()>(1);
        let read_ahead = ReadAhead::<()>::start(async move |_| {
            let _alive = alive;
            std::future::pending().await
        });
        drop(read_ahead);
        assert_eq!(ended.recv().await, None);
    }
}
