//! Connections.

use std::time::Duration;

use thalweg_protocol::v1::records_client::RecordsClient;
use thalweg_protocol::v1::{DescribeRequest, TableDescription};
use tonic::Request;
use tonic::metadata::MetadataValue;
use tonic::transport::{Channel, ClientTlsConfig, Endpoint};

use crate::{Error, Searcher, Writer};

/// How much the server may send ahead.
const WINDOW_BYTES: u32 = 4 << 20;

/// A server, as its streams see it. Clones share one connection.
#[derive(Clone)]
pub struct Client {
    records: RecordsClient<Channel>,
    authorization: Option<String>,
    deadline: Option<Duration>,
}

/// How to connect.
#[derive(Default)]
pub struct Builder {
    tls: Option<ClientTlsConfig>,
    authorization: Option<String>,
    deadline: Option<Duration>,
    connect_timeout: Option<Duration>,
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

    /// A stream of look-ups.
    ///
    /// # Errors
    /// Where the server does not let the caller in.
    pub async fn searcher(&self) -> Result<Searcher, Error> {
        Searcher::open(self).await
    }

    /// The columns of a table.
    ///
    /// # Errors
    /// Where there is no such table.
    pub async fn describe(&self, table: &str) -> Result<TableDescription, Error> {
        let request = self.request(DescribeRequest { table: table.to_owned() });
        Ok(self.records().describe(request).await?.into_inner())
    }

    /// The generated client, for everything that this one does not do.
    #[must_use]
    pub fn records(&self) -> RecordsClient<Channel> {
        self.records.clone()
    }

    /// A request that says who asks, and how long the answer may take.
    pub fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Some(authorization) = &self.authorization
            && let Ok(value) = MetadataValue::try_from(authorization)
        {
            request.metadata_mut().insert("authorization", value);
        }
        if let Some(deadline) = self.deadline {
            request.set_timeout(deadline);
        }
        request
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

    /// How long each call may take, streams included.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Builder {
        self.deadline = Some(deadline);
        self
    }

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
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(2 * WINDOW_BYTES);
        if let Some(tls) = self.tls {
            endpoint = endpoint.tls_config(tls)?;
        }
        if let Some(timeout) = self.connect_timeout {
            endpoint = endpoint.connect_timeout(timeout);
        }
        let records = RecordsClient::new(endpoint.connect().await?);
        Ok(Client { records, authorization: self.authorization, deadline: self.deadline })
    }
}
