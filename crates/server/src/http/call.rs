//! A caller's session for the statements of one request, shared by `POST /sql` and the console.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::Body;
use futures::StreamExt;
use thalweg_execution::cancel::CancelHandle;
use thalweg_query::{Copy, Outcome, Session, SessionInfo};
use thalweg_types::{Error, Result, SqlState};
use tokio::sync::OwnedSemaphorePermit;

use crate::admission::{Asker, Permit};
use crate::connections::{ConnectionPermit, FrontEnd, Listed};
use crate::metrics::StatementKind;
use crate::parameters;
use crate::shared::Shared;
use crate::trace::Watch;

/// Maximum size of a request: a statement's text with its parameters.
const REQUEST_BYTES_MAX: usize = 16 << 20;

/// A session in the list of connections, until the last row of its statements is on its way.
pub(crate) struct Call {
    shared: Arc<Shared>,
    user: Arc<str>,
    pub(crate) session: Session,
    listed: Listed,
    /// The console's requests share a limit, so that they leave statements to other clients.
    room: Option<OwnedSemaphorePermit>,
}

impl Call {
    /// # Errors
    /// If the role may not log in any more, or has too many connections.
    pub(crate) fn open(
        shared: Arc<Shared>,
        place: ConnectionPermit,
        peer: SocketAddr,
        user: &Arc<str>,
    ) -> Result<Call> {
        let mut session = shared.database.session_as(user)?;
        let listed = shared.list(place, peer, user, &session)?;
        let process_id = listed.connection.id;
        session.introduce(SessionInfo { process_id, ..SessionInfo::default() });
        Ok(Call { shared, user: Arc::clone(user), session, listed, room: None })
    }

    /// Number of the connection, as `pg_stat_activity` shows it.
    pub(crate) fn process_id(&self) -> i32 {
        self.listed.connection.id
    }

    /// Sets the application's name, as `pg_stat_activity` shows it.
    pub(crate) fn name_application(&self, name: &str) {
        self.listed.connection.call(name);
    }

    /// Holds a permit until the last row is on its way.
    pub(crate) fn hold(&mut self, room: OwnedSemaphorePermit) {
        self.room = Some(room);
    }

    pub(crate) fn cancel_handle(&self) -> CancelHandle {
        self.session.cancel_handle()
    }

    /// Lists a statement as running, and begins to observe it.
    pub(crate) fn begin(&self, sql: &str) -> Watch {
        let sql: Arc<str> = sql.into();
        self.listed.connection.begin(&sql);
        self.shared.observer.begin(FrontEnd::Http, &self.user, &sql)
    }

    /// Waits for the permit of a statement; `None` if it needs none. The permit is held while the
    /// statement's rows are computed.
    ///
    /// # Errors
    /// If too many statements run, and none ended in time.
    pub(crate) async fn admit(&mut self, sql: &str) -> Result<Option<Permit>> {
        // Statements that end a transaction always run, since others wait for its end.
        if StatementKind::of(sql) == StatementKind::Transaction {
            return Ok(None);
        }
        let asker = Asker::of(&self.session);
        self.shared.admission.admit_statement(asker, sql).await
    }

    /// Runs a statement that has its permit.
    ///
    /// # Errors
    /// Errors of the statement; parameters that do not fit; 0A000 for a `COPY` from the client.
    pub(crate) async fn execute(
        &mut self,
        sql: &str,
        texts: Vec<Option<String>>,
    ) -> Result<Outcome> {
        let outcome = if texts.is_empty() {
            self.session.execute(sql).await?
        } else {
            let prepared = self.session.prepare(sql, &[]).await?;
            let values = parameters::of_texts(&prepared, texts)?;
            self.session.execute_prepared(&prepared, &values).await?
        };
        if let Some(Copy::In(_)) = outcome.copy {
            return Err(Error::unsupported("COPY FROM STDIN over HTTP"));
        }
        Ok(outcome)
    }
}

/// Reads the body of an authenticated request, which counts as a connection meanwhile.
///
/// # Errors
/// If the server shuts down or has too many connections, or if the body is too long or too slow.
pub(crate) async fn receive(shared: &Shared, body: Body) -> Result<(ConnectionPermit, Vec<u8>)> {
    if shared.is_draining() {
        let message = "the database system is shutting down";
        return Err(Error::new(SqlState::CANNOT_CONNECT_NOW, message));
    }
    let place = shared.connections.permit()?;
    let body = receive_within(shared, body, REQUEST_BYTES_MAX).await?;
    Ok((place, body))
}

/// Reads a body of at most `bytes_max` bytes within the time that clients have to log in.
///
/// # Errors
/// If the body is too long or too slow.
pub(crate) async fn receive_within(
    shared: &Shared,
    body: Body,
    bytes_max: usize,
) -> Result<Vec<u8>> {
    let received = received(body, bytes_max);
    let body = tokio::time::timeout(shared.config.limits.startup_timeout(), received).await;
    body.unwrap_or_else(|_| Err(broken("it took too long")))
}

async fn received(body: Body, bytes_max: usize) -> Result<Vec<u8>> {
    let mut pieces = body.into_data_stream();
    let mut received = Vec::new();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|error| broken(&error.to_string()))?;
        if received.len() + piece.len() > bytes_max {
            let message = format!("the request is longer than the limit of {bytes_max} bytes");
            return Err(Error::new(SqlState::LIMIT_EXCEEDED, message)
                .with_hint("Load many rows with COPY, or over Flight SQL."));
        }
        received.extend_from_slice(&piece);
    }
    Ok(received)
}

fn broken(why: &str) -> Error {
    Error::new(SqlState::CONNECTION_FAILURE, format!("the request did not arrive: {why}"))
}
