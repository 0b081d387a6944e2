//! A statement at work: its permit, its cancellations, and its observer.

use std::sync::Arc;

use thalweg_execution::cancel::Cancels;
use thalweg_query::takes_locks;

use super::connection::{Client, MessageFailure};
use crate::admission::Permit;
use crate::connections::FrontEnd;
use crate::metrics::StatementKind;
use crate::trace::Watch;

/// Held from a statement's beginning to its end, across suspensions.
pub(super) struct RunningStatement {
    pub(super) place: AdmissionState,
    pub(super) cancels: Cancels,
    pub(super) watch: Watch,
}

/// State of a statement's permit; see [`crate::admission`].
pub(super) enum AdmissionState {
    /// Statements that begin and end transactions always run, since others wait for them.
    /// Statements that wait for advisory locks hold no permit either.
    NotNeeded,
    /// The statement has not begun.
    Wanted,
    Held {
        _permit: Permit,
    },
    /// The permit was returned while the statement waits for its client.
    GivenUp,
}

impl RunningStatement {
    /// Returns the permit. Call this before waiting for the client.
    pub(super) fn give_up_place(&mut self) {
        if matches!(self.place, AdmissionState::Held { .. }) {
            self.place = AdmissionState::GivenUp;
        }
    }
}

impl Client {
    /// Begins a statement.
    pub(super) fn begin(&mut self, sql: &Arc<str>) -> RunningStatement {
        let watch = self.shared.observer.begin(FrontEnd::Postgres, &self.user, sql);
        let kind = watch.kind();
        self.reported.expect(kind, sql);
        let connection = &self.listed.connection;
        // Cancellations count from here: once the statement is listed as running, others may cancel
        // it.
        let cancels = connection.cancel.watch();
        connection.begin(sql);
        let place = match kind {
            StatementKind::Transaction => AdmissionState::NotNeeded,
            _ if takes_locks(sql) => AdmissionState::NotNeeded,
            _ => AdmissionState::Wanted,
        };
        RunningStatement { place, cancels, watch }
    }

    /// Continues a statement that its client suspended.
    pub(super) fn resume(&self, work: &mut RunningStatement, sql: &Arc<str>) {
        let connection = &self.listed.connection;
        // Cancellations in between were meant for other statements.
        work.cancels = connection.cancel.watch();
        connection.begin(sql);
    }

    /// Suspends a statement until its client requests more rows.
    pub(super) fn suspend(&self, work: &mut RunningStatement) {
        work.give_up_place();
        self.listed.connection.finish(self.session.transaction());
    }

    /// Ends a statement.
    pub(super) fn over<T>(
        &self,
        work: RunningStatement,
        done: Result<T, MessageFailure>,
    ) -> Result<T, MessageFailure> {
        self.listed.connection.finish(self.session.transaction());
        match &done {
            Ok(_) => work.watch.end(None),
            Err(MessageFailure::Error(error)) => work.watch.end(Some(error)),
            // Dropping the watch counts the statement as cancelled.
            Err(MessageFailure::End(_)) => {}
        }
        done
    }
}
