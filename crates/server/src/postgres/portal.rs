//! Portals: statements with their values, running or about to run.

use futures::StreamExt;
use thalweg_formats::postgres::{EncodedRows, RowEncoder, ValueFormat};
use thalweg_query::{BatchStream, Prepared, ScalarValue, Tag};
use thalweg_types::Result;

use crate::trace::Watch;

pub(super) enum Portal {
    /// An empty text.
    Empty,
    Bound {
        prepared: Prepared,
        values: Vec<ScalarValue>,
        formats: Vec<ValueFormat>,
    },
    /// Its rows are being fetched.
    Open(Box<Rows>, Watch),
    /// All of it was done.
    Done,
}

/// Rows on their way to a client.
pub(super) struct Rows {
    encoder: RowEncoder,
    stream: BatchStream,
    /// The batch that is being sent, and how many of its rows were.
    batch: Option<(EncodedRows, usize)>,
    tag: Tag,
    sent: u64,
}

impl Rows {
    pub(super) fn new(encoder: RowEncoder, stream: BatchStream, tag: Tag) -> Rows {
        Rows { encoder, stream, batch: None, tag, sent: 0 }
    }

    /// Makes the next rows ready; false where there are no more.
    pub(super) async fn fill(&mut self) -> Result<bool> {
        loop {
            if self.batch.as_ref().is_some_and(|(rows, at)| *at < rows.rows()) {
                return Ok(true);
            }
            match self.stream.next().await.transpose()? {
                Some(batch) => self.batch = Some((self.encoder.batch(&batch)?, 0)),
                None => return Ok(false),
            }
        }
    }

    /// Writes rows that are ready: at most `rows_max`, and until there are `bytes_max` to send.
    /// Returns how many.
    pub(super) fn write(
        &mut self,
        out: &mut Vec<u8>,
        rows_max: u64,
        bytes_max: usize,
    ) -> Result<u64> {
        let Some((rows, at)) = &mut self.batch else { return Ok(0) };
        let mut written = 0;
        while *at < rows.rows() && written < rows_max && out.len() < bytes_max {
            rows.data_row(*at, out)?;
            *at += 1;
            written += 1;
        }
        self.sent += written;
        Ok(written)
    }

    /// The command tag, with the rows that were sent since the portal was opened or resumed.
    pub(super) fn tag(&self) -> String {
        match &self.tag {
            Tag::Select | Tag::Fetch => format!("{} {}", self.tag, self.sent),
            other => other.to_string(),
        }
    }
}
