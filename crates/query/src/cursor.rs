//! Cursors: queries whose rows are fetched bit by bit, of the snapshot at which they were declared.

use std::collections::HashMap;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::sql::sqlparser::ast::{FetchDirection, Value};
use futures::StreamExt;
use thalweg_types::{Error, Result, SqlState};

use crate::outcome::{BatchStream, Outcome, Tag};

/// A query that waits for its next `FETCH`.
pub(crate) struct Cursor {
    pub(crate) schema: SchemaRef,
    /// `None` once all rows were taken.
    rows: Option<BatchStream>,
    /// What the last fetch left of a batch.
    rest: Option<RecordBatch>,
    /// Whether it outlives the transaction that declared it, once that commits.
    hold: bool,
    is_held: bool,
}

/// How many rows a `FETCH` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    Rows(usize),
    All,
}

impl Wanted {
    /// # Errors
    /// Where the direction is not forwards.
    pub(crate) fn of(direction: &FetchDirection) -> Result<Wanted> {
        let number = |limit: &Value| match limit {
            Value::Number(digits, _) => digits.to_string().parse::<usize>().ok(),
            _ => None,
        };
        let rows = match direction {
            FetchDirection::Next | FetchDirection::Forward { limit: None } => Some(1),
            FetchDirection::Count { limit } | FetchDirection::Forward { limit: Some(limit) } => {
                number(&limit.value)
            }
            FetchDirection::All | FetchDirection::ForwardAll => return Ok(Wanted::All),
            _ => None,
        };
        rows.map(Wanted::Rows).ok_or_else(|| {
            Error::new(SqlState::OBJECT_NOT_IN_STATE, "cursor can only scan forward")
                .with_hint("Fetch a number of rows, NEXT or ALL.")
        })
    }
}

impl Cursor {
    pub(crate) fn new(schema: SchemaRef, rows: BatchStream, hold: bool) -> Cursor {
        Cursor { schema, rows: Some(rows), rest: None, hold, is_held: false }
    }

    /// The next rows. All that are left come as a stream of their own, a number of them at once.
    pub(crate) async fn fetch(&mut self, wanted: Wanted) -> Result<Outcome> {
        match wanted {
            Wanted::Rows(rows) => self.next_rows(rows).await,
            Wanted::All => {
                let rest = futures::stream::iter(self.rest.take().map(Ok));
                let rows = self.rows.take().unwrap_or_else(|| futures::stream::empty().boxed());
                Ok(Outcome::rows(self.schema.clone(), rest.chain(rows).boxed(), Tag::Fetch))
            }
        }
    }

    async fn next_rows(&mut self, wanted: usize) -> Result<Outcome> {
        let mut batches = Vec::new();
        let mut missing = wanted;
        while missing > 0 {
            let Some(batch) = self.next_batch().await? else { break };
            if batch.num_rows() > missing {
                self.rest = Some(batch.slice(missing, batch.num_rows() - missing));
                batches.push(batch.slice(0, missing));
                break;
            }
            missing -= batch.num_rows();
            batches.push(batch);
        }
        Ok(Outcome::batches(self.schema.clone(), batches, Tag::Fetch))
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

    /// Closes what the transaction that ends does not hold.
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
