//! A connection to a node, and calls over it.
//!
//! A call sends a message and gets a body, of which [`Answer`] returns the pieces as they arrive.
//! Dropping the call or the answer cancels it on both sides.
//!
//! Invariants: a node that is gone, hangs or is cut off is reported as an error that names it,
//! within [`LinkOptions::silence`], and at once if [`UnresponsiveNodes`] know it already. A body is
//! read no faster than its pieces are taken.

mod answer;
mod driver;
mod reconnecting;
mod unresponsive;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use hyper::header::{CONTENT_TYPE, HeaderValue, TE};
use hyper::{HeaderMap, Method, Request, Uri, Version};
use parking_lot::Mutex;
use thalweg_runtime::{Network, spawn, timeout};
use thalweg_types::{Error, Result, SqlState};
use tokio::sync::Notify;

use crate::chunks::framed;
use crate::security::Security;

pub use answer::{Answer, damaged};
pub use reconnecting::ReconnectingLink;
pub use unresponsive::UnresponsiveNodes;

/// Limit of unread bytes that all workers of a query send together. They should fit into the
/// processor's cache: with more, reading from 16 workers is slower.
pub const UNREAD_BYTES: usize = 4 << 20;

/// Options of connections: credentials, flow control and time limits.
#[derive(Clone)]
pub struct LinkOptions {
    pub security: Security,
    pub network: Network,
    /// Flow-control window of an answer: bytes that may be under way or unread.
    pub stream_window_bytes: u32,
    /// Flow-control window of all answers of a connection together, in bytes.
    pub connection_window_bytes: u32,
    pub connect_timeout: Duration,
    /// Time without an answer to a ping, during a call, after which a node counts as gone.
    pub silence: Duration,
}

impl Default for LinkOptions {
    fn default() -> LinkOptions {
        LinkOptions {
            security: Security::default(),
            network: Network::default(),
            stream_window_bytes: WINDOW_BYTES_MAX,
            connection_window_bytes: 4 * WINDOW_BYTES_MAX,
            connect_timeout: Duration::from_secs(5),
            silence: Duration::from_secs(5),
        }
    }
}

/// Smallest window that HTTP/2 allows for a connection, in bytes.
const WINDOW_BYTES_MIN: u32 = 65_535;
const WINDOW_BYTES_MAX: u32 = 1 << 20;
/// Largest window that HTTP/2 allows.
const CONNECTION_WINDOW_BYTES_MAX: u32 = i32::MAX as u32;

impl LinkOptions {
    /// Options for reading from so many nodes at once: the windows are reduced so that unread bytes
    /// stay within `bytes`, as far as HTTP/2 allows it.
    #[must_use]
    pub fn for_nodes(mut self, nodes: usize, bytes: usize) -> LinkOptions {
        let share = u32::try_from(bytes / nodes.max(1)).unwrap_or(u32::MAX);
        self.stream_window_bytes = share.clamp(WINDOW_BYTES_MIN, WINDOW_BYTES_MAX);
        // Several queries may ask the same node.
        let connection = self.stream_window_bytes.min(share).saturating_mul(4);
        self.connection_window_bytes = connection.clamp(WINDOW_BYTES_MIN, 4 * WINDOW_BYTES_MAX);
        self
    }

    /// Options for answers that are not read until others have ended, as in a join. Only the window
    /// of each answer is limited, so that waiting answers do not block others.
    #[must_use]
    pub fn for_each_answer(mut self) -> LinkOptions {
        self.connection_window_bytes = CONNECTION_WINDOW_BYTES_MAX;
        self
    }
}

/// Asks a worker for what it holds.
pub const DESCRIBE: &str = "/thalweg.cluster.v1.Worker/Describe";
/// Frames that a node sends may be as long as a chunk.
const FRAME_BYTES_MAX: u32 = 1 << 20;
/// Number of canceled answers whose late frames are ignored. h2 remembers each for a second.
const RESETS_REMEMBERED: usize = 4_096;

