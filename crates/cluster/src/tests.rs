//! Workers for tests, on real sockets of this machine.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use hyper::Response;
use thalweg_types::{Error, Result, SqlState};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tonic::body::Body;
use tonic::service::Routes;

use crate::chunks::{ChunkWriter, Fill, Pool, Source};
use crate::link::{LinkOptions, NodeName};
use crate::node::{Chunks, NodeServer, ServeOptions, Services, chunks};

/// A request to the test worker: so many messages of so many bytes, and then an end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    pub(crate) end: End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Well = 0,
    Badly = 1,
    Never = 2,
}

impl Wanted {
    pub(crate) fn question(self) -> Bytes {
        [self.messages, self.bytes, self.end as u64].map(u64::to_le_bytes).concat().into()
    }

    fn read(question: &[u8]) -> Wanted {
        let number = |place: usize| {
            u64::from_le_bytes(question[place * 8..place * 8 + 8].try_into().unwrap())
        };
        let end = [End::Well, End::Badly, End::Never][number(2) as usize];
        Wanted { messages: number(0), bytes: number(1), end }
    }
}

/// The message with this number. Its content tells readers if one is missing or was changed.
pub(crate) fn message(number: u64, bytes: u64) -> Vec<u8> {
    (0..bytes).map(|place| (number.wrapping_mul(31) + place) as u8).collect()
}

#[derive(Default)]
pub(crate) struct Counters {
    /// Answers that have not ended.
    pub(crate) open: AtomicUsize,
    pub(crate) asked: AtomicUsize,
    pub(crate) written_bytes: AtomicU64,
}

struct Making {
    wanted: Wanted,
    next: u64,
    counters: Arc<Counters>,
}

impl Source for Making {
    fn poll_fill(&mut self, _: &mut Context<'_>, writer: &mut ChunkWriter) -> Poll<Result<Fill>> {
        while !writer.is_full() {
            if self.next == self.wanted.messages {
                let failed = || Error::new(SqlState::DIVISION_BY_ZERO, "division by zero");
                return match self.wanted.end {
                    End::Well => Poll::Ready(Ok(Fill::End)),
                    End::Badly => Poll::Ready(Err(failed())),
                    End::Never => Poll::Pending,
                };
            }
            writer.message(&[&message(self.next, self.wanted.bytes)]);
            self.counters.written_bytes.fetch_add(self.wanted.bytes, Ordering::Relaxed);
            self.next += 1;
        }
        Poll::Ready(Ok(Fill::More))
    }
}

impl Drop for Making {
    fn drop(&mut self) {
        self.counters.open.fetch_sub(1, Ordering::Relaxed);
    }
}

struct Maker(Arc<Counters>);

/// A handler that answers requests as [`Wanted`] says, and its counters.
pub(crate) fn making() -> (Arc<dyn Chunks>, Arc<Counters>) {
    let counters = Arc::new(Counters::default());
    (Arc::new(Maker(Arc::clone(&counters))), counters)
}

struct Nothing;

impl Chunks for Nothing {
    fn fetch(&self, _: Bytes) -> BoxFuture<'_, Result<Response<Body>>> {
        Box::pin(async { Err(Error::unsupported("fetching here")) })
    }
}

/// A handler for nodes without rows.
pub(crate) fn nothing_to_fetch() -> Arc<dyn Chunks> {
    Arc::new(Nothing)
}

impl Chunks for Maker {
    fn fetch(&self, question: Bytes) -> BoxFuture<'_, Result<Response<Body>>> {
        let counters = Arc::clone(&self.0);
        counters.open.fetch_add(1, Ordering::Relaxed);
        counters.asked.fetch_add(1, Ordering::Relaxed);
        let source = Making { wanted: Wanted::read(&question), next: 0, counters };
        Box::pin(async { Ok(chunks(&Pool::new(4), source)) })
    }
}

/// A worker that runs until it is dropped.
pub(crate) struct TestWorker {
    pub(crate) name: NodeName,
    pub(crate) counters: Arc<Counters>,
    task: JoinHandle<()>,
}

pub(crate) fn anywhere() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

impl TestWorker {
    pub(crate) fn start(id: u64) -> TestWorker {
        TestWorker::at(id, anywhere(), ServeOptions::default())
    }

    pub(crate) fn at(id: u64, address: SocketAddr, options: ServeOptions) -> TestWorker {
        let (chunks, counters) = making();
        let services = Services::new(chunks, Routes::default());
        let server = NodeServer::bind(address, options).unwrap();
        let name = NodeName { id, address: server.address().unwrap() };
        TestWorker { name, counters, task: thalweg_runtime::spawn(server.serve(services)) }
    }

    /// Ends the worker, and waits until its port is free.
    pub(crate) async fn end(mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }
}

impl Drop for TestWorker {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A wire to a worker that can be cut, or go dead silently.
pub(crate) struct Wire {
    pub(crate) name: NodeName,
    state: watch::Sender<WireState>,
    task: JoinHandle<()>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WireState {
    Working,
    Dead,
    Cut,
}

impl Wire {
    pub(crate) async fn to(worker: &NodeName) -> Wire {
        let listener = TcpListener::bind(anywhere()).await.unwrap();
        let name = NodeName { id: worker.id, address: listener.local_addr().unwrap() };
        let (state, told) = watch::channel(WireState::Working);
        let target = worker.address;
        let task = thalweg_runtime::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                thalweg_runtime::spawn(carry(stream, target, told.clone()));
            }
        });
        Wire { name, state, task }
    }

    pub(crate) fn set(&self, state: WireState) {
        self.state.send_replace(state);
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn carry(mut near: TcpStream, target: SocketAddr, mut told: watch::Receiver<WireState>) {
    let mut far = TcpStream::connect(target).await.unwrap();
    tokio::select! {
        _ = copy_bidirectional(&mut near, &mut far) => {}
        _ = told.wait_for(|state| *state != WireState::Working) => {}
    }
    // A dead wire keeps both ends open and carries nothing.
    let _ = told.wait_for(|state| *state == WireState::Cut).await;
}

/// Options of links that give up soon.
pub(crate) fn impatient() -> LinkOptions {
    LinkOptions {
        connect_timeout: Duration::from_millis(500),
        silence: Duration::from_millis(400),
        ..LinkOptions::default()
    }
}

/// Waits for something that happens soon, in other tasks.
pub(crate) async fn until(what: &str, holds: impl Fn() -> bool) {
    let mut ticks = thalweg_runtime::interval(Duration::from_millis(5));
    for _ in 0..2_000 {
        if holds() {
            return;
        }
        ticks.tick().await;
    }
    panic!("it does not happen: {what}");
}
