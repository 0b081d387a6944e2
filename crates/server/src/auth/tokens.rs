//! Bearer tokens: 256 random bits that stand for a user until they expire.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use ring::digest;

use super::secret;

/// How many tokens are good at once; the oldest goes first.
const TOKENS_MAX: usize = 10_000;
const LIFETIME: Duration = Duration::from_secs(12 * 3600);

/// Kept by their hashes, so that what is in memory lets nobody in.
#[derive(Default)]
pub(super) struct Tokens {
    by_hash: HashMap<Hash, Token>,
    order: VecDeque<Hash>,
}

type Hash = [u8; 32];

struct Token {
    user: String,
    expires: Duration,
}

impl Tokens {
    /// A new token, as text.
    pub(super) fn issue(&mut self, user: &str, now: Duration) -> String {
        let text: String = secret().iter().map(|byte| format!("{byte:02x}")).collect();
        self.make_room(now);
        let hash = hash_of(&text);
        self.order.push_back(hash);
        self.by_hash.insert(hash, Token { user: user.to_owned(), expires: now + LIFETIME });
        text
    }

    /// Whose token it is, if it is good.
    pub(super) fn user_of(&self, text: &str, now: Duration) -> Option<&str> {
        let token = self.by_hash.get(&hash_of(text))?;
        (now < token.expires).then_some(token.user.as_str())
    }

    pub(super) fn revoke(&mut self, text: &str) {
        self.by_hash.remove(&hash_of(text));
    }

    /// All tokens live equally long: the oldest are the first to expire.
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

/// Looking a hash up takes a time that says nothing about other tokens.
fn hash_of(text: &str) -> Hash {
    let hash = digest::digest(&digest::SHA256, text.as_bytes());
    hash.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(5);

    #[test]
    fn a_token_is_good_until_it_expires_or_is_revoked() {
        let mut tokens = Tokens::default();
        let (ann, bob) = (tokens.issue("ann", NOW), tokens.issue("bob", NOW));
        assert_eq!(ann.len(), 64);
        assert_ne!(ann, bob);
        assert_eq!(tokens.user_of(&ann, NOW), Some("ann"));
        assert_eq!(tokens.user_of(&ann, NOW + LIFETIME), None);
        assert_eq!(tokens.user_of("", NOW), None);
        tokens.revoke(&bob);
        assert_eq!(tokens.user_of(&bob, NOW), None);
    }

    #[test]
    fn the_table_is_bounded() {
        let mut tokens = Tokens::default();
        let first = tokens.issue("ann", NOW);
        let all: Vec<String> = (0..TOKENS_MAX).map(|_| tokens.issue("ann", NOW)).collect();
        assert_eq!((tokens.by_hash.len(), tokens.order.len()), (TOKENS_MAX, TOKENS_MAX));
        assert_eq!(tokens.user_of(&first, NOW), None);
        assert_eq!(tokens.user_of(&all[0], NOW), Some("ann"));
        tokens.issue("ann", NOW + LIFETIME);
        assert_eq!(tokens.by_hash.len(), 1, "what is spent is removed");
    }
}
