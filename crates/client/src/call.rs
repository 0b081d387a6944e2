//! One stream of look-ups on one connection.

use thalweg_protocol::v1::{SearchRequest, SearchResponse, Table as Announcement};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::error::ended;
use crate::{Client, Error};

/// Maximum number of requests that wait to be sent.
const REQUESTS_AHEAD: usize = 16;

/// Dropping it ends the stream on the server as well.
pub(crate) struct Call {
    pub(crate) requests: mpsc::Sender<SearchRequest>,
    pub(crate) responses: Streaming<SearchResponse>,
    pub(crate) tables: KnownTables,
}

/// Number of tables that a stream has announced, in the order of their numbers.
#[derive(Default)]
pub(crate) struct KnownTables(usize);

impl Call {
    pub(crate) async fn begin(client: &Client) -> Result<Call, Error> {
        let (requests, waiting) = mpsc::channel(REQUESTS_AHEAD);
        let request = client.call(ReceiverStream::new(waiting));
        let responses = client.records().search(request).await?.into_inner();
        Ok(Call { requests, responses, tables: KnownTables::default() })
    }

    /// Sends a request, together with the tables that the stream does not know yet.
    ///
    /// # Errors
    /// The reason why the stream ended.
    pub(crate) async fn send(
        &mut self,
        announced: &[Announcement],
        mut request: SearchRequest,
    ) -> Result<(), Error> {
        self.tables.tell(announced, &mut request);
        if self.requests.send(request).await.is_err() {
            return Err(why_ended(&mut self.responses).await);
        }
        Ok(())
    }

    /// Waits for the next response.
    ///
    /// # Errors
    /// The reason why the stream ended.
    pub(crate) async fn response(&mut self) -> Result<SearchResponse, Error> {
        self.responses.message().await?.ok_or_else(ended)
    }
}

impl KnownTables {
    /// Adds the tables that the stream does not know yet to a request.
    pub(crate) fn tell(&mut self, announced: &[Announcement], request: &mut SearchRequest) {
        request.tables.extend_from_slice(announced.get(self.0..).unwrap_or_default());
        self.0 = announced.len();
    }
}

/// The reason why a stream accepts no more requests, taken from its response direction.
pub(crate) async fn why_ended(responses: &mut Streaming<SearchResponse>) -> Error {
    responses.message().await.err().map_or_else(ended, Error::from)
}
