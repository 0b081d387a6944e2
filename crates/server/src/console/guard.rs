//! Refuses requests that the console's own page did not send.
//!
//! Three independent checks: the browser's own statement about where a request comes from
//! (`Sec-Fetch-Site`, `Origin`), a header that pages of other sites cannot add, and a token that
//! they cannot read. The session's cookie, which is `SameSite=Strict`, is a fourth.

use std::net::SocketAddr;

use axum::http::HeaderMap;
use axum::http::header::{HOST, ORIGIN};
use axum::http::request::Parts;
use thalweg_types::{Error, Result, SqlState};

use crate::auth::hash_of;
use crate::origin_guard::keep_foreign_names_out;
use crate::shared::Shared;

/// The header with the token of a session. Before there is one, its value is not checked.
const TOKEN: &str = "x-thalweg-token";

/// # Errors
/// If the request does not come from a page of this server.
pub(super) fn from_own_page(shared: &Shared, head: &Parts, peer: SocketAddr) -> Result<()> {
    let headers = &head.headers;
    let site = headers.get("sec-fetch-site").map(|site| site.as_bytes());
    if site.is_some_and(|site| site != b"same-origin") || !is_own_origin(headers) {
        return Err(foreign());
    }
    if !headers.contains_key(TOKEN) {
        return Err(foreign());
    }
    keep_foreign_names_out(shared.policy, headers, &head.uri, peer)
}

/// # Errors
/// If the request does not carry the token of its session.
pub(super) fn has_token(headers: &HeaderMap, token: &str) -> Result<()> {
    let given = headers.get(TOKEN).map(|given| given.as_bytes()).unwrap_or_default();
    // Hashes are compared, so that the time of a comparison tells nothing about the token.
    match hash_of(given) == hash_of(token) {
        true => Ok(()),
        false => Err(foreign()),
    }
}

/// True without `Origin`, and if it names the host to which the request was sent.
fn is_own_origin(headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(ORIGIN) else { return true };
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
    origin.is_some_and(|(_, name)| name.eq_ignore_ascii_case(host))
}

fn foreign() -> Error {
    let message = "the request does not come from this server's console";
    Error::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
        .with_hint("Reload the console. Programs send statements to POST /sql.")
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn only_the_host_that_was_asked_is_an_own_origin() {
        for (origin, expected) in [
            ("http://localhost:7472", true),
            ("https://LOCALHOST:7472", true),
            ("http://localhost:7473", false),
            ("http://localhost", false),
            ("http://localhost:7472.evil.example", false),
            ("https://evil.example", false),
            ("null", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, HeaderValue::from_static("localhost:7472"));
            assert!(is_own_origin(&headers));
            headers.insert(ORIGIN, HeaderValue::from_static(origin));
            assert_eq!(is_own_origin(&headers), expected, "{origin}");
        }
    }
}
