//! Runs statements for the console.
//!
//! All statements of a request run in one session, as those of one message of PostgreSQL's simple
//! protocol: they are one transaction, unless they contain transaction statements. A block that
//! is open at the end is rolled back.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use arrow::datatypes::{FieldRef, SchemaRef};
use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use futures::StreamExt;
use serde::Deserialize;
use serde_json::{Value, json};
use thalweg_execution::cancel::Cancels;
use thalweg_formats::{Format, WriteOptions, Writer};
use thalweg_query::{Notice, Outcome, TransactionStatus};
use thalweg_types::{Error, Result, SqlState};
use thalweg_values::types::display_name;
use tokio::time::Instant;

use super::cells::{Cells, Cut};
use super::login::parsed;
use super::sessions::Found;
use super::{Console, Refusal, frames};
use crate::http::call::{self, Call};
use crate::http::errors::error_fields;
use crate::http::request::{self, Parameter};
use crate::http::sql::{self, Written};
use crate::postgres::placed_error;
use crate::read_ahead::{Pieces, ReadAhead};
use crate::trace::Watch;

/// The content type of frames.
const FRAMES: &str = "application/vnd.thalweg.frames";
/// The name of the console's statements in `pg_stat_activity`.
const APPLICATION: &str = "thalweg console";
/// Maximum length of a request's name, in bytes.
const NAME_BYTES_MAX: usize = 64;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    /// A name for [`cancel`], unique among the session's running requests.
    name: String,
    sql: String,
    /// With parameters, the text is one statement.
    #[serde(default)]
    parameters: Vec<Parameter>,
    /// Maximum rows of each result. A query ends there.
    #[serde(default)]
    rows_max: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cancel {
    name: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Export {
    sql: String,
    #[serde(default)]
    parameters: Vec<Parameter>,
    format: String,
}

pub(super) async fn run(
    State(console): State<Arc<Console>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
) -> Result<Response, Refusal> {
    let begun = console.begin_run(peer, request).await;
    let (run, call, running) = begun.inspect_err(|error| console.failed(error))?;
    let pieces = ReadAhead::start(async move |pieces| {
        let rows_max = run.rows_max.unwrap_or(u64::MAX);
        let console = Arc::clone(&running.console);
        let ran = Running { console, call, pieces, rows_max }.all(&run.sql, run.parameters).await;
        drop(running);
        ran
    });
    let body = futures::stream::unfold(pieces, async |mut pieces| {
        let piece = pieces.next().await?;
        Some((piece.map_err(io::Error::other), pieces))
    });
    Ok(([(CONTENT_TYPE, FRAMES)], Body::from_stream(body)).into_response())
}

pub(super) async fn cancel(
    State(console): State<Arc<Console>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
) -> Result<Response, Refusal> {
    let (head, body) = request.into_parts();
    let found = console.caller(&head, peer)?;
    let body = call::receive_within(&console.shared, body, 2 * NAME_BYTES_MAX).await?;
    let Cancel { name } = parsed(&body)?;
    Ok(Json(json!({ "canceled": console.sessions.cancel(&found, &name) })).into_response())
}

/// Runs one statement, with its rows as a file.
pub(super) async fn export(
    State(console): State<Arc<Console>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
) -> Result<Response, Refusal> {
    let begun = console.begin_export(peer, request).await;
    let (statement, request) = begun.inspect_err(|error| console.failed(error))?;
    Ok(statement.run(request).await?)
}

/// The page of `/metrics`, for users who may read it there.
pub(super) async fn metrics(
    State(console): State<Arc<Console>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
) -> Result<Response, Refusal> {
    let (head, _) = request.into_parts();
    console.caller(&head, peer)?;
    let databases = std::slice::from_ref(&console.shared.database);
    Ok(console.shared.metrics.render(databases).into_response())
}

/// Removes a request from its session's list when it ends, also if its client leaves.
struct Registered {
    console: Arc<Console>,
    found: Found,
    name: String,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.console.sessions.finish(&self.found, &self.name);
    }
}

