//! TLS: certificates from files, for every port.

use std::path::Path;
use std::sync::Arc;

use pgwire::api::auth::sasl::scram::ScramServerAuth;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use thalweg_types::{Error, Result, SqlState};
use tokio_rustls::TlsAcceptor;

use crate::config::TlsConfig;

/// The server's certificate and TLS configuration.
#[derive(Clone)]
pub(crate) struct Tls {
    pub(crate) acceptor: TlsAcceptor,
    pub(crate) config: Arc<ServerConfig>,
    /// The certificate file's PEM text.
    pub(crate) certificate_pem: Arc<[u8]>,
    /// True if SCRAM can bind passwords to the certificate, which it supports for some signature
    /// algorithms only.
    pub(crate) binds: bool,
}

impl Tls {
    /// Loads the certificate and key; `None` if none are configured.
    ///
    /// # Errors
    /// If a file cannot be read or holds no certificate or key, or if certificate and key do not
    /// match.
    pub(crate) fn load(config: &TlsConfig) -> Result<Option<Tls>> {
        let (certificate, key) = match (&config.certificate, &config.key) {
            (None, None) => return Ok(None),
            (Some(certificate), Some(key)) => (certificate, key),
            _ => return Err(invalid("tls.certificate and tls.key belong together".to_owned())),
        };
        #[expect(clippy::disallowed_methods, reason = "it is no file of the database")]
        let pem = std::fs::read(certificate).map_err(|error| unreadable(certificate, &error))?;
        let chain = CertificateDer::pem_slice_iter(&pem)
            .collect::<std::result::Result<Vec<_>, _>>()
            .map_err(|error| unreadable(certificate, &error))?;
        if chain.is_empty() {
            return Err(invalid(format!("{} holds no certificate", certificate.display())));
        }
        let key = PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable(key, &error))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
            .map_err(|error| invalid(format!("TLS cannot be set up: {error}")))?;
        let config = Arc::new(config);
        Ok(Some(Tls {
            acceptor: TlsAcceptor::from(Arc::clone(&config)),
            config,
            binds: ScramServerAuth::new().configure_certificate(&pem).is_ok(),
            certificate_pem: pem.into(),
        }))
    }
}

fn unreadable(path: &Path, error: &dyn std::fmt::Display) -> Error {
    invalid(format!("{} cannot be read: {error}", path.display()))
}

fn invalid(message: String) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
        .with_hint("Both files are PEM; see tls.certificate and tls.key of the configuration.")
}
