//! Authentication of users against the roles of the database.

use std::net::IpAddr;
use std::time::Duration;

use parking_lot::Mutex;
use ring::digest;
use thalweg_query::{Database, Role, ScramVerifier};
use thalweg_types::{Error, Result, SqlState};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::throttle::{Lane, Throttle, Turn};
use super::tokens::{CredentialFingerprint, Tokens};
use super::verified_passwords::VerifiedPasswords;
use super::{refused, secret};

/// Minimum interval between two checks of a waiting attempt.
const LOOK_AGAIN_MIN: Duration = Duration::from_millis(10);

/// An authenticated user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The role for which sessions are opened.
    pub user: String,
}

/// Authenticates clients. All front ends share one instance, so that a guesser is throttled across
/// all of them.
pub struct Users {
    database: Database,
    /// Seeds the fake verifiers of unknown users; regenerated at each start.
    seed: [u8; 32],
    verified_passwords: Mutex<VerifiedPasswords>,
    throttle: Mutex<Throttle>,
    /// Limits concurrent password hashing, so that a crowd of logins cannot take every core.
    hashing: Semaphore,
    tokens: Mutex<Tokens>,
}

impl Users {
    /// The users of a database. `time` is the time that clients have to authenticate.
    #[must_use]
    pub fn new(database: Database, time: Duration) -> Users {
        Users {
            database,
            seed: secret(),
            verified_passwords: Mutex::new(VerifiedPasswords::new(&secret())),
            throttle: Mutex::new(Throttle::within(time)),
            hashing: Semaphore::new(hashed_at_once()),
            tokens: Mutex::default(),
        }
    }

    /// The verifier for a SCRAM exchange with a user. An unknown user, or one without a valid
    /// password, gets a fake verifier that matches no password and is the same each time. The
    /// exchange then fails at its end, as with a wrong password.
    #[must_use]
    pub fn verifier(&self, user: &str) -> ScramVerifier {
        let nobody = || ScramVerifier::of_nobody(&self.seed, user);
        let role = self.database.role(user).filter(|role| self.is_good(role));
        let text = role.and_then(|role| role.password);
        text.and_then(|text| ScramVerifier::parse(&text.0)).unwrap_or_else(nobody)
    }

    fn is_good(&self, role: &Role) -> bool {
        let now = self.database.env().clock.now_micros();
        role.valid_until.is_none_or(|end| now < end)
    }

    /// Checks a password that was sent in plain text.
    ///
    /// # Errors
    /// If the password is wrong or the user does not exist, with the same error for both, or if a
    /// user with the right password may not log in.
    pub async fn check_password(
        &self,
        user: &str,
        password: &str,
        peer: IpAddr,
    ) -> Result<Identity> {
        let verifier = self.verifier(user);
        let proof = self.verified_passwords.lock().proof(user, password, &verifier);
        // A guess pays for an attempt first: a cache hit would reveal as much as a full check.
        self.attempt(user, peer).await?;
        if self.verified_passwords.lock().knows(&proof) {
            self.succeeded(user, peer);
            return self.admit(user);
        }
        let died = |_| Error::internal("a thread that checks passwords died");
        let _permit = self.hashing.acquire().await;
        let given = password.to_owned();
        let checked = tokio::task::spawn_blocking(move || verifier.is_of(&given)).await;
        if !checked.map_err(died)? {
            return Err(refused(user));
        }
        self.succeeded(user, peer);
        let identity = self.admit(user)?;
        self.verified_passwords.lock().remember(proof);
        Ok(identity)
    }

    /// Admits a user who is authenticated or trusted.
    ///
    /// # Errors
    /// If the user does not exist or may not log in.
    pub fn admit(&self, user: &str) -> Result<Identity> {
        self.database.session_as(user)?;
        Ok(Identity { user: user.to_owned() })
    }

