//! `COPY … FROM STDIN`: rows that the client sends.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use thalweg_execution::cancel::Timer;
use thalweg_formats::text::style::{self, SessionStyle};
use thalweg_formats::{CopyDecoder, ReadOptions};
use thalweg_types::{Error, Result, RowId, SqlState};

use crate::database::Database;
use crate::loader::{Loaded, Loader};
use crate::statement::{Shaper, Target};

/// Receives the rows of one `COPY`. None of them is in the table before the session completes the
/// copy.
pub struct CopyIn {
    target: Target,
    schema: SchemaRef,
    options: ReadOptions,
    shaper: Shaper,
    loader: Loader,
    /// The statement's time-out, which also runs while the rows arrive.
    timer: Option<Timer>,
    /// The style in which values are read from text.
    style: Option<Arc<SessionStyle>>,
}

impl CopyIn {
    pub(crate) fn new(
        database: &Database,
        target: Target,
        schema: SchemaRef,
        options: ReadOptions,
        shaper: Shaper,
        goes_ahead: bool,
    ) -> CopyIn {
        let loader = Loader::new(database.clone(), target.schema().clone());
        let loader = if goes_ahead { loader.going_ahead() } else { loader };
        CopyIn { target, schema, options, shaper, loader, timer: None, style: style::current() }
    }

    /// Keeps the timer that cancels the statement, for as long as rows may come.
    pub(crate) fn keep(&mut self, timer: Option<Timer>) {
        self.timer = timer;
    }

    /// The columns that the client sends, in their order.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Options of the client's text or CSV format.
    #[must_use]
    pub fn options(&self) -> &ReadOptions {
        &self.options
    }

    /// The style in which the client's bytes have to be decoded; `None` is the default one.
    #[must_use]
    pub fn style(&self) -> Option<Arc<SessionStyle>> {
        self.style.clone()
    }

    /// Decoder of the client's bytes.
    ///
    /// # Errors
    /// If the statement's options contradict each other.
    pub fn decoder(&self) -> Result<CopyDecoder> {
        let source = format!("COPY {}", self.target.schema().name);
        CopyDecoder::new(&source, &self.schema, &self.options, RowId::CHUNK_ROWS)
    }

    /// A check to call before rows of so many bytes are decoded. It fails if the process has no
    /// memory for them.
    pub fn room(&self) -> impl Fn(usize) -> Result<()> + Send + 'static + use<> {
        let database = self.loader.database().clone();
        move |bytes| database.shared.engine.make_room(bytes)
    }

    /// Adds rows that have the schema of [`schema`](Self::schema).
    ///
    /// # Errors
    /// The first value that does not fit its column, or constraint that does not hold.
    pub fn push(&mut self, rows: &RecordBatch) -> Result<()> {
        let _style = style::enter(self.style.clone());
        self.loader.push(self.shaper.shape(rows)?)
    }

    /// Ends the copy: all rows that arrived, checked against the table's definition in `catalog`.
    pub(crate) fn finish(self, catalog: &thalweg_txn::Catalog) -> Result<(Target, Loaded)> {
        let schema = self.target.schema();
        let now = catalog.table(schema.id);
        if now.is_none_or(|now| now.schema != *schema) {
            let message = format!("table \"{}\" was changed during COPY", schema.name);
            return Err(Error::new(SqlState::SERIALIZATION_FAILURE, message)
                .with_hint("Copy the rows again."));
        }
        Ok((self.target, self.loader.finish()))
    }
}
