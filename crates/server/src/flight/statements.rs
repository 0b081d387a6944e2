//! Execution of statements, results that wait for `DoGet`, and sending of rows.
//!
//! A statement runs once, at `GetFlightInfo`. Its errors are thus reported there, and its changes
//! happen even if nobody fetches rows. The rows of a query are not computed before they are
//! fetched, except for a few in the plan's buffers.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use arrow_flight::{FlightDescriptor, FlightEndpoint, FlightInfo};
use futures::StreamExt;
use parking_lot::Mutex;
use thalweg_execution::row_forms::{Encoded, EncodedStream};
use thalweg_query::{BatchStream, Copy, Outcome, Tag, takes_locks};
use thalweg_types::{Error, Result, SqlState};
use tokio_util::sync::CancellationToken;

use super::Flight;
use super::encode::{Encoder, Frame, schema_frame};
use super::handles::Handle;
use super::identity::Caller;
use super::prepared::PreparedStatement;
use super::sessions::CallSession;
use super::tickets::StatementTicket;
use super::wire::wire_schema;
use crate::admission::{Asker, Permit};
use crate::connections::FrontEnd;
use crate::metrics::StatementKind;
use crate::read_ahead::{Pieces, ReadAhead, ReaderGone};
use crate::trace::Watch;
use crate::values::without_zero;

/// The result of a statement, on its way to the client.
pub(crate) struct Answer {
    /// The schema sent to clients.
    pub(super) wire: SchemaRef,
    pub(super) rows: Rows,
    /// Observes the statement; `None` for answers to metadata commands.
    pub(super) watch: Option<Watch>,
    /// Keeps the session alive as long as the rows.
    pub(super) call_session: Option<Arc<CallSession>>,
}

/// Rows of an answer.
pub(super) enum Rows {
    Batches(BatchStream),
    /// Rows already encoded as Flight messages.
    Encoded(EncodedStream),
}

impl Rows {
    /// The rows of an outcome in either form; `None` if it has none.
    fn of(outcome: &mut Outcome) -> Option<Rows> {
        match outcome.encoded.take() {
            Some(rows) => Some(Rows::Encoded(rows)),
            None => outcome.rows.take().map(Rows::Batches),
        }
    }

    /// Skips the next batch and returns its number of rows; `None` at the end.
    async fn pass(&mut self) -> Result<Option<u64>> {
        Ok(match self {
            Rows::Batches(rows) => {
                rows.next().await.transpose()?.map(|rows| rows.num_rows() as u64)
            }
            Rows::Encoded(rows) => rows.next().await.transpose()?.map(|rows| rows.rows),
        })
    }
}

/// A result that waits for its `DoGet`.
pub(crate) struct Waiting {
    pub(super) user: Arc<str>,
    answer: Mutex<Option<Answer>>,
}

/// A result being sent.
pub(crate) struct Sending {
    pub(super) user: Arc<str>,
    pub(super) cancel: CancellationToken,
}

/// The outcome of a statement: rows to fetch, or a number of changed rows.
pub(crate) enum Done {
    Rows(Answer),
    Changed(i64),
}

/// The statement of a ticket.
pub(crate) enum Asked {
    Query { sql: Arc<str>, transaction: Option<bytes::Bytes> },
    Prepared { handle: bytes::Bytes, statement: Arc<PreparedStatement> },
}

impl Flight {
    /// Runs a statement of the client.
    pub(super) async fn run(
        &self,
        caller: &Caller,
        call_session: &Arc<CallSession>,
        sql: &Arc<str>,
    ) -> Result<Done> {
        without_zero(sql)?;
        let kind = StatementKind::of(sql);
        let alone = caller.connection.is_none() && !call_session.lasts;
        let watch = self.shared.observer.begin(FrontEnd::Flight, &call_session.user, sql);
        if alone && kind == StatementKind::Transaction {
            let error = no_connection();
            watch.end(Some(&error));
            return Err(error);
        }
        let executed = call_session.execute(&self.shared, sql).await;
        let done = self.done(executed, watch, call_session).await?;
        if alone && (kind == StatementKind::Other || takes_locks(sql) || names_temporary(sql)) {
            self.connect(caller, call_session)?;
        }
        Ok(done)
    }

