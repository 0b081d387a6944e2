//! Streams of rows that survive a lost connection.
//!
//! Rows are kept until they are acknowledged. If the connection is lost, a new stream continues
//! after the last acknowledged row, provided that all rows in flight may be written twice. Both
//! streams carry the writer's name: the server ends the old stream before it accepts a row from the
//! new one, so that no old row overwrites a newer one.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{BuildHasher as _, RandomState};

use thalweg_protocol::WRITER_HEADER;
use thalweg_protocol::v1::{Failure, Operation, WriteResponse};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tonic::Streaming;
use tonic::metadata::AsciiMetadataValue;

use crate::error::ended;
use crate::messages::{Change, Item, messages};
use crate::replies::ProgressSender;
use crate::retry::{Tries, within};
use crate::writer::ROWS_AHEAD;
use crate::{Client, Error};

/// Size of kept rows in bytes from which no more rows are accepted.
const KEPT_BYTES: usize = 64 << 20;
/// Maximum number of rows passed on at once.
const ROWS_AT_ONCE: usize = 512;
/// The SQLSTATE of a removal that found no row.
const NO_DATA_FOUND: &str = "P0002";

pub(crate) struct Resender {
    client: Client,
    name: AsciiMetadataValue,
    until: Option<Instant>,
    progress_sender: ProgressSender,
    items: mpsc::Receiver<Item>,
    /// True if the writer was dropped, so that no more items will come.
    closed: bool,
    /// Items that each new stream is sent first: the durability and the acknowledged announcements
    /// of tables.
    prelude: Vec<Item>,
    /// Unacknowledged items, the size of their rows in bytes, and how many of the items the current
    /// stream was sent.
    unacknowledged: VecDeque<Item>,
    kept_bytes: usize,
    sent: usize,
    /// Number of acknowledged rows, now and when the current stream began.
    acknowledged: u64,
    begun_at: u64,
    /// Rows before this position may have been written by earlier streams.
    sent_before: u64,
    /// Failures of rows that are not acknowledged yet.
    failed: BTreeMap<u64, Failure>,
}

/// One of several consecutive streams.
struct Stream {
    sender: mpsc::Sender<Item>,
    replies: Streaming<WriteResponse>,
}

impl Resender {
    /// Opens the first stream and starts the task that sends the items.
    ///
    /// # Errors
    /// If the server refuses the caller or cannot be reached.
    pub(crate) async fn begin(
        client: &Client,
        items: mpsc::Receiver<Item>,
        progress_sender: ProgressSender,
    ) -> Result<(), Error> {
        let mut resender = Resender {
            client: client.clone(),
            name: name()?,
            until: client.until(),
            progress_sender,
            items,
            closed: false,
            prelude: Vec::new(),
            unacknowledged: VecDeque::new(),
            kept_bytes: 0,
            sent: 0,
            acknowledged: 0,
            begun_at: 0,
            sent_before: 0,
            failed: BTreeMap::new(),
        };
        let mut tries = Tries::new(client.retries(), resender.until);
        let stream = resender.stream(&mut tries).await?;
        tokio::spawn(resender.run(stream, tries));
        Ok(())
    }

    async fn run(mut self, mut stream: Stream, mut tries: Tries) {
        let end = loop {
            let before = self.acknowledged;
            let lost = match within(self.until, self.go_on(stream)).await {
                Ok(()) => break ended(),
                Err(lost) => lost,
            };
            if self.acknowledged > before {
                tries.went_on();
            }
            stream = match self.go_on_behind(lost, &mut tries).await {
                Ok(next) => next,
                Err(end) => break end,
            };
        };
        self.progress_sender.end(end);
    }

    /// Opens the stream that continues after a lost one.
    ///
    /// # Errors
    /// The reason why there is none, such as rows in flight that must not be sent twice.
    async fn go_on_behind(&mut self, lost: Error, tries: &mut Tries) -> Result<Stream, Error> {
        let mut under_way = self.unacknowledged.iter().take(self.sent);
        if lost.is_lost_connection() && !under_way.all(may_be_repeated) {
            return Err(lost);
        }
        let sent = self.unacknowledged.iter().take(self.sent);
        let rows: usize = sent.map(|item| item.changes().len()).sum();
        self.sent_before = self.sent_before.max(self.acknowledged + rows as u64);
        tries.wait(lost).await?;
        self.stream(tries).await
    }

    /// Opens a stream, with retries.
    async fn stream(&mut self, tries: &mut Tries) -> Result<Stream, Error> {
        loop {
            match within(self.until, self.begin_stream()).await {
                Ok(stream) => return Ok(stream),
                Err(error) => tries.wait(error).await?,
            }
        }
    }

    async fn begin_stream(&mut self) -> Result<Stream, Error> {
        let (sender, waiting) = mpsc::channel(ROWS_AHEAD + self.prelude.len());
        for item in &self.prelude {
            // The channel has room for the whole prelude.
            let _ = sender.try_send(item.clone());
        }
        let mut request = self.client.call(messages(waiting));
        request.metadata_mut().insert(WRITER_HEADER, self.name.clone());
        let replies = self.client.records().write(request).await?.into_inner();
        (self.begun_at, self.sent) = (self.acknowledged, 0);
        self.failed.clear();
        Ok(Stream { sender, replies })
    }

