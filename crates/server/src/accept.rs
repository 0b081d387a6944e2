//! Accepts connections, for every front end.
//!
//! Promises: if the system runs out of descriptors, or unauthenticated clients crowd in, a front
//! end does not spin, does not fill the log, and holds only a bounded number of sockets.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::shared::{Shared, Stage};
use crate::unauthenticated::{Unauthenticated, UnauthenticatedConnection};

/// Sockets beyond the limit of connections. They serve to tell surplus clients that they are
/// refused.
pub(crate) const SPARE: usize = 1_024;
/// TCP keepalive detects clients that vanished: after this long a silence the system sends a probe,
/// and repeats it every [`KEEPALIVE_EVERY`].
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(10);
/// Pause after the system failed to accept a connection.
const RETRY_AFTER: Duration = Duration::from_millis(100);
/// Minimum interval between log messages about lost connections.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// Serves each connection until the server reaches a stage, then lets open connections end.
pub(crate) async fn serve<F>(
    shared: &Shared,
    listener: TcpListener,
    until: Stage,
    one: impl Fn(TcpStream, SocketAddr, Arc<UnauthenticatedConnection>) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let mut open = JoinSet::new();
    let one = |stream, peer, unauthenticated_connection| {
        prepare(&stream);
        one(stream, peer, unauthenticated_connection)
    };
    tokio::select! {
        () = take_in(&listener, &shared.unauthenticated, &mut open, one) => {}
        () = shared.reached(until) => {}
    }
    drop(listener);
    while open.join_next().await.is_some() {}
}

/// Sets socket options. Errors are ignored, since the socket works without the options.
fn prepare(stream: &TcpStream) {
    // Each reply is sent in one piece, so Nagle's algorithm would only delay it.
    let _ = stream.set_nodelay(true);
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE_IDLE).with_interval(KEEPALIVE_EVERY);
    let _ = SockRef::from(stream).set_tcp_keepalive(&keepalive);
}

/// A source of connections; tests replace the listener.
trait Source {
    type Stream;

    fn accept(&self) -> impl Future<Output = io::Result<(Self::Stream, SocketAddr)>> + Send;
}

impl Source for TcpListener {
    type Stream = TcpStream;

    fn accept(&self) -> impl Future<Output = io::Result<(TcpStream, SocketAddr)>> + Send {
        TcpListener::accept(self)
    }
}

/// Accepts connections for ever, as far as there is room.
async fn take_in<S: Source, F>(
    source: &S,
    unauthenticated: &Arc<Unauthenticated>,
    open: &mut JoinSet<()>,
    one: impl Fn(S::Stream, SocketAddr, Arc<UnauthenticatedConnection>) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let mut losses = Losses::default();
    loop {
        unauthenticated.has_room().await;
        let accepted = tokio::select! {
            accepted = source.accept() => accepted,
            Some(_) = open.join_next(), if !open.is_empty() => continue,
        };
        match accepted {
            Ok((stream, peer)) => match unauthenticated.enter() {
                Some(unauthenticated_connection) => {
                    let served = one(stream, peer, Arc::clone(&unauthenticated_connection));
                    open.spawn(unless_evicted(unauthenticated_connection, served));
                }
                None => losses.tell(&format!("{peer} is one too many")),
            },
            // The client disconnected before it was accepted.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            // Too many open files: the next accept fails as well until a socket closes.
            Err(error) => {
                losses.tell(&error.to_string());
                unauthenticated.evict_oldest();
                pause().await;
            }
        }
    }
}

/// Serves a connection until it ends or is evicted in favour of a newer one.
async fn unless_evicted(
    unauthenticated_connection: Arc<UnauthenticatedConnection>,
    served: impl Future<Output = ()>,
) {
    tokio::select! {
        () = served => {}
        () = unauthenticated_connection.evicted() => {}
    }
}

#[expect(clippy::disallowed_methods, reason = "the system recovers in real time")]
async fn pause() {
    tokio::time::sleep(RETRY_AFTER).await;
}

/// Counts lost connections and logs them at most once per [`TELL_EVERY`].
#[derive(Default)]
struct Losses {
    unreported: u64,
    last_reported: Option<Instant>,
}

impl Losses {
    fn tell(&mut self, why: &str) {
        if let Some(lost) = self.due(Instant::now()) {
            tracing::warn!(lost, why, "connections could not be accepted");
        }
    }

    /// Counts a loss. Returns the number of losses since the last message if the next one is due.
    fn due(&mut self, now: Instant) -> Option<u64> {
        self.unreported += 1;
        if self.last_reported.is_some_and(|last_reported| now - last_reported < TELL_EVERY) {
            return None;
        }
        self.last_reported = Some(now);
        Some(std::mem::take(&mut self.unreported))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use parking_lot::Mutex;
    use tokio::sync::mpsc::unbounded_channel;

    use super::*;

    const PEER: SocketAddr =
        SocketAddr::V4(std::net::SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, 1));

    /// Connections by number, and errors by the system's.
    struct Script(Mutex<VecDeque<Result<i32, i32>>>);

    impl Source for Script {
        type Stream = i32;

        async fn accept(&self) -> io::Result<(i32, SocketAddr)> {
            let next = self.0.lock().pop_front();
            match next {
                Some(Ok(number)) => Ok((number, PEER)),
                Some(Err(code)) => Err(io::Error::from_raw_os_error(code)),
                None => std::future::pending().await,
            }
        }
    }

    #[tokio::test]
    async fn errors_end_nothing_and_no_more_than_the_limit_are_served() {
        let source = Script(Mutex::new([Err(24), Ok(1), Err(103), Ok(2), Ok(3)].into()));
        let (served, mut seen) = unbounded_channel();
        let one = |number: i32, _, unauthenticated_connection: Arc<UnauthenticatedConnection>| {
            unauthenticated_connection.is_known();
            let served = served.clone();
            async move {
                served.send(number).unwrap();
                std::future::pending().await
            }
        };
        let mut open = JoinSet::new();
        let first_two = async { (seen.recv().await.unwrap(), seen.recv().await.unwrap()) };
        let unauthenticated = Unauthenticated::new(2);
        tokio::select! {
            () = take_in(&source, &unauthenticated, &mut open, one) => {}
            numbers = first_two => assert_eq!(numbers, (1, 2)),
        }
        assert_eq!(open.len(), 2);
    }

    #[test]
    fn losses_are_told_once_in_a_while_and_all_are_counted() {
        let (mut losses, now) = (Losses::default(), Instant::now());
        assert_eq!(losses.due(now), Some(1));
        assert!((0..1000).all(|_| losses.due(now).is_none()));
        assert_eq!(losses.due(now + TELL_EVERY), Some(1001));
    }
}
