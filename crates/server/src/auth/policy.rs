//! The policy of which clients need a password.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};
use thalweg_types::{Error, Result, SqlState};

/// The configured authentication method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AuthConfig {
    /// Trust on a server that listens on loopback alone, passwords on any other.
    #[default]
    Auto,
    Password,
    /// Accepted only if the server listens on loopback alone.
    Trust,
}

/// The way a client authenticates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// By its claim alone.
    Trust,
    Password,
}

/// The authentication policy of one server, fixed while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    trust: bool,
}

impl Policy {
    /// # Errors
    /// If the server would trust clients from other machines.
    pub fn new(config: AuthConfig, listen: &[SocketAddr]) -> Result<Policy> {
        let elsewhere = listen.iter().find(|address| !is_loopback(address.ip()));
        match (config, elsewhere) {
            (AuthConfig::Trust, Some(address)) => {
                let message = format!("the server would trust everybody who reaches {address}");
                Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
                    .with_hint("Listen on 127.0.0.1 only, or set auth.method to \"password\"."))
            }
            (AuthConfig::Password, _) | (AuthConfig::Auto, Some(_)) => Ok(Policy { trust: false }),
            (AuthConfig::Auto | AuthConfig::Trust, None) => Ok(Policy { trust: true }),
        }
    }

    /// The method for a client. It depends on the peer as well, since a forwarded port can bring
    /// clients from other machines.
    #[must_use]
    pub fn method(self, peer: IpAddr) -> Method {
        if self.trust && is_loopback(peer) { Method::Trust } else { Method::Password }
    }

    /// True if some client must authenticate with a password.
    #[must_use]
    pub fn needs_passwords(self) -> bool {
        !self.trust
    }
}

fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: &str = "127.0.0.1:7471";
    const EVERYWHERE: &str = "0.0.0.0:7471";

    fn policy(config: AuthConfig, listen: &[&str]) -> Result<Policy> {
        let listen: Vec<SocketAddr> =
            listen.iter().map(|address| address.parse().unwrap()).collect();
        Policy::new(config, &listen)
    }

    #[test]
    fn one_open_address_is_enough_to_ask_everybody() {
        let peer = IpAddr::from([127, 0, 0, 1]);
        let method = |config, listen: &[&str]| policy(config, listen).unwrap().method(peer);
        assert_eq!(method(AuthConfig::Auto, &[HERE, "[::1]:7470"]), Method::Trust);
        assert_eq!(method(AuthConfig::Trust, &[HERE]), Method::Trust);
        assert_eq!(method(AuthConfig::Password, &[HERE]), Method::Password);
        assert_eq!(method(AuthConfig::Auto, &[HERE, EVERYWHERE]), Method::Password);
        assert!(policy(AuthConfig::Auto, &[EVERYWHERE]).unwrap().needs_passwords());
    }

    #[test]
    fn nobody_is_trusted_from_elsewhere() {
        assert!(policy(AuthConfig::Trust, &[HERE, EVERYWHERE]).is_err());
        let trusting = policy(AuthConfig::Auto, &[HERE]).unwrap();
        assert_eq!(trusting.method(IpAddr::from([10, 0, 0, 7])), Method::Password);
        let mapped: IpAddr = "::ffff:127.0.0.1".parse().unwrap();
        assert_eq!(trusting.method(mapped), Method::Trust);
    }
}
