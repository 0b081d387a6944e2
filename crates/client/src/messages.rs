//! Gathers rows into messages: all rows that are ready go into one message.

use std::collections::VecDeque;

use bytes::Bytes;
use futures::Stream;
use thalweg_protocol::v1::value::Kind;
use thalweg_protocol::v1::{Operation, Rows, Table as Announcement, Value, Values, WriteRequest};
use tokio::sync::mpsc::Receiver;

use crate::Durability;

/// Maximum number of items gathered at once.
const MESSAGE_ROWS: usize = 512;

/// A row in one of its encodings.
#[derive(Clone, Debug, PartialEq)]
pub enum Row {
    /// Packed with a [`RowWriter`](crate::RowWriter).
    Packed(Vec<u8>),
    Values(Values),
}

impl From<Vec<u8>> for Row {
    fn from(packed: Vec<u8>) -> Row {
        Row::Packed(packed)
    }
}

impl From<Values> for Row {
    fn from(values: Values) -> Row {
        Row::Values(values)
    }
}

/// An operation on one row.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    pub(crate) table: u32,
    pub(crate) operation: Operation,
    pub(crate) row: Row,
    pub(crate) expected: Option<u64>,
}

impl Change {
    /// Approximate memory of the change, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let value = |value: &Value| match &value.kind {
            Some(Kind::Text(text)) => text.len(),
            Some(Kind::Bytes(bytes)) => bytes.len(),
            _ => 0,
        };
        let row = match &self.row {
            Row::Packed(packed) => packed.len(),
            Row::Values(Values { values }) => {
                values.iter().map(|one| size_of::<Value>() + value(one)).sum()
            }
        };
        size_of::<Change>() + row
    }
}

/// An element of a stream of rows.
#[derive(Clone)]
pub(crate) enum Item {
    Durability(Durability),
    Table(Announcement),
    Row(Change),
    Atomic(Vec<Change>),
}

impl Item {
    /// The changes of this item. Each counts as one row of the stream.
    pub(crate) fn changes(&self) -> &[Change] {
        match self {
            Item::Durability(_) | Item::Table(_) => &[],
            Item::Row(change) => std::slice::from_ref(change),
            Item::Atomic(changes) => changes,
        }
    }
}

/// The messages of a stream. It ends when all senders of items are dropped.
pub(crate) fn messages(items: Receiver<Item>) -> impl Stream<Item = WriteRequest> + Send {
    let state = (items, VecDeque::new());
    futures::stream::unfold(state, |(mut items, mut ready)| async move {
        if ready.is_empty() {
            let mut taken = Vec::new();
            items.recv_many(&mut taken, MESSAGE_ROWS).await;
            gather(taken, &mut ready);
        }
        Some((ready.pop_front()?, (items, ready)))
    })
}

fn gather(items: Vec<Item>, ready: &mut VecDeque<WriteRequest>) {
    let mut next = WriteRequest::default();
    for item in items {
        match item {
            Item::Durability(durability) => next.durability = durability.into(),
            Item::Table(table) => {
                // An announcement applies to the whole message, so rows before it go into an
                // earlier one.
                if !next.rows.is_empty() {
                    ready.push_back(std::mem::take(&mut next));
                }
                next.tables.push(table);
            }
            Item::Row(change) => add(&mut next, change),
            Item::Atomic(changes) => {
                ready.push_back(std::mem::take(&mut next));
                next.atomic = true;
                changes.into_iter().for_each(|change| add(&mut next, change));
                ready.push_back(std::mem::take(&mut next));
            }
        }
    }
    ready.push_back(next);
    ready.retain(|message| *message != WriteRequest::default());
}

fn add(message: &mut WriteRequest, change: Change) {
    let operation = i32::from(change.operation);
    let packed = matches!(change.row, Row::Packed(_));
    let expects = change.expected.is_some();
    let fits = message.rows.last().is_some_and(|rows| {
        let same = (rows.table, rows.operation) == (change.table, operation);
        same && packed == rows.values.is_empty() && expects != rows.expected.is_empty()
    });
    if !fits {
        message.rows.push(Rows { table: change.table, operation, ..Rows::default() });
    }
    let rows = message.rows.last_mut().expect("it was made sure of");
    match change.row {
        Row::Packed(row) => rows.packed.push(Bytes::from(row)),
        Row::Values(values) => rows.values.push(values),
    }
    rows.expected.extend(change.expected);
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt, StreamExt};
    use tokio::sync::mpsc::channel;

    use super::*;

    fn change(table: u32, operation: Operation, expected: Option<u64>) -> Change {
        Change { table, operation, row: vec![7].into(), expected }
    }

    #[test]
    fn what_is_ready_goes_in_one_message_and_what_is_atomic_in_its_own() {
        let (sender, receiver) = channel(100);
        let upsert = || change(0, Operation::Upsert, None);
        let table = Announcement { number: 0, name: "t".to_owned(), columns: Vec::new() };
        for item in [
            Item::Durability(Durability::Write),
            Item::Table(table),
            Item::Row(upsert()),
            Item::Row(upsert()),
            Item::Row(change(1, Operation::Upsert, None)),
            Item::Row(change(1, Operation::Upsert, Some(5))),
            Item::Atomic(vec![upsert(), change(0, Operation::Remove, None)]),
            Item::Row(upsert()),
        ] {
            assert!(sender.try_send(item).is_ok());
        }
        drop(sender);
        let messages = messages(receiver).collect::<Vec<_>>().now_or_never().unwrap();
        let counts = |message: &WriteRequest| {
            message.rows.iter().map(|rows| rows.packed.len()).collect::<Vec<_>>()
        };
        assert_eq!(
            messages.iter().map(counts).collect::<Vec<_>>(),
            [vec![2, 1, 1], vec![1, 1], vec![1]]
        );
        assert_eq!(messages[0].durability(), Durability::Write);
        assert_eq!(messages[0].rows[2].expected, [5]);
        assert!(messages[1].atomic && !messages[2].atomic);
    }
}
