//! The answers of a worker: one message, or a stream of rows.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use arrow::record_batch::RecordBatch;
use datafusion::error::Result as PlanResult;
use futures::{Stream, StreamExt as _, stream};
use thalweg_cluster::chunks::{ChunkWriter, Fill, Source};
use thalweg_types::Result;

use super::encoding_cache::WholeChunks;
use super::fragment_cache::BorrowedPlan;
use super::{Counted, translate_error};
use crate::encoding::Encoding;

/// An answer of one message.
pub(crate) struct OneMessage(Option<Vec<u8>>);

impl OneMessage {
    pub(crate) fn of(message: &impl prost::Message) -> OneMessage {
        OneMessage(Some(message.encode_to_vec()))
    }
}

impl Source for OneMessage {
    fn poll_fill(&mut self, _: &mut Context<'_>, writer: &mut ChunkWriter) -> Poll<Result<Fill>> {
        if let Some(message) = self.0.take() {
            writer.shared(&message.into());
        }
        Poll::Ready(Ok(Fill::End))
    }
}

pub(super) type Rows = Pin<Box<dyn Stream<Item = PlanResult<RecordBatch>> + Send>>;

/// Waits for the first two batches, of which the second is mostly the end, and returns all rows.
pub(super) async fn begun(rows: Rows) -> Rows {
    let mut rows = rows.fuse();
    let first = rows.next().await;
    let second = rows.next().await;
    Box::pin(stream::iter(first.into_iter().chain(second)).chain(rows))
}

/// Encodes rows as they arrive. Dropping it cancels the work.
pub(super) struct RowsSource {
    /// `None` until the first rows arrive, if their schema is not known before.
    encoding: Option<Encoding>,
    /// Whole chunks, sent before all other rows.
    whole: Option<WholeChunks>,
    rows: Rows,
    /// The plan that produces the rows, until they end.
    _lent: Option<BorrowedPlan>,
    _counted: Counted,
}

impl RowsSource {
    pub(super) fn new(encoding: Option<Encoding>, rows: Rows, counted: Counted) -> RowsSource {
        RowsSource { encoding, whole: None, rows, _lent: None, _counted: counted }
    }

    /// Puts the rows of whole chunks before the others.
    pub(super) fn behind(self, whole: Option<WholeChunks>) -> RowsSource {
        RowsSource { whole, ..self }
    }

    /// Holds the plan that was lent to this run.
    pub(super) fn of(self, lent: Option<BorrowedPlan>) -> RowsSource {
        RowsSource { _lent: lent, ..self }
    }
}

impl Source for RowsSource {
    fn poll_fill(
        &mut self,
        context: &mut Context<'_>,
        out: &mut ChunkWriter,
    ) -> Poll<Result<Fill>> {
        if let (Some(encoding), Some(whole)) = (&mut self.encoding, &mut self.whole) {
            if whole.write(encoding, out)? {
                return Poll::Ready(Ok(Fill::More));
            }
            self.whole = None;
        }
        if let Some(encoding) = &mut self.encoding
            && encoding.write(out)?
        {
            return Poll::Ready(Ok(Fill::More));
        }
        Poll::Ready(match ready!(self.rows.as_mut().poll_next(context)) {
            Some(Ok(rows)) => {
                if rows.num_rows() > 0 {
                    let encoding = match &mut self.encoding {
                        Some(encoding) => encoding,
                        none => none.insert(Encoding::new(rows.schema(), None)?),
                    };
                    encoding.take(rows)?;
                }
                Ok(Fill::More)
            }
            Some(Err(error)) => Err(translate_error(error)),
            None => Ok(Fill::End),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int32Array};
    use futures::channel::mpsc::unbounded;
    use futures::poll;

    use super::*;

    fn batch(value: i32) -> PlanResult<RecordBatch> {
        let column: ArrayRef = Arc::new(Int32Array::from(vec![value]));
        Ok(RecordBatch::try_from_iter([("v", column)])?)
    }

    #[tokio::test]
    async fn an_answer_that_begins_with_its_rows_has_the_same_rows() {
        for count in 0..4 {
            let (sender, rows) = unbounded();
            let mut beginning = Box::pin(begun(Box::pin(rows)));
            for value in 0..count {
                // It waits for the second batch, too.
                assert!(value > 1 || poll!(&mut beginning).is_pending());
                sender.unbounded_send(batch(value)).unwrap();
            }
            drop(sender);
            let found: Vec<RecordBatch> = beginning.await.map(|rows| rows.unwrap()).collect().await;
            let all: Vec<RecordBatch> = (0..count).map(|value| batch(value).unwrap()).collect();
            assert_eq!(found, all);
        }
    }
}
