//! One client's connection: from its first byte to its last.

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use thalweg_query::{Session, SessionFacts, TransactionStatus};
use thalweg_types::{Error, SqlState};
use tokio::net::TcpStream;

use super::message::{self, Message};
use super::portal::Portal;
use super::reply::Severity;
use super::startup::{self, Failure, Hello, Start};
use super::wire::{Stream, Wire};
use crate::connections::{FrontEnd, Listed, Place};
use crate::metrics::Connected;
use crate::shared::Shared;

/// Settings that clients are told when they change.
const REPORTED: [&str; 10] = [
    "server_version",
    "server_encoding",
    "client_encoding",
    "application_name",
    "is_superuser",
    "DateStyle",
    "IntervalStyle",
    "TimeZone",
    "integer_datetimes",
    "standard_conforming_strings",
];

/// What a connected client has.
pub(super) struct Client {
    pub(super) shared: Arc<Shared>,
    pub(super) wire: Wire,
    pub(super) session: Session,
    pub(super) listed: Listed,
    pub(super) user: Arc<str>,
    /// Counts the connection while it is there.
    _connected: Connected,
    /// Names of prepared statements that are empty texts; the session keeps the others.
    pub(super) empty: HashSet<String>,
    pub(super) portals: HashMap<String, Portal>,
    /// After an error in the extended protocol: everything up to the next `Sync` is skipped.
    pub(super) skipping: bool,
    application_name: String,
}

/// How a connection ends where it does not go on.
pub(super) enum End {
    /// The client goes, or is gone.
    Gone,
    /// The client is told why.
    Told(Error),
}

impl From<io::Error> for End {
    fn from(_: io::Error) -> End {
        End::Gone
    }
}

/// Serves one connection. Whatever goes wrong ends it, and nothing else.
pub(super) async fn serve(shared: Arc<Shared>, stream: TcpStream, peer: SocketAddr) {
    let wire = Wire::new(Stream::Plain(stream));
    let starting = Box::pin(start(Arc::clone(&shared), wire, peer));
    let timeout = shared.config.limits.startup_timeout();
    let Ok(Some(mut client)) = tokio::time::timeout(timeout, starting).await else { return };
    if let End::Told(error) = Box::pin(client.run()).await {
        client.say_goodbye(&error).await;
    }
}

/// A client that has shown who it is; `None` where the connection is over.
async fn start(shared: Arc<Shared>, wire: Wire, peer: SocketAddr) -> Option<Client> {
    let place = shared.connections.place();
    let (mut wire, start) = startup::greet(&shared, wire, peer).await;
    let begun = match start {
        Ok(Start::Gone) => return None,
        Ok(Start::Cancel { id, secret }) => {
            shared.connections.cancel(id, secret);
            return None;
        }
        Ok(Start::Session(hello)) => begin(&shared, &mut wire, &hello, place, peer).await,
        Err(failure) => Err(failure),
    };
    match begun {
        Ok((session, listed, user)) => {
            let application_name = session.setting("application_name").unwrap_or_default();
            listed.connection.call(&application_name);
            let connected = shared.metrics.connected(FrontEnd::Postgres);
            Some(Client {
                shared,
                user,
                _connected: connected,
                wire,
                session,
                listed,
                empty: HashSet::new(),
                portals: HashMap::new(),
                skipping: false,
                application_name,
            })
        }
        Err(Failure::Refused(error)) => {
            shared.metrics.failed(FrontEnd::Postgres, &error);
            wire.replies.error(&error, Severity::Fatal);
            let _ = wire.flush().await;
            None
        }
        Err(Failure::Gone) => None,
    }
}

async fn begin(
    shared: &Arc<Shared>,
    wire: &mut Wire,
    hello: &Hello,
    place: Result<Place, Error>,
    peer: SocketAddr,
) -> Result<(Session, Listed, Arc<str>), Failure> {
    if shared.is_draining() {
        let message = "the database system is shutting down";
        return Err(Error::new(SqlState::CANNOT_CONNECT_NOW, message).into());
    }
    let identity = startup::authenticate(shared, wire, &hello.user, peer).await?;
    let place = place?;
    let mut session = shared.database.session_as(&identity.user)?;
    let mut warnings = Vec::new();
    for (name, value) in &hello.settings {
        match name.as_str() {
            "database" | "options" | "replication" => {}
            name => {
                if let Err(error) = session.set(name, value) {
                    warnings.push(error.message().to_owned());
                }
            }
        }
    }
    for (name, value) in options(hello.settings.get("options").map_or("", String::as_str)) {
        session.set(&name, &value)?;
    }
    let listed = shared.list(place, peer, &identity.user, &session)?;
    session.introduce(SessionFacts {
        process_id: listed.connection.id,
        client: Some(peer),
        server: Some(shared.config.listen.postgres()),
    });
    for name in REPORTED {
        let value = session.setting(name).unwrap_or_default();
        wire.replies.parameter_status(name, &value);
    }
    wire.replies.parameter_status("session_authorization", &identity.user);
    wire.replies.key_data(listed.connection.id, listed.connection.secret);
    for warning in warnings {
        wire.replies.notice("WARNING", &warning);
    }
    wire.replies.ready(TransactionStatus::Idle);
    Ok((session, listed, identity.user.into()))
}

