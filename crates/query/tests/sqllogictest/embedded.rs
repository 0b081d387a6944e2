//! The database in this process: in memory, or in a directory and restarted again and again.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use futures::{FutureExt, StreamExt};
use sqllogictest::{AsyncDB, DBOutput, DefaultColumnType};
use tempfile::TempDir;
use thalweg_formats::text::ValueFormatter;
use thalweg_formats::text::style::within;
use thalweg_query::{
    BOOTSTRAP_ROLE, Database, Durability, Outcome, Session, Tag, TransactionStatus,
};
use thalweg_types::{Error, Result};
use tokio::sync::Mutex;

use crate::route::{Refusal, Route};

type Output = DBOutput<DefaultColumnType>;

pub struct Embedded {
    /// `None`: the database lies in memory and can't be restarted.
    directory: Option<TempDir>,
    /// Whether queries are prepared, and run twice.
    prepares: bool,
    state: Mutex<State>,
}

/// Sessions are kept here, not in their connections, so that a restart can end them all.
struct State {
    /// `None` while the database is restarted only.
    database: Option<Database>,
    sessions: BTreeMap<usize, Session>,
    /// Whether a session holds what a restart would lose for good.
    has_settings: bool,
    connections: usize,
}

impl Embedded {
    pub fn in_memory() -> Result<Arc<Embedded>> {
        Embedded::over(Database::in_memory()?)
    }

    pub fn prepared() -> Result<Arc<Embedded>> {
        Embedded::prepared_over(Database::in_memory()?)
    }

    /// A database of somebody else's, which is not restarted.
    pub fn over(database: Database) -> Result<Arc<Embedded>> {
        Embedded::new(None, false, database)
    }

    /// The same, with queries that are prepared.
    pub fn prepared_over(database: Database) -> Result<Arc<Embedded>> {
        Embedded::new(None, true, database)
    }

    pub fn durable() -> Result<Arc<Embedded>> {
        let directory = tempfile::tempdir()
            .map_err(|error| Error::internal("no temporary directory").with_source(error))?;
        let database = open(directory.path())?;
        Embedded::new(Some(directory), false, database)
    }

    fn new(
        directory: Option<TempDir>,
        prepares: bool,
        database: Database,
    ) -> Result<Arc<Embedded>> {
        let state = State {
            database: Some(database),
            sessions: BTreeMap::new(),
            has_settings: false,
            connections: 0,
        };
        Ok(Arc::new(Embedded { directory, prepares, state: Mutex::new(state) }))
    }
}

fn open(directory: &Path) -> Result<Database> {
    Database::builder().directory(directory).durability(Durability::Write).open()
}

#[async_trait]
impl Route for Embedded {
    type Connection = Connection;

    async fn connect(self: Arc<Self>) -> Result<Connection, Refusal> {
        let mut state = self.state.lock().await;
        state.connections += 1;
        let number = state.connections;
        drop(state);
        Ok(Connection { route: self, number })
    }

    async fn restart(&self) -> Result<(), Refusal> {
        let Some(directory) = &self.directory else { return Ok(()) };
        let mut state = self.state.lock().await;
        let mut sessions = state.sessions.values();
        if state.has_settings || sessions.any(is_busy) {
            return Ok(());
        }
        state.sessions.clear();
        if let Some(database) = state.database.take() {
            database.close()?;
        }
        state.database = Some(open(directory.path())?);
        Ok(())
    }
}

pub struct Connection {
    route: Arc<Embedded>,
    number: usize,
}

impl Connection {
    async fn answer(&self, sql: &str) -> Result<Output> {
        let mut state = self.route.state.lock().await;
        let State { database, sessions, has_settings, .. } = &mut *state;
        let database = database.as_ref().ok_or_else(|| Error::internal("it did not restart"))?;
        let session = sessions.entry(self.number).or_insert_with(|| database.session());
        let mut output = DBOutput::StatementComplete(0);
        for statement in session.parse(sql)? {
            output = match self.route.prepares && only_reads(&statement.text) {
                true => answer_twice(session, &statement.text).await?,
                false => answer_one(session, &statement.text).await?,
            };
            *has_settings |= makes_setting(&statement.text);
        }
        Ok(output)
    }
}

#[async_trait]
impl AsyncDB for Connection {
    type Error = Refusal;
    type ColumnType = DefaultColumnType;

    async fn run(&mut self, sql: &str) -> Result<Output, Refusal> {
        // A panic is a bug like another: the statements after it are worth trying.
        match AssertUnwindSafe(self.answer(sql)).catch_unwind().await {
            Ok(answer) => answer.map_err(Refusal),
            Err(_) => Err(Refusal(Error::internal("the statement panicked"))),
        }
    }

