//! Arrow Flight SQL: a query's tickets, and the record batches of each.

use std::ops::ControlFlow;

use arrow::record_batch::RecordBatch;
use arrow_flight::sql::client::FlightSqlServiceClient;
use futures::TryStreamExt as _;
use thalweg_types::{Error, Result};
use tonic::transport::{Channel, Endpoint};

use crate::errors::while_doing;

const FAILED: &str = "Flight SQL";

/// A connection to a server.
pub struct Flight(FlightSqlServiceClient<Channel>);

impl Flight {
    /// Connects to Flight SQL on a port of this machine.
    pub async fn open(port: u16) -> Result<Flight> {
        let address = Endpoint::from_shared(format!("http://127.0.0.1:{port}"));
        // Adapts the window to the connection, as gRPC does in other languages.
        let endpoint = address.map_err(while_doing(FAILED))?.http2_adaptive_window(true);
        let channel = endpoint.connect().await.map_err(while_doing(FAILED))?;
        Ok(Flight(FlightSqlServiceClient::new(channel)))
    }

    /// All rows of a query.
    pub async fn rows(&mut self, sql: &str) -> Result<Vec<RecordBatch>> {
        let mut all = Vec::new();
        self.each(sql, &mut |batch| {
            all.push(batch);
            ControlFlow::Continue(())
        })
        .await?;
        Ok(all)
    }

    /// Passes a query's batches to `take`, until the end or until `take` stops it.
    async fn each(
        &mut self,
        sql: &str,
        take: &mut impl FnMut(RecordBatch) -> ControlFlow<()>,
    ) -> Result<()> {
        let info = self.0.execute(sql.to_owned(), None).await.map_err(while_doing(FAILED))?;
        for endpoint in info.endpoint {
            let no_ticket = || Error::internal("Flight SQL gave no ticket");
            let ticket = endpoint.ticket.ok_or_else(no_ticket)?;
            let mut batches = self.0.do_get(ticket).await.map_err(while_doing(FAILED))?;
            while let Some(batch) = batches.try_next().await.map_err(while_doing(FAILED))? {
                if take(batch).is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// Runs a query on a new connection and returns its number of rows. `look` gets the number of rows
/// so far after each batch and may stop early.
pub async fn query(
    port: u16,
    sql: &str,
    look: &mut impl FnMut(u64) -> ControlFlow<()>,
) -> Result<u64> {
    let mut rows = 0;
    let mut count = |batch: RecordBatch| {
        rows += batch.num_rows() as u64;
        look(rows)
    };
    Flight::open(port).await?.each(sql, &mut count).await?;
    Ok(rows)
}
