//! InfluxDB's line protocol over HTTP, as its clients and Telegraf send it.
//!
//! | path | what |
//! | --- | --- |
//! | `POST /api/v2/write` | writes points; `bucket` names a schema |
//! | `POST /write` | the same for clients of version 1; `db` names a schema |
//! | `GET /ping`, `GET /health` | whether the server takes points |
//!
//! A measurement is a table, a tag is a text column of its primary key, and a field is a column.
//! Points go through the record API, so a point whose time and tags exist replaces the fields that
//! it has. Each line is written or rejected by itself.

mod answers;
mod definitions;
pub(crate) mod fuzz;
mod parameters;
mod points;
mod shapes;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Json;
use axum::extract::{ConnectInfo, State};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use futures::future::BoxFuture;
use serde_json::json;
use thalweg_types::{Error, Result, SqlState};

use self::answers::Api;
use self::parameters::Parameters;
use self::points::PointWriter;
use super::ingest::{Failure, Upload, UploadBody};
use super::storage_readiness;
use crate::connections::FrontEnd;
use crate::credentials;
use crate::origin_guard::keep_pages_out;
use crate::shared::Shared;

/// The namespace of tables if no schema has the name of the bucket.
const DEFAULT_NAMESPACE: &str = "public";

pub(super) fn write_v1(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: axum::extract::Request,
) -> BoxFuture<'static, Response> {
    Box::pin(run(Api::V1, shared, peer, request))
}

pub(super) fn write_v2(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: axum::extract::Request,
) -> BoxFuture<'static, Response> {
    Box::pin(run(Api::V2, shared, peer, request))
}

async fn run(
    api: Api,
    shared: Arc<Shared>,
    peer: SocketAddr,
    request: axum::extract::Request,
) -> Response {
    let (mut writer, body) = match begin(api, &shared, peer, request).await {
        Ok(begun) => begun,
        Err(failure) => {
            shared.metrics.failed(FrontEnd::Http, &failure.error);
            return api.refused(&failure);
        }
    };
    let (terminated, rest) = (writer.terminated(), body.rest());
    let written = tokio::select! {
        biased;
        failure = terminated => Err(failure),
        written = writer.write(body) => written,
    };
    let (upload, report) = writer.into_parts();
    let drains = written.as_ref().is_err_and(Failure::drains);
    let (response, error) = api.answer(report, written.err());
    upload.end(error.as_ref());
    if drains {
        rest.drain().await;
    }
    response
}

/// Admits a request. The body of an unauthenticated request is not read.
async fn begin(
    api: Api,
    shared: &Arc<Shared>,
    peer: SocketAddr,
    request: axum::extract::Request,
) -> Result<(PointWriter, UploadBody), Failure> {
    let (head, body) = request.into_parts();
    keep_pages_out(shared.policy, &head.headers, &head.uri, peer)?;
    let parameters = Parameters::read(&head.uri)?;
    let given = parameters.credentials(&head.headers)?;
    let user = credentials::user(shared, given, peer).await?;
    let namespace = parameters.namespace(api)?;
    let unit = parameters.unit()?;
    let body = UploadBody::new(&head.headers, body, shared)?;
    let upload = Upload::enter(shared, &user, peer, api.path())?;
    let namespace = match upload.records.has_namespace(&namespace) {
        true => namespace,
        false => DEFAULT_NAMESPACE.to_owned(),
    };
    Ok((PointWriter::new(upload, namespace, unit), body))
}

/// Clients ask for the version in this header.
const VERSION_HEADER: &str = "X-Influxdb-Version";
const BUILD_HEADER: &str = "X-Influxdb-Build";
const VERSION: &str = env!("CARGO_PKG_VERSION");

pub(super) async fn ping() -> Response {
    let headers = [(VERSION_HEADER, VERSION), (BUILD_HEADER, "Thalweg")];
    (StatusCode::NO_CONTENT, headers).into_response()
}

/// Readiness in the form of InfluxDB. The reasons are those of `/health/ready`.
pub(super) async fn health(State(shared): State<Arc<Shared>>) -> Response {
    let (status, reason) = match shared.database.readiness() {
        _ if shared.is_draining() => {
            (StatusCode::SERVICE_UNAVAILABLE, "shutting down\n".to_owned())
        }
        Ok(()) => storage_readiness(std::slice::from_ref(&shared.database)),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, error.message().to_owned()),
    };
    let (verdict, message) = match status {
        StatusCode::OK => ("pass", "ready for queries and writes"),
        _ => ("fail", reason.trim_end()),
    };
    let body = json!({
        "name": "thalweg",
        "message": message,
        "status": verdict,
        "checks": [],
        "version": VERSION,
    });
    (status, Json(body)).into_response()
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, message.into())
}

fn query_of(uri: &Uri) -> Result<Vec<(String, String)>> {
    let pairs = axum::extract::Query::try_from_uri(uri).map(|axum::extract::Query(pairs)| pairs);
    pairs.map_err(|error| invalid(format!("the address cannot be read: {}", error.body_text())))
}
