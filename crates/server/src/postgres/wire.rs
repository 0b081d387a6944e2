//! A socket with its unread input and its pending output.
//!
//! All waits are cancel-safe: no byte is lost, and none is sent twice.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use futures::FutureExt;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use super::reply::Replies;

/// Minimum buffer space of a read.
const READ_BYTES: usize = 8 << 10;
/// Maximum buffer capacity that an idle connection keeps.
const IDLE_BYTES: usize = 1 << 10;
/// Replies are sent when they reach this size.
pub(super) const SEND_BYTES: usize = 64 << 10;
/// Forwarded pieces below this size are copied into the replies; larger ones are written
/// separately.
const PASSED_ON_BYTES: usize = 16 << 10;
/// Maximum input read ahead while a statement runs; the rest waits in the socket.
const AHEAD_BYTES: usize = 256 << 10;

pub(super) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

pub(super) struct Wire {
    stream: Stream,
    pub(super) input: BytesMut,
    pub(super) replies: Replies,
    /// Output that is sent before the replies.
    ahead: VecDeque<Bytes>,
    /// Number of bytes already sent of the first pending piece.
    sent: usize,
    /// True if the stream may still buffer written bytes, so that it needs a flush.
    is_held_back: bool,
}

impl Wire {
    pub(super) fn new(stream: Stream) -> Wire {
        let (input, replies, ahead) = (BytesMut::new(), Replies::default(), VecDeque::new());
        Wire { stream, input, replies, ahead, sent: 0, is_held_back: false }
    }

    pub(super) fn is_secure(&self) -> bool {
        matches!(self.stream, Stream::Tls(_))
    }

    pub(super) fn into_stream(self) -> Stream {
        self.stream
    }

    /// Sends pending output, then waits for input; false at the end.
    pub(super) async fn read(&mut self) -> io::Result<bool> {
        self.flush().await?;
        if self.input.is_empty() {
            self.shrink();
            self.stream.readable().await?;
        }
        self.input.reserve(READ_BYTES);
        Ok(self.stream.read_buf(&mut self.input).await? > 0)
    }

    /// Frees buffer memory before a wait that may be long.
    fn shrink(&mut self) {
        if self.input.capacity() > IDLE_BYTES {
            self.input = BytesMut::new();
        }
        if self.replies.bytes.capacity() > IDLE_BYTES {
            self.replies.bytes = Vec::new();
        }
    }

    /// Forwards encoded bytes after the replies so far, without copying large ones.
    pub(super) fn pass_on(&mut self, piece: Bytes) {
        if piece.len() < PASSED_ON_BYTES {
            return self.replies.bytes.extend_from_slice(&piece);
        }
        let before = Bytes::from(std::mem::take(&mut self.replies.bytes));
        self.ahead.extend([before, piece].into_iter().filter(|bytes| !bytes.is_empty()));
    }

    /// Sends all pending output.
    pub(super) async fn flush(&mut self) -> io::Result<()> {
        while let Some(piece) = self.ahead.front() {
            let written = self.stream.write(&piece[self.sent..]).await?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.sent += written;
            self.is_held_back = true;
            if self.sent == piece.len() {
                self.ahead.pop_front();
                self.sent = 0;
            }
        }
        while self.sent < self.replies.bytes.len() {
            let written = self.stream.write(&self.replies.bytes[self.sent..]).await?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.sent += written;
            self.is_held_back = true;
        }
        self.replies.bytes.clear();
        self.sent = 0;
        if self.is_held_back {
            self.stream.flush().await?;
            self.is_held_back = false;
        }
        Ok(())
    }

    /// True if the pending output is large enough to be sent now.
    pub(super) fn has_enough(&self) -> bool {
        !self.ahead.is_empty() || self.replies.bytes.len() >= SEND_BYTES
    }

    /// Sends as much as the socket accepts at once; true if that is everything.
    pub(super) fn try_flush(&mut self) -> io::Result<bool> {
        match self.flush().now_or_never() {
            Some(flushed) => flushed.map(|()| true),
            None => Ok(false),
        }
    }

