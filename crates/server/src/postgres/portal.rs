//! Portals: statements with their values, running or about to run.

use futures::StreamExt;
use thalweg_formats::postgres::{EncodedRows, RowEncoder, ValueFormat};
use thalweg_query::{BatchStream, Prepared, ScalarValue, Tag};
use thalweg_types::Result;

use super::work::Work;

/// A prepared statement with its values, and how far it has come.
pub(super) struct Portal {
    pub(super) prepared: Prepared,
    pub(super) formats: Vec<ValueFormat>,
    pub(super) state: State,
}

pub(super) enum State {
    Bound(Vec<ScalarValue>),
    /// Its rows are being fetched.
    Open(Box<Rows>, Box<Work>),
    /// All its rows were fetched; there are none any more, however often they are asked for.
    Fetched(Tag),
    /// It gave no rows, and was done.
    Done,
}

/// Rows on their way to a client.
pub(super) struct Rows {
    encoder: RowEncoder,
    stream: BatchStream,
    /// The batch that is being sent, and how many of its rows were.
    batch: Option<(EncodedRows, usize)>,
    pub(super) tag: Tag,
}

impl Rows {
    pub(super) fn new(encoder: RowEncoder, stream: BatchStream, tag: Tag) -> Rows {
        Rows { encoder, stream, batch: None, tag }
    }

    /// Whether there are rows to be written.
    pub(super) fn is_filled(&self) -> bool {
        self.batch.as_ref().is_some_and(|(rows, at)| *at < rows.rows())
    }

    /// Makes the next rows ready; false where there are no more.
    pub(super) async fn fill(&mut self) -> Result<bool> {
        while !self.is_filled() {
            match self.stream.next().await.transpose()? {
                Some(batch) => self.batch = Some((self.encoder.batch(&batch)?, 0)),
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Passes by rows that are ready, at most so many. Returns how many.
    pub(super) fn skip(&mut self, rows_max: u64) -> u64 {
        let Some((rows, at)) = &mut self.batch else { return 0 };
        let skipped = rows_max.min((rows.rows() - *at) as u64);
        *at += skipped as usize;
        skipped
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
        Ok(written)
    }
}

/// The command tag for so many rows. A portal that is fetched in parts counts those of each part.
pub(super) fn tag_of(tag: &Tag, rows: u64) -> String {
    match tag {
        Tag::Select | Tag::Fetch => format!("{tag} {rows}"),
        Tag::Insert(_) => Tag::Insert(rows).to_string(),
        Tag::Update(_) => Tag::Update(rows).to_string(),
        Tag::Delete(_) => Tag::Delete(rows).to_string(),
        Tag::Copy(_) | Tag::Other(_) => tag.to_string(),
    }
}
