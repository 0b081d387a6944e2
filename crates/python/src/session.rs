//! A session of a database: statements, transactions, and the tables that are registered with it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::{DataType as ArrowType, FieldRef};
use futures::TryStreamExt as _;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use thalweg::{
    CancelHandle, Copy, Database, Durability, Error, Prepared, Result, ScalarValue, SqlState,
    Statement, Tag, TransactionStatus,
};
use thalweg_columns::TYPE_KEY;
use thalweg_types::DataType;
use thalweg_values::types::sql_name;
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::appender::Appender;
use crate::errors::{closed, exception};
use crate::process::{Guarded, drop_detached, runtime, wait};
use crate::rows::Rows;
use crate::{arrow_stream, from_python};

/// Interval at which a session that is to be closed cancels its statement.
const CANCEL_EVERY: Duration = Duration::from_millis(20);

/// A session of an embedded database. Threads may share it; its statements run one by one.
#[pyclass(frozen, module = "thalweg._thalweg")]
pub struct Session {
    cancel: CancelHandle,
    open: Arc<Mutex<Guarded<Open>>>,
}

/// The parts of an open session.
struct Open {
    session: thalweg::Session,
    database: Database,
}

/// The outcome of a statement.
#[pyclass(frozen, get_all, module = "thalweg._thalweg")]
pub struct Outcome {
    /// The rows, if the statement returns any.
    rows: Option<Py<Rows>>,
    /// The command tag in PostgreSQL's words, such as `INSERT 0 3`.
    tag: String,
    /// Number of rows that the statement wrote; -1 if it writes none.
    count: i64,
    /// Remarks of the engine.
    notices: Vec<String>,
}

/// The unqualified names of relations that a text reads, in lower case unless they are quoted.
#[pyfunction]
pub fn relation_names(py: Python<'_>, sql: &str) -> PyResult<Vec<String>> {
    thalweg::relation_names(sql).map_err(|error| exception(py, &error))
}

#[pymethods]
impl Session {
    /// Opens a database in memory, or in a directory. `memory_limit` is in bytes.
    #[new]
    #[pyo3(signature = (directory=None, *, threads=None, memory_limit=None, durability=None))]
    fn new(
        py: Python<'_>,
        directory: Option<PathBuf>,
        threads: Option<usize>,
        memory_limit: Option<usize>,
        durability: Option<&str>,
    ) -> PyResult<Session> {
        let mut builder = Database::builder();
        if let Some(directory) = directory {
            builder = builder.directory(directory);
        }
        if let Some(threads) = threads {
            builder = builder.threads(threads);
        }
        if let Some(bytes) = memory_limit {
            builder = builder.memory_limit(bytes);
        }
        builder = builder.durability(match durability {
            None | Some("fsync") => Durability::Fsync,
            Some("write") => Durability::Write,
            Some("none") => Durability::None,
            Some(other) => {
                let message = format!("durability is 'fsync', 'write' or 'none', not {other:?}");
                return Err(PyValueError::new_err(message));
            }
        });
        let opened = runtime().and_then(|runtime| {
            py.detach(|| {
                let _guard = runtime.enter();
                builder.open()
            })
        });
        opened.map(Session::of).map_err(|error| exception(py, &error))
    }

    /// Another session of the same database, with a transaction of its own.
    fn duplicate(&self, py: Python<'_>) -> PyResult<Session> {
        wait(py, Some(&self.cancel), async {
            let mut guard = self.open.lock().await;
            Ok(Session::of(opened(&mut guard)?.database.clone()))
        })
    }

    /// Runs statements and returns the outcome of the last one; None for a text without any.
    #[pyo3(signature = (sql, values=None))]
    fn execute(
        &self,
        py: Python<'_>,
        sql: &str,
        values: Option<Vec<Bound<'_, PyAny>>>,
    ) -> PyResult<Option<Outcome>> {
        let outcome = match values {
            None => wait(py, Some(&self.cancel), async {
                let mut guard = self.open.lock().await;
                run_text(&mut opened(&mut guard)?.session, sql).await
            })?,
            Some(values) => {
                let prepared = self.prepared(py, sql, &values)?;
                let row = pyo3::types::PyList::new(py, values)?.into_any();
                let values = from_python::values(py, prepared.parameters(), &row, 1)?;
                Some(wait(py, Some(&self.cancel), async {
                    let mut guard = self.open.lock().await;
                    let session = &mut opened(&mut guard)?.session;
                    let outcome = session.execute_prepared(&prepared, &values).await?;
                    without_copy(session, outcome).await
                })?)
            }
        };
        outcome.map(|outcome| self.outcome(py, outcome)).transpose()
    }

