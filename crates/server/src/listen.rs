//! Life cycle of a server: open ports, serve, drain, end.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use thalweg_query::Database;
use thalweg_types::{Error, Result, SqlState};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::accept::SPARE;
use crate::admission::Admission;
use crate::auth::{Policy, Users, administrator_password};
use crate::config::ServerConfig;
use crate::connections::Connections;
use crate::http::BodyMemory;
use crate::metrics::Metrics;
use crate::postgres;
use crate::records::memory::Memory;
use crate::shared::{Shared, Stage};
use crate::storage::log_storage_faults;
use crate::tls::Tls;
use crate::trace::Observer;
use crate::unauthenticated::Unauthenticated;
use crate::{flight, http};

/// Interval at which a draining server checks if all connections are gone.
const DRAIN_POLL: Duration = Duration::from_millis(20);
/// Connections that may wait to be accepted, as far as the system allows. The system silently drops
/// those beyond, and their clients wait in vain.
const BACKLOG: u32 = 4_096;

/// The addresses on which the server listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    pub postgres: SocketAddr,
    pub grpc: SocketAddr,
    pub http: SocketAddr,
}

/// A running server. Dropping it aborts its tasks at once.
pub struct Server {
    shared: Arc<Shared>,
    addresses: Addresses,
    administrator_password: Option<String>,
    tasks: JoinSet<()>,
}

impl Server {
    /// Opens the ports and begins to serve.
    ///
    /// # Errors
    /// If the configuration has [faults](ServerConfig::faults), or a port is taken.
    pub fn start(config: ServerConfig, database: Database) -> BoxFuture<'static, Result<Server>> {
        // Boxed, so that the large future is compiled in this crate and not in each caller.
        Box::pin(Self::begun(config, database))
    }

    async fn begun(config: ServerConfig, database: Database) -> Result<Server> {
        if let Some(fault) = config.faults().into_iter().next() {
            return Err(fault.error);
        }
        let wanted = [config.listen.postgres(), config.listen.grpc(), config.listen.http()];
        let policy = Policy::new(config.auth.method, &wanted)?;
        let tls = Tls::load(&config.tls)?;
        warn_of_plain_text(&config, tls.as_ref());
        log_storage_faults(&database);
        let administrator_password = administrator_password(&database, policy).await?;
        let shared = shared(config, database, policy, tls)?;
        shared.database.surround(Arc::clone(&shared.connections) as _);
        let postgres = bind(shared.config.listen.postgres())?;
        let grpc = bind(shared.config.listen.grpc())?;
        let http = bind(shared.config.listen.http())?;
        let addresses =
            Addresses { postgres: local(&postgres)?, grpc: local(&grpc)?, http: local(&http)? };
        let flight = flight::web(Arc::clone(&shared)).await?;
        let mut tasks = JoinSet::new();
        tasks.spawn(postgres::serve(Arc::clone(&shared), postgres));
        tasks.spawn(flight.serve(grpc));
        tasks.spawn(http::web(Arc::clone(&shared)).serve(http));
        Ok(Server { shared, addresses, administrator_password, tasks })
    }

    /// The bound addresses, with the ports that the system chose for port 0.
    #[must_use]
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// True if the HTTP and gRPC ports speak TLS.
    #[must_use]
    pub fn uses_tls(&self) -> bool {
        self.shared.tls.is_some()
    }

    /// The superuser's password, if the server generated one at its first start.
    #[must_use]
    pub fn administrator_password(&self) -> Option<&str> {
        self.administrator_password.as_deref()
    }

    /// Stops accepting work, lets running statements end until the drain timeout, cancels the rest,
    /// and then ends the server.
    pub async fn shut_down(mut self) {
        self.shared.stage.send_replace(Stage::Draining);
        let deadline = Instant::now() + self.shared.config.limits.drain_timeout();
        let gone = async {
            while self.shared.connections.open() > 0 {
                pause().await;
            }
        };
        if tokio::time::timeout_at(deadline, gone).await.is_err() {
            for connection in self.shared.connections.all() {
                connection.terminate();
            }
            // Cancelled statements get time to report their error.
            pause().await;
        }
        self.shared.stage.send_replace(Stage::Closing);
        let arrived = async { while self.tasks.join_next().await.is_some() {} };
        let _ = tokio::time::timeout_at(deadline, arrived).await;
        self.tasks.shutdown().await;
        self.shared.observer.flush().await;
    }
}

/// Warns where passwords and rows travel unencrypted beyond this machine.
pub(crate) fn warn_of_plain_text(config: &ServerConfig, tls: Option<&Tls>) {
    if tls.is_none() && !config.listen.address.to_canonical().is_loopback() {
        tracing::warn!("without tls.certificate, what goes to and fro can be read on the way");
    }
}

/// The state that the front ends of a server over a database share.
pub(crate) fn shared(
    config: ServerConfig,
    database: Database,
    policy: Policy,
    tls: Option<Tls>,
) -> Result<Arc<Shared>> {
    let limits = &config.limits;
    let metrics = Metrics::new();
    let observer = Observer::new(&metrics, &database, &config)?;
    let unauthenticated = Unauthenticated::new(limits.connections.saturating_add(SPARE));
    let connections = most_connections(unauthenticated.sockets_max()).min(limits.connections);
    if connections < limits.connections {
        let (wanted, hint) = (limits.connections, "raise the limit of open files (ulimit -n)");
        tracing::warn!(connections, wanted, hint, "there are fewer connections than configured");
    }
    Ok(Arc::new(Shared {
        users: Arc::new(Users::new(database.clone(), limits.startup_timeout())),
        policy,
        tls,
        connections: Connections::new(connections, Arc::clone(&database.env().clock)),
        unauthenticated,
        admission: Admission::new(limits.statements, limits.queue_timeout()),
        ingest_memory: Memory::new(limits.record_bytes),
        body_memory: BodyMemory::new(limits.record_bytes.max(limits.message_bytes)),
        metrics,
        observer,
        stage: watch::Sender::new(Stage::Serving),
        database,
        config,
    }))
}

/// Maximum number of connections for a number of sockets. Some sockets stay free for clients that
/// are refused.
fn most_connections(sockets: usize) -> usize {
    sockets.saturating_sub(SPARE).max(sockets * 3 / 4).max(1)
}

#[expect(clippy::disallowed_methods, reason = "clients end in real time")]
async fn pause() {
    tokio::time::sleep(DRAIN_POLL).await;
}

pub(crate) fn bind(address: SocketAddr) -> Result<TcpListener> {
    listener(address).map_err(|error| {
        let message = format!("cannot listen on {address}: {error}");
        Error::new(SqlState::OBJECT_IN_USE, message)
            .with_hint("Choose another address or port, or stop what uses it.")
    })
}

fn listener(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // Allows reuse of a port whose previous server left sockets in TIME_WAIT.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Checks that an address belongs to this machine.
pub(crate) fn can_listen_on(address: IpAddr) -> io::Result<()> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.bind(SocketAddr::new(address, 0))
}

pub(crate) fn local(listener: &TcpListener) -> Result<SocketAddr> {
    listener
        .local_addr()
        .map_err(|error| Error::internal(format!("a port has no address: {error}")))
}

#[cfg(test)]
mod tests;
