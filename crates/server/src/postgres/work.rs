//! A statement at work: its permit, its cancellations, and its observer.

use std::sync::Arc;

use thalweg_query::{Cancels, takes_locks};

use super::connection::{Client, Trouble};
use crate::admission::Permit;
use crate::connections::FrontEnd;
use crate::metrics::StatementKind;
use crate::trace::Watch;

/// Held from a statement's beginning to its end, across suspensions.
pub(super) struct Work {
    pub(super) place: Place,
    pub(super) cancels: Cancels,
    pub(super) watch: Watch,
}

/// State of a statement's permit; see [`crate::admission`].
pub(super) enum Place {
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

impl Work {
    /// Returns the permit. Call this before waiting for the client.
    pub(super) fn give_up_place(&mut self) {
        if matches!(self.place, Place::Held { .. }) {
            self.place = Place::GivenUp;
        }
    }
}

impl Client {
    /// Begins a statement.
    pub(super) fn begin(&mut self, sql: &Arc<str>) -> Work {
        let watch = self.shared.observer.begin(FrontEnd::Postgres, &self.user, sql);
        let kind = watch.kind();
        self.told.expect(kind, sql);
        let connection = &self.listed.connection;
        // Cancellations count from here: once the statement is listed as running, others may cancel
        // it.
        let cancels = connection.cancel.watch();
        connection.begin(sql);
        let place = match kind {
            StatementKind::Transaction => Place::NotNeeded,
            _ if takes_locks(sql) => Place::NotNeeded,
            _ => Place::Wanted,
        };
        Work { place, cancels, watch }
    }

    /// Continues a statement that its client suspended.
    pub(super) fn resume(&self, work: &mut Work, sql: &Arc<str>) {
        let connection = &self.listed.connection;
        // Cancellations in between were meant for other statements.
        work.cancels = connection.cancel.watch();
        connection.begin(sql);
    }

    /// Suspends a statement until its client requests more rows.
    pub(super) fn suspend(&self, work: &mut Work) {
        work.give_up_place();
        self.listed.connection.finish(self.session.transaction());
    }

    /// Ends a statement.
    pub(super) fn over<T>(&self, work: Work, done: Result<T, Trouble>) -> Result<T, Trouble> {
        self.listed.connection.finish(self.session.transaction());
        match &done {
            Ok(_) => work.watch.end(None),
            Err(Trouble::Error(error)) => work.watch.end(Some(error)),
            // Dropping the watch counts the statement as cancelled.
            Err(Trouble::End(_)) => {}
        }
        done
    }
}