    /// Sends items and receives replies until the writer is dropped and all its rows are
    /// acknowledged.
    ///
    /// # Errors
    /// The reason why the stream ended before that.
    async fn go_on(&mut self, stream: Stream) -> Result<(), Error> {
        let Stream { sender, mut replies } = stream;
        let mut taken = Vec::with_capacity(ROWS_AT_ONCE);
        while !self.is_done() {
            let unsent = self.unacknowledged.len() - self.sent;
            let takes = unsent == 0 && !self.closed && self.kept_bytes < KEPT_BYTES;
            let count = unsent.min(ROWS_AT_ONCE);
            tokio::select! {
                biased;
                reply = replies.message() => self.take(reply?.ok_or_else(ended)?),
                room = sender.reserve_many(count), if unsent > 0 => {
                    let Ok(room) = room else { return Err(self.last_words(&mut replies).await) };
                    for (place, item) in room.zip(self.unacknowledged.range(self.sent..)) {
                        place.send(item.clone());
                    }
                    self.sent += count;
                }
                came = self.items.recv_many(&mut taken, ROWS_AT_ONCE), if takes => {
                    self.closed = came == 0;
                    self.keep(taken.drain(..));
                }
            }
        }
        drop(sender);
        self.last_words(&mut replies).await;
        Ok(())
    }

    fn is_done(&self) -> bool {
        // Each row has a size above zero, so no kept bytes means no kept rows.
        self.closed && self.kept_bytes == 0 && self.sent == self.unacknowledged.len()
    }

    /// Reads the remaining replies, and returns the reason for the stream's end.
    async fn last_words(&mut self, replies: &mut Streaming<WriteResponse>) -> Error {
        loop {
            match replies.message().await {
                Ok(Some(reply)) => self.take(reply),
                Ok(None) => return ended(),
                Err(status) => return status.into(),
            }
        }
    }

    fn keep(&mut self, items: impl Iterator<Item = Item>) {
        for item in items {
            self.kept_bytes += bytes(&item);
            self.unacknowledged.push_back(item);
        }
    }

    /// Drops acknowledged items and reports their rows.
    fn take(&mut self, reply: WriteResponse) {
        let begun_at = self.begun_at;
        self.failed.extend(reply.failures.into_iter().map(|mut failure| {
            failure.index += begun_at;
            (failure.index, failure)
        }));
        let durable = begun_at + reply.durable;
        let mut failed = Vec::new();
        while self.sent > 0
            && let Some(item) = self.unacknowledged.front()
            && self.acknowledged + item.changes().len() as u64 <= durable
            && let Some(item) = self.unacknowledged.pop_front()
        {
            self.sent -= 1;
            self.kept_bytes -= bytes(&item);
            let first = self.acknowledged;
            self.acknowledged += item.changes().len() as u64;
            for index in first..self.acknowledged {
                let failure = self.failed.remove(&index);
                failed.extend(failure.filter(|failure| !self.was_done_before(&item, failure)));
            }
            match item {
                // The server reads the durability from the first message only, so only the first
                // one is kept.
                Item::Durability(_) if !self.prelude.is_empty() => {}
                Item::Durability(_) | Item::Table(_) => self.prelude.push(item),
                Item::Row(_) | Item::Atomic(_) => {}
            }
        }
        let failed = failed.into_iter().map(|failure| (failure.index, failure));
        self.progress_sender.advance(self.acknowledged, failed);
    }

    /// True for a failed removal that an earlier stream may already have done.
    fn was_done_before(&self, item: &Item, failure: &Failure) -> bool {
        let removes = matches!(item, Item::Row(change) if change.operation == Operation::Remove);
        removes && failure.index < self.sent_before && failure.sqlstate == NO_DATA_FOUND
    }
}

/// True if writing the item's rows twice has the same result as writing them once.
fn may_be_repeated(item: &Item) -> bool {
    let mut changes = item.changes().iter();
    match item {
        Item::Durability(_) | Item::Table(_) => true,
        Item::Row(change) if change.operation == Operation::Remove => change.expected.is_none(),
        // In an atomic group, a removal that finds no row would fail the whole group.
        Item::Row(_) | Item::Atomic(_) => {
            changes.all(|change| change.operation == Operation::Upsert && change.expected.is_none())
        }
    }
}

fn bytes(item: &Item) -> usize {
    item.changes().iter().map(Change::bytes).sum()
}

/// A random name for the writer.
fn name() -> Result<AsciiMetadataValue, Error> {
    let [one, other] = [0, 1].map(|half: u8| RandomState::new().hash_one(half));
    let name = AsciiMetadataValue::try_from(format!("{one:016x}{other:016x}"));
    name.map_err(|_| tonic::Status::internal("a writer's name is no header").into())
}
