//! Arrow Flight SQL: a query's tickets, and the record batches behind them.

use std::ops::ControlFlow;

use arrow_flight::sql::client::FlightSqlServiceClient;
use futures::TryStreamExt as _;
use thalweg_types::{Error, Result};
use tonic::transport::Endpoint;

use crate::errors::while_doing;

pub async fn query(
    port: u16,
    sql: &str,
    look: &mut impl FnMut(u64) -> ControlFlow<()>,
) -> Result<u64> {
    let failed = || "Flight SQL";
    let address = Endpoint::from_shared(format!("http://127.0.0.1:{port}"));
    // As other languages' gRPC does it: how much may be under way follows from the connection.
    let endpoint = address.map_err(while_doing(failed()))?.http2_adaptive_window(true);
    let channel = endpoint.connect().await.map_err(while_doing(failed()))?;
    let mut client = FlightSqlServiceClient::new(channel);
    let info = client.execute(sql.to_owned(), None).await.map_err(while_doing(failed()))?;
    let mut rows = 0;
    for endpoint in info.endpoint {
        let ticket = endpoint.ticket.ok_or_else(|| Error::internal("Flight SQL gave no ticket"))?;
        let mut batches = client.do_get(ticket).await.map_err(while_doing(failed()))?;
        while let Some(batch) = batches.try_next().await.map_err(while_doing(failed()))? {
            rows += batch.num_rows() as u64;
            if look(rows).is_break() {
                return Ok(rows);
            }
        }
    }
    Ok(rows)
}
