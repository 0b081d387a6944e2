//! Sessions of browsers: 256 random bits in a cookie that stand for a user until they expire.
//!
//! Promises: the number of sessions is bounded, and a user who logs in repeatedly displaces only
//! their own. A session ends with its user's password or role. Secrets are stored as hashes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use thalweg_execution::cancel::CancelHandle;

use crate::auth::{CredentialFingerprint, Hash, hash_of, secret};

/// Maximum number of sessions. The one that was used longest ago is dropped first.
const SESSIONS_MAX: usize = 1_000;
/// Maximum number of sessions per user.
const OF_USER_MAX: usize = 50;
/// Maximum number of requests of a session that run at once.
const RUNNING_MAX: usize = 16;
/// A session ends when it was not used for this long.
pub(super) const IDLE_MAX: Duration = Duration::from_secs(3600);
/// A session ends after this time in any case, like a bearer token.
const LIFETIME: Duration = Duration::from_secs(12 * 3600);

#[derive(Default)]
pub(super) struct Sessions(Mutex<HashMap<Hash, Session>>);

struct Session {
    user: Arc<str>,
    credential_fingerprint: CredentialFingerprint,
    began: Duration,
    used: Duration,
    running: HashMap<String, CancelHandle>,
}

/// A session that a request belongs to.
#[derive(Clone)]
pub(super) struct Found {
    pub(super) user: Arc<str>,
    pub(super) credential_fingerprint: CredentialFingerprint,
    hash: Hash,
}

impl Sessions {
    /// Begins a session; returns the secret for its cookie.
    pub(super) fn begin(
        &self,
        user: &Arc<str>,
        credential_fingerprint: CredentialFingerprint,
        now: Duration,
    ) -> String {
        let text: String = secret().iter().map(|byte| format!("{byte:02x}")).collect();
        let mut sessions = self.0.lock();
        sessions.retain(|_, session| !session.has_expired(now));
        let of_user = sessions.values().filter(|session| session.user == *user).count();
        if of_user >= OF_USER_MAX {
            drop_oldest(&mut sessions, |session| session.user == *user);
        }
        if sessions.len() >= SESSIONS_MAX {
            drop_oldest(&mut sessions, |_| true);
        }
        let session = Session {
            user: Arc::clone(user),
            credential_fingerprint,
            began: now,
            used: now,
            running: HashMap::new(),
        };
        sessions.insert(hash_of(&text), session);
        text
    }

    /// The session of a secret. `is_use` is false for requests that the page sends by itself: an
    /// open page does not extend its session.
    pub(super) fn find(&self, secret: &str, is_use: bool, now: Duration) -> Option<Found> {
        let hash = hash_of(secret);
        let mut sessions = self.0.lock();
        let session = sessions.get_mut(&hash)?;
        if session.has_expired(now) {
            sessions.remove(&hash);
            return None;
        }
        if is_use {
            session.used = now;
        }
        let Session { user, credential_fingerprint, .. } = session;
        let (user, credential_fingerprint) = (Arc::clone(user), *credential_fingerprint);
        Some(Found { user, credential_fingerprint, hash })
    }

    /// Ends a session and cancels what it runs.
    pub(super) fn end(&self, found: &Found) {
        let ended = self.0.lock().remove(&found.hash);
        for cancel in ended.into_iter().flat_map(|session| session.running.into_values()) {
            cancel.cancel();
        }
    }

    /// Registers a running request under a name that the page chose. False if the name is taken,
    /// or too many requests run.
    pub(super) fn run(&self, found: &Found, name: &str, cancel: CancelHandle) -> bool {
        let mut sessions = self.0.lock();
        let Some(session) = sessions.get_mut(&found.hash) else { return false };
        let running = &mut session.running;
        let is_free = running.len() < RUNNING_MAX && !running.contains_key(name);
        if is_free {
            running.insert(name.to_owned(), cancel);
        }
        is_free
    }

    pub(super) fn finish(&self, found: &Found, name: &str) {
        if let Some(session) = self.0.lock().get_mut(&found.hash) {
            session.running.remove(name);
        }
    }

    /// Cancels a running request of the session; false if there is none of this name.
    pub(super) fn cancel(&self, found: &Found, name: &str) -> bool {
        let sessions = self.0.lock();
        let cancel = sessions.get(&found.hash).and_then(|session| session.running.get(name));
        cancel.map(CancelHandle::cancel).is_some()
    }
}