    /// Converts an executed statement to its outcome. Ends the watch if there are no rows.
    pub(super) async fn done(
        &self,
        executed: Result<(Outcome, Option<Permit>)>,
        watch: Watch,
        call_session: &Arc<CallSession>,
    ) -> Result<Done> {
        let mut outcome = match executed {
            Ok((outcome, _)) => outcome,
            Err(error) => {
                watch.end(Some(&error));
                return Err(error);
            }
        };
        if let Some(Copy::In(copy)) = outcome.copy {
            let error = Error::unsupported("COPY FROM STDIN over Flight SQL")
                .with_hint("Use bulk ingestion.");
            drop(copy);
            let copy_end = call_session.session().await.finish_copy(Err(error)).await;
            let error =
                copy_end.err().unwrap_or_else(|| Error::internal("a copy was not given up"));
            watch.end(Some(&error));
            return Err(error);
        }
        if let Some(rows) = Rows::of(&mut outcome) {
            let (wire, call_session) =
                (wire_schema(&outcome.schema), Some(Arc::clone(call_session)));
            return Ok(Done::Rows(Answer { wire, rows, watch: Some(watch), call_session }));
        }
        watch.end(None);
        Ok(Done::Changed(changed_by(&outcome.tag)))
    }

    /// Reads a statement's rows to their end and returns their number, or the number of changed
    /// rows.
    pub(super) async fn run_to_end(&self, done: Done) -> Result<i64> {
        let mut answer = match done {
            Done::Changed(rows) => return Ok(rows),
            Done::Rows(answer) => answer,
        };
        let mut count = 0;
        let ended = loop {
            match answer.rows.pass().await {
                Ok(Some(rows)) => count += i64::try_from(rows).unwrap_or(i64::MAX),
                Err(error) => break Err(error),
                Ok(None) => break Ok(count),
            }
        };
        if let Some(watch) = answer.watch {
            watch.end(ended.as_ref().err());
        }
        ended
    }

    /// The answer of `GetFlightInfo` for a statement that has run.
    pub(super) fn promise(
        &self,
        done: Done,
        asked: Asked,
        descriptor: FlightDescriptor,
        user: &Arc<str>,
    ) -> Result<FlightInfo> {
        let id = Handle::random()?;
        let mut ticket = StatementTicket::new(id);
        let (schema, records) = match done {
            Done::Changed(rows) => {
                ticket.nothing = true;
                (Arc::new(Schema::empty()), rows)
            }
            Done::Rows(answer) => {
                let schema = Arc::clone(&answer.wire);
                ticket.columns = fingerprint(&schema);
                if repeatable(asked.sql()) {
                    asked.write_to(&mut ticket);
                }
                let waiting = Waiting { user: Arc::clone(user), answer: Mutex::new(Some(answer)) };
                self.waiting.keep_as(id, Arc::new(waiting))?;
                (schema, -1)
            }
        };
        flight_info(&schema, ticket.into_ticket(), descriptor)
            .map(|info| info.with_total_records(records))
    }

    /// The result of a ticket: the waiting one, or that of running the statement again. `None` if
    /// the statement gave no rows.
    pub(super) async fn redeem(
        self: &Arc<Flight>,
        caller: &Caller,
        ticket: &StatementTicket,
    ) -> Result<Option<Answer>> {
        if ticket.nothing {
            return Ok(None);
        }
        let waiting = self.waiting.take_if(ticket.id()?, |waiting| waiting.user == caller.user);
        if let Some(answer) = waiting.and_then(|waiting| waiting.answer.lock().take()) {
            return Ok(Some(answer));
        }
        let done = if let Some(query) = &ticket.query {
            let call_session = self.seat_for(caller, ticket.transaction.as_deref(), query)?;
            self.run(caller, &call_session, &query.as_str().into()).await?
        } else if let Some(prepared) = &ticket.prepared {
            let statement = self.find_prepared(caller, prepared)?;
            self.run_prepared(caller, &statement).await?
        } else {
            return Err(gone());
        };
        match done {
            Done::Rows(answer) if fingerprint(&answer.wire) == ticket.columns => Ok(Some(answer)),
            _ => {
                let message = "the query's columns have changed since its ticket was given out";
                let hint = "Ask for a new ticket.";
                Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message).with_hint(hint))
            }
        }
    }

    /// Sends a result as frames, the schema first. The frames end when the client disconnects or
    /// cancels.
    pub(super) fn send(
        self: &Arc<Flight>,
        caller: &Caller,
        id: Option<Handle>,
        answer: Answer,
    ) -> Result<ReadAhead<Frame>> {
        let schema = schema_frame(&answer.wire);
        let encoder = Encoder::new(Arc::clone(&answer.wire))?;
        let cancel = CancellationToken::new();
        let sending = Arc::new(Sending { user: Arc::clone(&caller.user), cancel: cancel.clone() });
        let listed = id.map(|id| self.sending.keep_while(id, sending)).transpose()?;
        let flight = Arc::clone(self);
        Ok(ReadAhead::start(async move |pieces| {
            let Answer { rows, watch, call_session, .. } = answer;
            let asker =
                call_session.as_ref().map_or(Asker::Anybody, |call_session| call_session.asker());
            let sending = async {
                let _permit = flight.shared.admission.admit(asker).await?;
                // Dropped before the permit, so that the entry is gone when another statement gets
                // the permit.
                let _listed = listed;
                pieces.push(schema).await.map_err(left)?;
                match rows {
                    Rows::Batches(rows) => {
                        send_batches(rows, encoder, watch.as_ref(), &pieces).await
                    }
                    Rows::Encoded(rows) => send_encoded(rows, watch.as_ref(), &pieces).await,
                }
            };
            let sent = tokio::select! {
                () = cancel.cancelled() => Err(cancelled()),
                sent = sending => sent,
            };
            drop(call_session);
            if let Some(watch) = watch {
                watch.end(sent.as_ref().err());
            }
            sent
        }))
    }
}

