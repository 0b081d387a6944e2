//! PostgreSQL and sessions of Thalweg, their answers, and the comparison of two answers.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::{FutureExt as _, TryStreamExt as _};
use thalweg_formats::postgres::Type;
use thalweg_formats::text::ValueFormatter;
use thalweg_query::{Session, Tag};
use tokio::sync::Mutex;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

/// Longest time for a statement, far above what any of them takes.
const LONGEST: Duration = Duration::from_secs(60);

/// One of those that are asked.
pub struct Peer {
    pub name: &'static str,
    connection: Connection,
}

enum Connection {
    Postgres(Client),
    Thalweg(Box<Mutex<Session>>),
}

/// Rows in the text format, or an error.
pub type Answer = Result<Rows, Failure>;

#[derive(Default)]
pub struct Rows {
    /// Names of PostgreSQL's types.
    pub types: Vec<String>,
    pub names: Vec<String>,
    pub rows: Vec<Vec<Option<String>>>,
    /// Rows that a statement without `RETURNING` changed.
    pub changed: u64,
}

pub struct Failure {
    pub state: String,
    pub message: String,
}

/// A statement and how its answers compare.
pub struct Statement {
    /// With marks: see [`super::marks`].
    pub marked: String,
    /// Whether its rows come in one order.
    pub is_ordered: bool,
}

impl Peer {
    /// PostgreSQL by a connection string.
    pub async fn postgres(address: &str) -> Peer {
        let connected = tokio_postgres::connect(address, NoTls).await;
        let (client, connection) =
            connected.unwrap_or_else(|error| panic!("PostgreSQL at {address}: {error}"));
        tokio::spawn(connection);
        Peer { name: "PostgreSQL", connection: Connection::Postgres(client) }
    }

    pub fn thalweg(name: &'static str, session: Session) -> Peer {
        Peer { name, connection: Connection::Thalweg(Box::new(Mutex::new(session))) }
    }

    /// Runs a statement that cannot fail.
    pub async fn done(&self, sql: &str) {
        if let Err(failure) = self.answer(sql).await {
            panic!("{}: {sql}\n{} {}", self.name, failure.state, failure.message);
        }
    }

    /// A panic and a statement without an end are answers that no other peer gives.
    pub async fn answer(&self, sql: &str) -> Answer {
        let answer = AssertUnwindSafe(async {
            match &self.connection {
                Connection::Postgres(client) => of_postgres(client, sql).await.map_err(failure),
                Connection::Thalweg(session) => {
                    let mut session = session.lock().await;
                    of_thalweg(&mut session, sql).await.map_err(|error| Failure {
                        state: error.state().0.to_owned(),
                        message: error.to_string(),
                    })
                }
            }
        });
        let failed = |state: &str| {
            Err(Failure { state: state.to_owned(), message: format!("{LONGEST:?} or less") })
        };
        match tokio::time::timeout(LONGEST, answer.catch_unwind()).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => failed("PANICKED"),
            Err(_) => failed("TIMED OUT"),
        }
    }
}

/// Described by the extended protocol, run by the simple one.
async fn of_postgres(client: &Client, sql: &str) -> Result<Rows, tokio_postgres::Error> {
    let prepared = client.prepare(sql).await?;
    let columns = prepared.columns();
    let mut answer = Rows {
        types: columns.iter().map(|column| column.type_().name().to_owned()).collect(),
        names: columns.iter().map(|column| column.name().to_owned()).collect(),
        ..Rows::default()
    };
    for message in client.simple_query(sql).await? {
        match message {
            SimpleQueryMessage::Row(row) => {
                let values = (0..row.len()).map(|place| row.get(place).map(str::to_owned));
                answer.rows.push(values.collect());
            }
            SimpleQueryMessage::CommandComplete(count) => answer.changed = count,
            _ => {}
        }
    }
    Ok(answer)
}

async fn of_thalweg(session: &mut Session, sql: &str) -> thalweg_types::Result<Rows> {
    let mut outcome = session.execute(sql).await?;
    let fields = outcome.schema.fields();
    let type_of = |oid| tokio_postgres::types::Type::from_oid(oid).expect("types are built in");
    let mut answer = Rows {
        types: fields.iter().map(|field| type_of(Type::of(field).oid).name().to_owned()).collect(),
        names: fields.iter().map(|field| field.name().clone()).collect(),
        ..Rows::default()
    };
    if let Some(stream) = &mut outcome.rows {
        while let Some(batch) = stream.try_next().await? {
            let columns = batch.columns().iter().map(ValueFormatter::new);
            let columns: Vec<ValueFormatter> = columns.collect::<thalweg_types::Result<_>>()?;
            for row in 0..batch.num_rows() {
                answer.rows.push(columns.iter().map(|column| text(column, row)).collect());
            }
        }
    }
    answer.changed = match outcome.tag {
        Tag::Insert(rows) | Tag::Update(rows) | Tag::Delete(rows) | Tag::Copy(rows) => rows,
        Tag::Select | Tag::Fetch | Tag::Other(_) => answer.rows.len() as u64,
    };
    Ok(answer)
}

