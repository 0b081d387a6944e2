//! Portals: bound statements, running or about to run.

use std::fmt;
use std::sync::Arc;

use futures::StreamExt;
use thalweg_execution::row_forms::{Encoded, EncodedStream};
use thalweg_formats::postgres::{EncodedRows, RowEncoder, ValueFormat};
use thalweg_formats::text::style::within;
use thalweg_query::{BatchStream, Outcome, Prepared, ScalarValue, Tag};
use thalweg_types::Result;

use super::running_statement::RunningStatement;
use super::wire::{SEND_BYTES, Wire};

/// A prepared statement with its values and its state.
pub(super) struct Portal {
    pub(super) prepared: Prepared,
    pub(super) formats: Arc<[ValueFormat]>,
    pub(super) state: State,
}

pub(super) enum State {
    Bound(Vec<ScalarValue>),
    /// Its rows are being fetched.
    Open(Box<Rows>, Box<RunningStatement>),
    /// All rows were fetched; further requests return none.
    Fetched(Tag),
    /// The statement gave no rows and is complete.
    Done,
}

/// Rows on their way to the client.
pub(super) struct Rows {
    source: Source,
    pub(super) tag: Tag,
}

enum Source {
    Batches {
        encoder: RowEncoder,
        stream: BatchStream,
        /// The current batch, and the number of its rows already sent.
        batch: Option<(EncodedRows, usize)>,
    },
    /// Rows that workers have encoded. Their boundaries are unknown, so they cannot be counted one
    /// by one.
    Encoded { stream: EncodedStream, next: Option<Encoded> },
}

impl Rows {
    pub(super) fn new(encoder: RowEncoder, stream: BatchStream, tag: Tag) -> Rows {
        Rows { source: Source::Batches { encoder, stream, batch: None }, tag }
    }

    /// The rows of an outcome in either form; `None` if it has none.
    pub(super) fn of(outcome: Outcome, formats: Vec<ValueFormat>) -> Option<Rows> {
        let Outcome { schema, rows, encoded, tag, style, .. } = outcome;
        if let Some(stream) = encoded {
            return Some(Rows { source: Source::Encoded { stream, next: None }, tag });
        }
        let encoder = within(style.as_ref(), || RowEncoder::new(schema, formats));
        Some(Rows::new(encoder, rows?, tag))
    }

    /// True if rows are ready to be written.
    pub(super) fn is_filled(&self) -> bool {
        match &self.source {
            Source::Batches { batch, .. } => {
                batch.as_ref().is_some_and(|(rows, at)| *at < rows.rows())
            }
            Source::Encoded { next, .. } => next.is_some(),
        }
    }

    /// Prepares the next rows; false at the end.
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

    /// Skips at most `rows_max` of the ready rows and returns how many.
    pub(super) fn skip(&mut self, rows_max: u64) -> u64 {
        let Source::Batches { batch: Some((rows, at)), .. } = &mut self.source else { return 0 };
        let skipped = rows_max.min((rows.rows() - *at) as u64);
        *at += skipped as usize;
        skipped
    }

    /// Writes ready rows: at most `rows_max`, and only until there is enough to send. Returns the
    /// numbers of rows and bytes.
    ///
    /// Encoded rows are written whole, regardless of `rows_max`, so they serve only requests for
    /// all rows.
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

/// The command tag with a number of rows. A portal fetched in parts reports the rows of each part.
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