impl Session {
    fn has_expired(&self, now: Duration) -> bool {
        let (unused, age) = (now.saturating_sub(self.used), now.saturating_sub(self.began));
        unused >= IDLE_MAX || age >= LIFETIME
    }
}

/// Drops the session that was used longest ago among those that `may_go`.
fn drop_oldest(sessions: &mut HashMap<Hash, Session>, may_go: impl Fn(&Session) -> bool) {
    let candidates = sessions.iter().filter(|(_, session)| may_go(session));
    let oldest = candidates.min_by_key(|(_, session)| session.used).map(|(hash, _)| *hash);
    if let Some(session) = oldest.and_then(|oldest| sessions.remove(&oldest)) {
        session.running.into_values().for_each(|cancel| cancel.cancel());
    }
}

/// The token that the page sends with each request of a session. It follows from the cookie, which
/// scripts cannot read; the page gets it from the server.
pub(super) fn token_of(secret: &str) -> String {
    let bytes = hash_of(format!("token of {secret}"));
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use thalweg_execution::cancel::SessionCancels;

    use super::*;

    const NOW: Duration = Duration::from_secs(5);

    fn user(name: &str) -> Arc<str> {
        name.into()
    }

    #[test]
    fn a_session_ends_when_it_is_not_used() {
        let sessions = Sessions::default();
        let secret = sessions.begin(&user("ann"), [1; 32], NOW);
        let half = IDLE_MAX / 2;
        assert!(sessions.find(&secret, true, NOW + half).is_some());
        assert!(sessions.find(&secret, false, NOW + IDLE_MAX).is_some());
        assert!(sessions.find(&secret, true, NOW + half + IDLE_MAX).is_none());
        assert!(sessions.find(&secret, true, NOW).is_none(), "what has expired is removed");
        assert!(sessions.find("", true, NOW).is_none());
    }

    #[test]
    fn a_session_that_is_used_ends_too() {
        let sessions = Sessions::default();
        let secret = sessions.begin(&user("ann"), [1; 32], NOW);
        let mut now = NOW;
        while now + IDLE_MAX / 2 < NOW + LIFETIME {
            now += IDLE_MAX / 2;
            assert!(sessions.find(&secret, true, now).is_some());
        }
        assert!(sessions.find(&secret, true, NOW + LIFETIME).is_none());
    }

    #[test]
    fn sessions_are_bounded_and_users_displace_their_own() {
        let sessions = Sessions::default();
        let bob = sessions.begin(&user("bob"), [2; 32], NOW);
        let all: Vec<String> =
            (0..=OF_USER_MAX).map(|_| sessions.begin(&user("ann"), [1; 32], NOW)).collect();
        let good = all.iter().filter(|secret| sessions.find(secret, false, NOW).is_some());
        assert_eq!(good.count(), OF_USER_MAX);
        assert!(sessions.find(&bob, true, NOW + Duration::from_secs(1)).is_some());
        for number in 0..2 * SESSIONS_MAX {
            sessions.begin(&user(&format!("user {number}")), [1; 32], NOW);
        }
        assert_eq!(sessions.0.lock().len(), SESSIONS_MAX);
        assert!(sessions.find(&bob, true, NOW).is_some(), "it was used last");
    }

    #[test]
    fn a_session_runs_a_bounded_number_of_requests() {
        let sessions = Sessions::default();
        let secret = sessions.begin(&user("ann"), [1; 32], NOW);
        let found = sessions.find(&secret, true, NOW).unwrap();
        let cancels = SessionCancels::new();
        for number in 0..RUNNING_MAX {
            assert!(sessions.run(&found, &number.to_string(), cancels.handle()));
        }
        assert!(!sessions.run(&found, "one more", cancels.handle()));
        sessions.finish(&found, "3");
        assert!(!sessions.run(&found, "4", cancels.handle()), "the name is taken");
        assert!(sessions.run(&found, "one more", cancels.handle()));
        assert!(sessions.cancel(&found, "one more") && !sessions.cancel(&found, "3"));
        sessions.end(&found);
        assert!(!sessions.run(&found, "late", cancels.handle()));
    }

    #[test]
    fn tokens_differ_from_secrets_and_from_each_other() {
        let sessions = Sessions::default();
        let two = [(); 2].map(|()| sessions.begin(&user("ann"), [1; 32], NOW));
        let tokens = two.each_ref().map(|secret| token_of(secret));
        assert_ne!(tokens[0], tokens[1]);
        assert_ne!(tokens[0], two[0]);
        assert_eq!(tokens[0].len(), 64);
    }
}
