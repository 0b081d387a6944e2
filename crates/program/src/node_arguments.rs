//! Command-line arguments that gateways and workers share.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};

use clap::Args;
use thalweg::Error;
use thalweg_cluster::map::{MapFile, ShardMap, SharedMap};
use thalweg_cluster::security::{Secret, Security, Tls, TlsFiles};
use thalweg_cluster::seen::{SeenKind, SeenNodes};
use thalweg_distributed::NodeOptions;
use thalweg_env::Env;
use thalweg_types::SqlState;

/// Directory of a node's knowledge of its cluster, within its data directory.
const DIRECTORY: &str = "cluster";

/// Credentials of nodes towards each other. A cluster beyond this machine needs one of the two.
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
    /// If a file cannot be read or is invalid.
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

/// Parses an address and a port, or a host's name and a port; the first of several addresses wins.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    let mut found = text.to_socket_addrs().map_err(|error| error.to_string())?;
    found.next().ok_or_else(|| "the name has no address".to_owned())
}

/// The shard map that a node stores.
pub fn kept_map(env: &Env, data: Option<&Path>) -> Result<SharedMap, Error> {
    match data {
        None => Ok(SharedMap::new(ShardMap::default())),
        Some(data) => SharedMap::stored(MapFile::new(env, &data.join(DIRECTORY))?),
    }
}

/// The record of how far other nodes' logs had come. `accept_restored` begins a new one.
pub fn seen_nodes(
    env: &Env,
    data: Option<&Path>,
    kind: SeenKind,
    accept_restored: bool,
) -> Result<SeenNodes, Error> {
    let Some(data) = data else { return Ok(SeenNodes::new(kind)) };
    let directory = data.join(DIRECTORY);
    match accept_restored {
        true => SeenNodes::forgotten(env, &directory, kind),
        false => SeenNodes::stored(env, &directory, kind),
    }
}

/// The worker's number, which stays the same as long as its data exists.
pub fn kept_id(env: &Env, data: Option<&Path>) -> Result<u64, Error> {
    match data {
        // SQL shows it as a `bigint`, so it has 63 bits. No worker has the number 0.
        None => Ok((env.random.next_u64() >> 1).max(1)),
        Some(data) => thalweg_distributed::node_id(env, &data.join(DIRECTORY)),
    }
}
