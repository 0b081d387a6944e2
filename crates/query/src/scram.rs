//! Stored passwords: SCRAM-SHA-256 verifiers (RFC 5802, RFC 7677), in the text form of PostgreSQL,
//! `SCRAM-SHA-256$4096:salt$StoredKey:ServerKey`.
//!
//! With a verifier a server can check a client's password, but nobody can log in with it. The
//! password itself is never stored.

use std::borrow::Cow;
use std::fmt;
use std::num::NonZeroU32;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::{digest, hmac, pbkdf2};
use subtle::ConstantTimeEq;
use thalweg_env::Random;

const MECHANISM: &str = "SCRAM-SHA-256";
/// Iterations of the password hash: PostgreSQL's number, and the least that RFC 7677 allows.
const ITERATIONS: NonZeroU32 = NonZeroU32::new(4096).expect("it is not zero");
const SALT_BYTES: usize = 16;
const KEY_BYTES: usize = digest::SHA256_OUTPUT_LEN;

type Key = [u8; KEY_BYTES];

/// The stored form of a password.
#[derive(Clone, PartialEq, Eq)]
pub struct ScramVerifier {
    iterations: NonZeroU32,
    salt: Vec<u8>,
    stored_key: Key,
    server_key: Key,
}

impl ScramVerifier {
    /// The verifier of a password, with a new salt.
    #[must_use]
    pub fn of_password(password: &str, random: &dyn Random) -> ScramVerifier {
        let salt: Vec<u8> =
            (0..SALT_BYTES / 8).flat_map(|_| random.next_u64().to_le_bytes()).collect();
        ScramVerifier::derive(password, salt, ITERATIONS)
    }

    fn derive(password: &str, salt: Vec<u8>, iterations: NonZeroU32) -> ScramVerifier {
        // Like PostgreSQL, this uses a password as it is if it cannot be prepared.
        let prepared = stringprep::saslprep(password).unwrap_or(Cow::Borrowed(password));
        let mut salted: Key = [0; KEY_BYTES];
        let algorithm = pbkdf2::PBKDF2_HMAC_SHA256;
        pbkdf2::derive(algorithm, iterations, &salt, prepared.as_bytes(), &mut salted);
        let client_key = keyed(&salted, b"Client Key");
        let stored_key = key_of(digest::digest(&digest::SHA256, &client_key).as_ref());
        let server_key = keyed(&salted, b"Server Key");
        ScramVerifier { iterations, salt, stored_key, server_key }
    }

    /// A verifier that no password matches, the same for the same seed and name. It serves the
    /// exchange with a client that names an unknown user.
    #[must_use]
    pub fn of_nobody(seed: &[u8], name: &str) -> ScramVerifier {
        let part = |what: &str| keyed(seed, format!("{what}\0{name}").as_bytes());
        ScramVerifier {
            iterations: ITERATIONS,
            salt: part("salt")[..SALT_BYTES].to_vec(),
            stored_key: part("stored key"),
            server_key: part("server key"),
        }
    }

    /// Reads a verifier in PostgreSQL's text form; `None` if the text is not one.
    #[must_use]
    pub fn parse(text: &str) -> Option<ScramVerifier> {
        let rest = text.strip_prefix(MECHANISM)?.strip_prefix('$')?;
        let (head, keys) = rest.split_once('$')?;
        let (iterations, salt) = head.split_once(':')?;
        let (stored_key, server_key) = keys.split_once(':')?;
        let key = |text: &str| Key::try_from(STANDARD.decode(text).ok()?).ok();
        Some(ScramVerifier {
            iterations: iterations.parse().ok()?,
            salt: STANDARD.decode(salt).ok()?,
            stored_key: key(stored_key)?,
            server_key: key(server_key)?,
        })
    }

    /// The text form. It is a secret: it is written to the catalog and shown nowhere.
    #[must_use]
    pub fn to_text(&self) -> String {
        format!(
            "{MECHANISM}${}:{}${}:{}",
            self.iterations,
            STANDARD.encode(&self.salt),
            STANDARD.encode(self.stored_key),
            STANDARD.encode(self.server_key)
        )
    }

    /// True if the password matches. Takes some milliseconds, equally long for a wrong one.
    #[must_use]
    pub fn is_of(&self, password: &str) -> bool {
        let tried = ScramVerifier::derive(password, self.salt.clone(), self.iterations);
        self.stored_key.ct_eq(&tried.stored_key).into()
    }

