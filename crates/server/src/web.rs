//! Shared parts of the front ends on HTTP, gRPC included. Connections use TLS if the server has a
//! certificate, and end gracefully when the server does.
//!
//! Each front end speaks one version of HTTP. Connections without a request in time are closed.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;

use crate::accept;
use crate::metrics::Counted;
use crate::shared::{Shared, Stage};
use crate::unauthenticated::UnauthenticatedConnection;

/// An HTTP front end.
#[derive(Clone)]
pub(crate) struct Web {
    shared: Arc<Shared>,
    router: Router,
    kind: Kind,
    builder: Builder<TokioExecutor>,
    acceptor: Option<TlsAcceptor>,
}

/// A handle of a client's connection, as its calls see it.
#[derive(Clone)]
pub(crate) struct ClientConnection(Weak<()>);

impl ClientConnection {
    /// A new line, and the guard that keeps it open.
    pub(crate) fn new() -> (Arc<()>, ClientConnection) {
        let open = Arc::new(());
        let line = ClientConnection(Arc::downgrade(&open));
        (open, line)
    }

    /// True while the connection is served, as far as the system knows.
    pub(crate) fn is_open(&self) -> bool {
        self.0.strong_count() > 0
    }

    pub(crate) fn is(&self, other: &ClientConnection) -> bool {
        self.0.ptr_eq(&other.0)
    }
}

/// The kind of an HTTP front end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// HTTP/2, which no browser speaks unencrypted.
    Grpc,
    /// HTTP/1. It stays open until all other connections are gone, since it reports readiness.
    Http,
}

impl Kind {
    /// The ALPN protocol offered to TLS clients.
    fn protocol(self) -> &'static [u8] {
        match self {
            Kind::Grpc => b"h2",
            Kind::Http => b"http/1.1",
        }
    }

    /// The server stage at which this front end stops accepting.
    fn lasts_until(self) -> Stage {
        match self {
            Kind::Grpc => Stage::Draining,
            Kind::Http => Stage::Closing,
        }
    }
}

/// Flow-control window of a stream: large enough that a fast network never waits for the server.
const STREAM_WINDOW_BYTES: u32 = 4 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;
/// Bytes of each response that are buffered for the socket.
const SEND_BUFFER_BYTES: usize = 2 << 20;
/// Interval of HTTP/2 pings, which detect clients that vanished.
const KEEPALIVE: Duration = Duration::from_secs(30);

impl Web {
    pub(crate) fn new(shared: Arc<Shared>, router: Router, kind: Kind) -> Web {
        let mut builder = match kind {
            Kind::Grpc => Builder::new(TokioExecutor::new()).http2_only(),
            Kind::Http => Builder::new(TokioExecutor::new()).http1_only(),
        };
        let timeout = shared.config.limits.startup_timeout();
        builder.http1().timer(TokioTimer::new()).header_read_timeout(timeout);
        builder
            .http2()
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_send_buf_size(SEND_BUFFER_BYTES)
            .keep_alive_interval(KEEPALIVE);
        let acceptor = shared.tls.as_ref().map(|tls| {
            let mut config = tls.config.as_ref().clone();
            config.alpn_protocols = vec![kind.protocol().to_vec()];
            TlsAcceptor::from(Arc::new(config))
        });
        Web { shared, router, kind, builder, acceptor }
    }

    /// Accepts connections until the stage at which this front end ends, then lets their requests
    /// finish.
    pub(crate) async fn serve(self, listener: TcpListener) {
        let one = |stream, peer, unauthenticated_connection| {
            self.clone().connection(stream, peer, unauthenticated_connection)
        };
        accept::serve(&self.shared, listener, self.kind.lasts_until(), one).await;
    }

    /// Serves a connection. If no request comes in time, it is closed, since its client may be
    /// gone.
    async fn connection(
        self,
        stream: TcpStream,
        peer: SocketAddr,
        unauthenticated_connection: Arc<UnauthenticatedConnection>,
    ) {
        let stream = Counted::new(stream, self.shared.metrics.socket_calls(self.kind));
        match &self.acceptor {
            None => self.requests(stream, peer, &unauthenticated_connection).await,
            Some(acceptor) => {
                let timeout = self.shared.config.limits.startup_timeout();
                match tokio::time::timeout(timeout, acceptor.accept(stream)).await {
                    Ok(Ok(stream)) => {
                        self.requests(stream, peer, &unauthenticated_connection).await
                    }
                    Ok(Err(error)) => tracing::debug!(%peer, %error, "TLS failed"),
                    Err(_) => tracing::debug!(%peer, "TLS took too long"),
                }
            }
        }
    }

    async fn requests<S>(
        &self,
        stream: S,
        peer: SocketAddr,
        unauthenticated_connection: &Arc<UnauthenticatedConnection>,
    ) where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let asked = AtomicBool::new(false);
        let (_open, line) = ClientConnection::new();
        let service = service_fn(|mut request: Request<Incoming>| {
            asked.store(true, Ordering::Relaxed);
            request.extensions_mut().insert(ConnectInfo(peer));
            request.extensions_mut().insert(line.clone());
            let answer = self.router.clone().oneshot(request.map(axum::body::Body::new));
            let answer = Arc::clone(unauthenticated_connection).call(answer);
            async { Ok::<_, Infallible>(answer.await.unwrap_or_else(|never| match never {})) }
        });
        let connection = self.builder.serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = self.shared.reached(self.kind.lasts_until()) => {
                connection.as_mut().graceful_shutdown();
                match asked.load(Ordering::Relaxed) {
                    true => connection.await,
                    // No request came, so nothing is in flight in either direction.
                    false => Ok(()),
                }
            }
            () = silence(&asked, self.shared.config.limits.startup_timeout()) => Ok(()),
        };
        if let Err(error) = ended {
            tracing::debug!(%peer, error, "a connection broke");
        }
    }
}

/// Resolves after `time` if no request came meanwhile; otherwise never.
#[expect(clippy::disallowed_methods, reason = "it is a client that is waited for")]
async fn silence(asked: &AtomicBool, time: Duration) {
    tokio::time::sleep(time).await;
    if asked.load(Ordering::Relaxed) {
        std::future::pending().await
    }
}
