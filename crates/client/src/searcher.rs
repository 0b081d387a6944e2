//! Look-ups, one at a time.

use bytes::Bytes;
use thalweg_protocol::v1::{Found, Range, SearchRequest, Table as Announcement};

use crate::call::Call;
use crate::found::{announcement, by_keys, in_range, versioned};
use crate::retry::{Tries, within};
use crate::rows::{Rows, rows_in_range, rows_of_keys};
use crate::{Client, Error, FoundRow};

/// A stream of look-ups. What was asked when the connection broke is asked again, on another
/// stream.
pub struct Searcher {
    client: Client,
    announced: Vec<Announcement>,
    /// `None` where the next look-up begins one.
    call: Option<Call>,
    /// How many look-ups were asked on it.
    asked: u64,
}

impl Searcher {
    pub(crate) async fn open(client: &Client) -> Result<Searcher, Error> {
        let announced = Vec::new();
        let mut searcher = Searcher { client: client.clone(), announced, call: None, asked: 0 };
        // Nothing is asked: it only opens the stream.
        searcher.ask(SearchRequest::default(), 0).await?;
        Ok(searcher)
    }

    /// Announces a table, and the columns that are wanted of its rows: none for all.
    pub fn table(&mut self, name: &str, columns: &[&str]) -> u32 {
        let number = self.announced.len() as u32;
        self.announced.push(announcement(number, name, columns));
        number
    }

    /// The rows of packed keys, in their order; `None` for a key that no row has.
    ///
    /// # Errors
    /// The first look-up that failed, or why the stream ended.
    pub async fn look_up(
        &mut self,
        table: u32,
        keys: Vec<Vec<u8>>,
    ) -> Result<Vec<Option<FoundRow>>, Error> {
        let count = keys.len();
        if count == 0 {
            return Ok(Vec::new());
        }
        let keys = versioned(table, keys.into_iter().map(Bytes::from).collect());
        let request = SearchRequest { keys: vec![keys], ..SearchRequest::default() };
        by_keys(self.ask(request, count as u64).await?, count)
    }

    /// The packed rows of a range of keys, in the order of their keys, all at once.
    ///
    /// # Errors
    /// Where the look-up failed, or why the stream ended.
    pub async fn range(&mut self, range: Range) -> Result<Vec<Bytes>, Error> {
        let request = SearchRequest { ranges: vec![range], ..SearchRequest::default() };
        in_range(self.ask(request, 1).await?)
    }

    /// The packed rows of a range of keys, in the order of their keys, as they come. They have a
    /// call of their own, so that others go on beside them; see [`Rows`].
    ///
    /// Where the connection is lost before the first row, the range is asked again. Behind that it
    /// is not, as its rows may be others by then: the loss is the last item.
    pub fn stream_range(&self, range: Range) -> Rows<Bytes> {
        rows_in_range(&self.client, self.announced(range.table), range)
    }

    /// The rows of packed keys, in their order, as they come: `None` for a key that no row has.
    /// They have a call of their own, so that others go on beside them; see [`Rows`].
    ///
    /// There may be any number of keys, which go in parts: each is looked up in a later snapshot
    /// than those before. Where the connection is lost, those are asked again whose rows were not
    /// handed on. The first look-up that fails is the last item.
    pub fn stream_look_up(&self, table: u32, keys: Vec<Vec<u8>>) -> Rows<Option<FoundRow>> {
        rows_of_keys(&self.client, self.announced(table), table, keys)
    }

    fn announced(&self, table: u32) -> Option<Announcement> {
        self.announced.get(table as usize).cloned()
    }

    /// Asks, as often as it takes; returns what was found by its place in the request.
    async fn ask(&mut self, request: SearchRequest, look_ups: u64) -> Result<Vec<Found>, Error> {
        let until = self.client.until();
        let mut tries = Tries::new(self.client.retries(), until);
        loop {
            match within(until, self.ask_once(request.clone(), look_ups)).await {
                Ok(found) => return Ok(found),
                Err(error) => tries.wait(error).await?,
            }
        }
    }

    async fn ask_once(
        &mut self,
        request: SearchRequest,
        look_ups: u64,
    ) -> Result<Vec<Found>, Error> {
        // Who fails, or is dropped halfway, leaves no stream behind: answers may be missing on it.
        let mut call = if let Some(call) = self.call.take() {
            call
        } else {
            self.asked = 0;
            Call::begin(&self.client).await?
        };
        let mut found = Vec::new();
        if look_ups > 0 {
            call.send(&self.announced, request).await?;
            let first = self.asked;
            self.asked += look_ups;
            let mut answered = 0;
            while answered < self.asked {
                let response = call.response().await?;
                found.extend(response.found.into_iter().map(|mut found| {
                    found.index = found.index.saturating_sub(first);
                    found
                }));
                answered = response.answered;
            }
        }
        self.call = Some(call);
        Ok(found)
    }
}
