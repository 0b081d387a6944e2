//! How connections come in: the same for every port.

use std::net::SocketAddr;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::shared::Shared;

/// A client that is gone without a word is noticed: after so long a silence it is asked whether it
/// is there, and some times more.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(10);

/// Takes connections in until the server drains, and lets them end.
///
/// A port holds at most twice as many as may be open: those beyond the limit are told so, and those
/// beyond that are dropped, whatever they would have said.
pub(crate) async fn serve<C>(
    shared: &Shared,
    listener: TcpListener,
    connection: impl Fn(TcpStream, SocketAddr) -> C,
) where
    C: Future<Output = ()> + Send + 'static,
{
    let most = shared.config.limits.connections.saturating_mul(2).max(1);
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(_) if connections.len() >= most => {}
                Ok((stream, peer)) => {
                    prepare(&stream);
                    connections.spawn(connection(stream, peer));
                }
                // Too many open files, or a client that was gone before it was taken in.
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::task::yield_now().await;
                }
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            () = shared.drained() => break,
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// A socket that refuses an option works without it.
fn prepare(stream: &TcpStream) {
    // Replies are sent in one piece; waiting for more to send with them only delays them.
    let _ = stream.set_nodelay(true);
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE_IDLE).with_interval(KEEPALIVE_EVERY);
    let _ = SockRef::from(stream).set_tcp_keepalive(&keepalive);
}
