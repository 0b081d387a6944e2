//! Execution of statements, sending of their results, and the simple protocol.

use arrow::datatypes::SchemaRef;
use thalweg_execution::row_forms::{RowForm, ValueForms};
use thalweg_formats::postgres::ValueFormat;
use thalweg_query::{Copy, Outcome, TransactionStatus, forward_move};
use thalweg_types::Error;

use super::connection::{Client, MessageFailure};
use super::portal::{Counted, Rows};
use super::running_statement::RunningStatement;
use super::wait::unless_cancelled;

/// The row format of the simple protocol.
const TEXTS: RowForm = RowForm::DataRows(ValueForms::Text);

/// Progress of sending a portal's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// The requested number of rows was sent; there may be more.
    Enough,
    /// The last row was sent, with the number of rows sent by this call.
    All(u64),
}

impl Client {
    /// Runs all statements of a text. Several statements form one implicit transaction, unless they
    /// contain transaction commands.
    pub(super) async fn simple_query(&mut self, sql: &str) -> Result<(), MessageFailure> {
        self.portals.remove("");
        self.session.forget_prepared("");
        let statements = self.wire.while_here(self.session.split(sql)).await??;
        if statements.is_empty() {
            self.wire.replies.empty_query();
            return Ok(());
        }
        for statement in &statements {
            // A COMMIT in between ends the implicit transaction, so the rest forms another one.
            let is_idle = self.session.transaction() == TransactionStatus::Idle;
            if statements.len() > 1 && is_idle {
                self.session.begin_implicit();
            }
            let ran = self.simple_statement(&statement.text).await;
            if let Err(trouble) = ran {
                self.session.end_implicit(false).await?;
                return Err(placed(trouble, sql, statement.offset));
            }
        }
        Ok(self.session.end_implicit(true).await?)
    }

    async fn simple_statement(&mut self, sql: &str) -> Result<(), MessageFailure> {
        if let Some((name, rows)) = forward_move(sql)
            && self.portals.contains_key(&name)
        {
            return self.move_portal(&name, rows).await;
        }
        let mut work = self.begin(&sql.into());
        let done = self.run_simple(sql, &mut work).await;
        self.over(work, done)
    }

    async fn run_simple(
        &mut self,
        sql: &str,
        work: &mut RunningStatement,
    ) -> Result<(), MessageFailure> {
        self.take_place(work).await?;
        let outcome = self.wire.while_here(self.session.execute_as(sql, TEXTS)).await??;
        self.send(outcome, work).await
    }

    /// Sends the whole result of a statement, as text.
    pub(super) async fn send(
        &mut self,
        mut outcome: Outcome,
        work: &mut RunningStatement,
    ) -> Result<(), MessageFailure> {
        self.notices(&outcome);
        match outcome.copy.take() {
            Some(Copy::In(copy)) => return self.copy_in(*copy, work).await,
            Some(Copy::Out(options)) => return self.copy_out(outcome, &options, work).await,
            None => {}
        }
        let (schema, tag) = (SchemaRef::clone(&outcome.schema), outcome.tag.clone());
        let formats = vec![ValueFormat::Text; schema.fields().len()];
        let Some(mut rows) = Rows::of(outcome, formats.clone()) else {
            self.wire.replies.complete(&tag);
            return Ok(());
        };
        // The first rows are computed before the columns are described, so that an early error
        // comes first.
        self.fill(&mut rows, work).await?;
        self.wire.replies.row_description(&schema, &formats);
        if let Sent::All(count) = self.send_rows(&mut rows, u64::MAX, work).await? {
            self.wire.replies.complete(Counted(&rows.tag, count));
        }
        Ok(())
    }

    pub(super) fn notices(&mut self, outcome: &Outcome) {
        for notice in &outcome.notices {
            let detail = notice.detail.as_deref();
            self.wire.replies.notice(notice.severity(), notice.state.0, &notice.message, detail);
        }
    }

    /// Sends rows, at most `rows_max`.
    pub(super) async fn send_rows(
        &mut self,
        rows: &mut Rows,
        rows_max: u64,
        work: &mut RunningStatement,
    ) -> Result<Sent, MessageFailure> {
        let mut sent = 0;
        while sent < rows_max {
            if !self.fill(rows, work).await? {
                return Ok(Sent::All(sent));
            }
            let (written, bytes) = rows.write(&mut self.wire, rows_max - sent)?;
            work.watch.sent(written as usize, bytes)?;
            sent += written;
            self.send_during(work).await?;
        }
        Ok(Sent::Enough)
    }

    /// Computes the next rows if none are ready; false at the end.
    pub(super) async fn fill(
        &mut self,
        rows: &mut Rows,
        work: &mut RunningStatement,
    ) -> Result<bool, MessageFailure> {
        if rows.is_filled() {
            return Ok(true);
        }
        self.take_place(work).await?;
        Ok(unless_cancelled(&mut work.cancels, self.wire.while_here(rows.fill())).await??)
    }
}

/// Shifts an error's position from the statement to the text that contains it.
fn placed(trouble: MessageFailure, sql: &str, offset: usize) -> MessageFailure {
    match trouble {
        MessageFailure::Error(error) => MessageFailure::Error(placed_error(error, sql, offset)),
        end @ MessageFailure::End(_) => end,
    }
}

/// Shifts an error's position by the characters before a byte offset of the text.
pub(crate) fn placed_error(error: Error, sql: &str, offset: usize) -> Error {
    let before = sql[..offset].chars().count();
    match error.position() {
        Some(position) => error.with_position(position + before),
        None => error,
    }
}