impl Console {
    async fn begin_run(
        self: &Arc<Self>,
        peer: SocketAddr,
        request: Request,
    ) -> Result<(Run, Call, Registered)> {
        let (head, body) = request.into_parts();
        let found = self.caller(&head, peer)?;
        let (place, body) = call::receive(&self.shared, body).await?;
        let run: Run = parsed(&body)?;
        crate::values::without_zero(&run.sql)?;
        let call = Call::open(Arc::clone(&self.shared), place, peer, &found.user)?;
        call.name_application(APPLICATION);
        let name = run.name.clone();
        let is_listed =
            name.len() <= NAME_BYTES_MAX && self.sessions.run(&found, &name, call.cancel_handle());
        if !is_listed {
            let message = "a request of this name runs, or too many requests of the session run";
            return Err(Error::new(SqlState::OBJECT_IN_USE, message));
        }
        Ok((run, call, Registered { console: Arc::clone(self), found, name }))
    }

    async fn begin_export(
        self: &Arc<Self>,
        peer: SocketAddr,
        request: Request,
    ) -> Result<(sql::Statement, request::Request)> {
        let (head, body) = request.into_parts();
        let found = self.caller(&head, peer)?;
        let (place, body) = call::receive(&self.shared, body).await?;
        let Export { sql, parameters, format } = parsed(&body)?;
        crate::values::without_zero(&sql)?;
        let format = Format::named(&format)?;
        let mut call = Call::open(Arc::clone(&self.shared), place, peer, &found.user)?;
        call.name_application(APPLICATION);
        call.hold(self.room.place().await?);
        let statement = sql::Statement::begin(call, &sql, format);
        Ok((statement, request::Request { sql, parameters }))
    }
}

/// The statements of one request at work.
struct Running {
    console: Arc<Console>,
    call: Call,
    pieces: Pieces<Bytes>,
    rows_max: u64,
}

/// The reader of the answer has left.
fn left(_: crate::read_ahead::ReaderGone) -> Error {
    Error::new(SqlState::QUERY_CANCELED, "the client has left")
}

impl Running {
    /// Runs the statements of a text, and sends the frames of all of them.
    async fn all(mut self, sql: &str, parameters: Vec<Parameter>) -> Result<()> {
        let begin = json!({ "begin": { "process_id": self.call.process_id() } });
        self.send(&begin).await?;
        let texts: Vec<_> = parameters.into_iter().map(Parameter::text).collect();
        let mut cancels = self.call.cancel_handle().watch();
        let ran = self.admitted(sql, texts, &mut cancels).await;
        let is_open = self.call.session.transaction() != TransactionStatus::Idle;
        let committed = match self.call.session.end_implicit(ran.is_ok()).await {
            Ok(()) => ran,
            Err(error) => ran.and(Err(error)),
        };
        let committed = committed.and_then(|()| self.call.session.finish_statement());
        if let Err(error) = committed {
            self.send(&json!({ "error": error_fields(&error) })).await?;
        }
        // The block that the statements themselves opened ends with the session.
        let is_open = is_open && self.call.session.transaction() != TransactionStatus::Idle;
        self.send(&json!({ "end": { "rolled_back": is_open } })).await
    }

    async fn admitted(
        &mut self,
        sql: &str,
        texts: Vec<Option<String>>,
        cancels: &mut Cancels,
    ) -> Result<()> {
        let place = cancels.unless_any(self.console.room.place()).await??;
        self.call.hold(place);
        match texts.is_empty() {
            true => self.split(sql, cancels).await,
            false => self.one(sql, texts, cancels).await,
        }
    }

    async fn split(&mut self, sql: &str, cancels: &mut Cancels) -> Result<()> {
        let statements = self.call.session.split(sql).await?;
        for statement in &statements {
            cancels.check()?;
            let is_idle = self.call.session.transaction() == TransactionStatus::Idle;
            if statements.len() > 1 && is_idle {
                self.call.session.begin_implicit();
            }
            let offset = sql[..statement.offset].chars().count();
            self.send(&json!({ "statement": { "offset": offset } })).await?;
            let ran = self.one(&statement.text, Vec::new(), cancels).await;
            ran.map_err(|error| placed_error(error, sql, statement.offset))?;
        }
        Ok(())
    }

    async fn one(
        &mut self,
        sql: &str,
        texts: Vec<Option<String>>,
        cancels: &mut Cancels,
    ) -> Result<()> {
        let watch = self.call.begin(sql);
        let ran = self.observed(sql, texts, cancels, &watch).await;
        watch.end(ran.as_ref().err());
        ran
    }

