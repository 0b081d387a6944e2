//! The server's log, and the hook that front ends hold around each statement. The hook counts the
//! statement, enforces the size limit of its result, exports it as a span, and logs it with its
//! plan if it was slow.

mod queue;
mod spans;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use thalweg_env::Env;
use thalweg_query::{Database, without_passwords};
use thalweg_types::{Error, Result, SqlState};
use tokio::sync::Semaphore;
use tracing::Subscriber;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::config::{LogConfig, ServerConfig};
use crate::connections::FrontEnd;
use crate::metrics::{Metrics, Running, StatementKind, name_of};
pub use queue::LogGuard;
use queue::LogQueue;
pub(crate) use queue::lines_dropped;
pub(crate) use spans::check_endpoint;
use spans::{Spans, StatementSpan};

/// Maximum length of a statement's text in the log, in bytes.
const SQL_BYTES_MAX: usize = 16 << 10;
/// Maximum length of a plan in the log, in bytes.
const PLAN_BYTES_MAX: usize = 64 << 10;
/// Time limit for planning a slow statement again, as a value of `statement_timeout`.
const PLAN_TIMEOUT: &str = "1s";

/// Sends the process's log to the standard error stream, which a thread of its own writes. Dropping
/// the guard waits until it is written, for a short time.
///
/// # Errors
/// Where the filter cannot be read, the process logs already, or the system refuses a thread.
pub fn install(config: &LogConfig) -> Result<LogGuard> {
    let filter = filter(config)?;
    let started = LogQueue::start(&Env::real(), std::io::stderr(), config.json);
    // The thread ends with the process, even where the stream blocks it.
    let (queue, guard, _) = started.map_err(|error| {
        let message = "the system refused a thread for the log";
        Error::new(SqlState::CONFIGURATION_LIMIT_EXCEEDED, message).with_source(error)
    })?;
    tracing::subscriber::set_global_default(subscriber(config.json, filter, queue))
        .map_err(|error| Error::internal("the process logs already").with_source(error))?;
    Ok(guard)
}

/// Parses the log's filter.
///
/// # Errors
/// If the filter cannot be read.
pub(crate) fn filter(config: &LogConfig) -> Result<EnvFilter> {
    EnvFilter::try_new(&config.filter).map_err(|error| {
        let message = format!("log.filter \"{}\" cannot be read: {error}", config.filter);
        Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
            .with_hint("Give a level (error, warn, info, debug, trace) or module=level, ….")
    })
}

/// A subscriber that writes lines of text, or one JSON object per line.
fn subscriber<W>(json: bool, filter: EnvFilter, writer: W) -> Box<dyn Subscriber + Send + Sync>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
    match json {
        false => Box::new(log.with_ansi(false).finish()),
        true => Box::new(log.json().flatten_event(true).finish()),
    }
}

/// Observes the statements of one server.
pub(crate) struct Observer {
    metrics: Arc<Metrics>,
    database: Database,
    /// Statements that take at least this long are logged.
    slow_after: Option<Duration>,
    /// Maximum size of a result in bytes; 0 for no limit.
    result_bytes_max: u64,
    spans: Option<Spans>,
    /// One permit: a single plan is made for the log at a time, since slow statements come in
    /// crowds.
    explaining: Semaphore,
}

impl Observer {
    /// # Errors
    /// If the collector's address is invalid.
    pub(crate) fn new(
        metrics: &Arc<Metrics>,
        database: &Database,
        config: &ServerConfig,
    ) -> Result<Arc<Observer>> {
        let millis = config.log.slow_statement_ms;
        let endpoint = config.otlp.endpoint.as_deref();
        Ok(Arc::new(Observer {
            metrics: Arc::clone(metrics),
            database: database.clone(),
            slow_after: (millis > 0).then(|| Duration::from_millis(millis)),
            result_bytes_max: config.limits.result_bytes,
            spans: endpoint.map(Spans::to).transpose()?,
            explaining: Semaphore::new(1),
        }))
    }

    /// Exports the remaining spans when a server ends.
    pub(crate) async fn flush(&self) {
        if let Some(spans) = &self.spans {
            spans.flush().await;
        }
    }

    /// Starts observing a statement. Front ends call this when the statement arrives.
    pub(crate) fn begin(
        self: &Arc<Observer>,
        front_end: FrontEnd,
        user: &Arc<str>,
        sql: &Arc<str>,
    ) -> Watch {
        let kind = StatementKind::of(sql);
        Watch {
            running: self.metrics.statement(front_end, kind),
            span: self
                .spans
                .as_ref()
                .map(|spans| Box::new(spans.statement(front_end, kind, user, sql))),
            observer: Arc::clone(self),
            front_end,
            kind,
            user: Arc::clone(user),
            sql: Arc::clone(sql),
            sent_bytes: AtomicU64::new(0),
        }
    }
}

/// Held around one statement. A statement whose watch is dropped before [`Watch::end`] counts as
/// cancelled.
pub(crate) struct Watch {
    running: Running,
    /// Boxed, since few servers have a collector.
    span: Option<Box<StatementSpan>>,
    observer: Arc<Observer>,
    front_end: FrontEnd,
    kind: StatementKind,
    user: Arc<str>,
    sql: Arc<str>,
    sent_bytes: AtomicU64,
}

