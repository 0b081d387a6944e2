//! Users, by what the database knows of them.

use std::net::IpAddr;
use std::time::Duration;

use parking_lot::Mutex;
use ring::digest;
use thalweg_query::{Database, Role, ScramVerifier};
use thalweg_types::{Error, Result, SqlState};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::remembered::Remembered;
use super::throttle::{Lane, Throttle, Turn};
use super::tokens::{Grounds, Tokens};
use super::{refused, secret};

/// The least time after which an attempt looks again whether it has its turn.
const LOOK_AGAIN_MIN: Duration = Duration::from_millis(10);

/// Somebody who showed who they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The role that sessions are opened for.
    pub user: String,
}

/// Checks who clients are. One for all front ends, so that all of them slow down the same guesser.
pub struct Users {
    database: Database,
    /// Makes up what users that are not there are answered; another one after each start.
    seed: [u8; 32],
    remembered: Mutex<Remembered>,
    throttle: Mutex<Throttle>,
    /// Passwords that are hashed at once: a crowd must not take every core.
    hashing: Semaphore,
    tokens: Mutex<Tokens>,
}

impl Users {
    /// The users of a database, where clients have so much time to show who they are.
    #[must_use]
    pub fn new(database: Database, time: Duration) -> Users {
        Users {
            database,
            seed: secret(),
            remembered: Mutex::new(Remembered::new(&secret())),
            throttle: Mutex::new(Throttle::within(time)),
            hashing: Semaphore::new(hashed_at_once()),
            tokens: Mutex::default(),
        }
    }

    /// What a SCRAM exchange with a user goes by. For somebody who is not there, or has no password
    /// or none that is still good, it is one that no password has, the same each time: the exchange
    /// fails at its end, as with a wrong password.
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

    /// Checks a password that came as it is.
    ///
    /// # Errors
    /// One and the same for a wrong password and a user that is not there; and where a user whose
    /// password is right may not log in.
    pub async fn check_password(
        &self,
        user: &str,
        password: &str,
        peer: IpAddr,
    ) -> Result<Identity> {
        let verifier = self.verifier(user);
        let proof = self.remembered.lock().proof(user, password, &verifier);
        // That a password is remembered tells a guesser as much as that it is right.
        self.attempt(user, peer).await?;
        if self.remembered.lock().knows(&proof) {
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
        self.remembered.lock().remember(proof);
        Ok(identity)
    }

    /// Lets somebody in who showed, or is trusted, to be a user.
    ///
    /// # Errors
    /// Where there is no such user, or it may not log in.
    pub fn admit(&self, user: &str) -> Result<Identity> {
        self.database.session_as(user)?;
        Ok(Identity { user: user.to_owned() })
    }

    /// Takes what an attempt to log in needs, and waits for it where passwords are guessed. Belongs
    /// before any check of a password; [`Users::succeeded`] gives it back.
    ///
    /// # Errors
    /// Where there were too many wrong passwords for this user from this address, or for any user
    /// from it: then the password must not be checked.
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

    /// An attempt ended with the right password.
    pub fn succeeded(&self, user: &str, peer: IpAddr) {
        self.throttle.lock().succeeded(user, peer, self.now());
    }

    /// A token that stands for somebody who was let in, for as long as nothing of that changes.
    #[must_use]
    pub fn issue_token(&self, identity: &Identity) -> String {
        let grounds = self.grounds(&identity.user);
        self.tokens.lock().issue(&identity.user, grounds, self.now())
    }

    /// Whom a token stands for.
    ///
    /// # Errors
    /// Where it is none, or spent, or its user may no longer log in; has another password since, or
    /// a password whose time is over; or is another user of the same name.
    pub fn check_token(&self, token: &str) -> Result<Identity> {
        let tokens = self.tokens.lock();
        let found = tokens.user_of(token, self.now());
        let user = found.map(|(user, grounds)| (user.to_owned(), grounds));
        drop(tokens);
        let good = user.filter(|(user, grounds)| *grounds == self.grounds(user));
        let (user, _) = good.ok_or_else(|| {
            Error::new(SqlState::INVALID_AUTHORIZATION, "the token is not valid")
                .with_hint("Log in again for a new one.")
        })?;
        self.admit(&user)
    }

    /// What a user is let in by now: changes with the role, its password, and whether that is good.
    fn grounds(&self, user: &str) -> Grounds {
        let Some(role) = self.database.role(user) else { return Grounds::default() };
        let password = role.password.as_ref().map_or("", |password| password.0.as_str());
        let mut digest = digest::Context::new(&digest::SHA256);
        digest.update(&role.id.0.to_le_bytes());
        digest.update(&[u8::from(self.is_good(&role))]);
        digest.update(password.as_bytes());
        digest.finish().as_ref().try_into().expect("SHA-256 has 32 bytes")
    }

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

/// The same for users that are not there.
fn guessed(user: &str) -> Error {
    let message = format!("too many failed attempts to log in as user \"{user}\"");
    Error::new(SqlState::TOO_MANY_CONNECTIONS, message)
        .with_detail("They came from this address; the password was not checked this time.")
        .with_hint("Try again after a few seconds, or from another address.")
}

#[cfg(test)]
mod tests;
