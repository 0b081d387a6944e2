//! Cursors: queries whose rows are fetched in portions, from the snapshot at which they were
//! declared.
//!
//! A cursor moves forwards as its rows are fetched. A cursor declared with `SCROLL` keeps the rows
//! that it has passed, and so can return to them.

mod motion;
mod scroll;

use std::collections::HashMap;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::StreamExt;
use thalweg_dialect::parse::parse_single;
use thalweg_execution::planning::is_long;
use thalweg_types::{Error, Result, SqlState};

use crate::outcome::{BatchStream, Outcome, Tag};
use crate::statement::{SessionCommand, of_session};
pub(crate) use motion::{Motion, Rows};
use scroll::Scroll;

/// A query that waits for its next `FETCH`.
pub(crate) struct Cursor {
    pub(crate) schema: SchemaRef,
    source: Source,
    /// `None` for a cursor that only runs forwards.
    scroll: Option<Scroll>,
    /// Number of rows that a cursor without scroll has passed.
    passed: u64,
    /// True if it outlives the commit of the transaction that declared it.
    hold: bool,
    is_held: bool,
}

/// The cursor and the number of rows (`None` for all) if `sql` is a `MOVE` forwards. Callers that
/// keep cursors of their own use it.
#[must_use]
pub fn forward_move(sql: &str) -> Option<(String, Option<u64>)> {
    let is_move = sql.trim_start().get(..4).is_some_and(|word| word.eq_ignore_ascii_case("move"));
    // No such statement is long, and parsing a long text would block the thread.
    let parsed = if is_move && !is_long(sql) { parse_single(sql).ok()? } else { return None };
    match of_session(&parsed)? {
        SessionCommand::Fetch { name, motion: Ok(Motion::Forward(rows)), gives_rows: false } => {
            Some((name, rows.count()))
        }
        _ => None,
    }
}

/// Source of the next rows.
struct Source {
    /// `None` once all rows were taken.
    rows: Option<BatchStream>,
    /// Remainder of a batch after the last fetch.
    rest: Option<RecordBatch>,
}

/// Options of a cursor's declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Manner {
    pub(crate) hold: bool,
    pub(crate) scroll: bool,
}

impl Cursor {
    pub(crate) fn new(schema: SchemaRef, rows: BatchStream, manner: Manner) -> Cursor {
        Cursor {
            schema,
            source: Source { rows: Some(rows), rest: None },
            scroll: manner.scroll.then(Scroll::default),
            passed: 0,
            hold: manner.hold,
            is_held: false,
        }
    }

    /// Moves, and returns the rows that were passed.
    ///
    /// # Errors
    /// If the motion leads backwards and the cursor cannot; and errors of the query.
    pub(crate) async fn fetch(&mut self, motion: Motion) -> Result<Outcome> {
        if self.scroll.is_none() && motion == Motion::Forward(Rows::All) {
            return Ok(self.all_that_are_left());
        }
        let batches = self.go(motion).await?;
        Ok(Outcome::batches(self.schema.clone(), batches, Tag::Fetch))
    }

    /// Moves, and returns only the number of rows that were passed.
    ///
    /// # Errors
    /// As [`Cursor::fetch`].
    pub(crate) async fn pass(&mut self, motion: Motion) -> Result<Outcome> {
        let passed: usize = self.go(motion).await?.iter().map(RecordBatch::num_rows).sum();
        Ok(Outcome::done(Tag::Other(format!("MOVE {passed}"))))
    }

    async fn go(&mut self, motion: Motion) -> Result<Vec<RecordBatch>> {
        match &mut self.scroll {
            Some(scroll) => scroll.go(motion, &mut self.source).await,
            None => self.go_forwards(motion).await,
        }
    }

    /// Returns the remaining rows as a stream.
    fn all_that_are_left(&mut self) -> Outcome {
        let rest = futures::stream::iter(self.source.rest.take().map(Ok));
        let rows = self.source.rows.take().unwrap_or_else(|| futures::stream::empty().boxed());
        Outcome::rows(self.schema.clone(), rest.chain(rows).boxed(), Tag::Fetch)
    }

    async fn go_forwards(&mut self, motion: Motion) -> Result<Vec<RecordBatch>> {
        let (skipped, wanted) = motion.forwards_from(self.passed).ok_or_else(only_forward)?;
        let skipped = self.source.take(skipped).await?;
        let batches = self.source.take(wanted).await?;
        let rows = skipped.iter().chain(&batches).map(|batch| batch.num_rows() as u64);
        self.passed += rows.sum::<u64>();
        Ok(batches)
    }
}

impl Source {
    /// The next rows. Fewer than `wanted` only at the end.
    async fn take(&mut self, wanted: Rows) -> Result<Vec<RecordBatch>> {
        let mut batches = Vec::new();
        let mut missing = wanted.count().unwrap_or(u64::MAX);
        while missing > 0 {
            let Some(batch) = self.next_batch().await? else { break };
            let rows = batch.num_rows() as u64;
            if rows > missing {
                let taken = missing as usize;
                self.rest = Some(batch.slice(taken, batch.num_rows() - taken));
                batches.push(batch.slice(0, taken));
                break;
            }
            missing -= rows;
            batches.push(batch);
        }
        Ok(batches)
    }

    async fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        if let Some(rest) = self.rest.take() {
            return Ok(Some(rest));
        }
        let Some(rows) = &mut self.rows else { return Ok(None) };
        let next = rows.next().await.transpose();
        if !matches!(next, Ok(Some(_))) {
            self.rows = None;
        }
        next
    }
}

fn only_forward() -> Error {
    Error::new(SqlState::OBJECT_NOT_IN_STATE, "cursor can only scan forward")
        .with_hint("Declare it with SCROLL option to enable backward scan.")
}

/// The cursors of a session, by name.
#[derive(Default)]
pub(crate) struct Cursors {
    named: HashMap<String, Cursor>,
}

impl Cursors {
    pub(crate) fn declare(&mut self, name: &str, cursor: Cursor) -> Result<()> {
        if self.named.contains_key(name) {
            let message = format!("cursor \"{name}\" already exists");
            return Err(Error::new(SqlState::DUPLICATE_CURSOR, message));
        }
        self.named.insert(name.to_owned(), cursor);
        Ok(())
    }

    pub(crate) fn find(&mut self, name: &str) -> Result<&mut Cursor> {
        self.named.get_mut(name).ok_or_else(|| unknown(name))
    }

    pub(crate) fn close(&mut self, name: &str) -> Result<()> {
        self.named.remove(name).map(drop).ok_or_else(|| unknown(name))
    }

    pub(crate) fn close_all(&mut self) {
        self.named.clear();
    }

    /// Closes cursors that do not outlive the transaction.
    pub(crate) fn end_transaction(&mut self, committed: bool) {
        for cursor in self.named.values_mut() {
            cursor.is_held |= committed && cursor.hold;
        }
        self.named.retain(|_, cursor| cursor.is_held);
    }
}

fn unknown(name: &str) -> Error {
    Error::new(SqlState::INVALID_CURSOR_NAME, format!("cursor \"{name}\" does not exist"))
}
