//! Authentication: passwords, tokens and the policy of who must present them.
//!
//! Promises: passwords are compared in constant time. Neither an answer nor its timing shows if a
//! user exists. Guessing is throttled, and the memory spent on unauthenticated clients is bounded.
//! A password is held only while it is checked, and appears in no log and no error.

mod first_start;
mod password;
mod policy;
mod throttle;
mod tokens;
mod verified_passwords;

pub use first_start::{administrator_password, set_first_password};
pub use password::{Identity, Users};
pub use policy::{AuthConfig, Method, Policy};
pub(crate) use tokens::{CredentialFingerprint, Hash, hash_of};

use thalweg_types::{Error, SqlState};

/// The one error for every failed login, so that it does not reveal the reason.
pub(crate) fn refused(user: &str) -> Error {
    let message = format!("password authentication failed for user \"{user}\"");
    Error::new(SqlState::INVALID_PASSWORD, message)
}

/// 32 random bytes from the operating system.
pub(crate) fn secret() -> [u8; 32] {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).expect("the operating system has a source of randomness");
    bytes
}
