//! `POST /sql`: one statement, in a session of its own.
//!
//! Rows are sent as they come. An error ahead of the first of them is a status and JSON; a later
//! one breaks the body off, so that no client takes a part for the whole.

use std::io::{self, Write};
use std::mem::take;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::rejection::BytesRejection;
use axum::extract::{ConnectInfo, FromRequest, Query, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use futures::StreamExt;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::json;
use thalweg_formats::{Format, WriteOptions, Writer};
use thalweg_query::{Copy, Outcome, Session};
use thalweg_types::{Error, Result, SqlState};

use super::REQUEST_BYTES_MAX;
use super::errors::Refused;
use super::guard;
use super::request::{Request, content_type, format};
use crate::admission::Permit;
use crate::connections::{FrontEnd, Listed};
use crate::metrics::StatementKind;
use crate::parameters;
use crate::pump::{Pieces, Pump};
use crate::shared::Shared;
use crate::trace::Watch;

#[derive(Deserialize)]
pub(super) struct Options {
    format: Option<String>,
}

pub(super) async fn run(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    Query(options): Query<Options>,
    request: axum::extract::Request,
) -> Result<Response, Refused> {
    let user = guard::user(&shared, request.headers(), peer).await.inspect_err(|error| {
        shared.metrics.failed(FrontEnd::Http, error);
    })?;
    let format = format(options.format.as_deref(), request.headers())?;
    // What a stranger sends is not even read, and what others send counts as a connection.
    let place = shared.connections.place()?;
    let headers = request.headers().clone();
    let body = Bytes::from_request(request, &()).await.map_err(|error| unread(&error))?;
    let request = Request::read(&headers, &body)?;
    let session = shared.database.session_as(&user)?;
    let listed = shared.list(place, peer, &user, &session)?;
    listed.connection.begin(&request.sql);
    let watch = shared.observer.begin(FrontEnd::Http, &user, &request.sql.as_str().into());
    let statement = Statement { shared, session, watch, format, listed };
    Ok(statement.run(&request).await?)
}

fn unread(rejection: &BytesRejection) -> Error {
    if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
        let message = format!("the request is longer than the limit of {REQUEST_BYTES_MAX} bytes");
        return Error::new(SqlState::LIMIT_EXCEEDED, message)
            .with_hint("Load many rows with COPY, or over Flight SQL.");
    }
    Error::new(SqlState::CONNECTION_FAILURE, "the request broke off")
}

/// A statement under way.
struct Statement {
    shared: Arc<Shared>,
    session: Session,
    watch: Watch,
    format: Format,
    /// The statement is listed among those that run until its last row is on its way.
    listed: Listed,
}

impl Statement {
    async fn run(mut self, request: &Request) -> Result<Response> {
        let (outcome, permit) = match self.execute(request).await {
            Ok(executed) => executed,
            Err(error) => {
                self.watch.end(Some(&error));
                return Err(error);
            }
        };
        if outcome.rows.is_none() {
            self.watch.end(None);
            let tag = outcome.tag.to_string();
            return Ok(Json(json!({ "tag": tag, "notices": outcome.notices })).into_response());
        }
        let kind = content_type(self.format);
        let Statement { session, watch, format, listed, .. } = self;
        let mut pieces = Pump::start(async move |pieces| {
            let sent = send_rows(outcome, format, &watch, &pieces).await;
            drop((session, permit, listed));
            watch.end(sent.as_ref().err());
            sent
        });
        // Whether there is a first piece decides between a body and an error.
        let first = pieces.next().await.transpose()?.unwrap_or_default();
        let rest = futures::stream::unfold(pieces, async |mut pieces| {
            let piece = pieces.next().await?;
            Some((piece.map_err(io::Error::other), pieces))
        });
        let all = futures::stream::once(async { Ok(first) }).chain(rest);
        Ok(([(CONTENT_TYPE, kind)], Body::from_stream(all)).into_response())
    }

    async fn execute(&mut self, request: &Request) -> Result<(Outcome, Permit)> {
        if StatementKind::of(&request.sql) == StatementKind::Transaction {
            let message = "a transaction needs a connection, and each request is on its own";
            return Err(Error::new(SqlState::NO_ACTIVE_TRANSACTION, message));
        }
        let permit = self.shared.admission.admit().await?;
        let outcome = if request.parameters.is_empty() {
            self.session.execute(&request.sql).await?
        } else {
            let prepared = self.session.prepare(&request.sql, &[]).await?;
            let values = parameters::of_texts(&prepared, request.texts())?;
            self.session.execute_prepared(&prepared, &values).await?
        };
        if let Some(Copy::In(_)) = outcome.copy {
            return Err(Error::unsupported("COPY FROM STDIN over HTTP"));
        }
        Ok((outcome, permit))
    }
}

async fn send_rows(
    outcome: Outcome,
    format: Format,
    watch: &Watch,
    pieces: &Pieces<Bytes>,
) -> Result<()> {
    let written = Written::default();
    let options = WriteOptions { format: Some(format), header: true, ..Default::default() };
    let mut writer = Writer::new(Box::new(written.clone()), &outcome.schema, &options)?;
    let mut rows = outcome.rows.ok_or_else(|| Error::internal("a query gives rows"))?;
    while let Some(batch) = rows.next().await {
        let batch = batch?;
        writer.write(&batch)?;
        push(written.take(), batch.num_rows(), watch, pieces).await?;
    }
    writer.finish()?;
    push(written.take(), 0, watch, pieces).await
}

async fn push(bytes: Vec<u8>, rows: usize, watch: &Watch, pieces: &Pieces<Bytes>) -> Result<()> {
    watch.sent(rows, bytes.len())?;
    if bytes.is_empty() {
        return Ok(());
    }
    let left = |_| Error::new(SqlState::QUERY_CANCELED, "the client has left");
    pieces.push(bytes.into()).await.map_err(left)
}

/// What was written and not taken yet.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Written {
    fn take(&self) -> Vec<u8> {
        take(&mut *self.0.lock())
    }
}

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