impl Watch {
    pub(crate) fn kind(&self) -> StatementKind {
        self.kind
    }

    /// Counts rows sent to the client.
    ///
    /// # Errors
    /// If these rows take the result over its size limit.
    pub(crate) fn sent(&self, rows: usize, bytes: usize) -> Result<()> {
        self.running.sent(rows, bytes);
        let limit = self.observer.result_bytes_max;
        let sent = self.sent_bytes.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64;
        if limit == 0 || sent <= limit {
            return Ok(());
        }
        let message = format!("the result is larger than the limit of {limit} bytes");
        Err(Error::new(SqlState::LIMIT_EXCEEDED, message)
            .with_hint("Ask for fewer rows or columns, or raise limits.result_bytes."))
    }

    /// Ends the observation. Front ends call this when the last row is on its way, or with the
    /// error of the statement.
    pub(crate) fn end(self, error: Option<&Error>) {
        let elapsed = self.running.end(error);
        if let Some(span) = self.span {
            span.end(error.map(Error::state));
        }
        if self.observer.slow_after.is_none_or(|slow_after| elapsed < slow_after) {
            return;
        }
        let slow = Slow {
            front_end: self.front_end,
            kind: self.kind,
            user: self.user,
            sql: self.sql,
            elapsed,
            state: error.map(Error::state),
        };
        // The plan is made in the background, so that the client does not wait for it.
        let observer = self.observer;
        tokio::spawn(async move {
            let turn = observer.explaining.try_acquire();
            slow.log(turn.is_ok().then_some(&observer.database)).await;
        });
    }
}

/// A statement that took long.
struct Slow {
    front_end: FrontEnd,
    kind: StatementKind,
    user: Arc<str>,
    sql: Arc<str>,
    elapsed: Duration,
    state: Option<SqlState>,
}

impl Slow {
    /// Logs the statement, without its plan if `database` is `None`.
    async fn log(self, database: Option<&Database>) {
        let text = &self.sql[..self.sql.floor_char_boundary(SQL_BYTES_MAX)];
        let plan = match (self.kind, database) {
            // Planning and printing a long statement would take seconds.
            _ if text.len() < self.sql.len() => None,
            (
                StatementKind::Select
                | StatementKind::Insert
                | StatementKind::Update
                | StatementKind::Delete,
                Some(database),
            ) => plan_of(database, &self.sql).await,
            _ => None,
        };
        tracing::warn!(
            front_end = name_of(self.front_end),
            user = &*self.user,
            milliseconds = self.elapsed.as_secs_f64() * 1e3,
            sqlstate = self.state.map_or("00000", |state| state.0),
            sql = &*without_passwords(text),
            plan = plan.as_deref().unwrap_or("none"),
            "slow statement"
        );
    }
}

/// The plan of a statement as the planner would make it now. `None` if it cannot be made: the
/// statement depends on state of its session, has parameters, or takes too long to plan.
async fn plan_of(database: &Database, sql: &str) -> Option<String> {
    let mut session = database.internal_session();
    session.set("statement_timeout", PLAN_TIMEOUT).ok()?;
    // The plan is cut: it contains every literal list, and lists computed during planning.
    session.plan_text(sql, PLAN_BYTES_MAX).await.ok()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use parking_lot::Mutex;

    use super::*;

    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Vec<u8>>>);

    impl Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// The log entry of a statement, run as a slow one.
    async fn logged(database: &Database, sql: &str) -> serde_json::Value {
        let log = Memory::default();
        let writer = log.clone();
        let filter = EnvFilter::new("info");
        let json = subscriber(true, filter, move || writer.clone());
        let slow = Slow {
            front_end: FrontEnd::Flight,
            kind: StatementKind::Select,
            user: "eve".into(),
            sql: sql.into(),
            elapsed: Duration::from_millis(1_500),
            state: None,
        };
        let guard = tracing::subscriber::set_default(json);
        slow.log(Some(database)).await;
        drop(guard);
        let line = String::from_utf8(log.0.lock().clone()).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    #[tokio::test]
    async fn a_slow_statement_is_logged_with_its_plan() {
        let database = Database::in_memory().unwrap();
        database.session().execute("CREATE TABLE trades (symbol text)").await.unwrap();
        let event = logged(&database, "SELECT symbol FROM trades").await;
        assert_eq!(event["message"], "slow statement");
        assert_eq!(event["milliseconds"], 1_500.0);
        assert_eq!(event["sql"], "SELECT symbol FROM trades");
        assert_eq!((&event["user"], &event["sqlstate"]), (&"eve".into(), &"00000".into()));
        assert!(event["plan"].as_str().unwrap().contains("ShardScan: trades"), "{event}");
    }

    #[tokio::test]
    async fn a_long_statement_is_cut_and_has_no_plan() {
        let database = Database::in_memory().unwrap();
        let event = logged(&database, &format!("SELECT 1 -- {}", "x".repeat(SQL_BYTES_MAX))).await;
        assert_eq!(event["sql"].as_str().unwrap().len(), SQL_BYTES_MAX);
        assert_eq!(event["plan"], "none");
    }

    #[tokio::test]
    async fn a_plan_that_cannot_be_told_is_left_out() {
        let database = Database::in_memory().unwrap();
        assert_eq!(plan_of(&database, "SELECT * FROM nowhere").await, None);
    }
}
