//! Lines of the process's log on their way to the standard error stream.
//!
//! A terminal that is stopped, or a collector that does not read, blocks each thread that writes to
//! the stream. Threads that serve clients therefore put their lines into a queue of bounded size,
//! which one thread writes out. Lines that do not fit are dropped and counted, and the log reports
//! their number. The bound is in bytes, because lines with plans are up to 80 KiB long.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use thalweg_env::{Env, ThreadHandle};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};

/// Bytes of lines that may wait: some hundred of the longest lines, which hold plans.
const QUEUE_BYTES_MAX: usize = 8 << 20;
/// Longest time that the end of the program waits for lines that are not written yet.
const FLUSH_WITHIN: Duration = Duration::from_secs(2);

/// Lines dropped by the process's log since its start.
static DROPPED: AtomicU64 = AtomicU64::new(0);

/// Number of lines that the process's log has dropped.
pub(crate) fn lines_dropped() -> u64 {
    DROPPED.load(Ordering::Relaxed)
}

/// The end of the queue that takes lines. Clones share the queue.
#[derive(Clone)]
pub(super) struct LogQueue(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    arrived: Condvar,
    written: Condvar,
}

#[derive(Default)]
struct State {
    lines: VecDeque<Vec<u8>>,
    /// The lines that wait, and those that are being written.
    bytes: usize,
    /// Lines dropped since the log said so last.
    dropped: u64,
    is_closed: bool,
}

/// Writes out what waits when it is dropped, unless that takes too long.
#[must_use = "the log ends with it"]
pub struct LogGuard(Arc<Shared>);

impl LogQueue {
    /// A queue, and the thread that writes it to a stream.
    ///
    /// # Errors
    /// If the system refuses a thread.
    pub(super) fn start(
        env: &Env,
        out: impl Write + Send + 'static,
        json: bool,
    ) -> io::Result<(LogQueue, LogGuard, Box<dyn ThreadHandle>)> {
        let shared = Arc::new(Shared::default());
        let writer = Arc::clone(&shared);
        let thread = env.threads.spawn("log", Box::new(move || writer.write_out(out, json)))?;
        Ok((LogQueue(Arc::clone(&shared)), LogGuard(shared), thread))
    }

    fn push(&self, line: &[u8]) {
        let mut state = self.0.state.lock();
        if state.bytes + line.len() > QUEUE_BYTES_MAX {
            state.dropped += 1;
            DROPPED.fetch_add(1, Ordering::Relaxed);
            return;
        }
        state.bytes += line.len();
        state.lines.push_back(line.to_vec());
        drop(state);
        self.0.arrived.notify_one();
    }
}

impl Shared {
    /// The work of the thread, until the queue is closed and empty.
    fn write_out(&self, mut out: impl Write, json: bool) {
        loop {
            let (lines, dropped) = {
                let mut state = self.state.lock();
                while state.lines.is_empty() && state.dropped == 0 {
                    if state.is_closed {
                        return;
                    }
                    self.arrived.wait(&mut state);
                }
                (std::mem::take(&mut state.lines), std::mem::take(&mut state.dropped))
            };
            let mut bytes = 0;
            for line in lines {
                // Without a reader of the stream there is nobody to report the error to.
                let _ = out.write_all(&line);
                bytes += line.len();
            }
            if dropped > 0 {
                let _ = out.write_all(notice(dropped, json).as_bytes());
            }
            let _ = out.flush();
            self.state.lock().bytes -= bytes;
            self.written.notify_all();
        }
    }
}

impl Drop for LogGuard {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.is_closed = true;
        self.0.arrived.notify_all();
        let is_unwritten = |state: &mut State| state.bytes > 0 || state.dropped > 0;
        let _ = self.0.written.wait_while_for(&mut state, is_unwritten, FLUSH_WITHIN);
    }
}

/// The line that says how many lines are missing.
fn notice(dropped: u64, json: bool) -> String {
    let mut time = String::new();
    // A clock that cannot be read leaves the time out.
    let _ = SystemTime.format_time(&mut Writer::new(&mut time));
    let message = "lines of the log were dropped: standard error is not read fast enough";
    let target = module_path!();
    match json {
        false => format!("{time}  WARN {target}: {message} lines={dropped}\n"),
        true => {
            let line = serde_json::json!({
                "timestamp": time,
                "level": "WARN",
                "message": message,
                "lines": dropped,
                "target": target,
            });
            format!("{line}\n")
        }
    }
}

/// The subscriber writes each line with one call.
impl Write for LogQueue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LogQueue {
    type Writer = LogQueue;

    fn make_writer(&'a self) -> LogQueue {
        self.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream that is not read until the gate opens.
    #[derive(Clone, Default)]
    struct Stopped {
        open: Arc<(Mutex<bool>, Condvar)>,
        written: Arc<Mutex<Vec<u8>>>,
    }

    impl Stopped {
        fn open(&self) {
            *self.open.0.lock() = true;
            self.open.1.notify_all();
        }
    }

    impl Write for Stopped {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let (open, changed) = &*self.open;
            let mut open = open.lock();
            while !*open {
                changed.wait(&mut open);
            }
            self.written.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_stream_that_is_not_read_stops_nobody_and_what_is_lost_is_counted() {
        for json in [false, true] {
            let stream = Stopped::default();
            let (mut queue, guard, thread) =
                LogQueue::start(&Env::real(), stream.clone(), json).unwrap();
            let line = |number: usize| format!("{number:>1023}\n").into_bytes();
            let sent = 2 * QUEUE_BYTES_MAX / line(0).len();
            // This would never come back if it waited for the stream.
            (0..sent).for_each(|number| queue.write_all(&line(number)).unwrap());
            stream.open();
            drop(guard);
            assert!(thread.join());
            let written = String::from_utf8(stream.written.lock().clone()).unwrap();
            let (notices, lines): (Vec<&str>, Vec<&str>) =
                written.lines().partition(|line| line.contains("dropped"));
            let numbers: Vec<usize> =
                lines.iter().map(|line| line.trim().parse().unwrap()).collect();
            let expected = QUEUE_BYTES_MAX / line(0).len();
            assert!(numbers.into_iter().eq(0..expected), "the first lines, in their order");
            let counts = notices.iter().map(|notice| match json {
                false => notice.rsplit_once(" lines=").unwrap().1.parse().unwrap(),
                true => serde_json::from_str::<serde_json::Value>(notice).unwrap()["lines"]
                    .as_u64()
                    .unwrap(),
            });
            assert_eq!(counts.sum::<u64>(), (sent - expected) as u64, "{notices:?}");
            assert!(lines_dropped() >= (sent - expected) as u64);
        }
    }

    #[test]
    fn lines_come_out_as_they_went_in() {
        let stream = Stopped::default();
        stream.open();
        let (mut queue, guard, thread) =
            LogQueue::start(&Env::real(), stream.clone(), false).unwrap();
        (0..1_000).for_each(|number| writeln!(queue, "line {number}").unwrap());
        drop(guard);
        assert!(thread.join());
        let written = String::from_utf8(stream.written.lock().clone()).unwrap();
        assert!(written.lines().eq((0..1_000).map(|number| format!("line {number}"))));
    }
}
