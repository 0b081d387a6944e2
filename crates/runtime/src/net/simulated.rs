//! A network in memory: connections with latency, partitions, slow links, and machines that die.
//!
//! A connection behaves like one of TCP. Bytes arrive in order. A partition delays them until it
//! ends, and the writer notices nothing until its buffer is full. If the process of a machine dies,
//! its peers get a reset.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::{Future as _, poll_fn};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use parking_lot::Mutex;
use thalweg_env::{Clock as _, Random as _, Schedule, Timer};
use tokio::io::ReadBuf;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::time::sleep;

/// Bytes of one direction that may be under way or unread.
const BUFFER_BYTES: usize = 256 << 10;
/// The lowest latency, and the range of the random part that is added to it, in microseconds.
const LATENCY_MICROS_MIN: u64 = 50;
const LATENCY_MICROS_RANGE: u64 = 500;
/// Factor by which latency grows on a slow link.
const SLOWER: u32 = 200;
/// The first port that is given to a listener or a caller that asks for any.
const PORTS_FROM: u16 = 10_000;

/// The network of a simulation. Clones share it.
#[derive(Clone)]
pub struct SimulatedNetwork(Arc<Inner>);

struct Inner {
    schedule: Schedule,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    listeners: BTreeMap<SocketAddr, UnboundedSender<(Stream, SocketAddr)>>,
    /// Pairs of machines between which nothing arrives.
    cut: BTreeSet<(IpAddr, IpAddr)>,
    slow: BTreeSet<(IpAddr, IpAddr)>,
    pipes: Vec<Weak<Pipe>>,
    /// Tasks that wait for the end of a partition.
    waiting: Vec<Waker>,
    ports: u16,
}

/// A machine of the network, until its process dies. Clones are the same.
#[derive(Clone)]
pub struct Machine {
    network: SimulatedNetwork,
    ip: IpAddr,
    is_alive: Arc<AtomicBool>,
}

/// One direction of a connection.
struct Pipe {
    from: SocketAddr,
    to: SocketAddr,
    content: Mutex<Content>,
}

#[derive(Default)]
struct Content {
    /// Bytes, and when they arrive.
    parts: VecDeque<(Duration, Bytes)>,
    bytes: usize,
    /// When the last part arrives.
    last: Duration,
    is_ended: bool,
    is_reset: bool,
    is_unread: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

pub(super) struct Stream {
    network: SimulatedNetwork,
    incoming: Arc<Pipe>,
    outgoing: Arc<Pipe>,
    arrival: Option<Timer>,
}

pub(super) struct Listener {
    machine: Machine,
    address: SocketAddr,
    incoming: UnboundedReceiver<(Stream, SocketAddr)>,
}

impl SimulatedNetwork {
    pub(crate) fn new(schedule: &Schedule) -> SimulatedNetwork {
        let state = Mutex::new(State { ports: PORTS_FROM, ..State::default() });
        SimulatedNetwork(Arc::new(Inner { schedule: schedule.clone(), state }))
    }

    /// A machine with this address, on which a process starts now. The process of an earlier
    /// machine with the address should have been [killed](Machine::kill).
    #[must_use]
    pub fn machine(&self, ip: IpAddr) -> Machine {
        Machine { network: self.clone(), ip, is_alive: Arc::new(AtomicBool::new(true)) }
    }

