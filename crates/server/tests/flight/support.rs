//! A server and clients of it.

use arrow::array::{Array, RecordBatch};
use arrow_flight::FlightInfo;
use arrow_flight::error::FlightError;
use arrow_flight::sql::client::FlightSqlServiceClient;
use futures::TryStreamExt;
use thalweg_formats::text::format_value;
use thalweg_query::Database;
use thalweg_server::{Server, ServerConfig};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

pub type Client = FlightSqlServiceClient<Channel>;

pub fn config() -> ServerConfig {
    let mut config = ServerConfig::default();
    config.listen.grpc_port = 0;
    config.listen.postgres_port = 0;
    config.listen.http_port = 0;
    config
}

pub async fn server() -> Server {
    Server::start(config(), Database::in_memory().unwrap()).await.unwrap()
}

/// A client whose calls are each on their own.
pub async fn client(server: &Server) -> Client {
    let endpoint = Endpoint::from_shared(format!("http://{}", server.addresses().grpc)).unwrap();
    FlightSqlServiceClient::new(endpoint.connect().await.unwrap())
}

/// A client with a connection.
pub async fn connected(server: &Server) -> Client {
    let mut client = client(server).await;
    client.handshake("thalweg", "any").await.unwrap();
    client
}

pub async fn fetch(client: &mut Client, info: FlightInfo) -> Result<Vec<RecordBatch>, FlightError> {
    let schema = info.clone().try_decode_schema()?;
    let mut batches = Vec::new();
    for endpoint in info.endpoint {
        let ticket = endpoint.ticket.expect("an endpoint has a ticket");
        let rows = client.do_get(ticket).await?;
        let fetched: Vec<RecordBatch> = rows.try_collect().await?;
        for batch in &fetched {
            assert_eq!(*batch.schema(), schema, "what was promised is what is sent");
        }
        batches.extend(fetched);
    }
    Ok(batches)
}

pub async fn query(client: &mut Client, sql: &str) -> Result<Vec<RecordBatch>, FlightError> {
    let info = client.execute(sql.to_owned(), None).await?;
    fetch(client, info).await
}

/// The rows of a query as text, `a|b` each.
pub async fn rows(client: &mut Client, sql: &str) -> Vec<String> {
    lines(&query(client, sql).await.unwrap())
}

pub async fn update(client: &mut Client, sql: &str) -> i64 {
    client.execute_update(sql.to_owned(), None).await.unwrap()
}

pub fn lines(batches: &[RecordBatch]) -> Vec<String> {
    let mut lines = Vec::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            let values = batch.columns().iter().map(|column| {
                let mut text = String::new();
                match column.is_null(row) {
                    true => text.push_str("NULL"),
                    false => format_value(column, row, &mut text).unwrap(),
                }
                text
            });
            lines.push(values.collect::<Vec<_>>().join("|"));
        }
    }
    lines
}

/// What gRPC said.
pub fn refusal(error: impl Into<FlightError>) -> Status {
    match error.into() {
        FlightError::Tonic(status) => *status,
        other => panic!("{other}"),
    }
}

/// gRPC's code and the SQLSTATE.
pub fn codes(status: &Status) -> (Code, String) {
    let sqlstate = status.metadata().get("sqlstate").expect("errors have a SQLSTATE");
    (status.code(), sqlstate.to_str().unwrap().to_owned())
}
