//! Bearer tokens: 256 random bits that stand for a user until they expire or the user's role or
//! password changes.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use ring::digest;

use super::secret;

/// Maximum number of valid tokens; the oldest is dropped first.
const TOKENS_MAX: usize = 10_000;
/// Maximum number of tokens per user, so that a user who logs in repeatedly displaces only their
/// own tokens.
const OF_USER_MAX: usize = 1_000;
const LIFETIME: Duration = Duration::from_secs(12 * 3600);

/// Tokens are stored by their hashes, so that a memory dump reveals none.
#[derive(Default)]
pub(super) struct Tokens {
    by_hash: HashMap<Hash, Token>,
    order: VecDeque<Hash>,
}

/// A SHA-256 hash.
pub(crate) type Hash = [u8; 32];

struct Token {
    user: String,
    /// The digest of the user's access when the token was issued.
    credential_fingerprint: CredentialFingerprint,
    expires: Duration,
}

/// A digest of a role's id, its password and the password's validity.
pub(crate) type CredentialFingerprint = [u8; 32];

impl Tokens {
    /// Issues a new token, in hexadecimal.
    pub(super) fn issue(
        &mut self,
        user: &str,
        credential_fingerprint: CredentialFingerprint,
        now: Duration,
    ) -> String {
        let text: String = secret().iter().map(|byte| format!("{byte:02x}")).collect();
        self.make_room_of(user);
        self.make_room(now);
        let hash = hash_of(&text);
        self.order.push_back(hash);
        let token =
            Token { user: user.to_owned(), credential_fingerprint, expires: now + LIFETIME };
        self.by_hash.insert(hash, token);
        text
    }

    /// The user and grounds of a token, if it is valid.
    pub(super) fn user_of(
        &self,
        text: &str,
        now: Duration,
    ) -> Option<(&str, CredentialFingerprint)> {
        let token = self.by_hash.get(&hash_of(text))?;
        (now < token.expires).then_some((token.user.as_str(), token.credential_fingerprint))
    }

    pub(super) fn revoke(&mut self, text: &str) {
        let hash = hash_of(text);
        if self.by_hash.remove(&hash).is_some() {
            self.order.retain(|other| *other != hash);
        }
    }

    /// Drops the user's oldest token if the user has the maximum number.
    fn make_room_of(&mut self, user: &str) {
        let is_users = |hash: &Hash| self.by_hash.get(hash).is_some_and(|token| token.user == user);
        let mut places = (0..self.order.len()).filter(|place| is_users(&self.order[*place]));
        let oldest = places.next().filter(|_| places.count() + 1 >= OF_USER_MAX);
        if let Some(hash) = oldest.and_then(|place| self.order.remove(place)) {
            self.by_hash.remove(&hash);
        }
    }

    /// Drops expired tokens, and the oldest one if there are too many. All tokens live equally
    /// long, so the oldest expire first.
    fn make_room(&mut self, now: Duration) {
        while let Some(oldest) = self.order.front() {
            let spent = self.by_hash.get(oldest).is_none_or(|token| token.expires <= now);
            if !spent && self.order.len() < TOKENS_MAX {
                break;
            }
            if let Some(oldest) = self.order.pop_front() {
                self.by_hash.remove(&oldest);
            }
        }
    }
}

/// The hash of a secret. Looking up by hash, and comparing hashes, takes a time that reveals
/// nothing about other secrets.
pub(crate) fn hash_of(secret: impl AsRef<[u8]>) -> Hash {
    let hash = digest::digest(&digest::SHA256, secret.as_ref());
    hash.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(5);

    #[test]
    fn a_token_is_good_until_it_expires_or_is_revoked() {
        let mut tokens = Tokens::default();
        let (ann, bob) = (tokens.issue("ann", [1; 32], NOW), tokens.issue("bob", [2; 32], NOW));
        assert_eq!(ann.len(), 64);
        assert_ne!(ann, bob);
        assert_eq!(tokens.user_of(&ann, NOW), Some(("ann", [1; 32])));
        assert_eq!(tokens.user_of(&ann, NOW + LIFETIME), None);
        assert_eq!(tokens.user_of("", NOW), None);
        tokens.revoke(&bob);
        assert_eq!(tokens.user_of(&bob, NOW), None);
    }

    #[test]
    fn the_table_is_bounded() {
        let mut tokens = Tokens::default();
        let mut issue = |number: usize, now| tokens.issue(&format!("user {number}"), [1; 32], now);
        let first = issue(0, NOW);
        let all: Vec<String> = (1..=TOKENS_MAX).map(|number| issue(number, NOW)).collect();
        assert_eq!((tokens.by_hash.len(), tokens.order.len()), (TOKENS_MAX, TOKENS_MAX));
        assert_eq!(tokens.user_of(&first, NOW), None);
        assert_eq!(tokens.user_of(&all[0], NOW), Some(("user 1", [1; 32])));
        tokens.issue("ann", [1; 32], NOW + LIFETIME);
        assert_eq!(tokens.by_hash.len(), 1, "what is spent is removed");
    }

    #[test]
    fn nobody_crowds_others_out() {
        let mut tokens = Tokens::default();
        let bob = tokens.issue("bob", [2; 32], NOW);
        let all: Vec<String> =
            (0..=TOKENS_MAX).map(|_| tokens.issue("ann", [1; 32], NOW)).collect();
        assert!(tokens.user_of(&bob, NOW).is_some());
        let good = all.iter().filter(|token| tokens.user_of(token, NOW).is_some()).count();
        assert_eq!(good, OF_USER_MAX);
        assert!(tokens.user_of(&all[all.len() - 1], NOW).is_some());
    }
}
