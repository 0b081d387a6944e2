//! Login, logout, and the session that a request belongs to.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Json;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::header::{COOKIE, SET_COOKIE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::json;
use thalweg_types::{Error, Result, SqlState};

use super::sessions::{Found, IDLE_MAX, token_of};
use super::{Console, Refusal, guard};
use crate::auth::{Identity, Method};
use crate::http::call::receive_within;
use crate::unauthenticated::caller_is_known;

/// Maximum size of a login's body, in bytes: a name and a password.
const LOGIN_BYTES_MAX: usize = 16 << 10;
/// The header of requests that the page sends by itself, without its user.
const UNATTENDED: &str = "x-thalweg-unattended";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Login {
    user: String,
    password: String,
}

/// The session of this browser. Without a password policy there is always one.
pub(super) async fn session(
    State(console): State<Arc<Console>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
) -> Result<Response, Refusal> {
    let (head, _) = request.into_parts();
    guard::from_own_page(&console.shared, &head, peer)?;
    if let Ok((found, secret)) = console.found(&head.headers) {
        return Ok(console.described(&found.user, &secret).into_response());
    }
    let users = &console.shared.users;
    match console.shared.policy.method(peer.ip()) {
        Method::Password => Err(not_logged_in().into()),
        Method::Trust => {
            let identity = users.admit(&console.shared.database.internal_session().user())?;
            Ok(console.begin(&identity))
        }
    }
}

pub(super) async fn login(
    State(console): State<Arc<Console>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
) -> Result<Response, Refusal> {
    let (head, body) = request.into_parts();
    guard::from_own_page(&console.shared, &head, peer)?;
    let body = receive_within(&console.shared, body, LOGIN_BYTES_MAX).await?;
    let Login { user, password } = parsed(&body)?;
    let users = &console.shared.users;
    let identity = match console.shared.policy.method(peer.ip()) {
        Method::Trust => users.admit(&user),
        Method::Password => users.check_password(&user, &password, peer.ip()).await,
    };
    let identity = identity.inspect_err(|error| console.failed(error))?;
    if let Ok((found, _)) = console.found(&head.headers) {
        console.sessions.end(&found);
    }
    Ok(console.begin(&identity))
}

pub(super) async fn logout(
    State(console): State<Arc<Console>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
) -> Result<Response, Refusal> {
    let (head, _) = request.into_parts();
    let found = console.caller(&head, peer)?;
    console.sessions.end(&found);
    let cookie = console.cookie("", "; Max-Age=0");
    Ok(([cookie], Json(json!({}))).into_response())
}

/// A request's body as JSON.
pub(super) fn parsed<T: for<'a> Deserialize<'a>>(body: &[u8]) -> Result<T> {
    serde_json::from_slice(body).map_err(|error| {
        // The error of a login must not repeat its password.
        let (line, column) = (error.line(), error.column());
        let message = format!("the request cannot be read at line {line}, column {column}");
        Error::new(SqlState::PROTOCOL_VIOLATION, message)
    })
}

impl Console {
    /// The session of a request that has the token of its session.
    ///
    /// # Errors
    /// If the request comes from elsewhere, or its session has ended.
    pub(super) fn caller(&self, head: &Parts, peer: SocketAddr) -> Result<Found> {
        guard::from_own_page(&self.shared, head, peer)?;
        let (found, secret) = self.found(&head.headers)?;
        guard::has_token(&head.headers, &token_of(&secret))?;
        caller_is_known();
        Ok(found)
    }

    /// The session whose cookie a request has, with the cookie's secret.
    fn found(&self, headers: &HeaderMap) -> Result<(Found, String)> {
        let is_use = !headers.contains_key(UNATTENDED);
        let secret = self.secret(headers).ok_or_else(not_logged_in)?;
        let now = self.shared.database.env().clock.monotonic();
        let found = self.sessions.find(secret, is_use, now).ok_or_else(not_logged_in)?;
        let users = &self.shared.users;
        if users.credential_fingerprint(&found.user) != found.credential_fingerprint {
            self.sessions.end(&found);
            return Err(not_logged_in());
        }
        users.admit(&found.user)?;
        Ok((found, secret.to_owned()))
    }

    /// Begins a session of an authenticated user.
    fn begin(&self, identity: &Identity) -> Response {
        caller_is_known();
        let user: Arc<str> = identity.user.as_str().into();
        let fingerprint = self.shared.users.credential_fingerprint(&user);
        let now = self.shared.database.env().clock.monotonic();
        let secret = self.sessions.begin(&user, fingerprint, now);
        ([self.cookie(&secret, "")], self.described(&user, &secret)).into_response()
    }

    fn described(&self, user: &str, secret: &str) -> Json<serde_json::Value> {
        let role = self.shared.database.role(user);
        Json(json!({
            "user": user,
            "superuser": role.is_some_and(|role| role.superuser),
            "token": token_of(secret),
            "passwords": self.shared.policy.needs_passwords(),
            "idle_seconds": IDLE_MAX.as_secs(),
            "version": env!("CARGO_PKG_VERSION"),
        }))
    }

    fn cookie_name(&self) -> String {
        cookie_name(self.shared.config.listen.http_port, self.shared.tls.is_some())
    }

    fn cookie(&self, value: &str, more: &str) -> (HeaderName, String) {
        let secure = if self.shared.tls.is_some() { "; Secure" } else { "" };
        let name = self.cookie_name();
        (SET_COOKIE, format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict{secure}{more}"))
    }

    fn secret<'a>(&self, headers: &'a HeaderMap) -> Option<&'a str> {
        let name = self.cookie_name();
        let lines = headers.get_all(COOKIE).into_iter().filter_map(|line| line.to_str().ok());
        let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.split_once('='));
        let mut values = pairs.filter(|(key, _)| key.trim() == name).map(|(_, value)| value.trim());
        values.next()
    }
}

/// The cookie's name. Browsers share cookies between the ports of a host, so the port is in it.
/// Over TLS a prefix makes browsers insist on `Secure` and on this very host.
fn cookie_name(port: u16, is_secure: bool) -> String {
    let prefix = if is_secure { "__Host-" } else { "" };
    format!("{prefix}thalweg-{port}")
}

fn not_logged_in() -> Error {
    Error::new(SqlState::INVALID_AUTHORIZATION, "the session has ended, or there is none yet")
        .with_hint("Log in.")
}
