//! `POST /sql`: runs one statement in a session of its own.
//!
//! Rows are streamed. An error before the first row becomes a status code and JSON. A later error
//! aborts the body, so that clients do not mistake a part for the whole.

use std::io::{self, Write};
use std::mem::take;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, State};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use futures::StreamExt;
use parking_lot::Mutex;
use serde_json::json;
use thalweg_formats::{Format, WriteOptions, Writer};
use thalweg_query::{Copy, Outcome};
use thalweg_types::{Error, Result, SqlState};

use super::call::{self, Call};
use super::errors::Refused;
use super::request::{Options, Request, content_type, format};
use crate::admission::Permit;
use crate::connections::FrontEnd;
use crate::credentials::{self, Credentials};
use crate::metrics::StatementKind;
use crate::origin_guard::keep_pages_out;
use crate::read_ahead::{Pieces, ReadAhead};
use crate::shared::Shared;
use crate::trace::Watch;

pub(super) async fn run(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: axum::extract::Request,
) -> Result<Response, Refused> {
    let begun = begin(Arc::clone(&shared), peer, request).await;
    let (statement, request) = begun.inspect_err(|error| {
        shared.metrics.failed(FrontEnd::Http, error);
    })?;
    Ok(statement.run(request).await?)
}

/// Admits a request. The body of an unauthenticated request is not read, and reading a body counts
/// as a connection.
async fn begin(
    shared: Arc<Shared>,
    peer: SocketAddr,
    request: axum::extract::Request,
) -> Result<(Statement, Request)> {
    let (head, body) = request.into_parts();
    let user = user(&shared, &head, peer).await?;
    let options = Options::read(&head.uri)?;
    let format = format(options.format.as_deref(), &head.headers)?;
    let (place, body) = call::receive(&shared, body).await?;
    let request = Request::read(&head.headers, &body)?;
    let call = Call::open(shared, place, peer, &user)?;
    Ok((Statement::begin(call, &request.sql, format), request))
}

/// # Errors
/// If authentication fails, or the caller is a web page.
pub(super) async fn user(shared: &Shared, head: &Parts, peer: SocketAddr) -> Result<Arc<str>> {
    keep_pages_out(shared.policy, &head.headers, &head.uri, peer)?;
    let given = head.headers.get(AUTHORIZATION).map(|value| value.as_bytes());
    credentials::user(shared, given.map(Credentials::read).transpose()?, peer).await
}

/// A running statement.
pub(crate) struct Statement {
    call: Call,
    watch: Watch,
    format: Format,
}

impl Statement {
    /// Begins the one statement of a call; its rows are sent in a format.
    pub(crate) fn begin(call: Call, sql: &str, format: Format) -> Statement {
        let watch = call.begin(sql);
        Statement { call, watch, format }
    }

    pub(crate) async fn run(mut self, request: Request) -> Result<Response> {
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
            let notices = outcome.notices.into_iter().map(|notice| notice.message);
            let notices = notices.collect::<Vec<_>>();
            return Ok(Json(json!({ "tag": tag, "notices": notices })).into_response());
        }
        let Statement { mut call, watch, format } = self;
        let options = match &outcome.copy {
            // The COPY statement specifies the format of its rows itself.
            Some(Copy::Out(options)) => options.clone(),
            _ => WriteOptions { format: Some(format), header: true, ..Default::default() },
        };
        let kind = content_type(options.format.unwrap_or(format));
        let mut pieces = ReadAhead::start(async move |pieces| {
            let sent = send_rows(outcome, &options, &watch, &pieces).await;
            let sent = sent.and_then(|()| call.session.finish_statement());
            drop((call, permit));
            watch.end(sent.as_ref().err());
            sent
        });
        // The first piece decides about the response: a body if there is one, an error if the
        // statement fails before it.
        let first = pieces.next().await.transpose()?.unwrap_or_default();
        let rest = futures::stream::unfold(pieces, async |mut pieces| {
            let piece = pieces.next().await?;
            Some((piece.map_err(io::Error::other), pieces))
        });
        let all = futures::stream::once(async { Ok(first) }).chain(rest);
        Ok(([(CONTENT_TYPE, kind)], Body::from_stream(all)).into_response())
    }

    async fn execute(&mut self, mut request: Request) -> Result<(Outcome, Option<Permit>)> {
        if StatementKind::of(&request.sql) == StatementKind::Transaction {
            let message = "a transaction needs a connection, and each request is on its own";
            return Err(Error::new(SqlState::NO_ACTIVE_TRANSACTION, message));
        }
        let permit = self.call.admit(&request.sql).await?;
        let sql = take(&mut request.sql);
        Ok((self.call.execute(&sql, request.texts()).await?, permit))
    }
}

async fn send_rows(
    outcome: Outcome,
    options: &WriteOptions,
    watch: &Watch,
    pieces: &Pieces<Bytes>,
) -> Result<()> {
    let written = Written::default();
    let mut writer = Writer::new(Box::new(written.clone()), &outcome.schema, options)?;
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

/// A buffer shared with the writer, emptied after each batch.
#[derive(Clone, Default)]
pub(crate) struct Written(Arc<Mutex<Vec<u8>>>);

impl Written {
    pub(crate) fn take(&self) -> Vec<u8> {
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