    /// Resolves when the client disconnects. Only a read detects that, so it reads ahead meanwhile,
    /// up to a limit.
    pub(super) async fn gone(&mut self) -> io::Error {
        loop {
            if self.input.len() >= AHEAD_BYTES {
                std::future::pending::<()>().await;
            }
            self.input.reserve(READ_BYTES);
            match self.stream.read_buf(&mut self.input).await {
                Ok(0) => return io::ErrorKind::UnexpectedEof.into(),
                Ok(_) => {}
                Err(error) => return error,
            }
        }
    }

    /// Runs work that is dropped if the client disconnects.
    pub(super) async fn while_here<T>(&mut self, work: impl Future<Output = T>) -> io::Result<T> {
        tokio::select! {
            biased;
            done = work => Ok(done),
            error = self.gone() => Err(error),
        }
    }
}

impl Stream {
    /// Waits for bytes without holding a buffer for them.
    async fn readable(&self) -> io::Result<()> {
        match self {
            Stream::Plain(stream) => stream.readable().await,
            // Bytes that TLS has already decrypted do not make the socket readable.
            Stream::Tls(_) => Ok(()),
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Stream::Tls(stream) => Pin::new(stream.as_mut()).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Tls(stream) => Pin::new(stream.as_mut()).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_flush(context),
            Stream::Tls(stream) => Pin::new(stream.as_mut()).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Tls(stream) => Pin::new(stream.as_mut()).poll_shutdown(context),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    async fn pair() -> (Wire, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        (Wire::new(Stream::Plain(stream)), client)
    }

    /// All bytes that the client receives until the wire is empty.
    async fn all_of(mut wire: Wire, mut client: TcpStream) -> Vec<u8> {
        let reading = async {
            let mut received = Vec::new();
            client.read_to_end(&mut received).await.unwrap();
            received
        };
        let sending = async move {
            wire.flush().await.unwrap();
            drop(wire);
        };
        tokio::join!(sending, reading).1
    }

    /// Waits are given up and begun again, as when something else happens meanwhile.
    #[tokio::test]
    async fn a_wait_that_is_given_up_sends_nothing_twice() {
        let (mut wire, mut client) = pair().await;
        let bytes: Vec<u8> = (0..16_u32 << 20).map(|at| (at >> 10) as u8).collect();
        wire.replies.bytes.extend_from_slice(&bytes);
        let mut received = Vec::with_capacity(bytes.len());
        let mut given_up = 0;
        while received.len() < bytes.len() {
            // Reading goes first, so that a send that waits is dropped whenever bytes are there.
            tokio::select! {
                biased;
                read = client.read_buf(&mut received) => assert!(read.unwrap() > 0),
                sent = wire.flush(), if !wire.replies.bytes.is_empty() => sent.unwrap(),
            }
            given_up += usize::from(!wire.replies.bytes.is_empty());
        }
        assert!(given_up > 1, "the socket took everything at once");
        assert!(received == bytes, "what was sent is not what came");
        assert!(wire.try_flush().unwrap());
        assert!(wire.replies.bytes.is_empty());
    }

    #[tokio::test]
    async fn what_is_passed_on_goes_out_in_its_place() {
        let (mut wire, client) = pair().await;
        let large = Bytes::from(vec![2; 4 << 20]);
        let mut expected = Vec::new();
        for piece in [Bytes::from_static(b"small"), large.clone(), large, Bytes::new()] {
            wire.replies.bytes.push(1);
            expected.push(1);
            expected.extend_from_slice(&piece);
            wire.pass_on(piece);
            // Some of it may be sent already.
            wire.try_flush().unwrap();
        }
        let received = all_of(wire, client).await;
        assert!(received == expected);
    }

    #[tokio::test]
    async fn what_is_added_while_some_is_sent_follows_it() {
        let (mut wire, client) = pair().await;
        let first = vec![1; 16 << 20];
        wire.replies.bytes.extend_from_slice(&first);
        assert!(!wire.try_flush().unwrap());
        wire.replies.bytes.extend_from_slice(b"goodbye");
        let received = all_of(wire, client).await;
        assert!(received == [first.as_slice(), b"goodbye"].concat());
    }
}
