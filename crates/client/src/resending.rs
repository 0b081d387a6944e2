//! Rows that outlive their connection.
//!
//! They are kept until they are acknowledged. Where the connection is lost, a new stream takes up
//! behind the last row that was, if all that may have arrived may be written twice. Both streams
//! bear the writer's name: the server ends the old one before it takes a row from the new one, so
//! that no older row comes behind a newer one.

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
use crate::replies::Told;
use crate::retry::{Tries, within};
use crate::writer::ROWS_AHEAD;
use crate::{Client, Error};

/// Rows of so many bytes are kept at most, and a few more.
const KEPT_BYTES: usize = 64 << 20;
/// Rows that are handed on together.
const ROWS_AT_ONCE: usize = 512;
/// The SQLSTATE of a removal that found no row.
const NO_DATA_FOUND: &str = "P0002";

pub(crate) struct Resender {
    client: Client,
    name: AsciiMetadataValue,
    until: Option<Instant>,
    told: Told,
    items: mpsc::Receiver<Item>,
    /// Whether the writer is gone: nothing more comes.
    closed: bool,
    /// What each stream is told first: its durability, and the tables that no row is kept before.
    prelude: Vec<Item>,
    /// What is not acknowledged yet, how many bytes its rows have, and how many items of it, from
    /// the first on, the present stream was given.
    kept: VecDeque<Item>,
    kept_bytes: usize,
    sent: usize,
    /// How many rows are acknowledged, and how many were when the present stream began.
    acknowledged: u64,
    begun_at: u64,
    /// Earlier streams may have written rows before this one.
    sent_before: u64,
    /// Rows that failed, of those that are not acknowledged yet.
    failed: BTreeMap<u64, Failure>,
}

/// One of the streams that follow each other.
struct Stream {
    sender: mpsc::Sender<Item>,
    replies: Streaming<WriteResponse>,
}

impl Resender {
    /// Begins to send items.
    ///
    /// # Errors
    /// Where the server does not let the caller in, or cannot be reached.
    pub(crate) async fn begin(
        client: &Client,
        items: mpsc::Receiver<Item>,
        told: Told,
    ) -> Result<(), Error> {
        let mut resender = Resender {
            client: client.clone(),
            name: name()?,
            until: client.until(),
            told,
            items,
            closed: false,
            prelude: Vec::new(),
            kept: VecDeque::new(),
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
        self.told.end(end);
    }

    /// The stream that goes on behind one that was lost.
    ///
    /// # Errors
    /// Why there is none.
    async fn go_on_behind(&mut self, lost: Error, tries: &mut Tries) -> Result<Stream, Error> {
        let mut under_way = self.kept.iter().take(self.sent);
        if lost.is_lost_connection() && !under_way.all(may_be_repeated) {
            return Err(lost);
        }
        let sent = self.kept.iter().take(self.sent);
        let rows: usize = sent.map(|item| item.changes().len()).sum();
        self.sent_before = self.sent_before.max(self.acknowledged + rows as u64);
        tries.wait(lost).await?;
        self.stream(tries).await
    }

    /// Begins a stream, as often as it takes.
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
            // There is room.
            let _ = sender.try_send(item.clone());
        }
        let mut request = self.client.call(messages(waiting));
        request.metadata_mut().insert(WRITER_HEADER, self.name.clone());
        let replies = self.client.records().write(request).await?.into_inner();
        (self.begun_at, self.sent) = (self.acknowledged, 0);
        self.failed.clear();
        Ok(Stream { sender, replies })
    }

    /// Sends and is told, until the writer is gone and all its rows are acknowledged.
    ///
    /// # Errors
    /// Why the stream ended before.
    async fn go_on(&mut self, stream: Stream) -> Result<(), Error> {
        let Stream { sender, mut replies } = stream;
        let mut taken = Vec::with_capacity(ROWS_AT_ONCE);
        while !self.is_done() {
            let unsent = self.kept.len() - self.sent;
            let takes = unsent == 0 && !self.closed && self.kept_bytes < KEPT_BYTES;
            let count = unsent.min(ROWS_AT_ONCE);
            tokio::select! {
                biased;
                reply = replies.message() => self.take(reply?.ok_or_else(ended)?),
                room = sender.reserve_many(count), if unsent > 0 => {
                    let Ok(room) = room else { return Err(self.last_words(&mut replies).await) };
                    for (place, item) in room.zip(self.kept.range(self.sent..)) {
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
        // Every row has some bytes.
        self.closed && self.kept_bytes == 0 && self.sent == self.kept.len()
    }

    /// Takes in what the server still tells; returns why it tells nothing more.
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
            self.kept.push_back(item);
        }
    }

    /// Lets go of what is acknowledged, and tells of it.
    fn take(&mut self, reply: WriteResponse) {
        let begun_at = self.begun_at;
        self.failed.extend(reply.failures.into_iter().map(|mut failure| {
            failure.index += begun_at;
            (failure.index, failure)
        }));
        let durable = begun_at + reply.durable;
        let mut failed = Vec::new();
        while self.sent > 0
            && let Some(item) = self.kept.front()
            && self.acknowledged + item.changes().len() as u64 <= durable
            && let Some(item) = self.kept.pop_front()
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
                // It counts where it comes first.
                Item::Durability(_) if !self.prelude.is_empty() => {}
                Item::Durability(_) | Item::Table(_) => self.prelude.push(item),
                Item::Row(_) | Item::Atomic(_) => {}
            }
        }
        let failed = failed.into_iter().map(|failure| (failure.index, failure));
        self.told.advance(self.acknowledged, failed);
    }

    /// Whether a row that failed is a removal that an earlier stream may have done.
    fn was_done_before(&self, item: &Item, failure: &Failure) -> bool {
        let removes = matches!(item, Item::Row(change) if change.operation == Operation::Remove);
        removes && failure.index < self.sent_before && failure.sqlstate == NO_DATA_FOUND
    }
}

/// Whether rows end up the same when they are written a second time.
fn may_be_repeated(item: &Item) -> bool {
    let mut changes = item.changes().iter();
    match item {
        Item::Durability(_) | Item::Table(_) => true,
        Item::Row(change) if change.operation == Operation::Remove => change.expected.is_none(),
        // A removal that finds no row would fail those that are written with it.
        Item::Row(_) | Item::Atomic(_) => {
            changes.all(|change| change.operation == Operation::Upsert && change.expected.is_none())
        }
    }
}

fn bytes(item: &Item) -> usize {
    item.changes().iter().map(Change::bytes).sum()
}

/// A name that no other writer has.
fn name() -> Result<AsciiMetadataValue, Error> {
    let [one, other] = [0, 1].map(|half: u8| RandomState::new().hash_one(half));
    let name = AsciiMetadataValue::try_from(format!("{one:016x}{other:016x}"));
    name.map_err(|_| tonic::Status::internal("a writer's name is no header").into())
}
