//! Who may come in, and as whom.
//!
//! Promises: passwords are compared in constant time, and whether a user exists shows neither in
//! an answer nor in the time it takes; who guesses is slowed down; whatever is remembered of
//! strangers is bounded. A password lives as long as its check, in no log and no error.

mod first_start;
mod password;
mod policy;
mod remembered;
mod throttle;
mod tokens;

pub use first_start::administrator_password;
pub use password::{Identity, Users};
pub use policy::{AuthConfig, Method, Policy};

use thalweg_types::{Error, SqlState};

/// What everybody is told who did not get in, whatever the reason.
pub(crate) fn refused(user: &str) -> Error {
    let message = format!("password authentication failed for user \"{user}\"");
    Error::new(SqlState::INVALID_PASSWORD, message)
}

/// Random bytes that nobody can guess.
fn secret() -> [u8; 32] {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).expect("the operating system has a source of randomness");
    bytes
}