fn text(column: &ValueFormatter, row: usize) -> Option<String> {
    if column.is_null(row) {
        return None;
    }
    let mut text = String::new();
    column.format(row, &mut text);
    Some(text)
}

fn failure(error: tokio_postgres::Error) -> Failure {
    match error.as_db_error() {
        Some(error) => {
            Failure { state: error.code().code().to_owned(), message: error.message().to_owned() }
        }
        None => Failure { state: "CONNECTION".to_owned(), message: format!("{error:?}") },
    }
}

/// What came of a comparison.
pub enum Verdict {
    Agrees,
    /// Thalweg says that it does not support the statement.
    Refused(String),
    Differs(&'static str),
}

/// Compares PostgreSQL's answer with another one.
pub fn compare(statement: &Statement, expected: &Answer, found: &Answer) -> Verdict {
    match (expected, found) {
        (_, Err(failure)) if failure.state == "0A000" => Verdict::Refused(failure.message.clone()),
        (Err(one), Err(other)) if class(&one.state) == class(&other.state) => Verdict::Agrees,
        (Err(_), Err(_)) => Verdict::Differs("the errors differ"),
        (Err(_), Ok(_)) => Verdict::Differs("PostgreSQL fails"),
        (Ok(_), Err(_)) => Verdict::Differs("Thalweg fails"),
        (Ok(one), Ok(other)) => compare_rows(statement, one, other),
    }
}

fn class(state: &str) -> &str {
    state.get(..2).unwrap_or(state)
}

fn compare_rows(statement: &Statement, one: &Rows, other: &Rows) -> Verdict {
    if types(one) != types(other) {
        return Verdict::Differs("the types differ");
    }
    if one.names != other.names {
        return Verdict::Differs("the names differ");
    }
    if one.changed != other.changed || one.rows.len() != other.rows.len() {
        return Verdict::Differs("the numbers of rows differ");
    }
    if !statement.is_ordered {
        let (one, other) = (sorted(one), sorted(other));
        let mut pairs = one.iter().zip(&other);
        return match pairs.all(|(one, other)| one == other) {
            true => Verdict::Agrees,
            false => Verdict::Differs("the rows differ"),
        };
    }
    match compared(one) == compared(other) {
        true => Verdict::Agrees,
        false => Verdict::Differs("the rows or their order differ"),
    }
}

/// Rows as they are compared.
fn compared(rows: &Rows) -> Vec<Vec<Option<String>>> {
    let row = |row: &Vec<Option<String>>| {
        let values = row.iter().zip(&rows.types);
        values.map(|(value, of)| value.as_ref().map(|text| rounded(text, of))).collect()
    };
    rows.rows.iter().map(row).collect()
}

fn sorted(rows: &Rows) -> Vec<Vec<Option<String>>> {
    let mut rows = compared(rows);
    rows.sort();
    rows
}

/// Numbers are compared by value, floating-point numbers and quotients by 12 digits: a column of
/// `numeric` has one scale in Thalweg, and quotients have 16 digits behind the point.
fn rounded(text: &str, of: &str) -> String {
    if !matches!(of, "float8" | "float4" | "numeric") {
        return text.to_owned();
    }
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() => format!("{:.11e}", number + 0.0),
        _ => text.to_owned(),
    }
}

/// `varchar` is `text` in Thalweg where functions and CASE give it.
fn types(rows: &Rows) -> Vec<String> {
    rows.types.iter().map(|of| of.replace("varchar", "text")).collect()
}

/// An answer for people.
pub fn shown(answer: &Answer) -> String {
    const ROWS_MAX: usize = 12;
    match answer {
        Err(Failure { state, message }) => format!("    {state} {message}\n"),
        Ok(rows) => {
            let mut text = format!("    ({})\n", rows.types.join(", "));
            for row in rows.rows.iter().take(ROWS_MAX) {
                let values = row.iter().map(|value| value.as_deref().unwrap_or("NULL"));
                text += &format!("    {}\n", values.collect::<Vec<&str>>().join(" | "));
            }
            text + &format!("    {} rows, {} counted\n", rows.rows.len(), rows.changed)
        }
    }
}
