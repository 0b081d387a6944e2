//! Who may send statements over HTTP.
//!
//! Besides passwords this keeps out web pages: a browser on this machine is trusted to be here, the
//! pages that it shows are not. It names the page's origin in what pages send, and a page that has
//! its name resolve to this machine is known by that name.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::http::HeaderMap;
use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use thalweg_types::{Error, Result, SqlState};

use crate::credentials::{self, Credentials};
use crate::shared::Shared;

/// # Errors
/// Where the caller is nobody, not who they say, or a web page.
pub(crate) async fn user(
    shared: &Shared,
    headers: &HeaderMap,
    peer: SocketAddr,
) -> Result<Arc<str>> {
    if headers.contains_key(ORIGIN) {
        let message = "web pages may not send statements";
        return Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
    }
    let given = headers.get(AUTHORIZATION).map(|value| value.as_bytes());
    let given = given.map(Credentials::read).transpose()?;
    if given.is_none() && !is_here(headers) {
        let message = "without a password, only localhost and addresses name this server";
        return Err(Error::new(SqlState::INVALID_AUTHORIZATION, message));
    }
    credentials::user(shared, given, peer).await
}

/// Whether the client calls the server by a name that nobody else can give it.
fn is_here(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(HOST).and_then(|host| host.to_str().ok()) else { return true };
    if host.parse::<SocketAddr>().is_ok() {
        return true;
    }
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
        _ => host,
    };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn names_that_others_can_give_are_not_here() {
        for (host, expected) in [
            ("localhost", true),
            ("localhost:7472", true),
            ("127.0.0.1:7472", true),
            ("[::1]:7472", true),
            ("[::1]", true),
            ("10.0.0.7", true),
            ("evil.example", false),
            ("evil.example:7472", false),
            ("localhost.evil.example", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, HeaderValue::from_static(host));
            assert_eq!(is_here(&headers), expected, "{host}");
        }
    }
}
