//! `Describe`: the columns of a table.

use axum::body::to_bytes;
use hyper::Response;
use prost::Message as _;
use thalweg_protocol::{PREFIX_BYTES, v1};
use thalweg_query::{RecordTable, Records};
use thalweg_types::{Error, Result, SqlState};
use tonic::body::Body;

use super::caller::Caller;
use super::writes::framed;
use crate::grpc::errors::status;
use crate::grpc::{Upload, answered};

/// Maximum size of a request, which holds only a table's name.
const REQUEST_BYTES_MAX: usize = 64 << 10;

pub(super) async fn answer(caller: Caller, body: Upload) -> Response<Body> {
    let Caller { records, call_session, .. } = caller;
    let described = describe(&records, body).await;
    call_session.count_end(described.as_ref().err());
    match described {
        Ok(description) => answered(framed(&description)),
        Err(error) => status(&error).into_http(),
    }
}

async fn describe(records: &Records, body: Upload) -> Result<v1::TableDescription> {
    let unreadable = || Error::new(SqlState::PROTOCOL_VIOLATION, "the request cannot be read");
    let body = to_bytes(axum::body::Body::new(body), REQUEST_BYTES_MAX).await;
    let body = body.map_err(|_| unreadable())?;
    let message = body.get(PREFIX_BYTES..).filter(|_| body[0] == 0).ok_or_else(unreadable)?;
    let request = v1::DescribeRequest::decode(message).map_err(|_| unreadable())?;
    records.table(&request.table, &[]).map(|table| description(&table))
}

fn description(table: &RecordTable) -> v1::TableDescription {
    let columns = table.schema().columns.iter().map(|column| v1::Column {
        name: column.name.clone(),
        r#type: column.data_type.to_string(),
        nullable: column.nullable,
    });
    let key = table.key().fields().iter().map(|field| field.name().clone());
    v1::TableDescription { columns: columns.collect(), key: key.collect() }
}
