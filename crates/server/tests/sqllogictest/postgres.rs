//! A server's PostgreSQL port, as a PostgreSQL driver uses it.

use std::sync::Arc;

use async_trait::async_trait;
use sqllogictest::{AsyncDB, DBOutput, DefaultColumnType};
use thalweg_query::Database;
use thalweg_server::{Server, ServerConfig};
use thalweg_types::{Error, Part, Result, SqlState, Subject};
use tokio_postgres::error::DbError;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage, SimpleQueryRow};

use crate::route::{Refusal, Route};

type Output = DBOutput<DefaultColumnType>;

pub struct Postgres {
    server: Server,
}

impl Postgres {
    /// A server over a database.
    pub async fn over(database: Database) -> Result<Arc<Postgres>> {
        let mut config = ServerConfig::default();
        config.listen.postgres_port = 0;
        config.listen.grpc_port = 0;
        config.listen.http_port = 0;
        let server = Server::start(config, database).await?;
        Ok(Arc::new(Postgres { server }))
    }
}

#[async_trait]
impl Route for Postgres {
    type Connection = Connection;

    async fn connect(self: Arc<Self>) -> Result<Connection, Refusal> {
        let address = self.server.addresses().postgres;
        let config = format!("host={} port={} user=thalweg", address.ip(), address.port());
        let (client, connection) =
            tokio_postgres::connect(&config, NoTls).await.map_err(|error| refusal(&error))?;
        tokio::spawn(connection);
        Ok(Connection { client, _route: self })
    }

    async fn restart(&self) -> Result<(), Refusal> {
        Ok(())
    }
}

pub struct Connection {
    client: Client,
    /// The server runs as long as somebody is connected.
    _route: Arc<Postgres>,
}

#[async_trait]
impl AsyncDB for Connection {
    type Error = Refusal;
    type ColumnType = DefaultColumnType;

    /// Described by the extended protocol, run by the simple one: both must say the same.
    async fn run(&mut self, sql: &str) -> Result<Output, Refusal> {
        let described = match self.client.prepare(sql).await {
            Ok(prepared) => {
                Some(prepared.columns().iter().map(|c| kind(c.type_())).collect::<Vec<_>>())
            }
            // Several statements, which only the simple protocol takes.
            Err(error) if text_of(&error).contains("multiple commands") => None,
            Err(error) => return Err(refusal(&error)),
        };
        let messages = self.client.simple_query(sql).await.map_err(|error| refusal(&error))?;
        let mut complete = 0;
        let mut rows = Vec::new();
        let mut columns = None;
        for message in messages {
            match message {
                SimpleQueryMessage::Row(row) => rows.push(values(&row)),
                SimpleQueryMessage::CommandComplete(count) => complete = count,
                SimpleQueryMessage::RowDescription(names) => columns = Some(names.len()),
                _ => {}
            }
        }
        Ok(match columns {
            None => DBOutput::StatementComplete(complete),
            Some(columns) => {
                let types = described.unwrap_or_else(|| vec![DefaultColumnType::Any; columns]);
                if types.len() != columns {
                    let message = format!("{} columns were described", types.len());
                    return Err(Refusal(Error::internal(message)));
                }
                DBOutput::Rows { types, rows }
            }
        })
    }

    async fn shutdown(&mut self) {}

    fn engine_name(&self) -> &str {
        "thalweg"
    }

    fn error_sql_state(refusal: &Refusal) -> Option<String> {
        Some(refusal.state())
    }
}

fn values(row: &SimpleQueryRow) -> Vec<String> {
    let value = |place| match row.get(place) {
        None => "NULL".to_owned(),
        Some("") => "(empty)".to_owned(),
        Some(text) => text.replace('\n', "\\n"),
    };
    (0..row.len()).map(value).collect()
}

fn kind(data_type: &Type) -> DefaultColumnType {
    match *data_type {
        // What has no type of its own in Arrow is text there.
        Type::TEXT | Type::VARCHAR | Type::NAME | Type::CHAR => DefaultColumnType::Text,
        Type::UUID | Type::JSON | Type::JSONB => DefaultColumnType::Text,
        Type::INT2 | Type::INT4 | Type::INT8 | Type::OID => DefaultColumnType::Integer,
        Type::FLOAT4 | Type::FLOAT8 | Type::NUMERIC => DefaultColumnType::FloatingPoint,
        _ => DefaultColumnType::Any,
    }
}

fn text_of(error: &tokio_postgres::Error) -> String {
    error.as_db_error().map_or_else(|| error.to_string(), |error| error.message().to_owned())
}

fn refusal(error: &tokio_postgres::Error) -> Refusal {
    let Some(told) = error.as_db_error() else {
        return Refusal(Error::internal(error.to_string()));
    };
    // There are few codes, and tests end.
    let state = SqlState(told.code().code().to_owned().leak());
    let mut refused = Error::new(state, told.message());
    if let Some(detail) = told.detail() {
        refused = refused.with_detail(detail);
    }
    if let Some(hint) = told.hint() {
        refused = refused.with_hint(hint);
    }
    if let Some(subject) = subject(told) {
        refused = refused.with_subject(subject);
    }
    Refusal(refused)
}

/// What the error is about, out of fields of their own.
fn subject(told: &DbError) -> Option<Subject> {
    let constraint = told.constraint().map(|name| Part::Constraint(name.to_owned()));
    let column = told.column().map(|name| Part::Column(name.to_owned()));
    let (schema, table) = (told.schema()?.to_owned(), told.table()?.to_owned());
    Some(Subject { schema, table, part: constraint.or(column)? })
}
