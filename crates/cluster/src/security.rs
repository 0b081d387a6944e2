//! Who may speak to a node, and how a node proves what it is.
//!
//! Mutual TLS: both sides show a certificate that the cluster's authority signed, and everything is
//! encrypted. A shared secret: both sides prove that they know it before the first byte of HTTP/2,
//! and it never travels; it keeps strangers out and hides nothing. Without either, a node listens
//! on this machine only.

mod secret;
mod tls;

use std::net::SocketAddr;
use std::path::PathBuf;

use thalweg_types::{Error, Result, SqlState};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

pub use secret::Secret;
pub use tls::Tls;

/// What nodes show each other.
#[derive(Clone, Default)]
pub enum Security {
    /// Nothing, on this machine.
    #[default]
    Loopback,
    Secret(Secret),
    Tls(Tls),
}

/// Where certificates lie, all of them PEM.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The authority that signed every node's certificate.
    pub authority: PathBuf,
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// A connection of which both sides know who the other is.
pub trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

impl Security {
    /// # Errors
    /// Where a node would listen, or speak, beyond this machine with nothing to show.
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

    /// Shows who this node is to one that it called, and sees who that is.
    ///
    /// # Errors
    /// Where the other side is not of this cluster.
    pub(crate) async fn call(
        &self,
        address: SocketAddr,
        stream: TcpStream,
    ) -> Result<Box<dyn Connection>> {
        match self {
            Security::Loopback => Ok(Box::new(stream)),
            Security::Secret(secret) => Ok(Box::new(secret.call(stream).await?)),
            Security::Tls(tls) => Ok(Box::new(tls.call(address, stream).await?)),
        }
    }

    /// Sees who calls, and shows who this node is.
    ///
    /// # Errors
    /// Where the other side is not of this cluster.
    pub(crate) async fn answer(&self, stream: TcpStream) -> Result<Box<dyn Connection>> {
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