    /// Lets nothing arrive between two machines, in both directions, or everything again.
    pub fn cut(&self, one: IpAddr, other: IpAddr, is_cut: bool) {
        let mut state = self.0.state.lock();
        for pair in [(one, other), (other, one)] {
            match is_cut {
                true => _ = state.cut.insert(pair),
                false => _ = state.cut.remove(&pair),
            }
        }
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Lets bytes between two machines take long, in both directions, or as usual again.
    pub fn slow(&self, one: IpAddr, other: IpAddr, is_slow: bool) {
        let mut state = self.0.state.lock();
        for pair in [(one, other), (other, one)] {
            match is_slow {
                true => _ = state.slow.insert(pair),
                false => _ = state.slow.remove(&pair),
            }
        }
    }

    fn now(&self) -> Duration {
        self.0.schedule.monotonic()
    }

    fn latency(&self, from: IpAddr, to: IpAddr) -> Duration {
        let more = self.0.schedule.next_u64() % LATENCY_MICROS_RANGE;
        let latency = Duration::from_micros(LATENCY_MICROS_MIN + more);
        match self.0.state.lock().slow.contains(&(from, to)) {
            true => latency * SLOWER,
            false => latency,
        }
    }

    /// Waits for the end of a partition, if there is one.
    fn poll_reachable(&self, from: IpAddr, to: IpAddr, context: &Context<'_>) -> Poll<()> {
        let mut state = self.0.state.lock();
        if !state.cut.contains(&(from, to)) {
            return Poll::Ready(());
        }
        state.waiting.push(context.waker().clone());
        Poll::Pending
    }

    async fn travel(&self, from: IpAddr, to: IpAddr) {
        poll_fn(|context| self.poll_reachable(from, to, context)).await;
        sleep(self.latency(from, to)).await;
        poll_fn(|context| self.poll_reachable(from, to, context)).await;
    }

    fn connection(&self, caller: SocketAddr, callee: SocketAddr) -> (Stream, Stream) {
        let there = Arc::new(Pipe { from: caller, to: callee, content: Mutex::default() });
        let back = Arc::new(Pipe { from: callee, to: caller, content: Mutex::default() });
        let mut state = self.0.state.lock();
        state.pipes.retain(|pipe| pipe.strong_count() > 0);
        state.pipes.extend([Arc::downgrade(&there), Arc::downgrade(&back)]);
        let stream = |incoming: &Arc<Pipe>, outgoing: &Arc<Pipe>| Stream {
            network: self.clone(),
            incoming: Arc::clone(incoming),
            outgoing: Arc::clone(outgoing),
            arrival: None,
        };
        (stream(&back, &there), stream(&there, &back))
    }

    fn any_port(&self) -> u16 {
        let mut state = self.0.state.lock();
        state.ports = state.ports.checked_add(1).unwrap_or(PORTS_FROM);
        state.ports
    }
}

impl Machine {
    #[must_use]
    pub fn ip(&self) -> IpAddr {
        self.ip
    }

    /// Ends the process of this machine, as far as others see: its ports are closed and its
    /// connections reset.
    pub fn kill(&self) {
        self.is_alive.store(false, Ordering::Relaxed);
        let mut state = self.network.0.state.lock();
        state.listeners.retain(|address, _| address.ip() != self.ip);
        let pipes: Vec<Arc<Pipe>> = state.pipes.iter().filter_map(Weak::upgrade).collect();
        drop(state);
        for pipe in pipes {
            if pipe.from.ip() == self.ip || pipe.to.ip() == self.ip {
                pipe.reset();
            }
        }
    }

    fn is_alive(&self) -> io::Result<()> {
        match self.is_alive.load(Ordering::Relaxed) {
            true => Ok(()),
            false => Err(io::ErrorKind::NetworkDown.into()),
        }
    }

    pub(super) async fn connect(&self, address: SocketAddr) -> io::Result<Stream> {
        self.is_alive()?;
        let network = &self.network;
        network.travel(self.ip, address.ip()).await;
        self.is_alive()?;
        let caller = SocketAddr::new(self.ip, network.any_port());
        let (own, other) = network.connection(caller, address);
        let listener = network.0.state.lock().listeners.get(&address).cloned();
        let accepted = listener.is_some_and(|queue| queue.send((other, caller)).is_ok());
        network.0.schedule.note(format_args!("connect {caller} {address} {accepted}"));
        network.travel(address.ip(), self.ip).await;
        if accepted { Ok(own) } else { Err(io::ErrorKind::ConnectionRefused.into()) }
    }

