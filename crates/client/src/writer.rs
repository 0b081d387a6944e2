//! A stream of rows to write, sent as fast as the server accepts them.

use std::future::Future;
use std::pin::Pin;

use thalweg_protocol::v1::{Durability, Operation, Table as Announcement, WriteResponse};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tonic::Streaming;

use crate::error::ended;
use crate::messages::{Change, Item, Row, messages};
use crate::replies::{ProgressSender, Replies, replies};
use crate::resending::Resender;
use crate::retry::within;
use crate::{Client, Error};

/// Maximum number of rows that wait to be sent.
pub(crate) const ROWS_AHEAD: usize = 8_192;

/// An announced table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table(u32);

impl Table {
    /// An operation on a row of this table; for a removal, the row holds the key alone.
    pub fn change(self, operation: Operation, row: impl Into<Row>) -> Change {
        Change { table: self.0, operation, row: row.into(), expected: None }
    }
}

impl Change {
    /// Applies the change only if the present row has this version, as returned by a search; 0
    /// means that there is no row.
    #[must_use]
    pub fn expecting(mut self, version: u64) -> Change {
        self.expected = Some(version);
        self
    }
}

/// A stream of rows to write. Rows that come fast are gathered into larger messages. Each row has a
/// future for its result, which callers may drop.
pub struct Writer {
    items: mpsc::Sender<Item>,
    replies: Replies,
    tables: u32,
    /// Number of rows sent so far.
    rows: u64,
}

impl Writer {
    pub(crate) async fn open(client: &Client) -> Result<Writer, Error> {
        let until = client.until();
        let (items, waiting) = mpsc::channel(ROWS_AHEAD);
        let request = client.call(messages(waiting));
        let begun = async { Ok(client.records().write(request).await?.into_inner()) };
        let streaming = within(until, begun).await?;
        let (progress_sender, replies) = replies();
        tokio::spawn(follow(streaming, progress_sender, until));
        Ok(Writer { items, replies, tables: 0, rows: 0 })
    }

    /// Opens a stream that resends rows after a lost connection if that is safe.
    pub(crate) async fn open_resending(client: &Client) -> Result<Writer, Error> {
        let (items, waiting) = mpsc::channel(ROWS_AHEAD);
        let (progress_sender, replies) = replies();
        Resender::begin(client, waiting, progress_sender).await?;
        Ok(Writer { items, replies, tables: 0, rows: 0 })
    }

    /// Sets the failure that rows must survive before they count as written. Must be called before
    /// anything else.
    ///
    /// # Errors
    /// If the stream has ended.
    pub async fn durability(&mut self, durability: Durability) -> Result<(), Error> {
        self.send(Item::Durability(durability)).await
    }

    /// Announces a table with the columns of its rows; an empty list means all.
    ///
    /// # Errors
    /// If the stream has ended. A missing table is not reported here but by each of its rows.
    pub async fn table(&mut self, name: &str, columns: &[&str]) -> Result<Table, Error> {
        let number = self.tables;
        self.tables += 1;
        let columns = columns.iter().map(|column| (*column).to_owned()).collect();
        self.send(Item::Table(Announcement { number, name: name.to_owned(), columns })).await?;
        Ok(Table(number))
    }

    /// Sends a row whose key must not exist yet.
    ///
    /// # Errors
    /// If the stream has ended. A refusal of the row is reported by the returned future.
    pub async fn create(&mut self, table: Table, row: impl Into<Row>) -> Result<Written, Error> {
        self.change(table.change(Operation::Create, row)).await
    }

    /// Sends a row whose key must exist. Columns with which the table was not announced keep their
    /// values.
    ///
    /// # Errors
    /// Like [`create`](Writer::create).
    pub async fn update(&mut self, table: Table, row: impl Into<Row>) -> Result<Written, Error> {
        self.change(table.change(Operation::Update, row)).await
    }

    /// Sends a row that is inserted or replaces the row with its key.
    ///
    /// # Errors
    /// Like [`create`](Writer::create).
    pub async fn upsert(&mut self, table: Table, row: impl Into<Row>) -> Result<Written, Error> {
        self.change(table.change(Operation::Upsert, row)).await
    }

    /// Sends the key of a row to remove.
    ///
    /// # Errors
    /// Like [`create`](Writer::create).
    pub async fn remove(&mut self, table: Table, key: impl Into<Row>) -> Result<Written, Error> {
        self.change(table.change(Operation::Remove, key)).await
    }

    /// Sends one change.
    ///
    /// # Errors
    /// Like [`create`](Writer::create).
    pub async fn change(&mut self, change: Change) -> Result<Written, Error> {
        self.send(Item::Row(change)).await?;
        self.rows += 1;
        Ok(self.last())
    }

    /// Sends rows that become visible together, or not at all. If one fails, all fail. The future
    /// returns the result of the last row.
    ///
    /// # Errors
    /// Like [`create`](Writer::create).
    pub async fn atomic(&mut self, changes: Vec<Change>) -> Result<Written, Error> {
        let rows = changes.len() as u64;
        self.send(Item::Atomic(changes)).await?;
        self.rows += rows;
        Ok(self.last())
    }

    /// Waits until all rows sent so far are acknowledged.
    ///
    /// # Errors
    /// The first failure that no future has returned, or the reason why the stream ended.
    pub async fn flush(&mut self) -> Result<(), Error> {
        self.replies.wait(self.rows).await?;
        self.replies.first_failure()
    }

    /// Number of acknowledged rows, counted from the first one.
    #[must_use]
    pub fn acknowledged(&self) -> u64 {
        self.replies.acknowledged()
    }

    async fn send(&mut self, item: Item) -> Result<(), Error> {
        self.items.send(item).await.map_err(|_| self.replies.why_ended())
    }

    fn last(&self) -> Written {
        Written { index: self.rows.saturating_sub(1), replies: self.replies.clone() }
    }
}

/// The result of a row. Await it to wait for the acknowledgement.
pub struct Written {
    index: u64,
    replies: Replies,
}

impl Written {
    /// The row's position in the stream, counted from 0.
    #[must_use]
    pub fn index(&self) -> u64 {
        self.index
    }
}

impl IntoFuture for Written {
    type Output = Result<(), Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

    /// Waits until the row is as durable as the stream asked.
    fn into_future(mut self) -> Self::IntoFuture {
        Box::pin(async move {
            self.replies.wait(self.index + 1).await?;
            self.replies.failure(self.index)
        })
    }
}

/// Forwards the server's replies until the stream ends.
async fn follow(
    mut replies: Streaming<WriteResponse>,
    progress_sender: ProgressSender,
    until: Option<Instant>,
) {
    let end = loop {
        let reply = async { Ok(replies.message().await?) };
        match within(until, reply).await {
            Ok(Some(reply)) => {
                let failed = reply.failures.into_iter().map(|failure| (failure.index, failure));
                progress_sender.advance(reply.durable, failed);
            }
            Ok(None) => break ended(),
            Err(error) => break error,
        }
    };
    progress_sender.end(end);
}
