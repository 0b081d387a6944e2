//! `POST /tables/NAME`: writes the rows of the body to a table.
//!
//! With `mode=insert` the request is one transaction, a `COPY` into the table: all rows are written
//! or none. With `mode=upsert` rows go through the record API: each row is written or rejected by
//! itself, and the report says how many were.

mod arrow;
mod columns;
mod options;
mod parquet;
mod sink;
mod text;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Json;
use axum::extract::{ConnectInfo, Path, State};
use axum::response::{IntoResponse, Response};
use futures::future::BoxFuture;
use serde_json::json;
use thalweg_types::{Error, Result, SqlState};

use self::options::{Format, Options, TableName};
use self::sink::Sink;
use super::errors::{Refused, error_fields};
use super::ingest::{Failure, Report, Upload, UploadBody};
use super::sql::user;
use crate::connections::FrontEnd;
use crate::shared::Shared;

/// The rows of a request on their way to the table.
struct Rows {
    upload: Upload,
    table: TableName,
    options: Options,
    report: Report,
}

pub(super) fn run(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    Path(name): Path<String>,
    request: axum::extract::Request,
) -> BoxFuture<'static, Response> {
    // Boxed, so that the large future is compiled once.
    Box::pin(async move {
        let (mut rows, body, format) = match begin(&shared, peer, &name, request).await {
            Ok(begun) => begun,
            Err(failure) => {
                shared.metrics.failed(FrontEnd::Http, &failure.error);
                return refused(failure);
            }
        };
        let (terminated, rest) = (rows.upload.terminated(), body.rest());
        let written = tokio::select! {
            biased;
            failure = terminated => Err(failure),
            written = rows.write(body, format) => written,
        };
        let Rows { upload, report, .. } = rows;
        let drains = written.as_ref().is_err_and(Failure::drains);
        let response = answer(upload, report, written.err());
        if drains {
            rest.drain().await;
        }
        response
    })
}

/// Admits a request. The body of an unauthenticated request is not read.
async fn begin(
    shared: &Arc<Shared>,
    peer: SocketAddr,
    name: &str,
    request: axum::extract::Request,
) -> Result<(Rows, UploadBody, Format), Failure> {
    let (head, body) = request.into_parts();
    let user = user(shared, &head, peer).await?;
    let options = Options::read(&head.uri)?;
    let format = Format::of(&head.headers)?;
    options.check(format)?;
    let table = TableName::read(name)?;
    let body = UploadBody::new(&head.headers, body, shared)?;
    let upload = Upload::enter(shared, &user, peer, &format!("POST /tables/{name}"))?;
    Ok((Rows { upload, table, options, report: Report::default() }, body, format))
}

impl Rows {
    async fn write(&mut self, body: UploadBody, format: Format) -> Result<(), Failure> {
        match format {
            Format::JsonLines | Format::Json | Format::Csv => self.write_text(body, format).await,
            Format::Arrow => self.write_arrow(body).await,
            Format::Parquet => self.write_parquet(body).await,
        }
    }

    /// Opens the table for rows of these columns, or of all if there are none.
    async fn open(&mut self, columns: &[String]) -> Result<Sink> {
        Sink::open(&mut self.upload, &self.table, self.options.mode, columns).await
    }

    async fn finish(&mut self, sink: Sink) -> Result<()> {
        sink.finish(&mut self.upload, &mut self.report).await
    }
}

/// The response of an admitted request: its report, and the error that ended it early.
fn answer(upload: Upload, mut report: Report, failure: Option<Failure>) -> Response {
    let rejected = report.first();
    let failure = match (failure, &rejected) {
        (Some(failure), _) => Some(failure),
        (None, Some((_, error))) => Some(Failure::from(error.clone())),
        (None, None) => None,
    };
    upload.end(failure.as_ref().map(|failure| &failure.error));
    let (rows, count) = (report.rows, report.rejected);
    let mut body = json!({ "rows": rows, "rejected": count, "errors": report.errors("row") });
    match failure {
        None => Json(body).into_response(),
        Some(Failure { status, error }) => {
            body["error"] = error_fields(&error);
            (status, Json(body)).into_response()
        }
    }
}

fn refused(failure: Failure) -> Response {
    let status = failure.status;
    let mut response = Refused(failure.error).into_response();
    *response.status_mut() = status;
    response
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, message.into())
}
