//! Access to a session's cursors without SQL.

use arrow::datatypes::SchemaRef;
use futures::future::BoxFuture;
use thalweg_execution::panics::caught;
use thalweg_types::Result;

use super::{Route, Session, TransactionStatus, in_failed_block};
use crate::cursor::{Motion, Rows};
use crate::outcome::Outcome;

impl Session {
    /// The columns of a declared cursor; `None` if there is none of the name.
    pub fn cursor_schema(&mut self, name: &str) -> Option<SchemaRef> {
        self.cursors.find(name).ok().map(|cursor| SchemaRef::clone(&cursor.schema))
    }

    /// The next rows of a declared cursor; all remaining ones if no number is given.
    ///
    /// # Errors
    /// If there is no such cursor; those of its query; if an open block has failed.
    pub fn fetch<'a>(
        &'a mut self,
        name: &'a str,
        rows: Option<u64>,
    ) -> BoxFuture<'a, Result<Outcome>> {
        Box::pin(async move {
            self.cancels.begin();
            let fetched = caught(self.fetch_timed(name, rows)).await;
            self.note_failure(fetched)
        })
    }

    async fn fetch_timed(&mut self, name: &str, rows: Option<u64>) -> Result<Outcome> {
        if self.transaction() == TransactionStatus::Failed {
            return Err(in_failed_block());
        }
        let timer = self.statement_timer();
        let motion = Motion::Forward(rows.map_or(Rows::All, Rows::Count));
        let cursor = self.cursors.find(name)?;
        let outcome = self.cancels.run(cursor.fetch(motion)).await?;
        Ok(self.answered(Route::SessionCommand, outcome, timer))
    }
}
