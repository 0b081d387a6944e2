//! Portals: statements with their values, running or about to run.

use std::fmt;
use std::sync::Arc;

use futures::StreamExt;
use thalweg_formats::postgres::{EncodedRows, RowEncoder, ValueFormat};
use thalweg_query::{BatchStream, Encoded, EncodedStream, Outcome, Prepared, ScalarValue, Tag};
use thalweg_types::Result;

use super::wire::{SEND_BYTES, Wire};
use super::work::Work;

/// A prepared statement with its values, and how far it has come.
pub(super) struct Portal {
    pub(super) prepared: Prepared,
    pub(super) formats: Arc<[ValueFormat]>,
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
    source: Source,
    pub(super) tag: Tag,
}

enum Source {
    Batches {
        encoder: RowEncoder,
        stream: BatchStream,
        /// The batch that is being sent, and how many of its rows were.
        batch: Option<(EncodedRows, usize)>,
    },
    /// Rows that others have encoded, which cannot be told apart.
    Encoded { stream: EncodedStream, next: Option<Encoded> },
}

impl Rows {
    pub(super) fn new(encoder: RowEncoder, stream: BatchStream, tag: Tag) -> Rows {
        Rows { source: Source::Batches { encoder, stream, batch: None }, tag }
    }

    /// The rows of an outcome, in whatever form it has them; `None` where it has none.
    pub(super) fn of(outcome: Outcome, formats: Vec<ValueFormat>) -> Option<Rows> {
        let Outcome { schema, rows, encoded, tag, .. } = outcome;
        if let Some(stream) = encoded {
            return Some(Rows { source: Source::Encoded { stream, next: None }, tag });
        }
        Some(Rows::new(RowEncoder::new(schema, formats), rows?, tag))
    }

    /// Whether there are rows to be written.
    pub(super) fn is_filled(&self) -> bool {
        match &self.source {
            Source::Batches { batch, .. } => {
                batch.as_ref().is_some_and(|(rows, at)| *at < rows.rows())
            }
            Source::Encoded { next, .. } => next.is_some(),
        }
    }

    /// Makes the next rows ready; false where there are no more.
    pub(super) async fn fill(&mut self) -> Result<bool> {
        while !self.is_filled() {
            match &mut self.source {
                Source::Batches { encoder, stream, batch } => {
                    let Some(rows) = stream.next().await.transpose()? else { return Ok(false) };
                    *batch = Some((encoder.batch(&rows)?, 0));
                }
                Source::Encoded { stream, next } => {
                    *next = stream.next().await.transpose()?;
                    if next.is_none() {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    }

    /// Passes by rows that are ready, at most so many. Returns how many.
    pub(super) fn skip(&mut self, rows_max: u64) -> u64 {
        let Source::Batches { batch: Some((rows, at)), .. } = &mut self.source else { return 0 };
        let skipped = rows_max.min((rows.rows() - *at) as u64);
        *at += skipped as usize;
        skipped
    }

    /// Writes rows that are ready: at most `rows_max`, and until there is enough to send. Returns
    /// how many rows and bytes.
    ///
    /// Encoded rows are written as they are, which is for those who want all of them.
    pub(super) fn write(&mut self, wire: &mut Wire, rows_max: u64) -> Result<(u64, usize)> {
        match &mut self.source {
            Source::Batches { batch: Some((rows, at)), .. } => {
                let out = &mut wire.replies.bytes;
                let (mut written, before) = (0, out.len());
                while *at < rows.rows() && written < rows_max && out.len() < SEND_BYTES {
                    rows.data_row(*at, out)?;
                    *at += 1;
                    written += 1;
                }
                Ok((written, out.len() - before))
            }
            Source::Encoded { next, .. } => {
                let Encoded { rows, bytes, pieces } = next.take().unwrap_or_default();
                pieces.into_iter().for_each(|piece| wire.pass_on(piece));
                Ok((rows, bytes))
            }
            Source::Batches { batch: None, .. } => Ok((0, 0)),
        }
    }
}

/// The command tag for so many rows. A portal that is fetched in parts counts those of each part.
pub(super) struct Counted<'a>(pub(super) &'a Tag, pub(super) u64);

impl fmt::Display for Counted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counted(tag, rows) = *self;
        match tag {
            Tag::Select | Tag::Fetch => write!(f, "{tag} {rows}"),
            Tag::Insert(_) => write!(f, "{}", Tag::Insert(rows)),
            Tag::Update(_) => write!(f, "{}", Tag::Update(rows)),
            Tag::Delete(_) => write!(f, "{}", Tag::Delete(rows)),
            Tag::Copy(_) | Tag::Other(_) => write!(f, "{tag}"),
        }
    }
}
