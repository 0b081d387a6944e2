//! Where statements run: in a connection's session, in a transaction, or in a session of their own.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use thalweg_query::{
    Outcome, Prepared, RowForm, ScalarValue, Session, SessionFacts, TransactionStatus,
};
use thalweg_types::Result;
use tokio::sync::MutexGuard;

use super::kept::Handle;
use super::transactions::no_transaction;
use crate::admission::{Asker, Permit};
use crate::connections::{FrontEnd, Listed};
use crate::metrics::Connected;
use crate::shared::Shared;
use crate::web::Line;

/// A session, and whose it is. Its statements run one after the other; the rows of several may be
/// read at the same time.
pub(crate) struct Seat {
    pub(super) user: Arc<str>,
    /// Whether the session is there after this call.
    pub(super) lasts: bool,
    session: tokio::sync::Mutex<Session>,
    /// Savepoints that were begun by calls, so that each has a name of its own.
    savepoints: Mutex<HashSet<String>>,
    /// As whom the session asked for its last place. Its rows are sent after the statement.
    asker: Mutex<Asker>,
    /// A client left in the midst of changes that were to be made all or none.
    abandoned: AtomicBool,
    /// No statement runs here any more.
    ended: AtomicBool,
    /// The connection that opened the session, where it has a name.
    pub(super) opener: Option<Handle>,
    lines: Mutex<Lines>,
    pub(super) listed: Listed,
    _connected: Connected,
}

impl Seat {
    /// # Errors
    /// Where there are too many sessions, or the user may not have one.
    pub(super) fn open(
        shared: &Shared,
        user: &Arc<str>,
        peer: SocketAddr,
        opener: Option<Handle>,
        lasts: bool,
    ) -> Result<Arc<Seat>> {
        let place = shared.connections.place()?;
        let mut session = shared.database.session_as(user)?;
        let listed = shared.list(place, peer, user, &session)?;
        let process_id = listed.connection.id;
        session.introduce(SessionFacts { process_id, ..SessionFacts::default() });
        let asker = Mutex::new(Asker::of(&session));
        Ok(Arc::new(Seat {
            user: Arc::clone(user),
            lasts,
            listed,
            session: tokio::sync::Mutex::new(session),
            savepoints: Mutex::default(),
            asker,
            abandoned: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            opener,
            lines: Mutex::default(),
            _connected: shared.metrics.connected(FrontEnd::Flight),
        }))
    }

