//! Who calls: by password, by the token that a handshake gave, by a cookie, or trusted because the
//! call comes from this machine.
//!
//! A token or a cookie also names the caller's connection: a session in which `SET`, `BEGIN` and
//! `PREPARE` last. Calls without either are each on their own; the first that changes its session
//! gets a cookie.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use arrow_flight::{BasicAuth, HandshakeRequest, HandshakeResponse};
use axum::extract::ConnectInfo;
use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, COOKIE};
use hyper::http::Extensions;
use prost::Message;
use thalweg_types::{Error, Result};

use super::Flight;
use super::kept::Handle;
use super::seats::Seat;
use crate::auth::Identity;
use crate::credentials::{self, Credentials};

/// The name that Arrow's own servers give the cookie.
pub(super) const COOKIE_NAME: &str = "arrow_flight_session_id";

#[derive(Clone)]
pub(crate) struct Caller {
    pub(super) user: Arc<str>,
    peer: SocketAddr,
    pub(super) connection: Option<(Handle, Arc<Seat>)>,
    issued: Arc<OnceLock<Handle>>,
}

impl Caller {
    fn new(user: Arc<str>, peer: SocketAddr) -> Caller {
        Caller { user, peer, connection: None, issued: Arc::default() }
    }

    /// What the response has to say where a connection was made.
    pub(super) fn new_cookie(&self) -> Option<String> {
        let handle = self.issued.get()?;
        Some(format!("{COOKIE_NAME}={}; HttpOnly; SameSite=Strict", handle.to_hex()))
    }
}

impl Flight {
    /// # Errors
    /// Where the caller is nobody, or not who they say.
    pub(super) async fn identify(&self, headers: &HeaderMap, peer: SocketAddr) -> Result<Caller> {
        let given = headers.get(AUTHORIZATION).map(|value| value.as_bytes());
        let mut caller = match given.map(Credentials::read).transpose()? {
            Some(Credentials::Bearer(token)) => {
                let user = self.shared.users.check_token(&token)?.user.into();
                let mut caller = Caller::new(user, peer);
                caller.connection = Some(self.connection_of_token(&caller, &token)?);
                caller
            }
            basic => Caller::new(credentials::user(&self.shared, basic, peer).await?, peer),
        };
        if caller.connection.is_none()
            && let Some(handle) = cookie(headers)
            && let Some(seat) = self.connections.find(handle)
            && seat.user == caller.user
        {
            caller.connection = Some((handle, seat));
        }
        Ok(caller)
    }

    /// Makes a connection; its token names it from now on.
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
        self.connection_of_token(&caller, &token)?;
        let response =
            HandshakeResponse { protocol_version: 0, payload: token.clone().into_bytes().into() };
        Ok((token, response))
    }

    /// A token's connection; a new one where the token was not used for so long that its connection
    /// was forgotten.
    fn connection_of_token(&self, caller: &Caller, token: &str) -> Result<(Handle, Arc<Seat>)> {
        let handle = token.get(..Handle::HEX_DIGITS).and_then(Handle::of_hex);
        let handle = handle.ok_or_else(|| Error::internal("a token is too short"))?;
        if let Some(seat) = self.connections.find(handle) {
            return Ok((handle, seat));
        }
        let seat = self.new_seat(caller, true)?;
        self.connections.keep_as(handle, Arc::clone(&seat))?;
        Ok((handle, seat))
    }

    /// Where the caller's statement runs.
    pub(super) fn seat(&self, caller: &Caller, transaction: Option<&[u8]>) -> Result<Arc<Seat>> {
        match (transaction, &caller.connection) {
            (Some(id), _) if !id.is_empty() => self.find_transaction(caller, id),
            (_, Some((_, seat))) => Ok(Arc::clone(seat)),
            (_, None) => self.new_seat(caller, false),
        }
    }

    pub(super) fn new_seat(&self, caller: &Caller, lasts: bool) -> Result<Arc<Seat>> {
        Seat::open(&self.shared, &caller.user, caller.peer, lasts)
    }

    /// Makes the session of a call on its own the caller's connection.
    pub(super) fn connect(&self, caller: &Caller, seat: &Arc<Seat>) -> Result<()> {
        if caller.connection.is_none() {
            let handle = self.connections.keep(Arc::clone(seat))?;
            // Two statements in one call would be two connections: there is one.
            let _ = caller.issued.set(handle);
        }
        Ok(())
    }
}

/// The address of the other end.
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