/// The name of a node, as errors show it. Gateways have the number 0.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeName {
    pub id: u64,
    pub address: SocketAddr,
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.id {
            0 => write!(f, "the gateway at {}", self.address),
            id => write!(f, "worker {id} at {}", self.address),
        }
    }
}

/// State of a connection's peer.
struct Peer {
    name: NodeName,
    /// The reason why this side gave up the connection, if it did.
    given_up: Mutex<Option<String>>,
    /// Receives the reason, so that other calls fail at once.
    silent: Option<UnresponsiveNodes>,
    closed: AtomicBool,
    /// Number of open calls.
    calls: AtomicUsize,
    /// Notified when the first call opens.
    asked: Notify,
    /// Number of pieces received so far: each is a sign of life.
    pieces: AtomicUsize,
}

/// Counts an open call.
struct Open(Arc<Peer>);

impl Open {
    fn new(peer: &Arc<Peer>) -> Open {
        if peer.calls.fetch_add(1, Ordering::Relaxed) == 0 {
            peer.asked.notify_one();
        }
        Open(Arc::clone(peer))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Peer {
    fn new(name: NodeName, silent: Option<UnresponsiveNodes>) -> Peer {
        Peer {
            name,
            given_up: Mutex::default(),
            silent,
            closed: AtomicBool::new(false),
            calls: AtomicUsize::new(0),
            asked: Notify::new(),
            pieces: AtomicUsize::new(0),
        }
    }

    fn is_asked(&self) -> bool {
        self.calls.load(Ordering::Relaxed) > 0
    }

    fn pieces(&self) -> usize {
        self.pieces.load(Ordering::Relaxed)
    }

    /// Gives up a silent node. Other calls are blocked before the waiting ones fail.
    fn give_up(&self, why: String) {
        if let Some(silent) = &self.silent {
            silent.note(&self.name, &why);
        }
        *self.given_up.lock() = Some(why);
    }

    fn failed(&self, why: impl fmt::Display) -> Error {
        match &*self.given_up.lock() {
            Some(reason) => unavailable(&self.name, reason),
            None => unavailable(&self.name, why),
        }
    }
}

/// The error for a node that cannot be reached, with the reason.
pub fn unavailable(name: &NodeName, why: impl fmt::Display) -> Error {
    Error::new(SqlState::CONNECTION_FAILURE, format!("{name} does not answer: {why}"))
        .with_hint("Its rows are not reachable until it is back.")
}

/// The reason why a node was not reached.
enum NotReached {
    /// There is no answer in time, or no route.
    Silent(String),
    /// The node refuses the connection, or is another one.
    Failed(Error),
}

impl NotReached {
    fn told_of(self, name: &NodeName) -> Error {
        match self {
            NotReached::Silent(why) => unavailable(name, why),
            NotReached::Failed(error) => error,
        }
    }
}

/// A connection to a node. Clones share it.
#[derive(Clone)]
pub struct Link {
    send: SendRequest<Bytes>,
    peer: Arc<Peer>,
}

impl Link {
    /// Connects. The connection lives on the current runtime.
    ///
    /// # Errors
    /// If no node answers in time, or it does not belong to this cluster.
    pub async fn connect(name: NodeName, options: &LinkOptions) -> Result<Link> {
        let linked = Link::to(Peer::new(name.clone(), None), options).await;
        linked.map_err(|why| why.told_of(&name))
    }

    async fn to(peer: Peer, options: &LinkOptions) -> Result<Link, NotReached> {
        options.security.allows(peer.name.address).map_err(NotReached::Failed)?;
        let opening = open(&peer.name, options);
        let opened = timeout(options.connect_timeout, opening).await;
        let opened =
            opened.unwrap_or_else(|_| Err(NotReached::Silent("it takes no connection".to_owned())));
        let (send, connection) = opened.inspect_err(|why| {
            if let NotReached::Silent(why) = why {
                peer.give_up(why.clone());
            }
        })?;
        let peer = Arc::new(peer);
        spawn(driver::drive(connection, Arc::clone(&peer), options.silence));
        Ok(Link { send, peer })
    }

    /// The name with which the link was opened.
    #[must_use]
    pub fn name(&self) -> &NodeName {
        &self.peer.name
    }

    /// True if the connection is closed, so that calls fail.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.peer.closed.load(Ordering::Relaxed)
    }

    /// True if the node was given up because it was silent.
    #[must_use]
    pub fn was_given_up(&self) -> bool {
        self.peer.given_up.lock().is_some()
    }

    fn is(&self, other: &Link) -> bool {
        Arc::ptr_eq(&self.peer, &other.peer)
    }

    /// Sends a request, and waits until the node begins to answer.
    ///
    /// # Errors
    /// If the node refuses, or is gone.
    pub async fn call(&self, path: &'static str, message: &[u8]) -> Result<Answer> {
        let lost = |error: h2::Error| self.peer.failed(error);
        let open = Open::new(&self.peer);
        let mut send = self.send.clone().ready().await.map_err(lost)?;
        let (answer, mut body) = send.send_request(request(path), false).map_err(lost)?;
        body.send_data(framed(message), true).map_err(lost)?;
        let (head, stream) = answer.await.map_err(lost)?.into_parts();
        answer::status(&head.headers, &self.peer).transpose()?;
        if !head.status.is_success() {
            return Err(self.peer.failed(format_args!("it answered HTTP {}", head.status)));
        }
        Ok(Answer::new(stream, open))
    }

    /// Sends a request whose answer is one message.
    ///
    /// # Errors
    /// If the node refuses, or is gone.
    pub async fn ask<Q: prost::Message, A: prost::Message + Default>(
        &self,
        path: &'static str,
        question: &Q,
    ) -> Result<A> {
        let message = self.call(path, &question.encode_to_vec()).await?.message().await?;
        A::decode(message).map_err(|error| {
            let message = format!("{} answered what is no answer: {error}", self.peer.name);
            Error::new(SqlState::PROTOCOL_VIOLATION, message)
        })
    }
}

type Connection = h2::client::Connection<Box<dyn crate::security::Connection>, Bytes>;

async fn open(
    name: &NodeName,
    options: &LinkOptions,
) -> Result<(SendRequest<Bytes>, Connection), NotReached> {
    let failed = |error: io::Error| match is_silence(&error) {
        true => NotReached::Silent(error.to_string()),
        false => NotReached::Failed(unavailable(name, error)),
    };
    let stream = options.network.connect(name.address).await.map_err(failed)?;
    let stream = options.security.call(name.address, stream).await.map_err(NotReached::Failed)?;
    h2::client::Builder::new()
        .initial_window_size(options.stream_window_bytes)
        .initial_connection_window_size(options.connection_window_bytes)
        .max_frame_size(FRAME_BYTES_MAX)
        .enable_push(false)
        // Late frames of canceled answers are not the node's fault.
        .max_concurrent_reset_streams(RESETS_REMEMBERED)
        .max_local_error_reset_streams(None)
        .handshake(stream)
        .await
        .map_err(|error| NotReached::Failed(unavailable(name, error)))
}

/// True if nothing answered. A host that is up would have refused the connection.
fn is_silence(error: &io::Error) -> bool {
    use io::ErrorKind::{HostUnreachable, NetworkDown, NetworkUnreachable, TimedOut};
    matches!(error.kind(), HostUnreachable | NetworkDown | NetworkUnreachable | TimedOut)
}

fn request(path: &'static str) -> Request<()> {
    let mut request = Request::new(());
    *request.method_mut() = Method::POST;
    *request.version_mut() = Version::HTTP_2;
    // HTTP/2 requires an authority, which the node ignores.
    *request.uri_mut() = Uri::builder()
        .scheme("http")
        .authority("thalweg")
        .path_and_query(path)
        .build()
        .expect("paths of calls are constants");
    *request.headers_mut() = HeaderMap::from_iter([
        (CONTENT_TYPE, HeaderValue::from_static("application/grpc")),
        (TE, HeaderValue::from_static("trailers")),
    ]);
    request
}

#[cfg(test)]
mod tests;
