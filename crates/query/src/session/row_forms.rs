//! Runs statements with the form in which their rows are wanted.
//!
//! Methods that run statements return boxed futures: the state machine of an `async fn` is compiled
//! in each crate that awaits it, and this one holds the whole of query processing.

use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::execution::session_state::SessionState;
use futures::future::{BoxFuture, ready};
use thalweg_execution::panics::caught;
use thalweg_execution::row_forms::RowForm;
use thalweg_execution::stack::{is_long, with_room};
use thalweg_formats::text::style::within;
use thalweg_types::Result;

use super::{Session, in_style};
use crate::numeric_parameters;
use crate::outcome::Outcome;
use crate::planner::Planner;
use crate::prepared::Prepared;
use crate::workers::Gathering;

impl Session {
    /// Runs one statement.
    ///
    /// # Errors
    /// Errors of the statement, or the reason why it could not run. It had no effect then; an open
    /// transaction block has failed.
    pub fn execute<'a>(&'a mut self, sql: &'a str) -> BoxFuture<'a, Result<Outcome>> {
        self.execute_as(sql, RowForm::Batches)
    }

    /// Runs one statement for a caller that accepts its rows in this form as well as in batches.
    ///
    /// # Errors
    /// As [`Session::execute`].
    pub fn execute_as<'a>(
        &'a mut self,
        sql: &'a str,
        form: RowForm,
    ) -> BoxFuture<'a, Result<Outcome>> {
        if let Err(error) = self.carry_out_setting_requests() {
            return Box::pin(ready(self.note_failure(Err(error))));
        }
        let style = self.style();
        self.form = form_for(form, style.is_some());
        in_style(style, self.run_text(sql))
    }

    /// Runs a prepared statement with a value for each of its parameters.
    ///
    /// # Errors
    /// As [`Session::execute`]; and if tables changed so that the result has other columns now.
    pub fn execute_prepared<'a>(
        &'a mut self,
        prepared: &'a Prepared,
        values: &'a [ScalarValue],
    ) -> BoxFuture<'a, Result<Outcome>> {
        self.execute_prepared_as(prepared, values, RowForm::Batches)
    }

    /// Runs a prepared statement for a caller that accepts its rows in this form as well as in
    /// batches.
    ///
    /// # Errors
    /// As [`Session::execute_prepared`].
    pub fn execute_prepared_as<'a>(
        &'a mut self,
        prepared: &'a Prepared,
        values: &'a [ScalarValue],
        form: RowForm,
    ) -> BoxFuture<'a, Result<Outcome>> {
        if let Err(error) = self.carry_out_setting_requests() {
            return Box::pin(ready(self.note_failure(Err(error))));
        }
        let values = match numeric_parameters::fitted(prepared.parameters(), values) {
            Ok(values) => values,
            Err(error) => return Box::pin(ready(self.note_failure(Err(error)))),
        };
        let style = self.style();
        self.form = form_for(form, style.is_some());
        self.cancels.begin();
        let route = match within(style.as_ref(), || self.run_at_once(prepared, &values)) {
            Ok(outcome) => {
                let outcome = outcome.and_then(|outcome| prepared.check_result(outcome));
                return Box::pin(ready(self.note_failure(outcome)));
            }
            Err(route) => route,
        };
        in_style(style, async move {
            // The future of a short statement is not moved once more.
            let outcome = match is_long(prepared.sql()) {
                true => {
                    let run = self.run_prepared(prepared, &values, route);
                    with_room(Box::pin(caught(run))).await
                }
                false => caught(self.run_prepared(prepared, &values, route)).await,
            };
            let outcome = outcome.and_then(|outcome| prepared.check_result(outcome));
            self.note_failure(outcome)
        })
    }

    /// The state that plans a statement, with the session's settings for gathering rows from
    /// workers.
    pub(super) fn gathering_in(&self, planner: &Planner) -> SessionState {
        let mut state = planner.context.state();
        if self.database.shared.cluster().is_present() {
            let memory = self.settings.query_memory();
            let gathering = Gathering { memory, ..self.settings.gathering };
            state.config_mut().set_extension(Arc::new(gathering));
        }
        state
    }
}

/// The form in which rows may come. Workers write texts in the default style only.
fn form_for(form: RowForm, has_style: bool) -> RowForm {
    match form {
        RowForm::DataRows(_) | RowForm::CopyData(_) if has_style => RowForm::Batches,
        form => form,
    }
}
