//! What the nodes of a cluster are told on the command line, whatever they are.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};

use clap::Args;
use thalweg::Error;
use thalweg_cluster::map::{MapFile, ShardMap, SharedMap};
use thalweg_cluster::security::{Secret, Security, Tls, TlsFiles};
use thalweg_distributed::NodeOptions;
use thalweg_env::Env;
use thalweg_types::SqlState;

/// Where a node keeps what it knows of its cluster, within its data directory.
const DIRECTORY: &str = "cluster";

/// What nodes show each other. Beyond this machine one of the two is needed.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Between nodes")]
pub struct NodeArguments {
    /// File with a secret that all nodes share; it keeps strangers out and encrypts nothing
    #[arg(long, value_name = "FILE")]
    cluster_secret: Option<PathBuf>,
    /// Certificate of the authority that signed all nodes' certificates, for mutual TLS
    #[arg(long, value_name = "FILE", requires_all = ["cluster_certificate", "cluster_key"])]
    cluster_authority: Option<PathBuf>,
    /// This node's certificate
    #[arg(long, value_name = "FILE", requires = "cluster_authority")]
    cluster_certificate: Option<PathBuf>,
    /// The certificate's key
    #[arg(long, value_name = "FILE", requires = "cluster_authority")]
    cluster_key: Option<PathBuf>,
}

impl NodeArguments {
    /// # Errors
    /// Where a file cannot be read, or is not what it should be.
    pub fn options(&self) -> Result<NodeOptions, Error> {
        Ok(NodeOptions { security: self.security()?, ..NodeOptions::default() })
    }

    fn security(&self) -> Result<Security, Error> {
        let tls = [&self.cluster_authority, &self.cluster_certificate, &self.cluster_key];
        if let [Some(authority), Some(certificate), Some(key)] = tls.map(Option::as_ref) {
            let [authority, certificate, key] = [authority, certificate, key].map(Clone::clone);
            return Tls::load(&TlsFiles { authority, certificate, key }).map(Security::Tls);
        }
        let Some(file) = &self.cluster_secret else { return Ok(Security::Loopback) };
        let secret = std::fs::read_to_string(file).map_err(|error| {
            Error::new(SqlState::UNDEFINED_FILE, format!("{}: {error}", file.display()))
        })?;
        Secret::new(secret.trim().as_bytes()).map(Security::Secret)
    }
}

/// An address and a port, or a host's name and a port; of several addresses the first.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    let mut found = text.to_socket_addrs().map_err(|error| error.to_string())?;
    found.next().ok_or_else(|| "the name has no address".to_owned())
}

/// The shard map that a node keeps.
pub fn kept_map(env: &Env, data: Option<&Path>) -> Result<SharedMap, Error> {
    match data {
        None => Ok(SharedMap::new(ShardMap::default())),
        Some(data) => SharedMap::stored(MapFile::new(env, &data.join(DIRECTORY))?),
    }
}

/// The number that a worker goes by, for as long as its data lives.
pub fn kept_id(env: &Env, data: Option<&Path>) -> Result<u64, Error> {
    match data {
        // SQL tells of it as a `bigint`. 0 is no worker's.
        None => Ok((env.random.next_u64() >> 1).max(1)),
        Some(data) => thalweg_distributed::node_id(env, &data.join(DIRECTORY)),
    }
}
