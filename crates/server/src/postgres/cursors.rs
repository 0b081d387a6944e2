//! Statements that treat portals and cursors alike: `MOVE` in a portal created by `Bind`, and
//! `Execute` of a cursor created by `DECLARE`.

use thalweg_execution::row_forms::RowForm;
use thalweg_formats::postgres::{RowEncoder, ValueFormat};
use thalweg_formats::text::style::within;
use thalweg_query::Tag;
use thalweg_types::Error;

use super::connection::{Client, MessageFailure};
use super::execute::Sent;
use super::extended::{cannot_be_run, no_portal};
use super::portal::{Counted, Rows, State};
use super::running_statement::RunningStatement;

impl Client {
    /// Skips rows of a portal, all of them if no number is given. As with `Execute`, an error
    /// removes the portal.
    pub(super) async fn move_portal(
        &mut self,
        name: &str,
        rows_max: Option<u64>,
    ) -> Result<(), MessageFailure> {
        let mut portal = self.portals.remove(name).ok_or_else(|| no_portal(name))?;
        let prepared = &portal.prepared;
        prepared.check_taken(self.session.transaction())?;
        let rows_max = rows_max.unwrap_or(u64::MAX);
        portal.state = match portal.state {
            State::Bound(values) if prepared.schema().is_some() => {
                let mut work = Box::new(self.begin(prepared.sql()));
                match self
                    .open(prepared, &values, &portal.formats, RowForm::Batches, &mut work)
                    .await
                {
                    Ok(Some(rows)) => self.pass(Box::new(rows), rows_max, work).await?,
                    done => {
                        self.over(*work, done)?;
                        State::Done
                    }
                }
            }
            State::Open(rows, mut work) => {
                self.resume(&mut work, prepared.sql());
                self.pass(rows, rows_max, work).await?
            }
            State::Fetched(tag) => {
                self.wire.replies.complete("MOVE 0");
                State::Fetched(tag)
            }
            // The statement gives no rows to skip.
            State::Bound(_) | State::Done => return Err(cannot_be_run(name).into()),
        };
        self.portals.insert(name.to_owned(), portal);
        Ok(())
    }

    /// Skips rows of an open portal.
    async fn pass(
        &mut self,
        mut rows: Box<Rows>,
        rows_max: u64,
        mut work: Box<RunningStatement>,
    ) -> Result<State, MessageFailure> {
        let (mut passed, mut are_left) = (0, true);
        while are_left && passed < rows_max {
            are_left = match self.fill(&mut rows, &mut work).await {
                Ok(are_left) => are_left,
                Err(trouble) => return self.over(*work, Err(trouble)),
            };
            passed += rows.skip(rows_max - passed);
        }
        self.wire.replies.complete(format_args!("MOVE {passed}"));
        if are_left {
            self.suspend(&mut work);
            return Ok(State::Open(rows, work));
        }
        self.over(*work, Ok(()))?;
        Ok(State::Fetched(rows.tag))
    }

    /// Sends the next rows of a declared cursor, as text.
    pub(super) async fn execute_declared(
        &mut self,
        name: &str,
        rows_max: u64,
    ) -> Result<(), MessageFailure> {
        if self.session.cursor_schema(name).is_none() {
            return Err(no_portal(name).into());
        }
        let mut work = self.begin(&format!("FETCH FROM {name}").into());
        let done = self.send_declared(name, rows_max, &mut work).await;
        self.over(work, done)
    }

    async fn send_declared(
        &mut self,
        name: &str,
        rows_max: u64,
        work: &mut RunningStatement,
    ) -> Result<(), MessageFailure> {
        self.take_place(work).await?;
        let wanted = (rows_max < u64::MAX).then_some(rows_max);
        let outcome = self.wire.while_here(self.session.fetch(name, wanted)).await??;
        let stream = outcome.rows.ok_or_else(|| Error::internal("a cursor has no rows"))?;
        let formats = vec![ValueFormat::Text; outcome.schema.fields().len()];
        let encoder =
            within(self.session.style().as_ref(), || RowEncoder::new(outcome.schema, formats));
        let mut rows = Rows::new(encoder, stream, Tag::Select);
        match self.send_rows(&mut rows, u64::MAX, work).await? {
            Sent::All(count) if count < rows_max => {
                self.wire.replies.complete(Counted(&rows.tag, count));
            }
            // The cursor returned as many rows as requested and may have more.
            Sent::All(_) | Sent::Enough => self.wire.replies.portal_suspended(),
        }
        Ok(())
    }
}
