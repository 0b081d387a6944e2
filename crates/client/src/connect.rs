//! Connections.

use std::time::Duration;

use thalweg_protocol::v1::records_client::RecordsClient;
use thalweg_protocol::v1::{DescribeRequest, TableDescription};
use tokio::time::Instant;
use tonic::Request;
use tonic::metadata::MetadataValue;
use tonic::transport::{Channel, ClientTlsConfig, Endpoint};

use crate::retry::{Tries, within};
use crate::{Error, PipelinedSearcher, Retries, Searcher, Writer};

/// How much the server may send ahead on each stream. What nobody takes counts for the connection,
/// too: that has room for hundreds of such streams, so that they do not keep others waiting.
const WINDOW_BYTES: u32 = 4 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 1 << 30;
/// A server that is gone without a word is noticed: it is asked so often whether it is there, and
/// has so long to answer.
const KEEPALIVE_EVERY: Duration = Duration::from_secs(20);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// A server, as its streams see it. Clones share one connection, which is made anew when it is
/// needed after it broke.
#[derive(Clone)]
pub struct Client {
    records: RecordsClient<Channel>,
    authorization: Option<String>,
    deadline: Option<Duration>,
    retries: Retries,
}

/// How to connect.
#[derive(Default)]
pub struct Builder {
    tls: Option<ClientTlsConfig>,
    authorization: Option<String>,
    deadline: Option<Duration>,
    connect_timeout: Option<Duration>,
    retries: Retries,
}

impl Client {
    /// Connects to a server at `http://address:port`, or with `https` and the roots of trust that
    /// [`Builder::tls`] names.
    ///
    /// # Errors
    /// Where nobody is there.
    pub async fn connect(url: &str) -> Result<Client, Error> {
        Client::builder().connect(url).await
    }

    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// A stream of rows to be written.
    ///
    /// # Errors
    /// Where the server does not let the caller in.
    pub async fn writer(&self) -> Result<Writer, Error> {
        Writer::open(self).await
    }

    /// A stream of rows that outlives its connection. When that is lost, it is made anew, and what
    /// was sent and not acknowledged is sent again: upserts and removals without an expected
    /// version, and atomic groups of such upserts. They end up the same when they are written
    /// twice, as long as nobody else writes rows of these keys meanwhile; whoever looks may see an
    /// older value of this writer's for a moment. The server takes nothing more from the old stream
    /// before the new one begins.
    ///
    /// Creations, updates and whatever expects a version might be refused the second time for
    /// having been written the first time. Where one of those was under way, the stream ends with
    /// the loss, as that of [`writer`](Client::writer) does.
    ///
    /// A removal that is sent again and finds no row counts as written.
    ///
    /// # Errors
    /// Where the server does not let the caller in, or cannot be reached.
    pub async fn resending_writer(&self) -> Result<Writer, Error> {
        Writer::open_resending(self).await
    }

    /// A stream of look-ups. After a lost connection they are asked again.
    ///
    /// # Errors
    /// Where the server does not let the caller in, or cannot be reached.
    pub async fn searcher(&self) -> Result<Searcher, Error> {
        Searcher::open(self).await
    }

    /// A stream of look-ups of which many are under way at once: for many tasks, or for one that
    /// has much to ask. After a lost connection they are asked again.
    ///
    /// # Errors
    /// Where the server does not let the caller in, or cannot be reached.
    pub async fn pipelined_searcher(&self) -> Result<PipelinedSearcher, Error> {
        PipelinedSearcher::open(self).await
    }

    /// The columns of a table.
    ///
    /// # Errors
    /// Where there is no such table.
    pub async fn describe(&self, table: &str) -> Result<TableDescription, Error> {
        let until = self.until();
        let mut tries = Tries::new(self.retries, until);
        loop {
            let request = self.call(DescribeRequest { table: table.to_owned() });
            let described = async { Ok(self.records().describe(request).await?.into_inner()) };
            match within(until, described).await {
                Ok(described) => return Ok(described),
                Err(error) => tries.wait(error).await?,
            }
        }
    }

    /// The generated client, for everything that this one does not do.
    #[must_use]
    pub fn records(&self) -> RecordsClient<Channel> {
        self.records.clone()
    }

    /// A request of the generated client's that says who asks, and how long the answer may take to
    /// begin.
    pub fn request<T>(&self, message: T) -> Request<T> {
        let mut request = self.call(message);
        if let Some(deadline) = self.deadline {
            request.set_timeout(deadline);
        }
        request
    }

    /// A request that says who asks.
    pub(crate) fn call<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Some(authorization) = &self.authorization
            && let Ok(value) = MetadataValue::try_from(authorization)
        {
            request.metadata_mut().insert("authorization", value);
        }
        request
    }

    /// When what begins now must have ended.
    pub(crate) fn until(&self) -> Option<Instant> {
        self.deadline.and_then(|deadline| Instant::now().checked_add(deadline))
    }

    pub(crate) fn retries(&self) -> Retries {
        self.retries
    }
}

impl Builder {
    /// Trusts what this says, for an `https` address.
    #[must_use]
    pub fn tls(mut self, tls: ClientTlsConfig) -> Builder {
        self.tls = Some(tls);
        self
    }

    /// Shows a token, as a login over Flight SQL or HTTP gives one.
    #[must_use]
    pub fn token(mut self, token: &str) -> Builder {
        self.authorization = Some(format!("Bearer {token}"));
        self
    }

    /// Shows a user and a password, in base64 as HTTP's `Basic` has them.
    #[must_use]
    pub fn basic(mut self, user_and_password: &str) -> Builder {
        self.authorization = Some(format!("Basic {user_and_password}"));
        self
    }

    /// How long things may take, and be tried again: a look-up or a description, and a stream of
    /// rows, written or found, from its first to its last.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Builder {
        self.deadline = Some(deadline);
        self
    }

    /// How often what may be done twice is tried again after a lost connection: look-ups,
    /// descriptions, and streams of [`Client::resending_writer`]. What was tried long enough ends
    /// with the loss.
    #[must_use]
    pub fn retries(mut self, retries: Retries) -> Builder {
        self.retries = retries;
        self
    }

    /// How long a connection may take to be made.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Builder {
        self.connect_timeout = Some(timeout);
        self
    }

    /// # Errors
    /// Where nobody is there, or is not who they should be.
    pub async fn connect(self, url: &str) -> Result<Client, Error> {
        let mut endpoint = Endpoint::from_shared(url.to_owned())?
            .tcp_nodelay(true)
            .http2_keep_alive_interval(KEEPALIVE_EVERY)
            .keep_alive_timeout(KEEPALIVE_TIMEOUT)
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES);
        if let Some(tls) = self.tls {
            endpoint = endpoint.tls_config(tls)?;
        }
        if let Some(timeout) = self.connect_timeout {
            endpoint = endpoint.connect_timeout(timeout);
        }
        let records = RecordsClient::new(endpoint.connect().await?);
        Ok(Client {
            records,
            authorization: self.authorization,
            deadline: self.deadline,
            retries: self.retries,
        })
    }
}
