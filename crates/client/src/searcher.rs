//! Look-ups.

use bytes::Bytes;
use thalweg_protocol::v1::{
    Found, Keys, Range, SearchRequest, SearchResponse, Table as Announcement,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::error::ended;
use crate::retry::{Tries, within};
use crate::{Client, Error};

/// Requests that wait to be sent.
const REQUESTS_AHEAD: usize = 16;

/// A stream of look-ups. What was asked when the connection broke is asked again, on another
/// stream.
pub struct Searcher {
    client: Client,
    announced: Vec<Announcement>,
    /// `None` where the next look-up begins one.
    call: Option<Call>,
}

/// A row that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundRow {
    pub packed: Bytes,
    /// Changes when the row does: what a later write may expect.
    pub version: u64,
}

impl Searcher {
    pub(crate) async fn open(client: &Client) -> Result<Searcher, Error> {
        let mut searcher = Searcher { client: client.clone(), announced: Vec::new(), call: None };
        // Nothing is asked: it only opens the stream.
        searcher.ask(SearchRequest::default(), 0).await?;
        Ok(searcher)
    }

    /// Announces a table, and the columns that are wanted of its rows: none for all.
    pub fn table(&mut self, name: &str, columns: &[&str]) -> u32 {
        let number = self.announced.len() as u32;
        let columns = columns.iter().map(|column| (*column).to_owned()).collect();
        self.announced.push(Announcement { number, name: name.to_owned(), columns });
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
        let packed = keys.into_iter().map(Bytes::from).collect();
        let keys = Keys { table, packed, versions: true, ..Keys::default() };
        let request = SearchRequest { keys: vec![keys], ..SearchRequest::default() };
        let mut rows = vec![None; count];
        for found in self.ask(request, count).await? {
            if let Some(failure) = found.failure {
                return Err(Error::Refused(Box::new(failure)));
            }
            let version = found.versions.first().copied().unwrap_or_default();
            let place = rows.get_mut(usize::try_from(found.index).unwrap_or(usize::MAX));
            if let (Some(row), Some(packed)) = (place, found.packed.into_iter().next()) {
                *row = Some(FoundRow { packed, version });
            }
        }
        Ok(rows)
    }

    /// The packed rows of a range of keys, in the order of their keys.
    ///
    /// # Errors
    /// Where the look-up failed, or why the stream ended.
    pub async fn range(&mut self, range: Range) -> Result<Vec<Bytes>, Error> {
        let request = SearchRequest { ranges: vec![range], ..SearchRequest::default() };
        let mut rows = Vec::new();
        for found in self.ask(request, 1).await? {
            if let Some(failure) = found.failure {
                return Err(Error::Refused(Box::new(failure)));
            }
            rows.extend(found.packed);
        }
        Ok(rows)
    }

    /// Asks, as often as it takes; returns what was found by its place in the request.
    async fn ask(&mut self, request: SearchRequest, look_ups: usize) -> Result<Vec<Found>, Error> {
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
        look_ups: usize,
    ) -> Result<Vec<Found>, Error> {
        // Who fails, or is dropped halfway, leaves no stream behind: answers may be missing on it.
        let mut call = match self.call.take() {
            Some(call) => call,
            None => Call::begin(&self.client).await?,
        };
        let found = call.ask(&self.announced, request, look_ups).await?;
        self.call = Some(call);
        Ok(found)
    }
}

/// One stream.
struct Call {
    requests: mpsc::Sender<SearchRequest>,
    responses: Streaming<SearchResponse>,
    /// How many tables were announced on it.
    tables: usize,
    /// How many look-ups were asked on it.
    asked: u64,
}

impl Call {
    async fn begin(client: &Client) -> Result<Call, Error> {
        let (requests, waiting) = mpsc::channel(REQUESTS_AHEAD);
        let request = client.call(ReceiverStream::new(waiting));
        let responses = client.records().search(request).await?.into_inner();
        Ok(Call { requests, responses, tables: 0, asked: 0 })
    }

    async fn ask(
        &mut self,
        announced: &[Announcement],
        mut request: SearchRequest,
        look_ups: usize,
    ) -> Result<Vec<Found>, Error> {
        if look_ups == 0 {
            return Ok(Vec::new());
        }
        request.tables.extend_from_slice(announced.get(self.tables..).unwrap_or_default());
        self.tables = announced.len();
        let first = self.asked;
        self.asked += look_ups as u64;
        if self.requests.send(request).await.is_err() {
            // Why it ended, the other direction says.
            return Err(self.responses.message().await.err().map_or_else(ended, Error::from));
        }
        let mut found = Vec::new();
        loop {
            let response = self.responses.message().await?.ok_or_else(ended)?;
            found.extend(response.found.into_iter().map(|mut found| {
                found.index = found.index.saturating_sub(first);
                found
            }));
            if response.answered >= self.asked {
                return Ok(found);
            }
        }
    }
}
