//! Rows on their way to the server, as fast as it takes them.

use std::future::Future;
use std::pin::Pin;

use thalweg_protocol::v1::{Durability, Operation, Table as Announcement, WriteResponse};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tonic::Streaming;

use crate::error::ended;
use crate::messages::{Change, Item, Row, messages};
use crate::replies::{Replies, Told, replies};
use crate::resending::Resender;
use crate::retry::within;
use crate::{Client, Error};

/// Rows that wait to be sent.
pub(crate) const ROWS_AHEAD: usize = 8_192;

/// A table that was announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table(u32);

impl Table {
    /// What is to be done with a row, or with the row of a key, of this table.
    pub fn change(self, operation: Operation, row: impl Into<Row>) -> Change {
        Change { table: self.0, operation, row: row.into(), expected: None }
    }
}

impl Change {
    /// Only if the row that is there has this version, as a search told it: 0 for no row.
    #[must_use]
    pub fn expecting(mut self, version: u64) -> Change {
        self.expected = Some(version);
        self
    }
}

/// A stream of rows. They are sent as they come, many in a message when they come fast. Each gives
/// a future that tells what became of it; whoever does not care drops it.
pub struct Writer {
    items: mpsc::Sender<Item>,
    replies: Replies,
    tables: u32,
    /// How many rows came so far.
    rows: u64,
}

impl Writer {
    pub(crate) async fn open(client: &Client) -> Result<Writer, Error> {
        let until = client.until();
        let (items, waiting) = mpsc::channel(ROWS_AHEAD);
        let request = client.call(messages(waiting));
        let begun = async { Ok(client.records().write(request).await?.into_inner()) };
        let streaming = within(until, begun).await?;
        let (told, replies) = replies();
        tokio::spawn(follow(streaming, told, until));
        Ok(Writer { items, replies, tables: 0, rows: 0 })
    }

    /// Sends what was lost with its connection again, where that is safe.
    pub(crate) async fn open_resending(client: &Client) -> Result<Writer, Error> {
        let (items, waiting) = mpsc::channel(ROWS_AHEAD);
        let (told, replies) = replies();
        Resender::begin(client, waiting, told).await?;
        Ok(Writer { items, replies, tables: 0, rows: 0 })
    }

    /// What rows must survive before they count as written. To be said before anything else.
    ///
    /// # Errors
    /// Where the stream has ended.
    pub async fn durability(&mut self, durability: Durability) -> Result<(), Error> {
        self.send(Item::Durability(durability)).await
    }

    /// Announces a table, and the columns that its rows have values for: none for all.
    ///
    /// # Errors
    /// Where the stream has ended. That there is no such table, its rows are told.
    pub async fn table(&mut self, name: &str, columns: &[&str]) -> Result<Table, Error> {
        let number = self.tables;
        self.tables += 1;
        let columns = columns.iter().map(|column| (*column).to_owned()).collect();
        self.send(Item::Table(Announcement { number, name: name.to_owned(), columns })).await?;
        Ok(Table(number))
    }

    /// Sends a row that must not be there yet.
    ///
    /// # Errors
    /// Where the stream has ended. What is wrong with the row, its future tells.
    pub async fn create(&mut self, table: Table, row: impl Into<Row>) -> Result<Written, Error> {
        self.change(table.change(Operation::Create, row)).await
    }

    /// Sends a row whose key must be there. Columns that the table was not announced with stay as
    /// they are.
    ///
    /// # Errors
    /// As [`create`](Writer::create).
    pub async fn update(&mut self, table: Table, row: impl Into<Row>) -> Result<Written, Error> {
        self.change(table.change(Operation::Update, row)).await
    }

    /// Sends a row whose key may be there or not.
    ///
    /// # Errors
    /// As [`create`](Writer::create).
    pub async fn upsert(&mut self, table: Table, row: impl Into<Row>) -> Result<Written, Error> {
        self.change(table.change(Operation::Upsert, row)).await
    }

    /// Sends the key of a row that is to go.
    ///
    /// # Errors
    /// As [`create`](Writer::create).
    pub async fn remove(&mut self, table: Table, key: impl Into<Row>) -> Result<Written, Error> {
        self.change(table.change(Operation::Remove, key)).await
    }

    /// Sends one row.
    ///
    /// # Errors
    /// As [`create`](Writer::create).
    pub async fn change(&mut self, change: Change) -> Result<Written, Error> {
        self.send(Item::Row(change)).await?;
        self.rows += 1;
        Ok(self.last())
    }

    /// Sends rows that are written all at one moment, or not at all. The future tells of the last;
    /// where one fails, all do.
    ///
    /// # Errors
    /// As [`create`](Writer::create).
    pub async fn atomic(&mut self, changes: Vec<Change>) -> Result<Written, Error> {
        let rows = changes.len() as u64;
        self.send(Item::Atomic(changes)).await?;
        self.rows += rows;
        Ok(self.last())
    }

    /// Waits until everything is written.
    ///
    /// # Errors
    /// The first row that failed and whose future nobody asked; or why the stream ended.
    pub async fn flush(&mut self) -> Result<(), Error> {
        self.replies.wait(self.rows).await?;
        self.replies.first_failure()
    }

    /// How many rows, counted from the first, the server has acknowledged.
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

/// What becomes of a row.
pub struct Written {
    index: u64,
    replies: Replies,
}

impl Written {
    /// The row's place in the stream, counted from 0.
    #[must_use]
    pub fn index(&self) -> u64 {
        self.index
    }
}

impl IntoFuture for Written {
    type Output = Result<(), Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

    /// Waits until the row is as durable as was asked.
    fn into_future(mut self) -> Self::IntoFuture {
        Box::pin(async move {
            self.replies.wait(self.index + 1).await?;
            self.replies.failure(self.index)
        })
    }
}

/// Takes in what the server tells.
async fn follow(mut replies: Streaming<WriteResponse>, told: Told, until: Option<Instant>) {
    let end = loop {
        let reply = async { Ok(replies.message().await?) };
        match within(until, reply).await {
            Ok(Some(reply)) => {
                let failed = reply.failures.into_iter().map(|failure| (failure.index, failure));
                told.advance(reply.durable, failed);
            }
            Ok(None) => break ended(),
            Err(error) => break error,
        }
    };
    told.end(end);
}
