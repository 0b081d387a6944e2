use std::net::SocketAddr;
use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use super::*;
use crate::link::{Link, LinkOptions};
use crate::node::{FETCH, ServeOptions};
use crate::tests::*;

fn options(security: &Security) -> (ServeOptions, LinkOptions) {
    (
        ServeOptions { security: security.clone(), ..ServeOptions::default() },
        LinkOptions { security: security.clone(), ..impatient() },
    )
}

/// True if a call between two nodes with these credentials succeeds.
async fn understand(callee: &Security, caller: &Security) -> bool {
    let worker = TestWorker::at(1, anywhere(), options(callee).0);
    let asked = async {
        let link = Link::connect(worker.name.clone(), &options(caller).1).await?;
        let wanted = Wanted { messages: 1, bytes: 1, end: End::Well };
        link.call(FETCH, &wanted.question()).await?.message().await
    };
    asked.await.is_ok()
}

fn secret(text: &str) -> Security {
    Security::Secret(Secret::new(text.as_bytes()).unwrap())
}

#[tokio::test]
async fn nodes_with_the_same_secret_understand_each_other() {
    let (ours, theirs) = (secret("sixteen bytes or more"), secret("another secret of theirs"));
    assert!(understand(&ours, &ours).await);
    assert!(!understand(&ours, &theirs).await);
    assert!(!understand(&ours, &Security::Loopback).await);
    assert!(!understand(&Security::Loopback, &ours).await);
    assert!(Secret::new(b"short").is_err());
}

struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        Authority { issuer }
    }

    #[expect(clippy::disallowed_methods, reason = "certificates are no files of a database")]
    fn node(&self, directory: &Path, name: &str, address: &str) -> Security {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([address.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let write = |kind: &str, text: String| {
            let path = directory.join(format!("{name}-{kind}.pem"));
            std::fs::write(&path, text).unwrap();
            path
        };
        let files = TlsFiles {
            authority: write("authority", self.issuer.pem()),
            certificate: write("certificate", certificate.pem()),
            key: write("key", key.serialize_pem()),
        };
        Security::Tls(Tls::load(&files).unwrap())
    }
}

#[tokio::test]
async fn nodes_of_the_same_authority_understand_each_other() {
    let directory = tempfile::tempdir().unwrap();
    let (ours, theirs) = (Authority::new(), Authority::new());
    let node = |name: &str, authority: &Authority, address: &str| {
        authority.node(directory.path(), name, address)
    };
    let first = node("first", &ours, "127.0.0.1");
    let second = node("second", &ours, "127.0.0.1");
    let stranger = node("stranger", &theirs, "127.0.0.1");
    let elsewhere = node("elsewhere", &ours, "10.1.1.1");
    assert!(understand(&first, &second).await);
    assert!(!understand(&first, &stranger).await);
    assert!(!understand(&stranger, &first).await);
    assert!(!understand(&elsewhere, &first).await, "the certificate is for another address");
    assert!(!understand(&first, &Security::Loopback).await);
}

#[test]
fn beyond_this_machine_something_must_be_shown() {
    let address = |text: &str| -> SocketAddr { text.parse().unwrap() };
    assert!(Security::Loopback.allows(address("127.0.0.1:1")).is_ok());
    assert!(Security::Loopback.allows(address("[::1]:1")).is_ok());
    for outside in ["10.0.0.1:1", "0.0.0.0:1", "[::]:1"] {
        let error = Security::Loopback.allows(address(outside)).unwrap_err();
        assert_eq!(error.state(), SqlState::INVALID_AUTHORIZATION);
        assert!(secret("sixteen bytes or more").allows(address(outside)).is_ok());
    }
}

#[test]
fn files_that_are_no_certificates_are_named() {
    let files = TlsFiles {
        authority: "missing-authority.pem".into(),
        certificate: "missing.pem".into(),
        key: "missing.pem".into(),
    };
    let error = Tls::load(&files).err().unwrap();
    assert!(error.message().contains("missing-authority.pem"), "{error}");
}
