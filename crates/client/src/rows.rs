//! Rows handed on as they come.
//!
//! They have a stream of their own. What nobody takes stays where it is: the server sends only so
//! much ahead, and computes no more until that is taken.

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

/// Keys, and bytes of keys, that go in one message.
const KEYS_AT_ONCE: usize = 1_024;
const KEY_BYTES_AT_ONCE: usize = 16 << 10;
/// Messages of keys that are sent before their rows are there. They are so few that the server has
/// room for them also while it waits for rows to be taken.
const MESSAGES_AHEAD: usize = 2;

/// Rows that were found, as they come. Ends with the last row, or with the first error.
///
/// Nothing is asked before the first item is. A few MiB come ahead; while those are not taken, the
/// server waits, and others on the same connection go on. Dropped, it ends on the server as well. A
/// connection has room for some two hundred of them at a time.
/// [`Builder::deadline`](crate::Builder::deadline) counts from the call to the last row.
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

/// The rows of keys of a table.
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

/// What is asked, and how far it is answered.
trait Question: Send + 'static {
    type Row: Send + 'static;

    /// What is to be sent before the next response is waited for, if anything.
    fn request(&mut self) -> Option<SearchRequest>;

    /// Adds the rows of a response.
    ///
    /// # Errors
    /// Where a look-up failed: behind the rows that were added.
    fn take(&mut self, response: SearchResponse, rows: &mut Vec<Self::Row>) -> Result<(), Error>;

    fn is_answered(&self) -> bool;

    /// Goes on with another stream, after the rows that were handed on. Returns whether it may.
    fn begin_again(&mut self) -> bool;
}

/// A question on its way.
struct Asking<Q> {
    client: Client,
    tables: Vec<Announcement>,
    question: Q,
    /// `None` where the next response is that of another one.
    call: Option<Call>,
    tries: Tries,
    until: Option<Instant>,
    /// What is told behind the rows that came with it.
    refused: Option<Error>,
}

impl<Q: Question> Asking<Q> {
    /// The next rows, at least one; `None` behind the last.
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
        // Who fails leaves no stream behind.
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
    /// Whether some rows were.
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
    /// The first key of the present stream.
    begun_at: usize,
    /// How many of the keys, counted from the first of all, were sent, and are answered.
    sent: usize,
    answered: usize,
    /// How many were sent with each message that is not answered yet, and those before it.
    ends: VecDeque<usize>,
}

impl ByKey {
    /// The key that stands at a place in the present stream.
    fn key(&self, place: u64) -> usize {
        usize::try_from(place).unwrap_or(usize::MAX).saturating_add(self.begun_at).min(self.sent)
    }

    /// Notes that all keys before this one are answered: those that are passed over have no row.
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
        // One that is longer comes alone.
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
