//! The `authorization` header, as HTTP and gRPC clients send it.

use std::net::SocketAddr;
use std::sync::Arc;

use thalweg_types::{Error, Result, SqlState};

use crate::auth::Method;
use crate::shared::Shared;
use crate::unauthenticated::caller_is_known;

pub(crate) enum Credentials {
    Basic { user: String, password: String },
    Bearer(String),
}

impl Credentials {
    /// # Errors
    /// If the scheme is neither Basic nor Bearer, or the header is malformed.
    pub(crate) fn read(header: &[u8]) -> Result<Credentials> {
        let text = str::from_utf8(header).map_err(|_| malformed())?;
        let (scheme, value) = text.trim().split_once(' ').ok_or_else(malformed)?;
        if scheme.eq_ignore_ascii_case("bearer") {
            return Ok(Credentials::Bearer(value.trim().to_owned()));
        }
        if !scheme.eq_ignore_ascii_case("basic") {
            return Err(malformed());
        }
        let decoded = base64(value.trim()).and_then(|bytes| String::from_utf8(bytes).ok());
        let decoded = decoded.ok_or_else(malformed)?;
        let (user, password) = decoded.split_once(':').ok_or_else(malformed)?;
        Ok(Credentials::Basic { user: user.to_owned(), password: password.to_owned() })
    }
}

/// Authenticates a call. A trusted client without credentials becomes the superuser.
pub(crate) async fn user(
    shared: &Shared,
    given: Option<Credentials>,
    peer: SocketAddr,
) -> Result<Arc<str>> {
    let users = &shared.users;
    let identity = match (given, shared.policy.method(peer.ip())) {
        (Some(Credentials::Bearer(token)), _) => users.check_token(&token)?,
        (Some(Credentials::Basic { user, .. }), Method::Trust) => users.admit(&user)?,
        (Some(Credentials::Basic { user, password }), Method::Password) => {
            users.check_password(&user, &password, peer.ip()).await?
        }
        (None, Method::Trust) => users.admit(&shared.database.internal_session().user())?,
        (None, Method::Password) => {
            let message = "this server wants to know who calls";
            return Err(Error::new(SqlState::INVALID_AUTHORIZATION, message)
                .with_hint("Send a user and a password."));
        }
    };
    caller_is_known();
    Ok(identity.user.into())
}

fn malformed() -> Error {
    Error::new(SqlState::INVALID_AUTHORIZATION, "the authorization header cannot be read")
        .with_hint("Send Basic with a user and a password, or Bearer with a token.")
}

/// Decodes base64, with or without its padding.
fn base64(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=').as_bytes();
    let mut bytes = Vec::with_capacity(digits.len() * 3 / 4);
    for group in digits.chunks(4) {
        if group.len() == 1 {
            return None;
        }
        let mut bits = 0_u32;
        for digit in group {
            bits = bits << 6 | u32::from(sextet(*digit)?);
        }
        bits <<= 6 * (4 - group.len());
        bytes.extend_from_slice(&bits.to_be_bytes()[1..group.len()]);
    }
    Some(bytes)
}

fn sextet(digit: u8) -> Option<u8> {
    Some(match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' | b'-' => 62,
        b'/' | b'_' => 63,
        _ => return None,
    })
}

/// Fuzz target for the header, see [`crate::fuzzing`].
pub(crate) mod fuzz {
    use super::{Credentials, base64};

    pub(crate) fn tokens(bytes: &[u8]) -> usize {
        let decoded = str::from_utf8(bytes).ok().and_then(base64);
        usize::from(Credentials::read(bytes).is_ok()) + usize::from(decoded.is_some())
    }

    pub(crate) fn token_seeds() -> Vec<Vec<u8>> {
        let seeds = ["Basic ZXZlOmE6Yg==", "bearer 0123456789abcdef", "Zm9vYg==", "/+8"];
        seeds.map(|seed| seed.as_bytes().to_vec()).to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_decoded() {
        for (text, bytes) in [
            ("", &b""[..]),
            ("Zg==", b"f"),
            ("Zm8=", b"fo"),
            ("Zm9v", b"foo"),
            ("Zm9vYg", b"foob"),
            ("/+8=", b"\xff\xef"),
        ] {
            assert_eq!(base64(text).as_deref(), Some(bytes), "{text}");
        }
        assert_eq!(base64("Z"), None);
        assert_eq!(base64("Zm9v!"), None);
    }

    #[test]
    fn headers_are_read() {
        let read = |header: &str| Credentials::read(header.as_bytes());
        assert!(matches!(
            read("Basic ZXZlOmE6Yg=="),
            Ok(Credentials::Basic { user, password }) if user == "eve" && password == "a:b"
        ));
        assert!(matches!(read("bearer abc"), Ok(Credentials::Bearer(token)) if token == "abc"));
        for header in ["", "Basic", "Digest x", "Basic !!", "Basic ZXZl"] {
            assert_eq!(read(header).err().unwrap().state().0, "28000", "{header}");
        }
    }
}
