//! Rows as a stream.
//!
//! Each has a call of its own. Flow control limits what the server sends ahead: it computes no more
//! rows until the client takes those sent.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::vec;

use bytes::Bytes;
use futures::stream::{BoxStream, Stream, StreamExt as _, try_unfold};
use thalweg_protocol::v1::{Range, SearchRequest, SearchResponse, Table as Announcement};
use tokio::time::Instant;

use crate::call::Call;
use crate::found::{add_in_range, by_key, versioned};
use crate::retry::{Tries, within};
use crate::{Client, Error, FoundRow};

/// Maximum number of keys, and of their bytes, in one message.
const KEYS_AT_ONCE: usize = 1_024;
const KEY_BYTES_AT_ONCE: usize = 16 << 10;
/// Maximum number of messages with keys whose rows are outstanding. The server can buffer these
/// even while it waits for the client to take rows.
const MESSAGES_AHEAD: usize = 2;

/// A stream of rows from a look-up. It ends after the last row or the first error.
///
/// The look-up is sent when the first item is polled. The server sends a few MiB ahead, then waits
/// until they are taken; other calls on the same connection continue. Dropping the stream ends it
/// on the server as well. A connection has room for about two hundred streams at a time.
/// [`Builder::deadline`](crate::Builder::deadline) counts from the call of the method to the last
/// row.
#[must_use = "nothing is asked before the first row is"]
pub struct Rows<T> {
    ready: vec::IntoIter<T>,
    more: BoxStream<'static, Result<Vec<T>, Error>>,
}

impl<T: Unpin> Stream for Rows<T> {
    type Item = Result<T, Error>;