    /// Runs one statement once for each row of values, in one transaction unless one is open, and
    /// returns the number of rows that were written.
    fn execute_many(
        &self,
        py: Python<'_>,
        sql: &str,
        rows: Vec<Bound<'_, PyAny>>,
    ) -> PyResult<i64> {
        let Some(first) = rows.first() else { return Ok(0) };
        let first = first.try_iter()?.collect::<PyResult<Vec<_>>>()?;
        let prepared = self.prepared(py, sql, &first)?;
        let values = rows.iter().zip(1..);
        let values =
            values.map(|(row, number)| from_python::values(py, prepared.parameters(), row, number));
        let values = values.collect::<PyResult<Vec<_>>>()?;
        wait(py, Some(&self.cancel), async {
            let mut guard = self.open.lock().await;
            let session = &mut opened(&mut guard)?.session;
            session.begin_implicit();
            let ran = run_many(session, &prepared, &values).await;
            session.end_implicit(ran.is_ok()).await?;
            ran
        })
    }

    /// State of the transaction: `idle`, `active` or `failed`.
    fn transaction(&self, py: Python<'_>) -> PyResult<&'static str> {
        wait(py, Some(&self.cancel), async {
            let mut guard = self.open.lock().await;
            Ok(match opened(&mut guard)?.session.transaction() {
                TransactionStatus::Idle => "idle",
                TransactionStatus::Active => "active",
                TransactionStatus::Failed => "failed",
            })
        })
    }

    /// Makes the rows of an object with `__arrow_c_stream__` known to queries under these names,
    /// and returns the names of the columns.
    fn register(
        &self,
        py: Python<'_>,
        names: Vec<String>,
        rows: &Bound<'_, PyAny>,
    ) -> PyResult<Vec<String>> {
        let (schema, batches) = arrow_stream::read(rows)?;
        wait(py, Some(&self.cancel), async {
            let mut guard = self.open.lock().await;
            let session = &mut opened(&mut guard)?.session;
            for name in &names {
                session.register(name, Arc::clone(&schema), batches.clone())?;
            }
            Ok(schema.fields().iter().map(|field| field.name().clone()).collect())
        })
    }

    /// Like `register`, for sequences of values of a table's columns.
    fn register_rows(
        &self,
        py: Python<'_>,
        name: &str,
        table: &str,
        columns: Vec<String>,
        rows: Vec<Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let fields = selected(py, &self.fields(py, table)?, &columns)?;
        let batch = from_python::batch(py, &fields, &rows)?;
        wait(py, Some(&self.cancel), async {
            let mut guard = self.open.lock().await;
            opened(&mut guard)?.session.register(name, batch.schema(), vec![batch])
        })
    }

    /// Ends `register`. Returns false if nothing has the name.
    fn unregister(&self, py: Python<'_>, name: &str) -> PyResult<bool> {
        wait(py, Some(&self.cancel), async {
            let mut guard = self.open.lock().await;
            Ok(opened(&mut guard)?.session.unregister(name))
        })
    }

    /// Name and SQL type of each column of a table.
    fn table_columns(&self, py: Python<'_>, table: &str) -> PyResult<Vec<(String, String)>> {
        let fields = self.fields(py, table)?;
        let named = fields.iter().map(|field| Ok((field.name().clone(), sql_name(field)?)));
        named.collect::<Result<_>>().map_err(|error| exception(py, &error))
    }

    /// A bulk writer into a table, with a transaction of its own.
    fn appender(&self, py: Python<'_>, table: &str) -> PyResult<Appender> {
        let fields = self.fields(py, table)?;
        let appender = wait(py, Some(&self.cancel), async {
            let mut guard = self.open.lock().await;
            opened(&mut guard)?.session.appender(table)
        })?;
        Ok(Appender::new(fields, appender))
    }

    /// Cancels the statement that another thread runs, and results that are being read.
    fn cancel(&self) {
        self.cancel.cancel();
    }

    /// Ends the session. A transaction that is open is rolled back, and a statement that another
    /// thread runs is canceled.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let open = wait(py, None, async {
            loop {
                match timeout(CANCEL_EVERY, self.open.lock()).await {
                    Ok(mut open) => return Ok(open.take()),
                    // A statement that begins after a cancel does not hear it.
                    Err(_) => self.cancel.cancel(),
                }
            }
        })?;
        drop_detached(open);
        Ok(())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        drop_detached(std::mem::take(&mut self.open));
    }
}

