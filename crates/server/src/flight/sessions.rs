//! Call sessions: sessions in which statements run. A call session belongs to a connection, to a
//! transaction, or to a single call.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use thalweg_execution::row_forms::RowForm;
use thalweg_query::{Outcome, Prepared, ScalarValue, Session, SessionInfo, TransactionStatus};
use thalweg_types::Result;
use tokio::sync::MutexGuard;

use super::handles::Handle;
use super::transactions::no_transaction;
use crate::admission::{Asker, Permit};
use crate::connections::{FrontEnd, Listed};
use crate::metrics::Connected;
use crate::shared::Shared;
use crate::web::ClientConnection;

/// A session and its owner. Its statements run one after the other, but the rows of several can be
/// read at the same time.
pub(crate) struct CallSession {
    pub(super) user: Arc<str>,
    /// True if the session outlives the current call.
    pub(super) lasts: bool,
    session: tokio::sync::Mutex<Session>,
    /// Names of savepoints begun by calls, to keep them unique.
    savepoints: Mutex<HashSet<String>>,
    /// The asker of the latest statement. Its rows need permits after the statement has run.
    asker: Mutex<Asker>,
    /// True if the next use of the session must roll back first: the client left during
    /// [`CallSession::all_or_none`], or the session was ended.
    abandoned: AtomicBool,
    /// True if no more statements may run here.
    ended: AtomicBool,
    /// The connection that opened the session, if it has a name.
    pub(super) opener: Option<Handle>,
    lines: Mutex<ClientConnections>,
    pub(super) listed: Listed,
    _connected: Connected,
}

impl CallSession {
    /// # Errors
    /// If there are too many sessions, or the user may not open one.
    pub(super) fn open(
        shared: &Shared,
        user: &Arc<str>,
        peer: SocketAddr,
        opener: Option<Handle>,
        lasts: bool,
    ) -> Result<Arc<CallSession>> {
        let place = shared.connections.permit()?;
        let mut session = shared.database.session_as(user)?;
        let listed = shared.list(place, peer, user, &session)?;
        let process_id = listed.connection.id;
        session.introduce(SessionInfo { process_id, ..SessionInfo::default() });
        let asker = Mutex::new(Asker::of(&session));
        Ok(Arc::new(CallSession {
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

    /// Waits for exclusive use of the session.
    pub(super) async fn session(&self) -> MutexGuard<'_, Session> {
        let mut session = self.session.lock().await;
        if self.abandoned.swap(false, Ordering::Relaxed) {
            // A failed rollback leaves nothing behind that the next statement could see.
            let _ = session.execute("ROLLBACK").await;
        }
        session
    }

    /// Records that a call used this session on a connection.
    pub(super) fn used_on(&self, line: Option<&ClientConnection>) {
        self.lines.lock().add(line);
    }

    /// Time since no connection that used the session is open. It counts from the first call that
    /// finds none open.
    pub(super) fn away_for(&self, now: Duration) -> Duration {
        self.lines.lock().none_for(now)
    }

    pub(super) fn is_in_transaction(&self) -> bool {
        self.listed.connection.is_in_transaction()
    }

    /// Cancels the running statement and rolls back the open transaction.
    pub(super) async fn end(&self) {
        self.retire();
        self.abandoned.store(true, Ordering::Relaxed);
        self.listed.connection.cancel.cancel();
        let session = self.session().await;
        self.listed.connection.finish(session.transaction());
    }

    /// True if the transaction was ended through this call session.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Refuses further statements.
    pub(super) fn retire(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    fn check(&self) -> Result<()> {
        if self.has_ended() { Err(no_transaction()) } else { Ok(()) }
    }

    /// Runs a statement that begins or ends a transaction or savepoint. It needs no permit.
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

    /// The asker for the permits of the latest statement's rows.
    pub(super) fn asker(&self) -> Asker {
        *self.asker.lock()
    }

    /// Runs a statement once it is admitted. The permit is held while its rows are computed.
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

    /// The session is locked before the permit is taken, so that the holder of a permit never waits
    /// for a session.
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

    /// Like [`CallSession::execute_prepared`], for a caller that holds a permit.
    pub(super) async fn execute_admitted(
        &self,
        prepared: &Prepared,
        values: &[ScalarValue],
    ) -> Result<Outcome> {
        let mut session = self.session().await;
        self.check()?;
        session.execute_prepared(prepared, values).await
    }

    /// Runs `work` in one transaction: the open one, or else one of its own.
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

    /// A unique name for a savepoint: the wanted one, with a number if it is in use.
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

/// The client connections on which a session was used.
#[derive(Default)]
struct ClientConnections {
    open: Vec<ClientConnection>,
    none_since: Option<Duration>,
}

impl ClientConnections {
    fn add(&mut self, line: Option<&ClientConnection>) {
        self.open.retain(ClientConnection::is_open);
        self.none_since = None;
        let is_new = |line: &&ClientConnection| !self.open.iter().any(|known| known.is(line));
        self.open.extend(line.filter(is_new).cloned());
    }

    fn none_for(&mut self, now: Duration) -> Duration {
        self.open.retain(ClientConnection::is_open);
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
        let (one, first) = ClientConnection::new();
        let (other, second) = ClientConnection::new();
        let mut lines = ClientConnections::default();
        lines.add(Some(&first));
        lines.add(Some(&second));
        lines.add(Some(&first));
        assert_eq!((lines.open.len(), lines.none_for(at(1))), (2, at(0)));
        drop(one);
        assert_eq!(lines.none_for(at(2)), at(0));
        drop(other);
        assert_eq!(lines.none_for(at(3)), at(0));
        assert_eq!(lines.none_for(at(9)), at(6));
        let (_open, third) = ClientConnection::new();
        lines.add(Some(&third));
        assert_eq!((lines.open.len(), lines.none_for(at(20))), (1, at(0)));
    }
}
