//! Connections between nodes: sockets of the system, or pipes in the memory of a simulation.
//!
//! A [`Network`] decides which of the two a node gets. [`Stream`] and [`Listener`] are enums, so
//! that a read has no dynamic call.

mod simulated;

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
#[expect(clippy::disallowed_types, reason = "these are the real sockets")]
use tokio::net::{TcpListener, TcpSocket, TcpStream};

pub use simulated::{Machine, SimulatedNetwork};

/// The network that a node connects to and listens on. By default it is the machine's own. Clones
/// are the same network.
#[derive(Clone, Default)]
pub struct Network(Option<Machine>);

/// A connection.
pub struct Stream(StreamKind);

#[expect(clippy::disallowed_types, reason = "these are the real sockets")]
enum StreamKind {
    Real(TcpStream),
    Simulated(simulated::Stream),
}

/// A port that accepts connections, until it is dropped.
pub struct Listener(ListenerKind);

#[expect(clippy::disallowed_types, reason = "these are the real sockets")]
enum ListenerKind {
    Real(TcpListener),
    Simulated(simulated::Listener),
}

impl Network {
    /// The network as a machine of a simulation sees it.
    #[must_use]
    pub fn of(machine: Machine) -> Network {
        Network(Some(machine))
    }

    /// Connects. Small writes are sent at once.
    ///
    /// # Errors
    /// If the other side refuses, or the network fails.
    #[expect(clippy::disallowed_types, reason = "these are the real sockets")]
    pub async fn connect(&self, address: SocketAddr) -> io::Result<Stream> {
        Ok(Stream(match &self.0 {
            None => {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                StreamKind::Real(stream)
            }
            Some(machine) => StreamKind::Simulated(machine.connect(address).await?),
        }))
    }

    /// Opens a port; port 0 means any free one. At most `backlog` connections wait to be accepted.
    /// A port can be opened again as soon as its listener is dropped.
    ///
    /// # Errors
    /// If the port is taken, or the address is not this machine's.
    #[expect(clippy::disallowed_types, reason = "these are the real sockets")]
    pub fn listen(&self, address: SocketAddr, backlog: u32) -> io::Result<Listener> {
        if let Some(machine) = &self.0 {
            return Ok(Listener(ListenerKind::Simulated(machine.listen(address)?)));
        }
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        Ok(Listener(ListenerKind::Real(socket.listen(backlog)?)))
    }
}

impl Listener {
    /// The next connection, and where it comes from. Small writes are sent at once.
    ///
    /// # Errors
    /// If the system refuses it, for instance because no file descriptors are left.
    pub async fn accept(&mut self) -> io::Result<(Stream, SocketAddr)> {
        match &mut self.0 {
            ListenerKind::Real(listener) => {
                let (stream, from) = listener.accept().await?;
                // The other side may be gone already, which the first read reports.
                let _ = stream.set_nodelay(true);
                Ok((Stream(StreamKind::Real(stream)), from))
            }
            ListenerKind::Simulated(listener) => {
                let (stream, from) = listener.accept().await;
                Ok((Stream(StreamKind::Simulated(stream)), from))
            }
        }
    }

    /// The local address, with the actual port.
    ///
    /// # Errors
    /// If the system does not know it.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        match &self.0 {
            ListenerKind::Real(listener) => listener.local_addr(),
            ListenerKind::Simulated(listener) => Ok(listener.address()),
        }
    }
}

#[expect(clippy::disallowed_types, reason = "these are the real sockets")]
impl From<TcpStream> for Stream {
    fn from(stream: TcpStream) -> Stream {
        Stream(StreamKind::Real(stream))
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.0 {
            StreamKind::Real(stream) => Pin::new(stream).poll_read(context, buffer),
            StreamKind::Simulated(stream) => stream.poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.0 {
            StreamKind::Real(stream) => Pin::new(stream).poll_write(context, bytes),
            StreamKind::Simulated(stream) => stream.poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.0 {
            StreamKind::Real(stream) => Pin::new(stream).poll_write_vectored(context, parts),
            StreamKind::Simulated(stream) => {
                let first = parts.iter().find(|part| !part.is_empty());
                stream.poll_write(context, first.map_or(&[], |part| part))
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.0 {
            StreamKind::Real(stream) => stream.is_write_vectored(),
            StreamKind::Simulated(_) => false,
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            StreamKind::Real(stream) => Pin::new(stream).poll_flush(context),
            StreamKind::Simulated(_) => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            StreamKind::Real(stream) => Pin::new(stream).poll_shutdown(context),
            StreamKind::Simulated(stream) => {
                stream.shut_down();
                Poll::Ready(Ok(()))
            }
        }
    }
}
