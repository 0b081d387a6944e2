//! A server's gRPC port, as a client of Flight SQL uses it.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Schema};
use arrow_flight::error::FlightError;
use arrow_flight::sql::client::FlightSqlServiceClient;
use async_trait::async_trait;
use futures::TryStreamExt;
use sqllogictest::{AsyncDB, DBOutput, DefaultColumnType};
use thalweg_formats::text::ValueFormatter;
use thalweg_query::Database;
use thalweg_server::{Server, ServerConfig};
use thalweg_types::{Error, Part, Result, SqlState, Subject};
use tonic::Status;
use tonic::transport::{Channel, Endpoint};

use crate::route::{Refusal, Route};

type Output = DBOutput<DefaultColumnType>;

pub struct OverFlight {
    server: Server,
    database: Database,
}

impl OverFlight {
    /// A server over a database.
    pub async fn over(database: Database) -> Result<Arc<OverFlight>> {
        let mut config = ServerConfig::default();
        config.listen.grpc_port = 0;
        config.listen.postgres_port = 0;
        config.listen.http_port = 0;
        let server = Server::start(config, database.clone()).await?;
        Ok(Arc::new(OverFlight { server, database }))
    }
}

#[async_trait]
impl Route for OverFlight {
    type Connection = Connection;

    async fn connect(self: Arc<Self>) -> Result<Connection, Refusal> {
        let address = format!("http://{}", self.server.addresses().grpc);
        let endpoint = Endpoint::from_shared(address).expect("an address is a URI");
        let channel = endpoint.connect().await.map_err(|error| broken(&error))?;
        let mut client = FlightSqlServiceClient::new(channel);
        client.handshake("thalweg", "").await.map_err(|error| broken(&error))?;
        Ok(Connection { route: self, client })
    }

    /// The database lies in memory.
    async fn restart(&self) -> Result<(), Refusal> {
        Ok(())
    }
}

pub struct Connection {
    route: Arc<OverFlight>,
    client: FlightSqlServiceClient<Channel>,
}

impl Connection {
    async fn answer(&mut self, sql: &str) -> Result<Output> {
        let mut output = DBOutput::StatementComplete(0);
        for statement in self.route.database.session().parse(sql)? {
            output = self.answer_one(statement.text).await.map_err(|error| refusal(&error))?;
        }
        Ok(output)
    }

    async fn answer_one(&mut self, sql: String) -> Result<Output, FlightError> {
        let info = self.client.execute(sql, None).await?;
        let changed = info.total_records;
        let ticket = info.endpoint[0].ticket.clone().expect("an endpoint has a ticket");
        let schema = info.try_decode_schema()?;
        let stream = self.client.do_get(ticket).await?;
        let batches: Vec<RecordBatch> = stream.try_collect().await?;
        if let Ok(changed) = u64::try_from(changed) {
            return Ok(DBOutput::StatementComplete(changed));
        }
        let rows = batches.iter().flat_map(rows_of).collect();
        Ok(DBOutput::Rows { types: column_types(&schema), rows })
    }
}

#[async_trait]
impl AsyncDB for Connection {
    type Error = Refusal;
    type ColumnType = DefaultColumnType;

    async fn run(&mut self, sql: &str) -> Result<Output, Refusal> {
        self.answer(sql).await.map_err(Refusal)
    }

    async fn shutdown(&mut self) {}

    fn engine_name(&self) -> &str {
        "thalweg"
    }

    fn error_sql_state(refusal: &Refusal) -> Option<String> {
        Some(refusal.state())
    }
}

fn rows_of(batch: &RecordBatch) -> Vec<Vec<String>> {
    let columns: Vec<ValueFormatter> =
        batch.columns().iter().map(|column| ValueFormatter::new(column).unwrap()).collect();
    let value = |column: &ValueFormatter, row: usize| {
        if column.is_null(row) {
            return "NULL".to_owned();
        }
        let mut text = String::new();
        column.format(row, &mut text);
        if text.is_empty() { "(empty)".to_owned() } else { text.replace('\n', "\\n") }
    };
    let row = |row| columns.iter().map(|column| value(column, row)).collect();
    (0..batch.num_rows()).map(row).collect()
}

fn column_types(schema: &Schema) -> Vec<DefaultColumnType> {
    let kind = |data_type: &DataType| match data_type {
        DataType::Utf8 => DefaultColumnType::Text,
        integer if integer.is_integer() => DefaultColumnType::Integer,
        number if number.is_numeric() => DefaultColumnType::FloatingPoint,
        _ => DefaultColumnType::Any,
    };
    schema.fields().iter().map(|field| kind(field.data_type())).collect()
}

/// The error that the server sent, put together again.
fn refusal(error: &FlightError) -> Error {
    let FlightError::Tonic(status) = error else { return broken(error).0 };
    let Some(state) = status.metadata().get("sqlstate") else { return broken(error).0 };
    let state = state.to_str().expect("a SQLSTATE is text").to_owned();
    let message = field(status, "message").unwrap_or_default();
    let mut error = Error::new(SqlState(state.leak()), message);
    if let Some(detail) = field(status, "detail") {
        error = error.with_detail(detail);
    }
    if let Some(hint) = field(status, "hint") {
        error = error.with_hint(hint);
    }
    match subject(status) {
        Some(subject) => error.with_subject(subject),
        None => error,
    }
}

/// What the error is about, out of fields of their own.
fn subject(status: &Status) -> Option<Subject> {
    let constraint = field(status, "constraint").map(Part::Constraint);
    let part = constraint.or_else(|| field(status, "column").map(Part::Column))?;
    Some(Subject { schema: field(status, "schema")?, table: field(status, "table")?, part })
}

fn field(status: &Status, name: &str) -> Option<String> {
    let value = status.metadata().get_bin(format!("error-{name}-bin"))?;
    let bytes = value.to_bytes().expect("fields are bytes");
    Some(String::from_utf8(bytes.to_vec()).expect("fields are UTF-8"))
}

fn broken(error: &dyn std::error::Error) -> Refusal {
    Refusal(Error::new(SqlState::CONNECTION_FAILURE, error.to_string()))
}