    /// The session, for as long as nobody else works with it.
    pub(super) async fn session(&self) -> MutexGuard<'_, Session> {
        let mut session = self.session.lock().await;
        if self.abandoned.swap(false, Ordering::Relaxed) {
            // Rolling back what was never committed cannot fail in a way that matters to the next.
            let _ = session.execute("ROLLBACK").await;
        }
        session
    }

    /// A call came here on a line.
    pub(super) fn used_on(&self, line: Option<&Line>) {
        self.lines.lock().add(line);
    }

    /// For how long no line is open that the session was used on, as far as this was asked before.
    pub(super) fn away_for(&self, now: Duration) -> Duration {
        self.lines.lock().none_for(now)
    }

    pub(super) fn is_in_transaction(&self) -> bool {
        self.listed.connection.is_in_transaction()
    }

    /// Ends what runs here, and rolls back what was not committed.
    pub(super) async fn end(&self) {
        self.retire();
        self.abandoned.store(true, Ordering::Relaxed);
        self.listed.connection.cancel.cancel();
        let session = self.session().await;
        self.listed.connection.finish(session.transaction());
    }

    /// Whether its transaction is over, as far as it was ended here.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// No statement is to run here any more.
    pub(super) fn retire(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    fn check(&self) -> Result<()> {
        if self.has_ended() { Err(no_transaction()) } else { Ok(()) }
    }

    /// Runs what begins and ends transactions and savepoints: it waits for no place.
    pub(super) async fn control(&self, sql: &str) -> Result<()> {
        let mut session = self.session().await;
        self.check()?;
        self.control_in(&mut session, sql).await
    }

    pub(super) async fn control_in(&self, session: &mut Session, sql: &str) -> Result<()> {
        self.listed.connection.begin(&sql.into());
        let done = session.execute(sql).await;
        self.listed.connection.finish(session.transaction());
        done.map(drop)
    }

    fn ask(&self, session: &Session) -> Asker {
        let asker = Asker::of(session);
        *self.asker.lock() = asker;
        asker
    }

    /// As whom rows ask for a place to be computed.
    pub(super) fn asker(&self) -> Asker {
        *self.asker.lock()
    }

    /// Runs a statement that is among those admitted. The permit, where it needs one, is for as
    /// long as its rows are computed.
    pub(super) async fn execute(
        &self,
        shared: &Shared,
        sql: &str,
    ) -> Result<(Outcome, Option<Permit>)> {
        let run = async |session: &mut Session| session.execute_as(sql, RowForm::Flight).await;
        self.admitted(shared, sql, run).await
    }

    pub(super) async fn execute_prepared(
        &self,
        shared: &Shared,
        prepared: &Prepared,
        values: &[ScalarValue],
        form: RowForm,
    ) -> Result<(Outcome, Option<Permit>)> {
        let run =
            async |session: &mut Session| session.execute_prepared_as(prepared, values, form).await;
        self.admitted(shared, prepared.sql(), run).await
    }

    /// The session is taken before the permit: who holds a permit never waits for a session.
    async fn admitted(
        &self,
        shared: &Shared,
        sql: &str,
        run: impl AsyncFnOnce(&mut Session) -> Result<Outcome>,
    ) -> Result<(Outcome, Option<Permit>)> {
        let mut session = self.session().await;
        self.check()?;
        let permit = shared.admission.admit_statement(self.ask(&session), sql).await?;
        let connection = &self.listed.connection;
        connection.begin(&sql.into());
        let outcome = run(&mut session).await;
        connection.finish(session.transaction());
        Ok((outcome?, permit))
    }

    /// The same for somebody who has a permit already.
    pub(super) async fn execute_admitted(
        &self,
        prepared: &Prepared,
        values: &[ScalarValue],
    ) -> Result<Outcome> {
        let mut session = self.session().await;
        self.check()?;
        session.execute_prepared(prepared, values).await
    }

    /// Does several things in one transaction: the one that is open, or one for this.
    pub(super) async fn all_or_none<T>(
        &self,
        shared: &Shared,
        work: impl AsyncFnOnce(&mut Session) -> Result<T>,
    ) -> Result<T> {
        let mut session = self.session().await;
        self.check()?;
        let _permit = shared.admission.admit(self.ask(&session)).await?;
        if session.transaction() != TransactionStatus::Idle {
            return work(&mut session).await;
        }
        self.abandoned.store(true, Ordering::Relaxed);
        session.begin_steps();
        let done = work(&mut session).await;
        let end = if done.is_ok() { "COMMIT" } else { "ROLLBACK" };
        let ended = session.execute(end).await;
        self.abandoned.store(false, Ordering::Relaxed);
        let done = done?;
        ended.map(|_| done)
    }

    /// A name for a savepoint: the wanted one, unless it is in use.
    pub(super) fn name_savepoint(&self, wanted: &str) -> String {
        let mut names = self.savepoints.lock();
        let mut name = if wanted.is_empty() { "savepoint".to_owned() } else { wanted.to_owned() };
        let mut number = 1;
        while !names.insert(name.clone()) {
            number += 1;
            name = format!("{wanted} {number}");
        }
        name
    }
}

/// The lines that a session was used on.
#[derive(Default)]
struct Lines {
    open: Vec<Line>,
    none_since: Option<Duration>,
}

impl Lines {
    fn add(&mut self, line: Option<&Line>) {
        self.open.retain(Line::is_open);
        self.none_since = None;
        let is_new = |line: &&Line| !self.open.iter().any(|known| known.is(line));
        self.open.extend(line.filter(is_new).cloned());
    }

    fn none_for(&mut self, now: Duration) -> Duration {
        self.open.retain(Line::is_open);
        match self.open.is_empty() {
            true => now - *self.none_since.get_or_insert(now),
            false => Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_away_when_none_of_its_lines_is_open() {
        let at = Duration::from_secs;
        let (one, first) = Line::new();
        let (other, second) = Line::new();
        let mut lines = Lines::default();
        lines.add(Some(&first));
        lines.add(Some(&second));
        lines.add(Some(&first));
        assert_eq!((lines.open.len(), lines.none_for(at(1))), (2, at(0)));
        drop(one);
        assert_eq!(lines.none_for(at(2)), at(0));
        drop(other);
        assert_eq!(lines.none_for(at(3)), at(0));
        assert_eq!(lines.none_for(at(9)), at(6));
        let (_open, third) = Line::new();
        lines.add(Some(&third));
        assert_eq!((lines.open.len(), lines.none_for(at(20))), (1, at(0)));
    }
}
