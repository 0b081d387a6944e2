//! Streams of rows to write.
//!
//! One task does two things concurrently: it reads rows and passes them to the database in groups,
//! and it reports acknowledgements to the client. Neither waits for the other, until the stream has
//! as much in flight as it may.
//!
//! The memory of a group is released when the database is done with it, even if its stream does not
//! notice. A stream waits for memory before it decodes its bytes, so it never waits for memory that
//! it holds itself, or for a client that does not read.

mod progress;
mod reader;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bytes::Bytes;
use hyper::Response;
use prost::Message;
use thalweg_protocol::{PREFIX_BYTES, put_prefix, v1};
use thalweg_query::{Failing, RecordChange, Written};
use thalweg_types::{Error, Result};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::Instant;
use tonic::Status;
use tonic::body::Body;
use tonic::metadata::MetadataValue;

use super::caller::{CallSession, Caller, shutting_down, terminated};
use super::calls::Call;
use super::incoming::{GROUP_BYTES, Incoming};
use super::memory::{Held, Memory, Share};
use super::resuming_writers::{Turn, replaced};
use super::service::RecordsService;
use crate::grpc::errors::status;
use crate::grpc::{Upload, answered, streamed};
use crate::read_ahead::{Pieces, ReadAhead};
use progress::{FirstFailure, Progress};
use reader::{Group, RowReader};

/// Serves a `Write` call: replies are sent as rows become durable.
pub(super) fn two_way(
    service: Arc<RecordsService>,
    caller: Caller,
    turn: Option<Turn>,
    body: Upload,
) -> Response<Body> {
    streamed(ReadAhead::start(async move |pieces| {
        let mut stream = WriteStream::new(caller, Call::Write, &service.memory, body);
        stream.turn = turn;
        let ended = stream.run(Some(&pieces)).await;
        stream.call_session.count_end(ended.as_ref().err());
        ended
    }))
}

/// Serves a `Create`, `Update`, `Upsert` or `Remove` call: one reply, at the end or at the first
/// failure.
pub(super) async fn one_way(
    service: Arc<RecordsService>,
    caller: Caller,
    change: RecordChange,
    body: Upload,
) -> Response<Body> {
    let mut stream = WriteStream::new(caller, Call::Change(change), &service.memory, body);
    let ended = stream.run(None).await;
    let failure = stream.progress.first_failure();
    stream.call_session.count_end(ended.as_ref().err().or(failure.map(|failed| &failed.error)));
    match (failure, ended) {
        (Some(failed), _) => {
            let stops_all = !stream.incoming.reader.records().lie_on_workers();
            failed_row(failed, stops_all).into_http()
        }
        (None, Err(error)) => {
            let mut status = status(&error);
            tell_number(&mut status, "record-written", stream.progress.written());
            status.into_http()
        }
        (None, Ok(())) => answered(framed(&v1::WriteSummary { rows: stream.progress.written() })),
    }
}

/// The status of a stream that ends at a failed row.
fn failed_row(failed: &FirstFailure, stops_all: bool) -> Status {
    let FirstFailure { index, written, error } = failed;
    let mut status = status(error);
    tell_number(&mut status, "record-index", *index);
    tell_number(&mut status, "record-written", *written);
    let behind = if stops_all { "and none behind them" } else { "and perhaps some behind them" };
    let message = format!(
        "row {index}, counted from 0, was not written: {}\n\
         The first {written} rows are written, {behind}.",
        status.message()
    );
    Status::with_metadata(status.code(), message, status.metadata().clone())
}

fn tell_number(status: &mut Status, name: &'static str, number: u64) {
    status.metadata_mut().insert(name, MetadataValue::from(number));
}

/// An encoded message with its gRPC length prefix.
pub(super) fn framed(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut bytes = Vec::with_capacity(PREFIX_BYTES + length);
    bytes.extend_from_slice(&put_prefix(length));
    message.encode(&mut bytes).expect("a vector grows as it is written to");
    bytes.into()
}

struct WriteStream {
    call_session: CallSession,
    /// Set for a named stream: earlier streams of the name end first.
    turn: Option<Turn>,
    share: Share,
    incoming: Incoming<RowReader>,
    /// Set to true at the first failed row, if that ends the stream.
    stopped: Option<Arc<AtomicBool>>,
    acknowledged: UnboundedReceiver<Acknowledged>,
    acknowledge: UnboundedSender<Acknowledged>,
    progress: Progress,
    /// Number of groups, and of their bytes, that the database has not acknowledged yet.
    waiting_groups: usize,
    waiting_bytes: usize,
}

/// The outcome of a group.
struct Acknowledged {
    rows: u32,
    bytes: usize,
    atomic: bool,
    /// Time when the group was passed to the database.
    since: Instant,
    written: Result<Written>,
}

impl Drop for WriteStream {
    /// Keeps the turn until all groups of this stream are answered; only then may the writer's next
    /// stream begin.
    fn drop(&mut self) {
        let Some(turn) = self.turn.take() else { return };
        let (_, nothing) = unbounded_channel();
        let mut acknowledged = std::mem::replace(&mut self.acknowledged, nothing);
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move {
                // Each group in flight holds a sender, so the channel closes after the last one.
                while acknowledged.recv().await.is_some() {}
                drop(turn);
            });
        }
    }
}

