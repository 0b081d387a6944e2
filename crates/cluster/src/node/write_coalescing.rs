//! Gathers small frames into large writes.
//!
//! HTTP/2 frames are no longer than the reader announces, which is 16 KiB for most clients, and
//! each is written with a system call. Copying a few of them into one write is cheaper. A flush is
//! delayed until the connection's task has nothing more to write at the moment, and never longer.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Limit of gathered bytes.
const GATHERED_BYTES: usize = 128 << 10;
/// A write of this size, in bytes, is not gathered.
const LARGE_BYTES: usize = 48 << 10;

/// A stream that gathers small writes.
pub(super) struct CoalescedWrites<S> {
    stream: S,
    waiting: Vec<u8>,
    /// Bytes of `waiting` that were sent already.
    sent: usize,
    /// True if a flush was delayed, and nothing was written since.
    put_off: bool,
}

impl<S: AsyncWrite + Unpin> CoalescedWrites<S> {
    pub(super) fn new(stream: S) -> CoalescedWrites<S> {
        CoalescedWrites { stream, waiting: Vec::new(), sent: 0, put_off: false }
    }

    /// Sends all gathered bytes.
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.waiting.len() {
            let rest = &self.waiting[self.sent..];
            let sent = ready!(Pin::new(&mut self.stream).poll_write(context, rest))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.sent += sent;
        }
        self.waiting.clear();
        self.sent = 0;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for CoalescedWrites<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        self.put_off = false;
        if self.waiting.len() + bytes > GATHERED_BYTES || bytes >= LARGE_BYTES {
            ready!(self.poll_send(context))?;
        }
        if bytes >= LARGE_BYTES {
            return Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        }
        for part in parts {
            self.waiting.extend_from_slice(part);
        }
        Poll::Ready(Ok(bytes))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.waiting.is_empty() && !self.put_off {
            // The task runs once more, after the tasks that are ready now. If it writes nothing
            // until then, the flush goes through.
            self.put_off = true;
            context.waker().wake_by_ref();
            return Poll::Ready(Ok(()));
        }
        ready!(self.poll_send(context))?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send(context))?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for CoalescedWrites<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use proptest::prelude::*;

    use super::*;

    /// A writer that accepts `at_once` bytes per call, and is not ready on every other call.
    struct Slow {
        taken: Vec<u8>,
        writes: usize,
        at_once: usize,
        stuck: bool,
    }

    impl AsyncWrite for Slow {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.stuck = !self.stuck;
            if self.stuck {
                return Poll::Pending;
            }
            let taken = bytes.len().min(self.at_once);
            self.taken.extend_from_slice(&bytes[..taken]);
            self.writes += 1;
            Poll::Ready(Ok(taken))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn gathered(at_once: usize) -> CoalescedWrites<Slow> {
        CoalescedWrites::new(Slow { taken: Vec::new(), writes: 0, at_once, stuck: true })
    }

    fn ready<T>(mut poll: impl FnMut() -> Poll<io::Result<T>>) -> T {
        loop {
            if let Poll::Ready(done) = poll() {
                return done.unwrap();
            }
        }
    }

    proptest! {
        #[test]
        fn bytes_come_out_as_they_went_in(
            writes in prop::collection::vec((0..60_000_usize, any::<bool>()), 0..20),
            at_once in 1_000..200_000_usize,
        ) {
            let mut stream = gathered(at_once);
            let mut context = Context::from_waker(std::task::Waker::noop());
            let mut expected = Vec::new();
            for (place, (bytes, flush)) in writes.into_iter().enumerate() {
                let mut rest = &vec![place as u8; bytes][..];
                expected.extend_from_slice(rest);
                while !rest.is_empty() {
                    let (left, right) = rest.split_at(rest.len().min(9));
                    let parts = [IoSlice::new(left), IoSlice::new(right)];
                    let written = ready(|| {
                        Pin::new(&mut stream).poll_write_vectored(&mut context, &parts)
                    });
                    rest = &rest[written..];
                }
                if flush {
                    ready(|| Pin::new(&mut stream).poll_flush(&mut context));
                }
            }
            ready(|| Pin::new(&mut stream).poll_shutdown(&mut context));
            prop_assert_eq!(&stream.stream.taken, &expected);
        }
    }

    #[test]
    fn frames_that_come_together_go_out_together_and_wait_for_no_others() {
        let woken = Arc::new(Woken::default());
        let waker = Arc::clone(&woken).into();
        let mut context = Context::from_waker(&waker);
        let mut stream = gathered(usize::MAX);
        for _ in 0..4 {
            ready(|| Pin::new(&mut stream).poll_write(&mut context, &[7; 16_000]));
            ready(|| Pin::new(&mut stream).poll_flush(&mut context));
        }
        assert_eq!(stream.stream.writes, 0);
        assert!(woken.0.load(Ordering::Relaxed) > 0, "the task runs once more");
        ready(|| Pin::new(&mut stream).poll_flush(&mut context));
        assert_eq!((stream.stream.writes, stream.stream.taken.len()), (1, 64_000));
    }
}
