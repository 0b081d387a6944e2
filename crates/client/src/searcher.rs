//! Look-ups, one at a time.

use bytes::Bytes;
use thalweg_protocol::v1::{Found, Range, SearchRequest, Table as Announcement};

use crate::call::Call;
use crate::found::{announcement, by_keys, in_range, versioned};
use crate::retry::{Tries, within};
use crate::rows::{Rows, rows_in_range, rows_of_keys};
use crate::{Client, Error, FoundRow};

/// A stream of look-ups. A look-up interrupted by a lost connection is repeated on a new stream.
pub struct Searcher {
    client: Client,
    announced: Vec<Announcement>,
    /// `None` if the next look-up must open a stream.
    call: Option<Call>,
    /// Number of look-ups sent on the current stream.
    asked: u64,
}

impl Searcher {
    pub(crate) async fn open(client: &Client) -> Result<Searcher, Error> {
        let announced = Vec::new();
        let mut searcher = Searcher { client: client.clone(), announced, call: None, asked: 0 };
        // The empty request only opens the stream, which checks the credentials.
        searcher.ask(SearchRequest::default(), 0).await?;
        Ok(searcher)
    }

    /// Announces a table with the columns to return; an empty list means all. Returns the table's
    /// number for look-ups.
    pub fn table(&mut self, name: &str, columns: &[&str]) -> u32 {
        let number = self.announced.len() as u32;
        self.announced.push(announcement(number, name, columns));
        number
    }

    /// The rows of packed keys, in the order of the keys; `None` for a key without a row.
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

    /// The packed rows of a range of keys, in the order of their keys, collected.
    ///
    /// # Errors
    /// If the look-up failed, or the reason why the stream ended.
    pub async fn range(&mut self, range: Range) -> Result<Vec<Bytes>, Error> {
        let request = SearchRequest { ranges: vec![range], ..SearchRequest::default() };
        in_range(self.ask(request, 1).await?)
    }

    /// The packed rows of a range of keys, in the order of their keys, as a stream. It has a call
    /// of its own, so that other look-ups are not delayed; see [`Rows`].
    ///
    /// If the connection is lost before the first row, the range is requested again. After the
    /// first row it is not, since the range may have changed; the loss is then the last item.
    pub fn stream_range(&self, range: Range) -> Rows<Bytes> {
        rows_in_range(&self.client, self.announced(range.table), range)
    }

    /// The rows of packed keys, in the order of the keys, as a stream; `None` for a key without a
    /// row. It has a call of its own, so that other look-ups are not delayed; see [`Rows`].
    ///
    /// Any number of keys is allowed. They are sent in parts, and each part is read from a later
    /// snapshot than those before. After a lost connection, keys whose rows were not returned yet
    /// are sent again. The first look-up that fails is the last item.
    pub fn stream_look_up(&self, table: u32, keys: Vec<Vec<u8>>) -> Rows<Option<FoundRow>> {
        rows_of_keys(&self.client, self.announced(table), table, keys)
    }

    fn announced(&self, table: u32) -> Option<Announcement> {
        self.announced.get(table as usize).cloned()
    }

    /// Sends a request, with retries. The answers' indexes are positions in the request.
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
        // If this call fails or is dropped, the stream is dropped as well, since some answers would
        // be missing from it.
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
