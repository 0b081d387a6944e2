//! Authentication between nodes.
//!
//! With mutual TLS, both sides show a certificate that the cluster's authority signed, and the
//! connection is encrypted. With a shared secret, both sides prove that they know it before the
//! first byte of HTTP/2. The secret is never sent. It keeps strangers out but encrypts nothing.
//! Without either, a node listens on this machine only.

mod secret;
mod tls;

use std::net::SocketAddr;
use std::path::PathBuf;

use thalweg_runtime::Stream;
use thalweg_types::{Error, Result, SqlState};
use tokio::io::{AsyncRead, AsyncWrite};

pub use secret::Secret;
pub use tls::Tls;

/// Credentials of a node.
#[derive(Clone, Default)]
pub enum Security {
    /// None. Only connections on this machine are allowed.
    #[default]
    Loopback,
    Secret(Secret),
    Tls(Tls),
}

/// Paths of certificates and keys, all in PEM format.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// Certificate of the authority that signed every node's certificate.
    pub authority: PathBuf,
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// A connection on which both sides are authenticated.
pub trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

impl Security {
    /// Checks that a node may listen on, or connect to, an address.
    ///
    /// # Errors
    /// If the address is beyond this machine and there are no credentials.
    pub fn allows(&self, address: SocketAddr) -> Result<()> {
        match self {
            Security::Loopback if !address.ip().is_loopback() => Err(Error::new(
                SqlState::INVALID_AUTHORIZATION,
                format!("nodes beyond this machine ({address}) need mutual TLS or a shared secret"),
            )
            .with_hint(
                "Give all nodes a --cluster-secret, or certificates (--cluster-authority).",
            )),
            _ => Ok(()),
        }
    }

    /// Authenticates both sides of a connection that this node opened.
    ///
    /// # Errors
    /// If the other side does not belong to this cluster.
    pub(crate) async fn call(
        &self,
        address: SocketAddr,
        stream: Stream,
    ) -> Result<Box<dyn Connection>> {
        match self {
            Security::Loopback => Ok(Box::new(stream)),
            Security::Secret(secret) => Ok(Box::new(secret.call(stream).await?)),
            Security::Tls(tls) => Ok(Box::new(tls.call(address, stream).await?)),
        }
    }

    /// Authenticates both sides of a connection that another node opened.
    ///
    /// # Errors
    /// If the other side does not belong to this cluster.
    pub(crate) async fn answer(&self, stream: Stream) -> Result<Box<dyn Connection>> {
        match self {
            Security::Loopback => Ok(Box::new(stream)),
            Security::Secret(secret) => Ok(Box::new(secret.answer(stream).await?)),
            Security::Tls(tls) => Ok(Box::new(tls.answer(stream).await?)),
        }
    }
}

fn refused(why: impl std::fmt::Display) -> Error {
    Error::new(SqlState::INVALID_AUTHORIZATION, format!("the other node is a stranger: {why}"))
}

#[cfg(test)]
mod tests;
