//! Look-ups.

use bytes::Bytes;
use thalweg_protocol::v1::{Keys, Range, SearchRequest, SearchResponse, Table as Announcement};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::error::ended;
use crate::{Client, Error};

/// Requests that wait to be sent.
const REQUESTS_AHEAD: usize = 16;

/// A stream of look-ups.
pub struct Searcher {
    requests: mpsc::Sender<SearchRequest>,
    responses: Streaming<SearchResponse>,
    tables: u32,
    announced: Vec<Announcement>,
    /// How many look-ups were asked so far.
    asked: u64,
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
        let (requests, waiting) = mpsc::channel(REQUESTS_AHEAD);
        let request = client.request(ReceiverStream::new(waiting));
        let responses = client.records().search(request).await?.into_inner();
        Ok(Searcher { requests, responses, tables: 0, announced: Vec::new(), asked: 0 })
    }

    /// Announces a table, and the columns that are wanted of its rows: none for all.
    pub fn table(&mut self, name: &str, columns: &[&str]) -> u32 {
        let number = self.tables;
        self.tables += 1;
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
        let (first, count) = (self.asked, keys.len());
        if count == 0 {
            return Ok(Vec::new());
        }
        let packed = keys.into_iter().map(Bytes::from).collect();
        let keys = Keys { table, packed, versions: true, ..Keys::default() };
        self.ask(SearchRequest { keys: vec![keys], ..SearchRequest::default() }, count).await?;
        let mut rows = vec![None; count];
        let mut failed = None;
        self.answers(|response| {
            for found in response.found {
                if let Some(failure) = found.failure {
                    failed.get_or_insert(Error::Refused(Box::new(failure)));
                } else if let Some(packed) = found.packed.into_iter().next() {
                    let version = found.versions.first().copied().unwrap_or_default();
                    rows[(found.index - first) as usize] = Some(FoundRow { packed, version });
                }
            }
        })
        .await?;
        failed.map_or(Ok(rows), Err)
    }

    /// The packed rows of a range of keys, in the order of their keys.
    ///
    /// # Errors
    /// Where the look-up failed, or why the stream ended.
    pub async fn range(&mut self, range: Range) -> Result<Vec<Bytes>, Error> {
        self.ask(SearchRequest { ranges: vec![range], ..SearchRequest::default() }, 1).await?;
        let (mut rows, mut failed) = (Vec::new(), None);
        self.answers(|response| {
            for found in response.found {
                failed = failed.take().or(found.failure);
                rows.extend(found.packed);
            }
        })
        .await?;
        failed.map_or(Ok(rows), |failure| Err(Error::Refused(Box::new(failure))))
    }

    async fn ask(&mut self, mut request: SearchRequest, look_ups: usize) -> Result<(), Error> {
        request.tables = std::mem::take(&mut self.announced);
        self.asked += look_ups as u64;
        match self.requests.send(request).await {
            Ok(()) => Ok(()),
            // Why it ended, the other direction says.
            Err(_) => Err(self.responses.message().await.err().map_or_else(ended, Error::from)),
        }
    }

    /// Takes answers until all that was asked is answered.
    async fn answers(&mut self, mut each: impl FnMut(SearchResponse)) -> Result<(), Error> {
        loop {
            let response = self.responses.message().await?.ok_or_else(ended)?;
            let answered = response.answered;
            each(response);
            if answered >= self.asked {
                return Ok(());
            }
        }
    }
}
