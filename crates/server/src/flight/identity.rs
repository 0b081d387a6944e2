//! Identification of callers: by password, by a token from a handshake, by a cookie, or by trust in
//! calls from this machine.
//!
//! A token or cookie also names the caller's connection: a session in which `SET`, `BEGIN` and
//! `PREPARE` persist. Calls without either are independent. The first one that changes its session
//! gets a cookie.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use arrow_flight::{BasicAuth, HandshakeRequest, HandshakeResponse};
use axum::extract::ConnectInfo;
use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, COOKIE};
use hyper::http::Extensions;
use prost::Message;
use thalweg_types::{Error, Result, SqlState};

use super::Flight;
use super::handles::Handle;
use super::sessions::CallSession;
use super::statements::leaves_something;
use crate::auth::Identity;
use crate::credentials::{self, Credentials};
use crate::unauthenticated::caller_is_known;
use crate::web::ClientConnection;

/// The cookie's name in Arrow's own servers.
pub(super) const COOKIE_NAME: &str = "arrow_flight_session_id";

#[derive(Clone)]
pub(crate) struct Caller {
    pub(super) user: Arc<str>,
    peer: SocketAddr,
    /// The HTTP/2 connection of the call.
    pub(super) line: Option<ClientConnection>,
    /// The name of the caller's connection. A session for it is opened only when a call leaves
    /// something that lasts, so a client that logs in and never returns costs no session.
    pub(super) connection: Option<Handle>,
    /// The caller's bearer token, if it sent one.
    pub(super) token: Option<Arc<str>>,
    issued: Arc<OnceLock<Handle>>,
}

impl Caller {
    fn new(user: Arc<str>, peer: SocketAddr) -> Caller {
        Caller { user, peer, line: None, connection: None, token: None, issued: Arc::default() }
    }

    /// The `Set-Cookie` header for a connection that this call created.
    pub(super) fn new_cookie(&self) -> Option<String> {
        let handle = self.issued.get()?;
        Some(format!("{COOKIE_NAME}={}; HttpOnly; SameSite=Strict", handle.to_hex()))
    }
}

impl Flight {
    /// # Errors
    /// If authentication fails, or the caller's session was ended within a transaction.
    pub(super) async fn identify(&self, headers: &HeaderMap, peer: SocketAddr) -> Result<Caller> {
        let given = headers.get(AUTHORIZATION).map(|value| value.as_bytes());
        let mut caller = match given.map(Credentials::read).transpose()? {
            Some(Credentials::Bearer(token)) => {
                let user = self.shared.users.check_token(&token)?.user.into();
                caller_is_known();
                let mut caller = Caller::new(user, peer);
                caller.connection = Some(handle_of(&token)?);
                caller.token = Some(token.into());
                caller
            }
            basic => Caller::new(credentials::user(&self.shared, basic, peer).await?, peer),
        };
        if caller.connection.is_none() {
            let named = Caller { connection: cookie(headers), ..caller.clone() };
            self.refuse_lost(&named)?;
            if self.kept_seat(&named).is_some() {
                caller = named;
            }
        }
        self.refuse_lost(&caller)?;
        Ok(caller)
    }

    /// Refuses a caller whose transaction was rolled back while the client was away, so that it
    /// does not continue as if the transaction still existed.
    fn refuse_lost(&self, caller: &Caller) -> Result<()> {
        let is_lost = caller.connection.is_some_and(|handle| self.lost.find(handle).is_some());
        if !is_lost {
            return Ok(());
        }
        let message = "the session was ended in the midst of a transaction, which was rolled back";
        Err(Error::new(SqlState::IDLE_IN_TRANSACTION_TIMEOUT, message).with_hint("Connect again."))
    }

    /// Issues a token, which names a new connection.
    pub(super) async fn shake_hands(
        &self,
        headers: &HeaderMap,
        request: Option<HandshakeRequest>,
        peer: SocketAddr,
    ) -> Result<(String, HandshakeResponse)> {
        let payload = request.unwrap_or_default().payload;
        let caller = match BasicAuth::decode(payload) {
            Ok(BasicAuth { username, password })
                if !headers.contains_key(AUTHORIZATION) && !username.is_empty() =>
            {
                let basic = Credentials::Basic { user: username, password };
                Caller::new(credentials::user(&self.shared, Some(basic), peer).await?, peer)
            }
            _ => self.identify(headers, peer).await?,
        };
        let token = self.shared.users.issue_token(&Identity { user: caller.user.to_string() });
        let response =
            HandshakeResponse { protocol_version: 0, payload: token.clone().into_bytes().into() };
        Ok((token, response))
    }