fn left(_: ReaderGone) -> Error {
    cancelled()
}

async fn send_batches(
    mut rows: BatchStream,
    mut encoder: Encoder,
    watch: Option<&Watch>,
    pieces: &Pieces<Frame>,
) -> Result<()> {
    while let Some(batch) = rows.next().await {
        for frame in encoder.encode(&batch?)? {
            if let Some(watch) = watch {
                watch.sent(frame.rows, frame.bytes)?;
            }
            pieces.push(frame).await.map_err(left)?;
        }
    }
    Ok(())
}

/// Forwards frames that workers have encoded.
async fn send_encoded(
    mut rows: EncodedStream,
    watch: Option<&Watch>,
    pieces: &Pieces<Frame>,
) -> Result<()> {
    while let Some(encoded) = rows.next().await {
        let Encoded { rows, bytes, pieces: content } = encoded?;
        let rows = usize::try_from(rows).unwrap_or(usize::MAX);
        if let Some(watch) = watch {
            watch.sent(rows, bytes)?;
        }
        pieces.push(Frame { pieces: content, rows, bytes }).await.map_err(left)?;
    }
    Ok(())
}

impl Answer {
    /// An answer without columns and rows.
    pub(super) fn nothing() -> Answer {
        Answer::of_batch(RecordBatch::new_empty(Arc::new(Schema::empty())))
    }

    pub(super) fn of_batch(batch: RecordBatch) -> Answer {
        let wire = batch.schema();
        let rows = Rows::Batches(Box::pin(futures::stream::once(async { Ok(batch) })));
        Answer { wire, rows, watch: None, call_session: None }
    }
}

impl Done {
    pub(super) fn into_answer(self) -> Answer {
        match self {
            Done::Rows(answer) => answer,
            Done::Changed(_) => Answer::nothing(),
        }
    }
}

impl Asked {
    fn sql(&self) -> &str {
        match self {
            Asked::Query { sql, .. } => sql,
            Asked::Prepared { statement, .. } => statement.prepared.sql(),
        }
    }

    fn write_to(self, ticket: &mut StatementTicket) {
        match self {
            Asked::Query { sql, transaction } => {
                ticket.query = Some(sql.as_ref().to_owned());
                ticket.transaction = transaction;
            }
            Asked::Prepared { handle, .. } => ticket.prepared = Some(handle),
        }
    }
}

/// Number of rows that a statement changed.
pub(crate) fn changed_by(tag: &Tag) -> i64 {
    match tag {
        Tag::Insert(rows) | Tag::Update(rows) | Tag::Delete(rows) | Tag::Copy(rows) => {
            i64::try_from(*rows).unwrap_or(i64::MAX)
        }
        Tag::Select | Tag::Fetch | Tag::Other(_) => 0,
    }
}

/// Functions whose calls their session remembers.
const REMEMBERED: [&str; 3] = ["set_config", "nextval", "setval"];