    fn poll_next(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<T, Error>>> {
        let rows = self.get_mut();
        loop {
            if let Some(row) = rows.ready.next() {
                return Poll::Ready(Some(Ok(row)));
            }
            match ready!(rows.more.poll_next_unpin(context)) {
                Some(Ok(more)) => rows.ready = more.into_iter(),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
    }
}

/// The rows of a range of a table.
pub(crate) fn rows_in_range(
    client: &Client,
    table: Option<Announcement>,
    range: Range,
) -> Rows<Bytes> {
    let range = Range { as_values: false, ..range };
    rows(client, table, InRange { range, asked: false, handed_on: false, answered: false })
}

/// The rows of keys of a table, in the order of the keys.
pub(crate) fn rows_of_keys(
    client: &Client,
    announced: Option<Announcement>,
    table: u32,
    keys: Vec<Vec<u8>>,
) -> Rows<Option<FoundRow>> {
    let keys = keys.into_iter().map(Bytes::from).collect();
    let ends = VecDeque::new();
    rows(client, announced, ByKey { table, keys, begun_at: 0, sent: 0, answered: 0, ends })
}

fn rows<Q: Question>(client: &Client, table: Option<Announcement>, question: Q) -> Rows<Q::Row> {
    let until = client.until();
    let asking = Asking {
        client: client.clone(),
        tables: table.into_iter().collect(),
        question,
        call: None,
        tries: Tries::new(client.retries(), until),
        until,
        refused: None,
    };
    Rows { ready: Vec::new().into_iter(), more: try_unfold(asking, Asking::next).boxed() }
}

/// A look-up and its progress.
trait Question: Send + 'static {
    type Row: Send + 'static;

    /// The next request to send before waiting for a response, if any.
    fn request(&mut self) -> Option<SearchRequest>;

    /// Appends the rows of a response.
    ///
    /// # Errors
    /// If a look-up failed. The rows before the failure have been appended.
    fn take(&mut self, response: SearchResponse, rows: &mut Vec<Self::Row>) -> Result<(), Error>;

    fn is_answered(&self) -> bool;

    /// Prepares to continue on a new stream, after the rows returned so far. Returns false if the
    /// look-up cannot be repeated.
    fn begin_again(&mut self) -> bool;
}

/// A look-up in progress.
struct Asking<Q> {
    client: Client,
    tables: Vec<Announcement>,
    question: Q,
    /// `None` if the next request must open a call.
    call: Option<Call>,
    tries: Tries,
    until: Option<Instant>,
    /// An error to return after the rows that came with it.
    refused: Option<Error>,
}

impl<Q: Question> Asking<Q> {
    /// The next rows, at least one; `None` at the end.
    async fn next(mut self) -> Result<Option<(Vec<Q::Row>, Asking<Q>)>, Error> {
        if let Some(refused) = self.refused.take() {
            return Err(refused);
        }
        while !self.question.is_answered() {
            let response = match within(self.until, self.response()).await {
                Ok(response) => response,
                Err(lost) if self.question.begin_again() => {
                    self.tries.wait(lost).await?;
                    continue;
                }
                Err(lost) => return Err(lost),
            };
            self.tries.went_on();
            let mut rows = Vec::new();
            let taken = self.question.take(response, &mut rows);
            if rows.is_empty() {
                taken?;
            } else {
                self.refused = taken.err();
                return Ok(Some((rows, self)));
            }
        }
        Ok(None)
    }

    async fn response(&mut self) -> Result<SearchResponse, Error> {
        // A failed call is not put back, so that its stream ends.
        let mut call = match self.call.take() {
            Some(call) => call,
            None => Call::begin(&self.client).await?,
        };
        while let Some(request) = self.question.request() {
            call.send(&self.tables, request).await?;
        }
        let response = call.response().await?;
        self.call = Some(call);
        Ok(response)
    }
}

struct InRange {
    range: Range,
    asked: bool,
    /// True if some rows have been returned.
    handed_on: bool,
    answered: bool,
}

impl Question for InRange {
    type Row = Bytes;

    fn request(&mut self) -> Option<SearchRequest> {
        if std::mem::replace(&mut self.asked, true) {
            return None;
        }
        let ranges = vec![self.range.clone()];
        Some(SearchRequest { ranges, ..SearchRequest::default() })
    }

    fn take(&mut self, response: SearchResponse, rows: &mut Vec<Bytes>) -> Result<(), Error> {
        self.answered = response.answered > 0;
        let added = add_in_range(response.found, rows);
        self.handed_on |= !rows.is_empty();
        added
    }

    fn is_answered(&self) -> bool {
        self.answered
    }

    fn begin_again(&mut self) -> bool {
        self.asked = false;
        !self.handed_on
    }
}

struct ByKey {
    table: u32,
    keys: Vec<Bytes>,
    /// The first key sent on the current stream.
    begun_at: usize,
    /// Numbers of keys sent and answered, counted from the first of all.
    sent: usize,
    answered: usize,
    /// The value of `sent` after each message that is not answered yet.
    ends: VecDeque<usize>,
}

impl ByKey {
    /// The key at a position of the current stream.
    fn key(&self, place: u64) -> usize {
        usize::try_from(place).unwrap_or(usize::MAX).saturating_add(self.begun_at).min(self.sent)
    }

    /// Marks all keys before this one as answered. Keys that the server passed over have no row.
    fn pass(&mut self, key: usize, rows: &mut Vec<Option<FoundRow>>) {
        rows.extend((self.answered..key).map(|_| None));
        self.answered = self.answered.max(key);
    }
}

impl Question for ByKey {
    type Row = Option<FoundRow>;

    fn request(&mut self) -> Option<SearchRequest> {
        let answered = self.answered;
        self.ends.retain(|end| *end > answered);
        let unsent = self.keys.get(self.sent..).filter(|unsent| !unsent.is_empty())?;
        if self.ends.len() >= MESSAGES_AHEAD {
            return None;
        }
        let mut bytes = 0;
        let fits = unsent.iter().take(KEYS_AT_ONCE).take_while(|key| {
            bytes += key.len();
            bytes <= KEY_BYTES_AT_ONCE
        });
        // A longer key is sent in a message of its own.
        let count = fits.count().max(1);
        let keys = versioned(self.table, unsent.iter().take(count).cloned().collect());
        self.sent += count;
        self.ends.push_back(self.sent);
        Some(SearchRequest { keys: vec![keys], ..SearchRequest::default() })
    }

    fn take(
        &mut self,
        response: SearchResponse,
        rows: &mut Vec<Option<FoundRow>>,
    ) -> Result<(), Error> {
        for found in response.found {
            let key = self.key(found.index);
            self.pass(key, rows);
            let row = by_key(found)?;
            if self.answered == key && key < self.sent {
                rows.push(row);
                self.answered += 1;
            }
        }
        self.pass(self.key(response.answered), rows);
        Ok(())
    }

    fn is_answered(&self) -> bool {
        self.answered == self.keys.len()
    }

    fn begin_again(&mut self) -> bool {
        (self.begun_at, self.sent) = (self.answered, self.answered);
        self.ends.clear();
        true
    }
}

#[cfg(test)]
mod tests {
    use thalweg_protocol::v1::Found;

    use super::*;

    #[test]
    fn keys_go_in_parts_and_answers_stay_within_them() {
        let keys = (0..3_000_u32).map(|key| key.to_le_bytes().to_vec().into()).collect();
        let ends = VecDeque::new();
        let mut asked = ByKey { table: 0, keys, begun_at: 0, sent: 0, answered: 0, ends };
        let keys = |request: Option<SearchRequest>| Some(request?.keys[0].packed.len());
        let found = |index, row: &'static [u8]| {
            let packed = vec![Bytes::from_static(row)];
            Found { index, packed, ..Found::default() }
        };
        let three = [(); 3].map(|()| keys(asked.request()));
        assert_eq!(three, [Some(1_024), Some(1_024), None]);
        let mut rows = Vec::new();
        let told = vec![found(3, b"a"), found(3, b"again"), found(1_024, b"b")];
        asked.take(SearchResponse { answered: 1_030, found: told }, &mut rows).unwrap();
        assert_eq!((rows.len(), rows.iter().flatten().count()), (1_030, 2));
        assert_eq!(rows[3].as_ref().unwrap().packed, &b"a"[..]);
        assert_eq!(rows[1_024].as_ref().unwrap().packed, &b"b"[..]);
        assert_eq!([(); 2].map(|()| keys(asked.request())), [Some(952), None]);

        // On another stream, places begin with the first key that is not answered.
        assert!(asked.begin_again());
        let three = [(); 3].map(|()| keys(asked.request()));
        assert_eq!(three, [Some(1_024), Some(946), None]);
        rows.clear();
        let told = vec![found(0, b"c"), found(u64::MAX, b"beyond")];
        asked.take(SearchResponse { answered: u64::MAX, found: told }, &mut rows).unwrap();
        assert_eq!((rows.len(), rows.iter().flatten().count()), (1_970, 1));
        assert!(rows[0].is_some() && asked.is_answered());
    }
}
