//! Connections to a server.

use std::time::Duration;

use thalweg_protocol::v1::records_client::RecordsClient;
use thalweg_protocol::v1::{DescribeRequest, TableDescription};
use tokio::time::Instant;
use tonic::Request;
use tonic::metadata::MetadataValue;
use tonic::transport::{Channel, ClientTlsConfig, Endpoint};

use crate::retry::{Tries, within};
use crate::{Error, PipelinedSearcher, Retries, Searcher, Writer};

/// Flow-control window of a stream: the bytes that the server may send ahead. Untaken bytes also
/// count against the connection's window, which has room for hundreds of such streams, so that a
/// slow reader does not block the others.
const WINDOW_BYTES: u32 = 4 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 1 << 30;
/// Interval and timeout of pings, which detect a server that vanished.
const KEEPALIVE_EVERY: Duration = Duration::from_secs(20);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// A connection to a server. Clones share it. A broken connection is established again when it is
/// next needed.
#[derive(Clone)]
pub struct Client {
    records: RecordsClient<Channel>,
    authorization: Option<String>,
    deadline: Option<Duration>,
    retries: Retries,
}

/// Options of a connection.
#[derive(Default)]
pub struct Builder {
    tls: Option<ClientTlsConfig>,
    authorization: Option<String>,
    deadline: Option<Duration>,
    connect_timeout: Option<Duration>,
    retries: Retries,
}

impl Client {
    /// Connects to a server at `http://address:port`. For `https`, use a builder with
    /// [`Builder::tls`].
    ///
    /// # Errors
    /// If the server cannot be reached.
    pub async fn connect(url: &str) -> Result<Client, Error> {
        Client::builder().connect(url).await
    }

    /// A builder with the default options: no TLS, no credentials, no deadline.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Opens a stream of rows to write.
    ///
    /// # Errors
    /// If the server refuses the caller or cannot be reached.
    pub async fn writer(&self) -> Result<Writer, Error> {
        Writer::open(self).await
    }

    /// Opens a stream of rows that survives a lost connection. The writer reconnects and resends
    /// unacknowledged rows, provided that all of them may be written twice: upserts and removals
    /// without an expected version, and atomic groups of such upserts. Writing them twice has the
    /// same result as writing them once, as long as no other client writes rows of these keys
    /// meanwhile. Readers may briefly see an older value of this writer. The server accepts nothing
    /// more from the old stream before the new one begins.
    ///
    /// Creations, updates and changes with an expected version could fail the second time because
    /// they succeeded the first time. If one of them was unacknowledged, the stream ends with the
    /// loss, like that of [`writer`](Client::writer).
    ///
    /// A resent removal that finds no row counts as written.
    ///
    /// # Errors
    /// If the server refuses the caller or cannot be reached.
    pub async fn resending_writer(&self) -> Result<Writer, Error> {
        Writer::open_resending(self).await
    }

    /// Opens a stream of look-ups. After a lost connection they are repeated.
    ///
    /// # Errors
    /// If the server refuses the caller or cannot be reached.
    pub async fn searcher(&self) -> Result<Searcher, Error> {
        Searcher::open(self).await
    }

    /// Opens a stream with many look-ups in flight, shared by many tasks or used by one task with
    /// many look-ups. After a lost connection they are repeated.
    ///
    /// # Errors
    /// If the server refuses the caller or cannot be reached.
    pub async fn pipelined_searcher(&self) -> Result<PipelinedSearcher, Error> {
        PipelinedSearcher::open(self).await
    }

    /// The columns and key of a table. The request is repeated after a lost connection.
    ///
    /// # Errors
    /// If the table does not exist or the server cannot be reached.
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

    /// The generated client, for calls that this one does not support.
    #[must_use]
    pub fn records(&self) -> RecordsClient<Channel> {
        self.records.clone()
    }

    /// A request for the generated client, with the credentials and with a timeout for the start of
    /// the answer.
    pub fn request<T>(&self, message: T) -> Request<T> {
        let mut request = self.call(message);
        if let Some(deadline) = self.deadline {
            request.set_timeout(deadline);
        }
        request
    }

    /// A request with the credentials.
    pub(crate) fn call<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Some(authorization) = &self.authorization
            && let Ok(value) = MetadataValue::try_from(authorization)
        {
            request.metadata_mut().insert("authorization", value);
        }
        request
    }

    /// The deadline of a call that begins now.
    pub(crate) fn until(&self) -> Option<Instant> {
        self.deadline.and_then(|deadline| Instant::now().checked_add(deadline))
    }

    pub(crate) fn retries(&self) -> Retries {
        self.retries
    }
}

impl Builder {
    /// Sets the roots of trust and other TLS options for an `https` address.
    #[must_use]
    pub fn tls(mut self, tls: ClientTlsConfig) -> Builder {
        self.tls = Some(tls);
        self
    }

    /// Authenticates with a token, as issued by a Flight SQL handshake.
    #[must_use]
    pub fn token(mut self, token: &str) -> Builder {
        self.authorization = Some(format!("Bearer {token}"));
        self
    }

    /// Authenticates with a user and a password, given as the base64 text of HTTP's `Basic` scheme.
    #[must_use]
    pub fn basic(mut self, user_and_password: &str) -> Builder {
        self.authorization = Some(format!("Basic {user_and_password}"));
        self
    }

    /// Sets the maximum time of a call, including its retries: of a look-up or description, or of a
    /// whole stream of rows from the first to the last.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Builder {
        self.deadline = Some(deadline);
        self
    }

    /// Sets the retries after a lost connection. They apply to idempotent calls: look-ups,
    /// descriptions, and streams of [`Client::resending_writer`]. After the last retry the call
    /// fails with the loss.
    #[must_use]
    pub fn retries(mut self, retries: Retries) -> Builder {
        self.retries = retries;
        self
    }

    /// Sets the maximum time for establishing a connection.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Builder {
        self.connect_timeout = Some(timeout);
        self
    }

    /// Connects to a server at `http://address:port` or `https://address:port`.
    ///
    /// # Errors
    /// If the address is invalid, the server cannot be reached, or its certificate is not trusted.
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