/// True if a statement may leave state in its session, such as a setting or a lock.
pub(super) fn leaves_something(sql: &str) -> bool {
    let is_remembered = |word: &str| REMEMBERED.iter().any(|name| word.eq_ignore_ascii_case(name));
    match StatementKind::of(sql) {
        StatementKind::Transaction | StatementKind::Other => true,
        _ => takes_locks(sql) || names_temporary(sql) || words_of(sql).any(is_remembered),
    }
}

/// True if a statement may create temporary objects, which belong to their session.
fn names_temporary(sql: &str) -> bool {
    let is_temporary = |word: &str| {
        ["temp", "temporary", "pg_temp"].iter().any(|known| word.eq_ignore_ascii_case(known))
    };
    words_of(sql).any(is_temporary)
}

/// A `FlightInfo` with one ticket.
pub(super) fn flight_info(
    schema: &Schema,
    ticket: arrow_flight::Ticket,
    descriptor: FlightDescriptor,
) -> Result<FlightInfo> {
    let endpoint = FlightEndpoint::new().with_ticket(ticket);
    let info = FlightInfo::new().with_endpoint(endpoint).with_descriptor(descriptor);
    let info = info
        .try_with_schema(schema)
        .map_err(|error| Error::internal("the columns cannot be told").with_source(error))?;
    Ok(info.with_ordered(true))
}

/// True if a statement may safely run again: it is a query without any word that indicates a
/// change.
fn repeatable(sql: &str) -> bool {
    let changes = |word: &str| {
        ["insert", "into", "update", "delete", "nextval", "setval"]
            .iter()
            .any(|known| word.eq_ignore_ascii_case(known))
    };
    let reads = StatementKind::of(sql) == StatementKind::Select && !words_of(sql).any(changes);
    reads && !takes_locks(sql)
}

fn words_of(sql: &str) -> impl Iterator<Item = &str> {
    sql.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
}

fn fingerprint(schema: &Schema) -> u64 {
    let mut hasher = DefaultHasher::new();
    schema.hash(&mut hasher);
    hasher.finish()
}

fn no_connection() -> Error {
    let message = "a transaction needs a connection, and this call is on its own";
    Error::new(SqlState::NO_ACTIVE_TRANSACTION, message)
        .with_hint("Log in with a handshake, keep cookies, or use BeginTransaction.")
}

fn gone() -> Error {
    let message = "the statement's rows are gone: they were fetched, or nobody asked for too long";
    Error::new(SqlState::OBJECT_NOT_IN_STATE, message).with_hint("Run the statement again.")
}

fn cancelled() -> Error {
    Error::new(SqlState::QUERY_CANCELED, "canceling statement due to user request")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_its_session_leaves_something() {
        for (sql, expected) in [
            ("SELECT 1", false),
            ("INSERT INTO t VALUES (1)", false),
            ("CREATE TABLE t (n int)", false),
            ("CREATE TEMP TABLE t (n int)", true),
            ("SELECT 1 AS n INTO TEMPORARY t", true),
            ("CREATE VIEW pg_temp.v AS SELECT 1", true),
            ("SELECT pg_catalog.set_config('a.b', 'c', false)", true),
            ("SELECT pg_advisory_lock(1)", true),
            ("SELECT nextval('s')", true),
            ("SET timezone = 'UTC'", true),
            ("BEGIN", true),
            ("PREPARE p AS SELECT 1", true),
            ("DECLARE c CURSOR FOR SELECT 1", true),
        ] {
            assert_eq!(leaves_something(sql), expected, "{sql}");
        }
    }

    #[test]
    fn only_what_reads_is_repeatable() {
        for (sql, expected) in [
            ("SELECT 1", true),
            ("  (VALUES (1))", true),
            ("WITH a AS (SELECT 1) SELECT * FROM a", true),
            ("SELECT updated_at, delete_me FROM t", true),
            ("WITH a AS (SELECT 1) INSERT INTO t SELECT * FROM a RETURNING *", false),
            ("INSERT INTO t VALUES (1) RETURNING *", false),
            ("SELECT nextval('s')", false),
            ("SELECT setval('s', 1)", false),
            ("SELECT pg_try_advisory_lock(1)", false),
            ("FETCH 1 FROM c", false),
            ("EXECUTE p", false),
            ("EXPLAIN ANALYZE DELETE FROM t", false),
        ] {
            assert_eq!(repeatable(sql), expected, "{sql}");
        }
    }
}