    async fn shutdown(&mut self) {
        self.route.state.lock().await.sessions.remove(&self.number);
    }

    fn engine_name(&self) -> &str {
        "thalweg"
    }

    fn error_sql_state(refusal: &Refusal) -> Option<String> {
        Some(refusal.state())
    }
}

/// Whether a session holds what goes with it: an open transaction, or a role that is not its own.
fn is_busy(session: &Session) -> bool {
    let role = session.setting("role");
    session.transaction() != TransactionStatus::Idle
        || role.as_deref() != Some("none")
        || session.user() != BOOTSTRAP_ROLE
}

/// True if a statement sets what only its session knows: settings, prepared statements, temporary
/// tables, and the numbers that it took from sequences. Roles are looked at by themselves.
fn makes_setting(sql: &str) -> bool {
    if sql.to_lowercase().contains(" temp") {
        return true;
    }
    let words: Vec<String> = sql.split_whitespace().take(2).map(str::to_lowercase).collect();
    let takes_number = || SEQUENCE_CALLS.iter().any(|call| sql.to_lowercase().contains(call));
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["set", "role" | "session"] => false,
        ["select", ..] => takes_number(),
        [first, ..] => ["set", "prepare"].contains(first),
        [] => false,
    }
}

/// The calls that change a sequence.
const SEQUENCE_CALLS: [&str; 2] = ["nextval(", "setval("];

/// Whether a statement may be run twice with the same answer. Locks are counted.
fn only_reads(sql: &str) -> bool {
    let sql = sql.trim_start_matches('(').to_lowercase();
    let reads = ["select", "values", "table"].iter().any(|word| sql.starts_with(word));
    let changes = SEQUENCE_CALLS.iter().chain(&["_advisory_"]).any(|call| sql.contains(call));
    reads && !changes && !sql.split_whitespace().any(|word| word == "into")
}

/// Prepares a query and runs it twice.
async fn answer_twice(session: &mut Session, sql: &str) -> Result<Output> {
    let prepared = session.prepare(sql, &[]).await?;
    let first = session.execute_prepared(&prepared, &[]).await?;
    read(session, first).await?;
    let second = session.execute_prepared(&prepared, &[]).await?;
    read(session, second).await
}

async fn answer_one(session: &mut Session, sql: &str) -> Result<Output> {
    let outcome = session.execute(sql).await?;
    read(session, outcome).await
}

/// Reads a result, and reports to the session that its rows failed, as a server does.
async fn read(session: &mut Session, outcome: Outcome) -> Result<Output> {
    let read = output(outcome).await;
    if read.is_err() {
        session.fail();
    }
    read
}

async fn output(mut outcome: Outcome) -> Result<Output> {
    if let Some(stream) = &mut outcome.rows {
        let mut rows = Vec::new();
        while let Some(batch) = stream.next().await {
            let batch = batch?;
            within(outcome.style.as_ref(), || push_rows(&batch, &mut rows))?;
        }
        return Ok(DBOutput::Rows { types: column_types(&outcome.schema), rows });
    }
    Ok(DBOutput::StatementComplete(match outcome.tag {
        Tag::Insert(rows) | Tag::Update(rows) | Tag::Delete(rows) | Tag::Copy(rows) => rows,
        Tag::Select | Tag::Fetch | Tag::Other(_) => 0,
    }))
}

fn push_rows(batch: &RecordBatch, rows: &mut Vec<Vec<String>>) -> Result<()> {
    let columns: Vec<ValueFormatter> =
        batch.columns().iter().map(ValueFormatter::new).collect::<Result<_>>()?;
    for row in 0..batch.num_rows() {
        rows.push(columns.iter().map(|column| value_text(column, row)).collect());
    }
    Ok(())
}

fn value_text(column: &ValueFormatter, row: usize) -> String {
    if column.is_null(row) {
        return "NULL".to_owned();
    }
    let mut text = String::new();
    column.format(row, &mut text);
    if text.is_empty() { "(empty)".to_owned() } else { text.replace('\n', "\\n") }
}

fn column_types(schema: &SchemaRef) -> Vec<DefaultColumnType> {
    let kind = |data_type: &DataType| match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => DefaultColumnType::Text,
        integer if integer.is_integer() => DefaultColumnType::Integer,
        number if number.is_numeric() => DefaultColumnType::FloatingPoint,
        _ => DefaultColumnType::Any,
    };
    schema.fields().iter().map(|field| kind(field.data_type())).collect()
}
