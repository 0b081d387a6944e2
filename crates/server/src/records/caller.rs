//! The caller of a record API call, for the duration of the call.

use std::net::SocketAddr;
use std::sync::Arc;

use thalweg_query::{Records, Session};
use thalweg_types::{Error, Result, SqlState};

use super::calls::Call;
use crate::connections::{FrontEnd, Listed};
use crate::metrics::{Connected, RecordMetrics};
use crate::shared::Shared;

pub(super) struct Caller {
    pub(super) records: Records,
    pub(super) session: Session,
    pub(super) call_session: CallSession,
}

/// A running call. It is listed as a connection and counts against the limit.
pub(super) struct CallSession {
    pub(super) shared: Arc<Shared>,
    listed: Listed,
    _connected: Connected,
}

impl Caller {
    /// # Errors
    /// If there are too many connections, or the user may not log in.
    pub(super) fn enter(
        shared: &Arc<Shared>,
        user: &Arc<str>,
        peer: SocketAddr,
        call: Call,
    ) -> Result<Caller> {
        if shared.is_draining() {
            return Err(shutting_down());
        }
        let place = shared.connections.permit()?;
        let records = shared.database.records_as(user)?;
        let session = shared.database.session_as(user)?;
        let listed = shared.list(place, peer, user, &session)?;
        let name = format!("{}/{}", thalweg_protocol::SERVICE, call.name());
        listed.connection.begin(&name.into());
        let connected = shared.metrics.connected(FrontEnd::Records);
        let call_session =
            CallSession { shared: Arc::clone(shared), listed, _connected: connected };
        Ok(Caller { records, session, call_session })
    }
}

impl CallSession {
    pub(super) fn metrics(&self) -> &RecordMetrics {
        self.shared.metrics.records()
    }

    /// Counts the error that ended the call, if there was one.
    pub(super) fn count_end(&self, error: Option<&Error>) {
        if let Some(error) = error {
            self.shared.metrics.failed(FrontEnd::Records, error);
        }
    }

    /// Resolves when the call must end immediately.
    pub(super) fn ended(&self) -> impl Future<Output = ()> + Send + use<> {
        self.listed.connection.ended()
    }

    /// Resolves when the call must not read more requests.
    pub(super) fn drained(&self) -> impl Future<Output = ()> + Send + use<> {
        self.shared.drained()
    }
}

pub(super) fn shutting_down() -> Error {
    Error::new(SqlState::SHUTTING_DOWN, "the server is shutting down")
        .with_hint("What was acknowledged is written. Send the rest again, when it is back.")
}

pub(super) fn terminated() -> Error {
    let message = "terminating connection due to administrator command";
    Error::new(SqlState::SHUTTING_DOWN, message)
}
