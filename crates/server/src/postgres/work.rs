//! A statement at work: its place among those that run, its cancels, and who counts it.

use std::sync::Arc;

use thalweg_query::{Cancels, takes_locks};

use super::connection::{Client, Trouble};
use crate::admission::Permit;
use crate::connections::FrontEnd;
use crate::metrics::StatementKind;
use crate::trace::Watch;

/// Held from a statement's beginning to its end, over all its suspensions.
pub(super) struct Work {
    pub(super) place: Place,
    pub(super) cancels: Cancels,
    pub(super) watch: Watch,
}

/// A statement's place among those that run.
pub(super) enum Place {
    /// What begins and ends transactions always runs: others wait for it. So does what waits for
    /// the locks of others.
    NotNeeded,
    /// The statement has not begun.
    Wanted,
    Held {
        _permit: Permit,
    },
    /// The statement waits for its client.
    GivenUp,
}

impl Work {
    /// To be called where the client is waited for.
    pub(super) fn give_up_place(&mut self) {
        if matches!(self.place, Place::Held { .. }) {
            self.place = Place::GivenUp;
        }
    }
}

impl Client {
    /// A statement begins.
    pub(super) fn begin(&mut self, sql: &Arc<str>) -> Work {
        let watch = self.shared.observer.begin(FrontEnd::Postgres, &self.user, sql);
        let kind = watch.kind();
        self.told.expect(kind, sql);
        let connection = &self.listed.connection;
        // Whoever sees the statement run may cancel it.
        let cancels = connection.cancel.watch();
        connection.begin(sql);
        let place = match kind {
            StatementKind::Transaction => Place::NotNeeded,
            _ if takes_locks(sql) => Place::NotNeeded,
            _ => Place::Wanted,
        };
        Work { place, cancels, watch }
    }

    /// A statement goes on that its client suspended.
    pub(super) fn resume(&self, work: &mut Work, sql: &Arc<str>) {
        let connection = &self.listed.connection;
        // Cancels in between were for something else.
        work.cancels = connection.cancel.watch();
        connection.begin(sql);
    }

    /// A statement waits until its client wants more of its rows.
    pub(super) fn suspend(&self, work: &mut Work) {
        work.give_up_place();
        self.listed.connection.finish(self.session.transaction());
    }

    /// A statement is over.
    pub(super) fn over<T>(&self, work: Work, done: Result<T, Trouble>) -> Result<T, Trouble> {
        self.listed.connection.finish(self.session.transaction());
        match &done {
            Ok(_) => work.watch.end(None),
            Err(Trouble::Error(error)) => work.watch.end(Some(error)),
            // Dropped, it counts as cancelled.
            Err(Trouble::End(_)) => {}
        }
        done
    }
}
