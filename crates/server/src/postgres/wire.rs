//! A socket with what came in and was not read yet, and what is to go out.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use super::reply::Replies;

/// What is read at once.
const READ_BYTES: usize = 8 << 10;
/// An idle connection keeps no more than this for what comes.
const IDLE_BYTES: usize = 1 << 10;
/// Replies go out when they have grown to this.
pub(super) const SEND_BYTES: usize = 64 << 10;
/// What is read ahead while a statement runs; more waits in the socket.
const AHEAD_BYTES: usize = 256 << 10;

pub(super) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

pub(super) struct Wire {
    stream: Stream,
    pub(super) input: BytesMut,
    pub(super) replies: Replies,
}

impl Wire {
    pub(super) fn new(stream: Stream) -> Wire {
        Wire { stream, input: BytesMut::new(), replies: Replies::default() }
    }

    pub(super) fn is_secure(&self) -> bool {
        matches!(self.stream, Stream::Tls(_))
    }

    pub(super) fn into_stream(self) -> Stream {
        self.stream
    }

    /// Sends what is to go out, and waits for more to come in; false at the end.
    pub(super) async fn read(&mut self) -> io::Result<bool> {
        self.flush().await?;
        if self.input.is_empty() {
            self.shrink();
            self.stream.readable().await?;
        }
        self.input.reserve(READ_BYTES);
        Ok(self.stream.read_buf(&mut self.input).await? > 0)
    }

    /// Gives memory back before a wait that may be long.
    fn shrink(&mut self) {
        if self.input.capacity() > IDLE_BYTES {
            self.input = BytesMut::new();
        }
        if self.replies.bytes.capacity() > IDLE_BYTES {
            self.replies.bytes = Vec::new();
        }
    }

    pub(super) async fn flush(&mut self) -> io::Result<()> {
        if !self.replies.bytes.is_empty() {
            self.stream.write_all(&self.replies.bytes).await?;
            self.replies.bytes.clear();
            self.stream.flush().await?;
        }
        Ok(())
    }

    /// Sends once there is enough to send.
    pub(super) async fn flush_some(&mut self) -> io::Result<()> {
        if self.replies.bytes.len() >= SEND_BYTES { self.flush().await } else { Ok(()) }
    }

    /// Resolves when the client is gone. Reads ahead meanwhile, up to a limit: only reading tells.
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

    /// Work during which the client may go away: then it is dropped.
    pub(super) async fn while_here<T>(&mut self, work: impl Future<Output = T>) -> io::Result<T> {
        tokio::select! {
            biased;
            done = work => Ok(done),
            error = self.gone() => Err(error),
        }
    }
}

impl Stream {
    /// Waits for bytes without holding memory for them.
    async fn readable(&self) -> io::Result<()> {
        match self {
            Stream::Plain(stream) => stream.readable().await,
            // What TLS has decrypted already would not show on the socket.
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