    pub(super) fn listen(&self, address: SocketAddr) -> io::Result<Listener> {
        self.is_alive()?;
        if address.ip() != self.ip {
            return Err(io::ErrorKind::AddrNotAvailable.into());
        }
        let port = if address.port() == 0 { self.network.any_port() } else { address.port() };
        let address = SocketAddr::new(self.ip, port);
        let (queue, incoming) = unbounded_channel();
        let mut state = self.network.0.state.lock();
        if state.listeners.contains_key(&address) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        state.listeners.insert(address, queue);
        Ok(Listener { machine: self.clone(), address, incoming })
    }
}

impl Listener {
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) async fn accept(&mut self) -> (Stream, SocketAddr) {
        match self.incoming.recv().await {
            Some(accepted) => accepted,
            // The machine is dead, and nobody comes any more.
            None => std::future::pending().await,
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // A dead machine's ports may belong to its next process already.
        if self.machine.is_alive().is_ok() {
            self.machine.network.0.state.lock().listeners.remove(&self.address);
        }
    }
}

impl Pipe {
    fn reset(&self) {
        let mut content = self.content.lock();
        content.is_reset = true;
        content.parts.clear();
        content.bytes = 0;
        let wakers = [content.reader.take(), content.writer.take()];
        drop(content);
        wakers.into_iter().flatten().for_each(Waker::wake);
    }

    /// Reads without waiting. If there is nothing to read yet, the error is the time until the next
    /// part arrives, or `None` if no part is under way. The task is then woken for new parts.
    fn read(
        &self,
        now: Duration,
        buffer: &mut ReadBuf<'_>,
        context: &Context<'_>,
    ) -> Result<io::Result<()>, Option<Duration>> {
        let mut content = self.content.lock();
        if content.is_reset {
            return Ok(Err(io::ErrorKind::ConnectionReset.into()));
        }
        let Some((arrival, part)) = content.parts.front_mut() else {
            if content.is_ended {
                return Ok(Ok(()));
            }
            content.reader = Some(context.waker().clone());
            return Err(None);
        };
        if *arrival > now {
            let arrival = *arrival;
            content.reader = Some(context.waker().clone());
            return Err(Some(arrival - now));
        }
        let taken = part.len().min(buffer.remaining());
        buffer.put_slice(&part[..taken]);
        part.advance(taken);
        if part.is_empty() {
            content.parts.pop_front();
        }
        content.bytes -= taken;
        let writer = content.writer.take();
        drop(content);
        writer.into_iter().for_each(Waker::wake);
        Ok(Ok(()))
    }
}

impl Stream {
    pub(super) fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let (from, to) = (self.incoming.from.ip(), self.incoming.to.ip());
        std::task::ready!(self.network.poll_reachable(from, to, context));
        let before = buffer.filled().len();
        loop {
            match self.incoming.read(self.network.now(), buffer, context) {
                Ok(read) => {
                    self.arrival = None;
                    self.note(&buffer.filled()[before..]);
                    return Poll::Ready(read);
                }
                Err(None) => return Poll::Pending,
                Err(Some(time)) => {
                    let timer = self.arrival.insert(self.network.0.schedule.timer(time));
                    std::task::ready!(Pin::new(timer).poll(context));
                }
            }
        }
    }

    fn note(&self, bytes: &[u8]) {
        let sum = bytes.iter().fold(0_u32, |sum, byte| sum.rotate_left(5) ^ u32::from(*byte));
        let Pipe { from, to, .. } = &*self.incoming;
        let (schedule, count) = (&self.network.0.schedule, bytes.len());
        schedule.note(format_args!("read {from} {to} {count} {sum:08x}"));
    }

    pub(super) fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let latency = self.network.latency(self.outgoing.from.ip(), self.outgoing.to.ip());
        let mut content = self.outgoing.content.lock();
        if content.is_reset {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        if content.is_unread || content.is_ended {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let count = bytes.len().min(BUFFER_BYTES - content.bytes);
        if count == 0 && !bytes.is_empty() {
            content.writer = Some(context.waker().clone());
            return Poll::Pending;
        }
        let arrival = (self.network.now() + latency).max(content.last);
        content.last = arrival;
        content.bytes += count;
        content.parts.push_back((arrival, Bytes::copy_from_slice(&bytes[..count])));
        let reader = content.reader.take();
        drop(content);
        reader.into_iter().for_each(Waker::wake);
        Poll::Ready(Ok(count))
    }

    pub(super) fn shut_down(&self) {
        let mut content = self.outgoing.content.lock();
        content.is_ended = true;
        let reader = content.reader.take();
        drop(content);
        reader.into_iter().for_each(Waker::wake);
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.shut_down();
        let mut content = self.incoming.content.lock();
        content.is_unread = true;
        let writer = content.writer.take();
        drop(content);
        writer.into_iter().for_each(Waker::wake);
    }
}
