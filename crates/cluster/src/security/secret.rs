//! Authentication with a secret that all nodes of a cluster know and never send.
//!
//! Each side sends a random challenge, then an HMAC-SHA-256 of its role and of both challenges,
//! with the secret as the key. A proof can neither be replayed nor reflected to its sender.

use std::sync::Arc;

use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use thalweg_runtime::Stream;
use thalweg_types::{Error, Result, SqlState};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::refused;

const CHALLENGE_BYTES: usize = 32;
const PROOF_BYTES: usize = 32;
/// Shorter secrets are easy to guess.
const SECRET_BYTES_MIN: usize = 16;

type Challenge = [u8; CHALLENGE_BYTES];

/// The secret of a cluster.
#[derive(Clone)]
pub struct Secret {
    key: Arc<hmac::Key>,
}

#[derive(Clone, Copy)]
enum Role {
    Caller = 1,
    Callee = 2,
}

impl Secret {
    /// Makes the key from the bytes that all nodes share, at least 16.
    ///
    /// # Errors
    /// If the secret is too short.
    pub fn new(secret: &[u8]) -> Result<Secret> {
        if secret.len() < SECRET_BYTES_MIN {
            let message = format!("a cluster's secret has at least {SECRET_BYTES_MIN} bytes");
            return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
                .with_hint("Make one with: openssl rand -hex 32"));
        }
        Ok(Secret { key: Arc::new(hmac::Key::new(hmac::HMAC_SHA256, secret)) })
    }

    pub(super) async fn call(&self, mut stream: Stream) -> Result<Stream> {
        let caller = challenge()?;
        stream.write_all(&caller).await.map_err(refused)?;
        let callee = read(&mut stream).await?;
        let proof = read(&mut stream).await?;
        self.verify(Role::Callee, &caller, &callee, &proof)?;
        let proof = self.proof(Role::Caller, &caller, &callee);
        stream.write_all(proof.as_ref()).await.map_err(refused)?;
        Ok(stream)
    }

    pub(super) async fn answer(&self, mut stream: Stream) -> Result<Stream> {
        let callee = challenge()?;
        let caller = read(&mut stream).await?;
        let proof = self.proof(Role::Callee, &caller, &callee);
        stream.write_all(&[&callee, proof.as_ref()].concat()).await.map_err(refused)?;
        let proof = read(&mut stream).await?;
        self.verify(Role::Caller, &caller, &callee, &proof)?;
        Ok(stream)
    }

    fn proof(&self, role: Role, caller: &Challenge, callee: &Challenge) -> hmac::Tag {
        hmac::sign(&self.key, &text(role, caller, callee))
    }

    /// Compares in constant time.
    fn verify(
        &self,
        role: Role,
        caller: &Challenge,
        callee: &Challenge,
        proof: &[u8; PROOF_BYTES],
    ) -> Result<()> {
        hmac::verify(&self.key, &text(role, caller, callee), proof)
            .map_err(|_| refused("it knows another secret"))
    }
}

fn text(role: Role, caller: &Challenge, callee: &Challenge) -> Vec<u8> {
    [b"thalweg node 1 ", &[role as u8][..], caller, callee].concat()
}

#[expect(clippy::disallowed_methods, reason = "nobody may guess a challenge, whatever a seed is")]
fn challenge() -> Result<Challenge> {
    let mut challenge = [0; CHALLENGE_BYTES];
    SystemRandom::new()
        .fill(&mut challenge)
        .map_err(|_| Error::internal("the system gives no random bytes"))?;
    Ok(challenge)
}

async fn read(stream: &mut Stream) -> Result<[u8; 32]> {
    let mut bytes = [0; 32];
    stream.read_exact(&mut bytes).await.map_err(refused)?;
    Ok(bytes)
}
