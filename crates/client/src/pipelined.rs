//! Look-ups, many of which are in flight at once.
//!
//! A task owns the stream. Look-ups that arrive while a request waits to be sent are added to it.
//! Each look-up is kept until it is answered completely. If the connection is lost, a new stream
//! continues with the first one that is not.

use std::collections::VecDeque;
use std::future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use thalweg_protocol::v1::{
    Found, Keys, Range, SearchRequest, SearchResponse, Table as Announcement,
};
use tokio::sync::{mpsc, oneshot};

use crate::call::{Call, why_ended};
use crate::error::ended;
use crate::found::{announcement, by_keys, in_range, versioned};
use crate::retry::{Tries, within};
use crate::{Client, Error, FoundRow};

/// Maximum number of look-ups that wait for their turn, and that are in flight.
const WAITING_MAX: usize = 1_024;
const UNDER_WAY_MAX: usize = 1_024;
/// Size of keys in bytes from which a request is sent without more look-ups.
const REQUEST_BYTES: usize = 64 << 10;
/// Approximate size of a range in a request, in bytes.
const RANGE_BYTES: usize = 64;

/// A stream of look-ups with many in flight at once. Clones share the stream.
///
/// Look-ups are answered in order, so a long range delays those after it; use
/// [`Searcher::stream_range`](crate::Searcher::stream_range) for it. After a lost connection,
/// unanswered look-ups are repeated. If the stream ends for another reason, such as a request that
/// is too long, all look-ups in flight fail with it, and the next one begins a new stream.
#[derive(Clone)]
pub struct PipelinedSearcher {
    client: Client,
    announced: Announced,
    asks: mpsc::Sender<Ask>,
}

type Announced = Arc<Mutex<Vec<Announcement>>>;

/// The future of a look-up in flight. The look-up is answered even if the future is not polled; its
/// rows are buffered here.
#[must_use = "rows that nobody waits for are found for nothing"]
pub struct Answer<T>(BoxFuture<'static, Result<T, Error>>);

impl PipelinedSearcher {
    pub(crate) async fn open(client: &Client) -> Result<PipelinedSearcher, Error> {
        let until = client.until();
        let mut tries = Tries::new(client.retries(), until);
        let call = loop {
            match within(until, Call::begin(client)).await {
                Ok(call) => break call,
                Err(error) => tries.wait(error).await?,
            }
        };
        let (asks, waiting) = mpsc::channel(WAITING_MAX);
        let announced = Announced::default();
        tokio::spawn(Asker::new(client, Arc::clone(&announced), waiting).run(call));
        Ok(PipelinedSearcher { client: client.clone(), announced, asks })
    }

    /// Announces a table with the columns to return; an empty list means all. The number is valid
    /// for all clones.
    #[must_use]
    pub fn table(&self, name: &str, columns: &[&str]) -> u32 {
        let mut announced = self.announced.lock();
        let number = announced.len() as u32;
        announced.push(announcement(number, name, columns));
        number
    }

    /// Sends a look-up of packed keys, once there is room for one more. The answer has the rows in
    /// the order of the keys, with `None` for a key without a row. It fails with the first look-up
    /// that failed, or with the reason why the stream ended.
    ///
    /// # Errors
    /// If there is no room before the deadline, or the stream has ended.
    pub async fn look_up(
        &self,
        table: u32,
        keys: Vec<Vec<u8>>,
    ) -> Result<Answer<Vec<Option<FoundRow>>>, Error> {
        let count = keys.len();
        if count == 0 {
            return Ok(Answer(Box::pin(future::ready(Ok(Vec::new())))));
        }
        let keys = versioned(table, keys.into_iter().map(Bytes::from).collect());
        self.ask(Wanted::Keys(keys), move |found| by_keys(found, count)).await
    }

    /// Sends a look-up of a range of keys, once there is room for one more. The answer has all
    /// packed rows, in the order of their keys.
    ///
    /// # Errors
    /// Like [`look_up`](PipelinedSearcher::look_up).
    pub async fn range(&self, range: Range) -> Result<Answer<Vec<Bytes>>, Error> {
        let range = Range { as_values: false, ..range };
        self.ask(Wanted::Range(range), in_range).await
    }

    async fn ask<T: Send + 'static>(
        &self,
        wanted: Wanted,
        rows: impl FnOnce(Vec<Found>) -> Result<T, Error> + Send + 'static,
    ) -> Result<Answer<T>, Error> {
        let until = self.client.until();
        let (answer, found) = oneshot::channel();
        let ask = Ask { wanted, found: Vec::new(), answer };
        within(until, async { self.asks.send(ask).await.map_err(|_| ended()) }).await?;
        let found = async move { found.await.unwrap_or_else(|_| Err(ended())) };
        Ok(Answer(Box::pin(async move { rows(within(until, found).await?) })))
    }
}

impl<T> Future for Answer<T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T, Error>> {
        self.0.as_mut().poll(context)
    }
}

/// A look-up of some keys or of a range.
struct Ask {
    wanted: Wanted,
    /// Answers received so far; `index` is relative to this look-up's first key.
    found: Vec<Found>,
    answer: oneshot::Sender<Result<Vec<Found>, Error>>,
}

enum Wanted {
    Keys(Keys),
    Range(Range),
}