impl Session {
    fn of(database: Database) -> Session {
        let session = database.session();
        let cancel = session.cancel_handle();
        let open = Guarded::new(Open { session, database });
        Session { cancel, open: Arc::new(Mutex::new(open)) }
    }

    /// The columns of a table, whose name has its parts separated by points.
    fn fields(&self, py: Python<'_>, table: &str) -> PyResult<Vec<FieldRef>> {
        let parts = table.split('.').map(|part| format!("\"{}\"", part.replace('"', "\"\"")));
        let sql = format!("SELECT * FROM {}", parts.collect::<Vec<_>>().join("."));
        let (prepared, _) = self.prepare(py, &sql, &[])?;
        let prepared = prepared.map_err(|error| exception(py, &error))?;
        Ok(prepared.schema().map(|schema| schema.fields().to_vec()).unwrap_or_default())
    }

    /// Describes a statement. The second value is the state of the transaction afterwards.
    fn prepare(
        &self,
        py: Python<'_>,
        sql: &str,
        declared: &[Option<DataType>],
    ) -> PyResult<(Result<Prepared>, TransactionStatus)> {
        wait(py, Some(&self.cancel), async {
            let mut guard = self.open.lock().await;
            let session = &mut opened(&mut guard)?.session;
            let prepared = session.prepare(sql, declared).await;
            Ok((prepared, session.transaction()))
        })
    }

