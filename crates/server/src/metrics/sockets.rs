//! Sockets that count their system calls. The number of calls per row shows how well a server
//! batches its input and output.

use std::io::{IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll};

use metrics::{Counter, counter, describe_counter};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

const READS: &str = "thalweg_socket_reads_total";
const WRITES: &str = "thalweg_socket_writes_total";

/// The counters of one port's sockets.
#[derive(Clone)]
pub(crate) struct SocketCalls {
    reads: Counter,
    writes: Counter,
}

impl SocketCalls {
    pub(super) fn describe() {
        describe_counter!(READS, "Reads of sockets that brought something, or the end.");
        describe_counter!(WRITES, "Writes to sockets that were taken.");
    }

    pub(super) fn new(port: &'static str) -> SocketCalls {
        SocketCalls {
            reads: counter!(READS, "port" => port),
            writes: counter!(WRITES, "port" => port),
        }
    }
}

/// A socket that counts its reads and writes.
pub(crate) struct Counted<S> {
    socket: S,
    calls: SocketCalls,
}

impl<S> Counted<S> {
    pub(crate) fn new(socket: S, calls: SocketCalls) -> Counted<S> {
        Counted { socket, calls }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        let read = Pin::new(&mut self.socket).poll_read(context, buffer);
        self.calls.reads.increment(u64::from(read.is_ready()));
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(context, bytes);
        self.calls.writes.increment(u64::from(written.is_ready()));
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(context, slices);
        self.calls.writes.increment(u64::from(written.is_ready()));
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use thalweg_query::PipelineTotals;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;
    use crate::metrics::Metrics;
    use crate::web::Kind;

    #[tokio::test]
    async fn calls_are_counted_and_not_bytes() {
        let metrics = Metrics::new();
        let (near, mut far) = duplex(1_024);
        let mut near = Counted::new(near, metrics.socket_calls(Kind::Grpc));
        let mut bytes = [0; 100];
        for _ in 0..3 {
            near.write_all(&[7; 100]).await.unwrap();
        }
        far.write_all(&[8; 90]).await.unwrap();
        assert_eq!(near.read(&mut bytes).await.unwrap(), 90);
        let page = metrics.page((0, 0), &PipelineTotals::default());
        for line in [
            "thalweg_socket_reads_total{port=\"grpc\"} 1",
            "thalweg_socket_writes_total{port=\"grpc\"} 3",
            "thalweg_socket_reads_total{port=\"http\"} 0",
        ] {
            assert!(page.lines().any(|found| found == line), "{line}\n{page}");
        }
    }
}