impl Ask {
    /// Number of look-ups that the server counts for it: one per key or range.
    fn look_ups(&self) -> u64 {
        match &self.wanted {
            Wanted::Keys(keys) => keys.packed.len() as u64,
            Wanted::Range(_) => 1,
        }
    }
}

/// The task that owns the stream.
struct Asker {
    client: Client,
    announced: Announced,
    tries: Tries,
    asks: mpsc::Receiver<Ask>,
    /// True when no more look-ups will come.
    closed: bool,
    /// Unanswered look-ups, in order, and how many of them the current stream was sent.
    under_way: VecDeque<Ask>,
    sent: usize,
    /// Position of the first unanswered look-up in the current stream.
    first: u64,
}

impl Asker {
    fn new(client: &Client, announced: Announced, asks: mpsc::Receiver<Ask>) -> Asker {
        Asker {
            client: client.clone(),
            announced,
            tries: Tries::new(client.retries(), None),
            asks,
            closed: false,
            under_way: VecDeque::new(),
            sent: 0,
            first: 0,
        }
    }

    async fn run(mut self, mut call: Call) {
        while let Err(lost) = self.go_on(&mut call).await {
            match self.call_behind(lost).await {
                Some(next) => call = next,
                None => return,
            }
        }
    }

    /// Sends look-ups and receives answers until all are done and no more will come.
    ///
    /// # Errors
    /// The reason why the stream ended before that.
    async fn go_on(&mut self, call: &mut Call) -> Result<(), Error> {
        let Call { requests, responses, tables } = call;
        let mut taken = Vec::new();
        while !self.is_done() {
            let unsent = self.under_way.len() > self.sent;
            let room = UNDER_WAY_MAX.saturating_sub(self.under_way.len());
            tokio::select! {
                biased;
                response = responses.message() => self.take(response?.ok_or_else(ended)?),
                place = requests.reserve(), if unsent => {
                    let Ok(place) = place else { return Err(why_ended(responses).await) };
                    let mut request = self.request();
                    tables.tell(&self.announced.lock(), &mut request);
                    place.send(request);
                }
                came = self.asks.recv_many(&mut taken, room), if room > 0 && !self.closed => {
                    self.closed = came == 0;
                    self.under_way.extend(taken.drain(..));
                }
            }
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.closed && self.under_way.iter().all(|ask| ask.answer.is_closed())
    }

    /// The next request: unsent look-ups, as many as fit.
    fn request(&mut self) -> SearchRequest {
        let (mut request, mut bytes) = (SearchRequest::default(), 0);
        for ask in self.under_way.range(self.sent..) {
            if bytes >= REQUEST_BYTES {
                break;
            }
            match &ask.wanted {
                // The server reads a message's keys before its ranges, so keys cannot follow a
                // range.
                Wanted::Keys(_) if !request.ranges.is_empty() => break,
                Wanted::Keys(keys) => {
                    bytes += keys.packed.iter().map(Bytes::len).sum::<usize>();
                    request.keys.push(keys.clone());
                }
                Wanted::Range(range) => {
                    bytes += RANGE_BYTES;
                    request.ranges.push(range.clone());
                }
            }
        }
        self.sent += request.keys.len() + request.ranges.len();
        request
    }

    /// Assigns received rows to their look-ups, and completes those that are answered.
    fn take(&mut self, response: SearchResponse) {
        let mut asks = self.under_way.iter_mut().take(self.sent);
        let (mut ask, mut first) = (asks.next(), self.first);
        for mut found in response.found {
            while let Some(passed) = &ask
                && found.index >= first + passed.look_ups()
            {
                first += passed.look_ups();
                ask = asks.next();
            }
            let (Some(ask), Some(index)) = (&mut ask, found.index.checked_sub(first)) else {
                continue;
            };
            if !ask.answer.is_closed() {
                found.index = index;
                ask.found.push(found);
            }
        }
        while self.sent > 0
            && let Some(ask) = self.under_way.front()
            && self.first + ask.look_ups() <= response.answered
            && let Some(ask) = self.under_way.pop_front()
        {
            self.sent -= 1;
            self.first += ask.look_ups();
            self.tries.went_on();
            // The receiver may be gone.
            let _ = ask.answer.send(Ok(ask.found));
        }
    }

    /// Opens a new stream after one that ended, once there is something to ask; `None` if no more
    /// look-ups will come.
    async fn call_behind(&mut self, mut lost: Error) -> Option<Call> {
        loop {
            self.begin_again();
            if self.under_way.is_empty() {
                // The stream ended while idle, so it does not count as a failed try.
                self.tries.went_on();
                let mut taken = Vec::new();
                if self.asks.recv_many(&mut taken, UNDER_WAY_MAX).await == 0 {
                    return None;
                }
                self.under_way.extend(taken);
            } else if let Err(end) = self.tries.wait(lost).await {
                for ask in self.under_way.drain(..) {
                    let _ = ask.answer.send(Err(end.clone()));
                }
                lost = end;
                continue;
            }
            match Call::begin(&self.client).await {
                Ok(call) => return Some(call),
                Err(error) => lost = error,
            }
        }
    }

    /// Resets the look-ups for a new stream, and drops those whose receivers are gone.
    fn begin_again(&mut self) {
        (self.sent, self.first) = (0, 0);
        self.under_way.retain_mut(|ask| {
            ask.found.clear();
            !ask.answer.is_closed()
        });
    }
}
