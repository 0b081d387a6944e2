//! Validation of a server's configuration. All faults are found before anything is opened, so that
//! checking a configuration gives the same answer as starting a server.
//!
//! Faults that other processes cause are not checked: a port may be in use when the server starts.

use thalweg_types::{Error, SqlState};

use super::{IngestConfig, LimitsConfig, ListenConfig, ServerConfig, TlsConfig};
use crate::auth::Policy;
use crate::listen::can_listen_on;
use crate::tls::Tls;
use crate::trace;

/// Minimum of message limits; shorter ones would reject every client.
const MESSAGE_BYTES_MIN: u64 = 1_000;

/// A setting with which a server cannot start.
#[derive(Debug)]
pub struct Fault {
    /// The names of the settings involved, such as `tls.certificate`.
    pub settings: &'static [&'static str],
    pub error: Error,
}

impl ServerConfig {
    /// All faults for which [`Server::start`](crate::Server::start) would refuse the configuration.
    /// Reads the certificate files; changes nothing.
    #[must_use]
    pub fn faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        let mut found = |settings, refused: Result<(), Error>| {
            faults.extend(refused.err().map(|error| Fault { settings, error }));
        };
        found(&["listen.address"], address(&self.listen));
        found(
            &["listen.grpc_port", "listen.postgres_port", "listen.http_port"],
            ports(&self.listen),
        );
        let wanted = [self.listen.postgres(), self.listen.grpc(), self.listen.http()];
        let policy = Policy::new(self.auth.method, &wanted).map(drop);
        found(&["auth.method", "listen.address"], policy);
        found(&["tls.certificate", "tls.key"], Tls::load(&self.tls).map(drop));
        found(&["tls.required", "tls.certificate", "tls.key"], required(&self.tls));
        for (settings, value, least) in least(&self.limits, &self.ingest) {
            found(settings, at_least(settings[0], value, least));
        }
        found(&["log.filter"], trace::filter(&self.log).map(drop));
        let endpoint = self.otlp.endpoint.as_deref();
        found(&["otlp.endpoint"], endpoint.map_or(Ok(()), trace::check_endpoint));
        faults
    }
}

/// Limits with the minimum of each; a smaller value would keep every client out.
fn least(limits: &LimitsConfig, ingest: &IngestConfig) -> [(&'static [&'static str], u64, u64); 7] {
    [
        (&["limits.connections"], limits.connections as u64, 1),
        (&["limits.statements"], limits.statements as u64, 1),
        (&["limits.message_bytes"], limits.message_bytes as u64, MESSAGE_BYTES_MIN),
        (&["limits.record_bytes"], limits.record_bytes as u64, MESSAGE_BYTES_MIN),
        (&["limits.record_message_bytes"], limits.record_message_bytes as u64, MESSAGE_BYTES_MIN),
        (&["limits.startup_timeout_ms"], limits.startup_timeout_ms, 1),
        (&["ingest.body_bytes"], ingest.body_bytes, MESSAGE_BYTES_MIN),
    ]
}

fn at_least(setting: &str, value: u64, least: u64) -> Result<(), Error> {
    if value >= least {
        return Ok(());
    }
    let message = format!("{setting} is {value}, which would keep everybody out");
    Err(invalid(message).with_hint(format!("Give {least} or more.")))
}

fn address(listen: &ListenConfig) -> Result<(), Error> {
    can_listen_on(listen.address).map_err(|error| {
        let message = format!("listen.address {} cannot be listened on: {error}", listen.address);
        invalid(message).with_hint("Give an address of this machine, or 0.0.0.0 for all of them.")
    })
}

fn ports(listen: &ListenConfig) -> Result<(), Error> {
    let ListenConfig { grpc_port, postgres_port, http_port, .. } = *listen;
    let pairs = [(grpc_port, postgres_port), (postgres_port, http_port), (http_port, grpc_port)];
    // Port 0 may repeat: the system chooses a different port each time.
    match pairs.iter().find(|(one, other)| one == other && *one != 0) {
        Some((port, _)) => {
            let message = format!("two protocols cannot share port {port}");
            Err(invalid(message).with_hint("Give each its own: listen.*_port."))
        }
        None => Ok(()),
    }
}

fn required(tls: &TlsConfig) -> Result<(), Error> {
    if !tls.required || tls.certificate.is_some() || tls.key.is_some() {
        return Ok(());
    }
    Err(invalid("tls.required is set, and there is no certificate to encrypt with".to_owned())
        .with_hint("Set tls.certificate and tls.key."))
}

fn invalid(message: String) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

#[cfg(test)]
mod tests;
