//! Listening for connections: callers are authenticated, then served until the node ends.

use std::net::SocketAddr;
use std::time::Duration;

use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use thalweg_runtime::{HttpTimer, Listener, Network, Stream, sleep, timeout};
use thalweg_types::{Error, Result, SqlState};
use tokio::task::JoinSet;

use super::Services;
use super::write_coalescing::CoalescedWrites;
use crate::security::{Connection, Security};

/// Options of a node's server.
#[derive(Clone)]
pub struct ServeOptions {
    pub security: Security,
    pub network: Network,
    /// Time limit for a caller to authenticate.
    pub greeting_timeout: Duration,
    /// Time without an answer to a ping after which a caller counts as gone and its calls are
    /// canceled.
    pub silence: Duration,
    /// True if small frames are gathered into larger writes. Clients need this, since they accept
    /// only small frames; nodes do not.
    pub gathers_frames: bool,
}

impl Default for ServeOptions {
    fn default() -> ServeOptions {
        ServeOptions {
            security: Security::default(),
            network: Network::default(),
            greeting_timeout: Duration::from_secs(5),
            silence: Duration::from_secs(10),
            gathers_frames: false,
        }
    }
}

/// Connections that may wait to be accepted. Thousands of workers may be called at once, and each
/// of them by many gateways.
const BACKLOG: u32 = 1_024;
/// Bytes of each answer that are buffered for the socket.
const SEND_BUFFER_BYTES: usize = 1 << 20;
/// Concurrent calls of one caller. Further calls would wait for one of these to end, while the
/// calls of a join do not end before their rows are read. Callers belong to the cluster, and limit
/// themselves.
const CALLS_MAX: u32 = 1 << 20;

/// A listening node. Dropping it, or the future of [`NodeServer::serve`], closes its connections.
pub struct NodeServer {
    listener: Listener,
    options: ServeOptions,
}

impl NodeServer {
    /// Opens a port; 0 means any free one.
    ///
    /// # Errors
    /// If the port is taken, or the node would be open to everybody.
    pub fn bind(address: SocketAddr, options: ServeOptions) -> Result<NodeServer> {
        options.security.allows(address)?;
        let listener = options.network.listen(address, BACKLOG).map_err(|error| {
            let message = format!("cannot listen on {address}: {error}");
            Error::new(SqlState::OBJECT_IN_USE, message)
        })?;
        Ok(NodeServer { listener, options })
    }

    /// The local address, with the actual port.
    ///
    /// # Errors
    /// If the system does not know it.
    pub fn address(&self) -> Result<SocketAddr> {
        let unknown = |error| Error::internal(format!("a port has no address: {error}"));
        self.listener.local_addr().map_err(unknown)
    }

    /// Serves until the future is dropped, which closes all connections.
    pub async fn serve(mut self, services: Services) {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        let (options, services) = (self.options.clone(), services.clone());
                        connections.spawn(serve_one(stream, options, services));
                    }
                    // For instance, no file descriptors are left. Some become free when connections
                    // end.
                    Err(_) => pause().await,
                },
                Some(_) = connections.join_next() => {}
            }
        }
    }
}

async fn serve_one(stream: Stream, options: ServeOptions, services: Services) {
    let greeting = timeout(options.greeting_timeout, options.security.answer(stream));
    // An unauthenticated caller gets no answer.
    let Ok(Ok(stream)) = greeting.await else { return };
    if options.gathers_frames {
        serve_http(CoalescedWrites::new(stream), &options, services).await;
    } else {
        serve_http(stream, &options, services).await;
    }
}

async fn serve_http(stream: impl Connection + 'static, options: &ServeOptions, services: Services) {
    let service = service_fn(|request| services.clone().call(request));
    let served = http2::Builder::new(TokioExecutor::new())
        .timer(HttpTimer)
        // No caller reads the date, which would come from the real clock.
        .auto_date_header(false)
        .max_send_buf_size(SEND_BUFFER_BYTES)
        .max_concurrent_streams(CALLS_MAX)
        // Peers of the cluster may cancel any number of calls; that is not treated as an attack.
        .max_pending_accept_reset_streams(CALLS_MAX as usize)
        .max_local_error_reset_streams(None)
        .keep_alive_interval(options.silence / 2)
        .keep_alive_timeout(options.silence / 2)
        .serve_connection(TokioIo::new(stream), service);
    // The result does not matter: the caller is gone.
    let _ = served.await;
}

/// Waits until file descriptors may be free again.
async fn pause() {
    sleep(Duration::from_millis(50)).await;
}
