//! Mutual TLS: every node shows a certificate that the cluster's own authority signed.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use thalweg_runtime::Stream;
use thalweg_types::{Error, Result, SqlState};
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};

use super::{TlsFiles, refused};

/// The configuration of both sides of TLS.
#[derive(Clone)]
pub struct Tls {
    connector: TlsConnector,
    acceptor: TlsAcceptor,
}

impl Tls {
    /// Loads the certificates and the key of this node. Later changes of the files have no effect.
    ///
    /// # Errors
    /// If a file cannot be read or has no certificate or key, or if the files do not belong
    /// together.
    pub fn load(files: &TlsFiles) -> Result<Tls> {
        let mut roots = RootCertStore::empty();
        for authority in certificates(&files.authority)? {
            roots.add(authority).map_err(|error| invalid(&files.authority, error))?;
        }
        let roots = Arc::new(roots);
        let chain = certificates(&files.certificate)?;
        let key =
            PrivateKeyDer::from_pem_file(&files.key).map_err(|error| invalid(&files.key, error))?;
        let wrong = |error: rustls::Error| invalid(&files.certificate, error);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider))
                .build()
                .map_err(|error| invalid(&files.authority, error))?;
        let mut accepting = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(wrong)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain.clone(), key.clone_key())
            .map_err(wrong)?;
        let mut connecting = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(wrong)?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)
            .map_err(wrong)?;
        accepting.alpn_protocols = vec![b"h2".to_vec()];
        connecting.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Tls {
            connector: TlsConnector::from(Arc::new(connecting)),
            acceptor: TlsAcceptor::from(Arc::new(accepting)),
        })
    }

    pub(super) async fn call(
        &self,
        address: SocketAddr,
        stream: Stream,
    ) -> Result<client::TlsStream<Stream>> {
        // Nodes are called by address, so certificates are issued for IP addresses.
        let name = ServerName::from(address.ip());
        self.connector.connect(name, stream).await.map_err(refused)
    }

    pub(super) async fn answer(&self, stream: Stream) -> Result<server::TlsStream<Stream>> {
        self.acceptor.accept(stream).await.map_err(refused)
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let found: Vec<_> = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|error| invalid(path, error))?;
    match found.is_empty() {
        true => Err(invalid(path, "it holds no certificate")),
        false => Ok(found),
    }
}

fn invalid(path: &Path, why: impl std::fmt::Display) -> Error {
    let message = format!("{} cannot be used for TLS between nodes: {why}", path.display());
    Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
}