/// The settings in a client's `options`: `-c name=value` and `--name=value`.
pub(super) fn options(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut words = text.split_whitespace();
    while let Some(word) = words.next() {
        let assignment = match word.strip_prefix("--") {
            Some(long) => Some(long.to_owned()),
            None if word == "-c" => words.next().map(str::to_owned),
            None => word.strip_prefix("-c").map(str::to_owned),
        };
        if let Some((name, value)) = assignment.as_deref().and_then(|text| text.split_once('=')) {
            found.push((name.replace('-', "_"), value.to_owned()));
        }
    }
    found
}

impl Client {
    async fn run(&mut self) -> End {
        loop {
            let next = self.next_message().await;
            let done = match next {
                Ok((kind, body)) => self.take(kind, body).await,
                Err(end) => Err(end),
            };
            if let Err(end) = done {
                return end;
            }
        }
    }

    /// The next message of the client. What is to go out goes out before a wait.
    async fn next_message(&mut self) -> Result<(u8, bytes::Bytes), End> {
        let limit = self.shared.config.limits.message_bytes;
        loop {
            match message::split(&mut self.wire.input, limit) {
                Ok(Some(message)) => return Ok(message),
                Ok(None) => {}
                Err(error) => return Err(End::Told(error)),
            }
            self.wait_for_more().await?;
        }
    }

    pub(super) async fn wait_for_more(&mut self) -> Result<(), End> {
        let is_idle = self.session.transaction() == TransactionStatus::Idle;
        let timeout = self.session.idle_timeout();
        let ended = self.listed.connection.ended();
        let drained = self.shared.drained();
        let read = self.wire.read();
        tokio::select! {
            biased;
            () = ended => Err(End::Told(terminated())),
            // A block that is open may still be ended.
            () = drained, if is_idle => Err(End::Told(terminated())),
            read = read => if read? { Ok(()) } else { Err(End::Gone) },
            () = elapsed(timeout) => Err(End::Told(idle_too_long(is_idle))),
        }
    }

    /// Does what one message asks.
    async fn take(&mut self, kind: u8, body: bytes::Bytes) -> Result<(), End> {
        if self.skipping && kind != b'S' && kind != b'X' {
            return Ok(());
        }
        let taken = match Message::parse(kind, body) {
            Ok(message) => self.answer(message).await,
            Err(error) => Err(Trouble::Error(error)),
        };
        match taken {
            Ok(()) => Ok(()),
            Err(Trouble::End(end)) => Err(end),
            Err(Trouble::Error(error)) => {
                if self.listed.connection.must_end() {
                    return Err(End::Told(error));
                }
                self.wire.replies.error(&error, Severity::Error);
                if Message::is_extended(kind) {
                    self.skipping = true;
                } else {
                    self.ready();
                }
                Ok(())
            }
        }
    }

    /// What takes much state is boxed: a connection that waits is then not as large as one that
    /// works, and what comes often is not moved to the heap each time.
    async fn answer(&mut self, message: Message) -> Result<(), Trouble> {
        match message {
            Message::Query(sql) => {
                Box::pin(self.simple_query(&sql)).await?;
                self.ready();
                Ok(())
            }
            Message::Parse { name, sql, types } => Box::pin(self.parse(&name, &sql, &types)).await,
            Message::Bind(bind) => self.bind(&bind).map_err(Trouble::Error),
            Message::Describe(what) => self.describe(&what).map_err(Trouble::Error),
            Message::Execute { portal, rows } => self.execute(&portal, rows).await,
            Message::Close(what) => {
                self.close(&what);
                Ok(())
            }
            Message::Flush => Ok(self.wire.flush().await?),
            Message::Sync => {
                let failed = std::mem::take(&mut self.skipping);
                self.session.end_implicit(!failed).await?;
                self.ready();
                Ok(())
            }
            Message::Terminate => Err(Trouble::End(End::Gone)),
            // What is left of a copy that failed.
            Message::CopyData(_) | Message::CopyDone | Message::CopyFail(_) => Ok(()),
            Message::Password => {
                Err(message::violation("unexpected password response".to_owned()).into())
            }
        }
    }

    /// Tells that the next statement may come, and what changed about the session.
    fn ready(&mut self) {
        let name = self.session.setting("application_name").unwrap_or_default();
        if name != self.application_name {
            self.wire.replies.parameter_status("application_name", &name);
            self.listed.connection.call(&name);
            self.application_name = name;
        }
        let status = self.session.transaction();
        if status == TransactionStatus::Idle {
            self.portals.clear();
        }
        self.wire.replies.ready(status);
    }

    async fn say_goodbye(&mut self, error: &Error) {
        self.wire.replies.error(error, Severity::Fatal);
        let _ = self.wire.flush().await;
    }
}

/// Why a message was not answered.
pub(super) enum Trouble {
    Error(Error),
    End(End),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Trouble {
        Trouble::Error(error)
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Trouble {
        Trouble::End(error.into())
    }
}

pub(super) fn terminated() -> Error {
    let message = "terminating connection due to administrator command";
    Error::new(SqlState::SHUTTING_DOWN, message)
}

fn idle_too_long(is_idle: bool) -> Error {
    let (state, what) = if is_idle {
        (SqlState::IDLE_SESSION_TIMEOUT, "idle-session timeout")
    } else {
        (SqlState::IDLE_IN_TRANSACTION_TIMEOUT, "idle-in-transaction timeout")
    };
    Error::new(state, format!("terminating connection due to {what}"))
}

/// Resolves after the time, or never.
#[expect(clippy::disallowed_methods, reason = "clients idle in real time")]
async fn elapsed(timeout: Option<Duration>) {
    match timeout {
        Some(timeout) => tokio::time::sleep(timeout).await,
        None => std::future::pending().await,
    }
}
