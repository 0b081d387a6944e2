//! Keeps web pages out of the front ends that browsers reach: HTTP, and gRPC, which is HTTP.
//!
//! A browser on this machine is trusted, but the pages that it shows are not. Requests of pages are
//! recognized by the `Origin` header. A page whose domain resolves to this machine (DNS rebinding)
//! is recognized by the host name in its requests.

use std::net::{IpAddr, SocketAddr};

use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, Uri};
use thalweg_types::{Error, Result, SqlState};

use crate::auth::{Method, Policy};

/// # Errors
/// If the caller is a web page, or if it could be one and needs no password.
pub(crate) fn keep_pages_out(
    policy: Policy,
    headers: &HeaderMap,
    uri: &Uri,
    peer: SocketAddr,
) -> Result<()> {
    if headers.contains_key(ORIGIN) {
        let message = "web pages may not send statements";
        return Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
    }
    keep_foreign_names_out(policy, headers, uri, peer)
}

/// Refuses requests under a name that another site can have, where no password is needed.
///
/// # Errors
/// If the caller could be a web page whose domain resolves to this machine.
pub(crate) fn keep_foreign_names_out(
    policy: Policy,
    headers: &HeaderMap,
    uri: &Uri,
    peer: SocketAddr,
) -> Result<()> {
    if policy.method(peer.ip()) == Method::Trust && !is_here(headers, uri) {
        let message = "without a password, only localhost and addresses name this server";
        return Err(Error::new(SqlState::INVALID_AUTHORIZATION, message)
            .with_hint("Call it localhost, or set auth.method to \"password\"."));
    }
    Ok(())
}

/// True if the request names the server `localhost` or by an IP address, names that no other site
/// can have. HTTP/2 has the name in the URI, HTTP/1 in a header.
fn is_here(headers: &HeaderMap, uri: &Uri) -> bool {
    let header = headers.get(HOST).map(|host| host.to_str().unwrap_or_default());
    let address = uri.authority().map(|authority| authority.as_str());
    [header, address].into_iter().flatten().all(names_this_machine)
}

fn names_this_machine(host: &str) -> bool {
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
            ("evil.example@localhost", false),
        ] {
            let (mut headers, nowhere) = (HeaderMap::new(), Uri::from_static("/sql"));
            assert!(is_here(&headers, &nowhere));
            let address: Uri = format!("http://{host}/sql").parse().unwrap();
            assert_eq!(is_here(&headers, &address), expected, "{host}");
            headers.insert(HOST, HeaderValue::from_static(host));
            assert_eq!(is_here(&headers, &nowhere), expected, "{host}");
            assert_eq!(is_here(&headers, &Uri::from_static("http://localhost/")), expected);
        }
    }
}