impl WriteStream {
    fn new(caller: Caller, call: Call, memory: &Memory, body: Upload) -> WriteStream {
        let Caller { records, call_session, .. } = caller;
        let message_bytes_max = call_session.shared.config.limits.record_message_bytes;
        let reader = RowReader::new(call, records, message_bytes_max);
        let (acknowledge, acknowledged) = unbounded_channel();
        WriteStream {
            incoming: Incoming::new(body, message_bytes_max, reader),
            call_session,
            turn: None,
            share: memory.share(),
            stopped: (call != Call::Write).then(Arc::default),
            acknowledged,
            acknowledge,
            progress: Progress::default(),
            waiting_groups: 0,
            waiting_bytes: 0,
        }
    }

    /// Reads and writes until both are done, or until an administrator or a newer stream of the
    /// writer ends it.
    ///
    /// # Errors
    /// If the stream ends before its client ended it.
    async fn run(&mut self, replies: Option<&Pieces<Bytes>>) -> Result<()> {
        let ended = self.call_session.ended();
        let over = self.turn.as_ref().map(Turn::over);
        let replaced_by_another = async {
            match over {
                Some(over) => over.cancelled().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = ended => Err(terminated()),
            () = replaced_by_another => Err(replaced()),
            done = self.go_on(replies) => done,
        }
    }

    async fn go_on(&mut self, replies: Option<&Pieces<Bytes>>) -> Result<()> {
        if let Some(turn) = &mut self.turn {
            turn.begin().await;
        }
        let mut drained = std::pin::pin!(self.call_session.drained());
        while self.waiting_groups > 0 || !self.incoming.has_ended() {
            let has_read = self.incoming.has_read();
            let may_read = !has_read && self.share.may_read(self.waiting_bytes);
            let whole_bytes = self.incoming.whole_bytes();
            tokio::select! {
                biased;
                Some(done) = self.acknowledged.recv() => {
                    self.take_acknowledged(done, replies).await?;
                }
                () = &mut drained, if !self.incoming.has_stopped() => {
                    self.incoming.stop(shutting_down());
                }
                held = self.share.memory().hold(whole_bytes), if has_read => {
                    let bytes = self.hand_over(held)?;
                    if bytes >= GROUP_BYTES && self.share.has_others() {
                        // Other streams get their turn between two groups of this one.
                        tokio::task::yield_now().await;
                    }
                }
                () = self.incoming.read(), if may_read && !self.incoming.has_stopped() => {}
            }
            if self.stopped.is_some() && self.progress.first_failure().is_some() {
                return Ok(());
            }
        }
        self.incoming.end()
    }

    /// Decodes the bytes read and passes their groups to the database, with the memory held for
    /// them. Returns the number of bytes.
    fn hand_over(&mut self, mut held: Held) -> Result<usize> {
        self.call_session.metrics().read();
        let read_bytes = self.incoming.take_apart();
        let groups = self.incoming.reader.finish()?;
        if !groups.is_empty() {
            self.share.note(read_bytes);
        }
        for group in groups {
            let held = self.share.memory().part(&mut held, group.bytes);
            self.write(group, held);
        }
        Ok(read_bytes)
    }

    fn write(&mut self, group: Group, held: Held) {
        let Group { write, atomic, bytes } = group;
        let (rows, acknowledge) = (write.rows(), self.acknowledge.clone());
        let failing = match (&self.stopped, atomic) {
            (stopped, true) => Failing::Undo(stopped.clone()),
            (Some(stopped), false) => Failing::Stop(Arc::clone(stopped)),
            (None, false) => Failing::LeaveOut,
        };
        self.waiting_groups += 1;
        self.waiting_bytes += bytes;
        let since = Instant::now();
        let on_written = move |written| {
            drop(held);
            // The stream may be gone; its group is written nevertheless.
            let _ = acknowledge.send(Acknowledged { rows, bytes, atomic, since, written });
        };
        let reader = &self.incoming.reader;
        reader.records().write(write, failing, reader.durability(), Box::new(on_written));
    }

    /// Records all available acknowledgements and reports them to the client.
    async fn take_acknowledged(
        &mut self,
        first: Acknowledged,
        replies: Option<&Pieces<Bytes>>,
    ) -> Result<()> {
        let mut next = Some(first);
        while let Some(done) = next {
            self.waiting_groups -= 1;
            self.waiting_bytes -= done.bytes;
            let written = done.written?;
            self.call_session.metrics().acknowledged(done.rows, &written, done.since);
            match self.stopped {
                None => self.progress.note(done.rows, done.atomic, written),
                Some(_) => self.progress.note_until_failure(done.rows, done.atomic, written),
            }
            next = self.acknowledged.try_recv().ok();
        }
        let Some(replies) = replies else { return Ok(()) };
        for reply in self.progress.replies() {
            let left = |_| Error::internal("the client has left");
            replies.push(framed(&reply)).await.map_err(left)?;
            self.call_session.metrics().replied();
        }
        Ok(())
    }
}