    async fn observed(
        &mut self,
        sql: &str,
        texts: Vec<Option<String>>,
        cancels: &mut Cancels,
        watch: &Watch,
    ) -> Result<()> {
        let began = Instant::now();
        let _permit = cancels.unless_any(self.call.admit(sql)).await??;
        let mut outcome = self.call.execute(sql, texts).await?;
        for notice in std::mem::take(&mut outcome.notices) {
            self.send(&described(&notice)).await?;
        }
        let tag = outcome.tag.to_string();
        let sent = match outcome.rows.is_some() {
            true => Some(self.rows(outcome, watch).await?),
            false => None,
        };
        let (rows, is_whole) = sent.unwrap_or((0, true));
        let milliseconds = began.elapsed().as_secs_f64() * 1e3;
        self.send(&json!({ "complete": {
            "tag": tag, "rows": sent.map(|_| rows), "more": !is_whole, "milliseconds": milliseconds,
        }}))
        .await
    }

    /// Sends the rows of a result; returns their number, and true if they are all.
    async fn rows(&mut self, outcome: Outcome, watch: &Watch) -> Result<(u64, bool)> {
        let schema = SchemaRef::clone(&outcome.schema);
        let column =
            |field: &FieldRef| json!({ "name": field.name(), "type": display_name(field) });
        let columns: Vec<Value> = schema.fields().iter().map(column).collect();
        self.send(&json!({ "columns": columns })).await?;
        let cells = Cells::new(columns.len(), outcome.style.clone());
        let written = Written::default();
        let options = WriteOptions { format: Some(Format::ArrowStream), ..Default::default() };
        let mut writer = Writer::new(Box::new(written.clone()), &cells.schema, &options)?;
        let is_query = outcome.tag.to_string().starts_with("SELECT");
        let mut rows = outcome.rows.ok_or_else(|| Error::internal("a query gives rows"))?;
        let (mut sent, mut is_whole) = (0, true);
        while let Some(batch) = rows.next().await {
            let batch = batch?;
            let room = usize::try_from(self.rows_max - sent).unwrap_or(usize::MAX);
            let shown = batch.slice(0, batch.num_rows().min(room));
            let mut from = 0;
            while from < shown.num_rows() {
                let (texts, cuts) = cells.piece(&shown, from)?;
                self.cut(sent, &cuts).await?;
                writer.write(&texts)?;
                from += texts.num_rows();
                sent += texts.num_rows() as u64;
                self.arrow(&written.take(), texts.num_rows(), watch).await?;
            }
            is_whole &= shown.num_rows() == batch.num_rows();
            // Rows of a statement that changes some are read to their end, so that it changes all.
            if !is_whole && is_query {
                return Ok((sent, false));
            }
        }
        writer.finish()?;
        self.arrow(&written.take(), 0, watch).await?;
        Ok((sent, is_whole))
    }

    /// Says which cells of the next rows are cut: row of the result, column, whole length.
    async fn cut(&mut self, from: u64, cuts: &[Cut]) -> Result<()> {
        if cuts.is_empty() {
            return Ok(());
        }
        let cells = cuts.iter().map(|(row, column, bytes)| (from + *row as u64, column, bytes));
        self.send(&json!({ "cut": cells.collect::<Vec<_>>() })).await
    }

    async fn arrow(&mut self, bytes: &[u8], rows: usize, watch: &Watch) -> Result<()> {
        watch.sent(rows, bytes.len())?;
        match bytes.is_empty() {
            true => Ok(()),
            false => self.push(frames::arrow(bytes)).await,
        }
    }

    async fn send(&mut self, value: &Value) -> Result<()> {
        self.push(frames::json(value)).await
    }

    /// Waits for a slow reader as long as for a slow request: its statement holds a permit.
    async fn push(&mut self, frame: Bytes) -> Result<()> {
        let limit = self.console.shared.config.limits.startup_timeout();
        let pushed = tokio::time::timeout(limit, self.pieces.push(frame)).await;
        let stalled = |_| Error::new(SqlState::QUERY_CANCELED, "the client does not read its rows");
        pushed.map_err(stalled)?.map_err(left)
    }
}

fn described(notice: &Notice) -> Value {
    json!({ "notice": {
        "severity": notice.severity(),
        "sqlstate": notice.state.0,
        "message": notice.message,
        "detail": notice.detail,
    }})
}
