//! Opening of a connection: from its first byte until its client may send statements.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use thalweg_query::{Session, SessionInfo, TransactionStatus};
use thalweg_types::{Error, Result, SqlState};
use tokio::net::TcpStream;

use super::connection::Client;
use super::options;
use super::parameter_status::ReportedSettings;
use super::reply::Severity;
use super::startup::{self, Failure, Hello, Start};
use super::wire::{Stream, Wire};
use crate::connections::{ConnectionPermit, FrontEnd, Listed};
use crate::shared::Shared;
use crate::unauthenticated::UnauthenticatedConnection;

/// Serves one connection. An error ends this connection only.
pub(super) async fn serve(
    shared: Arc<Shared>,
    stream: TcpStream,
    peer: SocketAddr,
    unauthenticated_connection: Arc<UnauthenticatedConnection>,
) {
    let timeout = shared.config.limits.startup_timeout();
    let opening = Box::pin(open(shared, Wire::new(Stream::Plain(stream)), peer));
    let Ok(Some(mut client)) = tokio::time::timeout(timeout, opening).await else { return };
    unauthenticated_connection.is_known();
    Box::pin(client.run()).await;
}

/// An authenticated client; `None` if the connection ended.
async fn open(shared: Arc<Shared>, wire: Wire, peer: SocketAddr) -> Option<Client> {
    let place = shared.connections.permit();
    let (mut wire, start) = startup::read_first_message(&shared, wire, peer).await;
    let begun = match start {
        Ok(Start::Gone) => return None,
        Ok(Start::Cancel { id, secret }) => {
            shared.connections.cancel(id, secret);
            return None;
        }
        Ok(Start::Session(hello)) => begin(&shared, &mut wire, &hello, peer, place).await,
        Err(failure) => Err(failure),
    };
    match begun {
        Ok(begun) => Some(begun.into_client(shared, wire)),
        Err(Failure::Refused(error)) => {
            shared.metrics.failed(FrontEnd::Postgres, &error);
            wire.replies.error(&error, Severity::Fatal);
            let _ = wire.flush().await;
            None
        }
        Err(Failure::Gone) => None,
    }
}

/// State of a connection that has completed its startup.
struct Begun {
    session: Session,
    listed: Listed,
    reported: ReportedSettings,
    user: Arc<str>,
}

async fn begin(
    shared: &Shared,
    wire: &mut Wire,
    hello: &Hello,
    peer: SocketAddr,
    place: Result<ConnectionPermit>,
) -> Result<Begun, Failure> {
    if shared.is_draining() {
        let message = "the database system is shutting down";
        return Err(Error::new(SqlState::CANNOT_CONNECT_NOW, message).into());
    }
    let user = startup::authenticate(shared, wire, &hello.user, peer).await?.user;
    let mut session = shared.database.session_as(&user)?;
    let place = place?;
    options::apply(&mut session, &user, &hello.settings)?;
    let listed = shared.list(place, peer, &user, &session)?;
    session.introduce(SessionInfo {
        process_id: listed.connection.id,
        client: Some(peer),
        server: Some(shared.config.listen.postgres()),
        receives_notifications: true,
    });
    let reported = ReportedSettings::everything(&session, &mut wire.replies);
    for notice in session.take_opening_notices() {
        let detail = notice.detail.as_deref();
        wire.replies.notice(notice.severity(), notice.state.0, &notice.message, detail);
    }
    listed.connection.call(reported.application_name());
    wire.replies.key_data(listed.connection.id, listed.connection.secret);
    wire.replies.ready(TransactionStatus::Idle);
    Ok(Begun { session, listed, reported, user: user.into() })
}

impl Begun {
    fn into_client(self, shared: Arc<Shared>, wire: Wire) -> Client {
        let connected = shared.metrics.connected(FrontEnd::Postgres);
        Client {
            shared,
            wire,
            session: self.session,
            listed: self.listed,
            user: self.user,
            portals: HashMap::new(),
            reported: self.reported,
            skipping: false,
            _connected: connected,
        }
    }
}