    /// The call session for a statement that leaves nothing in its session.
    pub(super) fn call_session(
        &self,
        caller: &Caller,
        transaction: Option<&[u8]>,
    ) -> Result<Arc<CallSession>> {
        match transaction {
            Some(id) if !id.is_empty() => self.find_transaction(caller, id),
            _ => self.kept_seat(caller).map_or_else(|| self.new_seat(caller, false), Ok),
        }
    }

    /// The call session for a statement.
    pub(super) fn seat_for(
        &self,
        caller: &Caller,
        transaction: Option<&[u8]>,
        sql: &str,
    ) -> Result<Arc<CallSession>> {
        match transaction {
            None | Some([]) if leaves_something(sql) => self.lasting_seat(caller),
            _ => self.call_session(caller, transaction),
        }
    }

    /// The session of the caller's connection, opened if necessary. A caller without a connection
    /// gets one through [`Flight::connect`] after the statement succeeded.
    pub(super) fn lasting_seat(&self, caller: &Caller) -> Result<Arc<CallSession>> {
        match (self.kept_seat(caller), caller.connection) {
            (Some(call_session), _) => Ok(call_session),
            (None, None) => self.new_seat(caller, false),
            (None, Some(handle)) => {
                let call_session = self.new_seat(caller, true)?;
                let call_session = self.connections.keep_first(handle, call_session)?;
                call_session.used_on(caller.line.as_ref());
                Ok(call_session)
            }
        }
    }

    fn kept_seat(&self, caller: &Caller) -> Option<Arc<CallSession>> {
        let call_session = self.connections.find(caller.connection?)?;
        let call_session = (call_session.user == caller.user).then_some(call_session)?;
        call_session.used_on(caller.line.as_ref());
        Some(call_session)
    }

    pub(super) fn new_seat(&self, caller: &Caller, lasts: bool) -> Result<Arc<CallSession>> {
        if lasts {
            self.leave_some_for_others(caller)?;
        }
        let call_session =
            CallSession::open(&self.shared, &caller.user, caller.peer, caller.connection, lasts)?;
        call_session.used_on(caller.line.as_ref());
        Ok(call_session)
    }

    /// Turns the session of an independent call into the caller's connection.
    pub(super) fn connect(&self, caller: &Caller, call_session: &Arc<CallSession>) -> Result<()> {
        if caller.connection.is_none() {
            self.leave_some_for_others(caller)?;
            let handle = self.connections.keep(Arc::clone(call_session))?;
            // A second statement of the same call would create a second connection; the first one
            // counts.
            let _ = caller.issued.set(handle);
        }
        Ok(())
    }

    /// Limits one user's persistent sessions to half of all connections, since they last until they
    /// idle out.
    fn leave_some_for_others(&self, caller: &Caller) -> Result<()> {
        let limit = (self.shared.config.limits.connections / 2).max(1);
        let of_caller = |call_session: &CallSession| call_session.user == caller.user;
        if self.connections.count(of_caller) + self.transactions.count(of_caller) < limit {
            return Ok(());
        }
        let message = format!("too many connections for role \"{}\"", caller.user);
        Err(Error::new(SqlState::TOO_MANY_CONNECTIONS, message)
            .with_hint("End sessions and transactions; idle ones are forgotten after a while."))
    }
}

/// The handle of a token's connection: the token's first digits.
fn handle_of(token: &str) -> Result<Handle> {
    let handle = token.get(..Handle::HEX_DIGITS).and_then(Handle::of_hex);
    handle.ok_or_else(|| Error::internal("a token is too short"))
}

/// The address of the client.
pub(super) fn peer_of(extensions: &Extensions) -> Result<SocketAddr> {
    let peer = extensions.get::<ConnectInfo<SocketAddr>>();
    peer.map(|ConnectInfo(peer)| *peer).ok_or_else(|| Error::internal("a client has no address"))
}

pub(super) fn cookie(headers: &HeaderMap) -> Option<Handle> {
    let lines = headers.get_all(COOKIE).into_iter().filter_map(|line| line.to_str().ok());
    let mut cookies = lines.flat_map(|line| line.split(';'));
    let value =
        cookies.find_map(|cookie| cookie.trim().strip_prefix(COOKIE_NAME)?.strip_prefix('='))?;
    Handle::of_hex(value.trim_matches('"'))
}