    /// Takes the tokens that a login attempt needs, and waits for them if passwords are being
    /// guessed. Call it before any check of a password; [`Users::succeeded`] gives the tokens back.
    ///
    /// # Errors
    /// If there were too many wrong passwords for this user from this address, or for any user from
    /// it. The password must not be checked then.
    pub async fn attempt(&self, user: &str, peer: IpAddr) -> Result<()> {
        let [pair, address] = self.throttle.lock().lanes(user, peer);
        self.take(pair).await.map_err(|()| guessed(user))?;
        if self.take(address).await.is_err() {
            self.throttle.lock().give_back(pair, self.now());
            return Err(guessed(user));
        }
        let wait = self.throttle.lock().short_wait(user, peer, self.now());
        if wait > Duration::ZERO {
            #[expect(clippy::disallowed_methods, reason = "it is a client that waits")]
            tokio::time::sleep(wait).await;
        }
        Ok(())
    }

    async fn take(&self, lane: Lane) -> std::result::Result<(), ()> {
        let turn = self.throttle.lock().take(lane, self.now());
        let Turn::Wait(mut receiver, mut next) = turn else { return Ok(()) };
        let deadline = Instant::now() + self.throttle.lock().wait_max;
        loop {
            let until = deadline.min(Instant::now() + next.max(LOOK_AGAIN_MIN));
            tokio::select! {
                biased;
                turn = &mut receiver => return turn.map_err(|_| ()),
                () = tokio::time::sleep_until(until) => {}
            }
            if Instant::now() >= deadline {
                receiver.close();
                return receiver.try_recv().map_err(|_| ());
            }
            next = self.throttle.lock().grant(lane, self.now());
        }
    }

    /// Records that an attempt ended with the right password.
    pub fn succeeded(&self, user: &str, peer: IpAddr) {
        self.throttle.lock().succeeded(user, peer, self.now());
    }

    /// A new token for an authenticated user. It is valid until it expires or the user's role
    /// changes.
    #[must_use]
    pub fn issue_token(&self, identity: &Identity) -> String {
        let credential_fingerprint = self.credential_fingerprint(&identity.user);
        self.tokens.lock().issue(&identity.user, credential_fingerprint, self.now())
    }

    /// The user of a token.
    ///
    /// # Errors
    /// If the token is unknown or expired, if its user may no longer log in, changed the password
    /// or has an expired one, or if the role was replaced by another one of the same name.
    pub fn check_token(&self, token: &str) -> Result<Identity> {
        let tokens = self.tokens.lock();
        let found = tokens.user_of(token, self.now());
        let user =
            found.map(|(user, credential_fingerprint)| (user.to_owned(), credential_fingerprint));
        drop(tokens);
        let good = user.filter(|(user, credential_fingerprint)| {
            *credential_fingerprint == self.credential_fingerprint(user)
        });
        let (user, _) = good.ok_or_else(|| {
            Error::new(SqlState::INVALID_AUTHORIZATION, "the token is not valid")
                .with_hint("Log in again for a new one.")
        })?;
        self.admit(&user)
    }

    /// A digest of the reasons for a user's access: the role's id, its password and the password's
    /// validity. It changes with any of them.
    pub(crate) fn credential_fingerprint(&self, user: &str) -> CredentialFingerprint {
        let Some(role) = self.database.role(user) else { return CredentialFingerprint::default() };
        let password = role.password.as_ref().map_or("", |password| password.0.as_str());
        let mut digest = digest::Context::new(&digest::SHA256);
        digest.update(&role.id.0.to_le_bytes());
        digest.update(&[u8::from(self.is_good(&role))]);
        digest.update(password.as_bytes());
        digest.finish().as_ref().try_into().expect("SHA-256 has 32 bytes")
    }

    /// Invalidates a token. Does nothing if it is unknown.
    pub fn revoke_token(&self, token: &str) {
        self.tokens.lock().revoke(token);
    }

    fn now(&self) -> Duration {
        self.database.env().clock.monotonic()
    }
}

fn hashed_at_once() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get().div_ceil(2))
}

/// The error for throttled attempts. It is the same for unknown users.
fn guessed(user: &str) -> Error {
    let message = format!("too many failed attempts to log in as user \"{user}\"");
    Error::new(SqlState::TOO_MANY_CONNECTIONS, message)
        .with_detail("They came from this address; the password was not checked this time.")
        .with_hint("Try again after a few seconds, or from another address.")
}

#[cfg(test)]
mod tests;
