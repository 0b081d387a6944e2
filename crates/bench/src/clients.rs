//! Clients that fetch and discard rows, so that measurements reflect the server and not its client.

pub mod flight;
mod http;
mod postgres;
pub mod records;

use std::ops::ControlFlow;

use thalweg_types::Result;

use crate::peers::Server;

pub use postgres::Connection;

/// A way to our server's rows.
#[derive(Clone, Copy)]
pub enum FrontEnd {
    PostgresText,
    PostgresBinary,
    FlightSql,
    HttpArrow,
    HttpJson,
}

impl FrontEnd {
    /// All front ends, in the order of the report.
    pub const ALL: [FrontEnd; 5] = [
        FrontEnd::PostgresText,
        FrontEnd::PostgresBinary,
        FrontEnd::FlightSql,
        FrontEnd::HttpArrow,
        FrontEnd::HttpJson,
    ];

    /// The name in the report.
    pub fn name(self) -> &'static str {
        match self {
            FrontEnd::PostgresText => "PostgreSQL simple, text",
            FrontEnd::PostgresBinary => "PostgreSQL extended, binary",
            FrontEnd::FlightSql => "Flight SQL",
            FrontEnd::HttpArrow => "HTTP, Arrow",
            FrontEnd::HttpJson => "HTTP, JSON lines",
        }
    }

    /// Connects and reads the rows of a query; returns their number. `look` receives the number so
    /// far after each read, and may stop the reading.
    pub async fn query(
        self,
        server: &Server,
        sql: &str,
        look: &mut impl FnMut(u64) -> ControlFlow<()>,
    ) -> Result<u64> {
        match self {
            FrontEnd::PostgresText => {
                Connection::open(&server.endpoint).await?.query(sql, look).await
            }
            FrontEnd::PostgresBinary => {
                Connection::open(&server.endpoint).await?.query_binary(sql, look).await
            }
            FrontEnd::FlightSql => flight::query(server.grpc_port, sql, look).await,
            FrontEnd::HttpArrow => http::query_arrow(server.http_port, sql, look).await,
            FrontEnd::HttpJson => http::query_json(server.http_port, sql, look).await,
        }
    }
}