    /// A statement for values. The types of its parameters follow from the statement, and from the
    /// values where the statement leaves them open.
    fn prepared(
        &self,
        py: Python<'_>,
        sql: &str,
        values: &[Bound<'_, PyAny>],
    ) -> PyResult<Prepared> {
        let (prepared, status) = self.prepare(py, sql, &[])?;
        let mut declared = vec![None; values.len()];
        match &prepared {
            Ok(prepared) => {
                check_count(prepared, values.len()).map_err(|error| exception(py, &error))?;
                for ((field, value), declared) in
                    prepared.parameters().iter().zip(values).zip(&mut declared)
                {
                    let is_open = *field.data_type() == ArrowType::Utf8View
                        && !field.metadata().contains_key(TYPE_KEY);
                    if is_open {
                        *declared = from_python::own_type(value)?;
                    }
                }
            }
            Err(error) if is_about_types(error) && status == TransactionStatus::Idle => {
                for (value, declared) in values.iter().zip(&mut declared) {
                    *declared = from_python::own_type(value)?;
                }
            }
            Err(_) => {}
        }
        let prepared = match declared.iter().any(Option::is_some) {
            true => self.prepare(py, sql, &declared)?.0,
            false => prepared,
        };
        prepared.map_err(|error| exception(py, &error))
    }

    fn outcome(&self, py: Python<'_>, outcome: thalweg::Outcome) -> PyResult<Outcome> {
        let count = match outcome.tag {
            Tag::Insert(rows) | Tag::Update(rows) | Tag::Delete(rows) | Tag::Copy(rows) => {
                i64::try_from(rows).unwrap_or(i64::MAX)
            }
            Tag::Select | Tag::Fetch | Tag::Other(_) => -1,
        };
        let rows = outcome
            .rows
            .map(|rows| Py::new(py, Rows::new(outcome.schema, rows, self.cancel.clone())));
        Ok(Outcome {
            rows: rows.transpose()?,
            tag: outcome.tag.to_string(),
            count,
            notices: outcome.notices.into_iter().map(|notice| notice.message).collect(),
        })
    }
}

fn opened(guard: &mut Guarded<Open>) -> Result<&mut Open> {
    guard.get_mut().ok_or_else(|| closed("the connection"))
}

/// Runs the statements of a text. Several are one transaction. Returns the last outcome.
async fn run_text(session: &mut thalweg::Session, sql: &str) -> Result<Option<thalweg::Outcome>> {
    let statements = session.split(sql).await?;
    match statements.len() {
        0 => return Ok(None),
        1 => {
            let outcome = session.execute(sql).await?;
            return without_copy(session, outcome).await.map(Some);
        }
        _ => {}
    }
    session.begin_implicit();
    let ran = run_statements(session, sql, &statements).await;
    session.end_implicit(ran.is_ok()).await?;
    ran
}

/// Runs statements of a text, and returns the outcome of the last one. The rows of the others are
/// computed and dropped.
async fn run_statements(
    session: &mut thalweg::Session,
    sql: &str,
    statements: &[Statement],
) -> Result<Option<thalweg::Outcome>> {
    let mut last = None;
    for statement in statements {
        if let Some(outcome) = last.take() {
            drain(outcome).await?;
        }
        let before = sql[..statement.offset].chars().count();
        let ran = session.execute(&statement.text).await.map_err(|error| moved(error, before))?;
        last = Some(without_copy(session, ran).await?);
    }
    Ok(last)
}

/// An error with its position counted from the beginning of the whole text.
fn moved(error: Error, before: usize) -> Error {
    match error.position() {
        Some(position) => error.with_position(position + before),
        None => error,
    }
}

/// Reads all rows of an outcome, so that its statement runs to its end.
async fn drain(outcome: thalweg::Outcome) -> Result<()> {
    if let Some(mut rows) = outcome.rows {
        while rows.try_next().await?.is_some() {}
    }
    Ok(())
}

/// The outcome, unless it is a `COPY` whose other end would be this program: that is given up.
async fn without_copy(
    session: &mut thalweg::Session,
    mut outcome: thalweg::Outcome,
) -> Result<thalweg::Outcome> {
    let (what, hint) = match &outcome.copy {
        None => return Ok(outcome),
        Some(Copy::In(_)) => ("COPY FROM STDIN", "Use appender(), or COPY from a file."),
        Some(Copy::Out(_)) => ("COPY TO STDOUT", "Read the rows of a query, or COPY to a file."),
    };
    let error = Error::unsupported(format!("{what} in a Python program")).with_hint(hint);
    if let Some(Copy::In(_)) = outcome.copy.take() {
        // It returns the error that it is given.
        let _ = session.finish_copy(Err(error.clone())).await;
    }
    Err(error)
}

/// Runs a statement for each row of values. Returns the number of rows that were written.
async fn run_many(
    session: &mut thalweg::Session,
    prepared: &Prepared,
    values: &[Vec<ScalarValue>],
) -> Result<i64> {
    let cancels = session.cancel_handle().watch();
    let mut count = 0;
    for row in values {
        // A statement about one row may end without a pause in which signals are handled.
        tokio::task::yield_now().await;
        cancels.check()?;
        let outcome = session.execute_prepared(prepared, row).await?;
        let outcome = without_copy(session, outcome).await?;
        if let Tag::Insert(rows) | Tag::Update(rows) | Tag::Delete(rows) = outcome.tag {
            count += i64::try_from(rows).unwrap_or(i64::MAX);
        }
        drain(outcome).await?;
    }
    Ok(count)
}

fn check_count(prepared: &Prepared, given: usize) -> Result<()> {
    let wanted = prepared.parameters().len();
    if given == wanted {
        return Ok(());
    }
    let message = format!("the statement has {wanted} parameters, but {given} values were given");
    Err(Error::new(SqlState::UNDEFINED_PARAMETER, message))
}

/// True if a statement was refused because the types of its parameters are open.
fn is_about_types(error: &Error) -> bool {
    [
        SqlState::INDETERMINATE_DATATYPE,
        SqlState::AMBIGUOUS_FUNCTION,
        SqlState::UNDEFINED_FUNCTION,
        SqlState::DATATYPE_MISMATCH,
    ]
    .contains(&error.state())
}

/// The fields with these names, in their order.
fn selected(py: Python<'_>, fields: &[FieldRef], names: &[String]) -> PyResult<Vec<FieldRef>> {
    let find = |name: &String| {
        let found = fields.iter().find(|field| field.name() == name).cloned();
        found.ok_or_else(|| {
            let message = format!("column \"{name}\" does not exist");
            exception(py, &Error::new(SqlState::UNDEFINED_COLUMN, message))
        })
    };
    names.iter().map(find).collect()
}
