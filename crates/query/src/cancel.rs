//! Ending a running statement from outside.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow::record_batch::RecordBatch;
use futures::Stream;
use thalweg_types::{Error, Result, SqlState};
use tokio::sync::watch;

use crate::outcome::BatchStream;

/// Cancels what a session is doing. Does nothing to a session that is idle.
#[derive(Clone, Debug)]
pub struct CancelHandle {
    cancels: Arc<watch::Sender<u64>>,
}

impl CancelHandle {
    pub(crate) fn new() -> CancelHandle {
        CancelHandle { cancels: Arc::new(watch::Sender::new(0)) }
    }

    /// Makes the running statement, and the stream of its rows, fail with `57014`.
    pub fn cancel(&self) {
        self.cancels.send_modify(|count| *count += 1);
    }

    /// Resolves at the next cancel after this call.
    pub(crate) fn cancelled(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut cancels = self.cancels.subscribe();
        let keep_alive = Arc::clone(&self.cancels);
        async move {
            // The sender is kept alive, so this ends by a cancel only.
            let _ = cancels.changed().await;
            drop(keep_alive);
        }
    }

    /// Work that ends early when it is cancelled. What it holds is dropped then.
    pub(crate) async fn run<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let cancelled = self.cancelled();
        tokio::select! {
            biased;
            () = cancelled => Err(canceled()),
            result = work => result,
        }
    }

    /// A stream that ends early when it is cancelled.
    pub(crate) fn guard(&self, rows: BatchStream) -> BatchStream {
        Box::pin(Guarded { rows: Some(rows), cancelled: Box::pin(self.cancelled()) })
    }
}

struct Guarded {
    rows: Option<BatchStream>,
    cancelled: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Stream for Guarded {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.rows.is_some() && self.cancelled.as_mut().poll(context).is_ready() {
            self.rows = None;
            return Poll::Ready(Some(Err(canceled())));
        }
        match &mut self.rows {
            Some(rows) => rows.as_mut().poll_next(context),
            None => Poll::Ready(None),
        }
    }
}

fn canceled() -> Error {
    Error::new(SqlState::QUERY_CANCELED, "canceling statement due to user request")
}