    /// Iteration count of the password's key derivation (PBKDF2).
    #[must_use]
    pub fn iterations(&self) -> u32 {
        self.iterations.get()
    }

    /// Salt of the password's key derivation.
    #[must_use]
    pub fn salt(&self) -> &[u8] {
        &self.salt
    }

    /// `StoredKey` of RFC 5802, against which the server checks a client's proof.
    #[must_use]
    pub fn stored_key(&self) -> &[u8] {
        &self.stored_key
    }

    /// `ServerKey` of RFC 5802, with which the server signs its answer.
    #[must_use]
    pub fn server_key(&self) -> &[u8] {
        &self.server_key
    }
}

impl fmt::Debug for ScramVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScramVerifier")
    }
}

fn keyed(key: &[u8], message: &[u8]) -> Key {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    key_of(hmac::sign(&key, message).as_ref())
}

fn key_of(bytes: &[u8]) -> Key {
    bytes.try_into().expect("SHA-256 has as many bytes as a key")
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_env::SeededRandom;

    /// The exchange in RFC 7677, section 3: user `user`, password `pencil`.
    #[test]
    fn the_example_of_rfc_7677_comes_out() {
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let verifier = ScramVerifier::derive("pencil", salt, ITERATIONS);
        let nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let message = format!(
            "n=user,r=rOprNGfwEbeRWgbNEkqO,\
             r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,\
             c=biws,r={nonce}"
        );
        let proof = STANDARD.decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=").unwrap();
        let client_signature = keyed(verifier.stored_key(), message.as_bytes());
        let client_key: Vec<u8> =
            proof.iter().zip(client_signature).map(|(proof, sign)| proof ^ sign).collect();
        let stored_key = digest::digest(&digest::SHA256, &client_key);
        assert_eq!(stored_key.as_ref(), verifier.stored_key());
        let server_signature = keyed(verifier.server_key(), message.as_bytes());
        assert_eq!(
            STANDARD.encode(server_signature),
            "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
        );
    }

    /// Made by PostgreSQL 15 for the password `secret`.
    const OF_POSTGRESQL: &str = "SCRAM-SHA-256$4096:sOBVdfZstQmtOWCt7B9IsA==\
        $uZHm2VNdhPgNPX+NdB79SHEcCGVdjqvCZxsIA1i2JuM=\
        :7xbITMQWD/bJ+rQl4aDUc2wK+AoqXcnluEwGmE2f2AM=";

    #[test]
    fn verifiers_of_postgresql_are_read_and_written() {
        let verifier = ScramVerifier::parse(OF_POSTGRESQL).unwrap();
        assert_eq!(verifier.to_text(), OF_POSTGRESQL);
        assert!(verifier.is_of("secret"));
        assert!(!verifier.is_of("Secret"));
    }

    #[test]
    fn a_password_fits_its_own_verifier_and_no_other() {
        let random = SeededRandom::new(1);
        let first = ScramVerifier::of_password("pencil", &random);
        let second = ScramVerifier::of_password("pencil", &random);
        assert_ne!(first, second, "each has a salt of its own");
        assert!(first.is_of("pencil") && second.is_of("pencil"));
        assert!(!first.is_of("") && !first.is_of("pencils"));
        // Compatibility characters are equivalent to their plain forms (RFC 4013).
        assert!(ScramVerifier::of_password("IX", &random).is_of("\u{2168}"));
    }

    #[test]
    fn what_is_no_verifier_is_not_read() {
        for text in ["", "pencil", "md5aaaa", "SCRAM-SHA-256$0:AAAA$AAAA:AAAA"] {
            assert!(ScramVerifier::parse(text).is_none(), "{text}");
        }
        let cut = &OF_POSTGRESQL[..OF_POSTGRESQL.len() - 4];
        assert!(ScramVerifier::parse(cut).is_none());
    }

    #[test]
    fn nobody_is_always_the_same() {
        let nobody = |name| ScramVerifier::of_nobody(b"seed", name);
        assert_eq!(nobody("ann"), nobody("ann"));
        assert_ne!(nobody("ann").salt(), nobody("bob").salt());
        assert!(!format!("{:?}", nobody("ann")).contains('['));
    }
}
