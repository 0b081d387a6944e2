//! A cache of passwords that were verified recently.
//!
//! Verifying a password takes milliseconds by design, and clients of HTTP and Flight send theirs
//! with each request. The cache stores a hash of user, verifier and password under a key that only
//! this process has. A changed password changes the verifier, so its old entry never matches again.

use std::collections::{HashSet, VecDeque};

use ring::hmac;
use thalweg_query::ScramVerifier;

/// Maximum number of entries; the oldest is dropped first.
const REMEMBERED_MAX: usize = 1024;

pub(super) type Proof = [u8; 32];

pub(super) struct VerifiedPasswords {
    key: hmac::Key,
    known: HashSet<Proof>,
    order: VecDeque<Proof>,
}

impl VerifiedPasswords {
    pub(super) fn new(secret: &[u8]) -> VerifiedPasswords {
        VerifiedPasswords {
            key: hmac::Key::new(hmac::HMAC_SHA256, secret),
            known: HashSet::new(),
            order: VecDeque::new(),
        }
    }

    /// The cache entry of a user with this password and verifier.
    pub(super) fn proof(&self, user: &str, password: &str, verifier: &ScramVerifier) -> Proof {
        let mut context = hmac::Context::with_key(&self.key);
        // Length prefixes make the encoding unambiguous.
        for part in [user.as_bytes(), verifier.to_text().as_bytes(), password.as_bytes()] {
            context.update(&(part.len() as u64).to_le_bytes());
            context.update(part);
        }
        context.sign().as_ref().try_into().expect("SHA-256 has 32 bytes")
    }

    /// True if the entry is in the cache. A miss reveals nothing, since a guesser without the key
    /// cannot aim at a hash.
    pub(super) fn knows(&self, proof: &Proof) -> bool {
        self.known.contains(proof)
    }

    pub(super) fn remember(&mut self, proof: Proof) {
        if !self.known.insert(proof) {
            return;
        }
        self.order.push_back(proof);
        if self.order.len() > REMEMBERED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_password_and_verifier_all_count() {
        let verifier = |name| ScramVerifier::of_nobody(b"seed", name);
        let mut verified_passwords = VerifiedPasswords::new(b"secret");
        let proof = verified_passwords.proof("ann", "pw", &verifier("ann"));
        verified_passwords.remember(proof);
        assert!(verified_passwords.knows(&verified_passwords.proof("ann", "pw", &verifier("ann"))));
        for (user, password, of) in [
            ("bob", "pw", "ann"),
            ("ann", "pw2", "ann"),
            ("ann", "pw", "changed"),
            ("an", "npw", "ann"),
        ] {
            assert!(!verified_passwords.knows(&verified_passwords.proof(
                user,
                password,
                &verifier(of)
            )));
        }
        let elsewhere = VerifiedPasswords::new(b"another").proof("ann", "pw", &verifier("ann"));
        assert!(!verified_passwords.knows(&elsewhere));
    }

    #[test]
    fn the_oldest_goes_first() {
        let mut verified_passwords = VerifiedPasswords::new(b"secret");
        let proof = |number: usize| {
            let mut proof = [0; 32];
            proof[..8].copy_from_slice(&number.to_le_bytes());
            proof
        };
        (0..=REMEMBERED_MAX).for_each(|number| verified_passwords.remember(proof(number)));
        assert_eq!(verified_passwords.known.len(), REMEMBERED_MAX);
        assert!(!verified_passwords.knows(&proof(0)) && verified_passwords.knows(&proof(1)));
    }
}
