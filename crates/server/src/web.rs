//! What the front ends on HTTP have in common: gRPC is HTTP, too. Connections come in, with TLS
//! where the server has a certificate, and end gracefully when the server does.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
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
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;

use crate::accept;
use crate::shared::Shared;

/// What one front end speaks.
#[derive(Clone)]
pub(crate) struct Web {
    shared: Arc<Shared>,
    router: Router,
    builder: Builder<TokioExecutor>,
    acceptor: Option<TlsAcceptor>,
}

/// The protocols that TLS clients are offered.
pub(crate) type Protocols = &'static [&'static [u8]];

pub(crate) const GRPC: Protocols = &[b"h2"];
pub(crate) const HTTP: Protocols = &[b"http/1.1"];

/// How much a client may send ahead: enough that a fast network never waits for the server.
const STREAM_WINDOW_BYTES: u32 = 4 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;
/// How much of each answer lies ready for the socket.
const SEND_BUFFER_BYTES: usize = 2 << 20;
/// A client that is gone without a word is noticed.
const KEEPALIVE: Duration = Duration::from_secs(30);

impl Web {
    pub(crate) fn new(shared: Arc<Shared>, router: Router, protocols: Protocols) -> Web {
        let mut builder = Builder::new(TokioExecutor::new());
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
            config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
            TlsAcceptor::from(Arc::new(config))
        });
        Web { shared, router, builder, acceptor }
    }

    /// Takes connections in until the server drains, and lets their requests end.
    pub(crate) async fn serve(self, listener: TcpListener) {
        accept::serve(&self.shared, listener, |stream, peer| self.clone().connection(stream, peer))
            .await;
    }

    /// A connection on which nothing is asked in time is dropped: who opened it may be gone.
    async fn connection(self, stream: TcpStream, peer: SocketAddr) {
        let asked = Arc::new(Notify::new());
        let first = Arc::clone(&asked);
        let timeout = self.shared.config.limits.startup_timeout();
        let silent = async move {
            if tokio::time::timeout(timeout, first.notified()).await.is_ok() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = self.secured(stream, peer, asked) => {}
            () = silent => tracing::debug!(%peer, "a client asked nothing in time"),
        }
    }

    async fn secured(&self, stream: TcpStream, peer: SocketAddr, asked: Arc<Notify>) {
        match &self.acceptor {
            None => self.requests(stream, peer, asked).await,
            Some(acceptor) => match acceptor.accept(stream).await {
                Ok(stream) => self.requests(stream, peer, asked).await,
                Err(error) => tracing::debug!(%peer, %error, "TLS failed"),
            },
        }
    }

    async fn requests<S>(&self, stream: S, peer: SocketAddr, asked: Arc<Notify>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let service = service_fn(|mut request: Request<Incoming>| {
            asked.notify_one();
            request.extensions_mut().insert(ConnectInfo(peer));
            let answer = self.router.clone().oneshot(request.map(axum::body::Body::new));
            async { Ok::<_, Infallible>(answer.await.unwrap_or_else(|never| match never {})) }
        });
        let connection = self.builder.serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = self.shared.drained() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%peer, error, "a connection broke");
        }
    }
}
