//! Metrics of a server in Prometheus' format. Labels come from short fixed lists, so that clients
//! cannot make the page grow.
//!
//! Each server has its own set. All metrics are registered when the set is created, so counting is
//! an atomic addition without a look-up.

use std::sync::Arc;
use std::time::Duration;

use metrics::{
    Counter, Gauge, Histogram, Unit, counter, describe_counter, describe_gauge, describe_histogram,
    gauge, histogram, with_local_recorder,
};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use thalweg_query::{Database, PipelineTotals};
use thalweg_types::{Error, SqlState};
use tokio::time::Instant;

mod plans;
mod records;
mod sockets;
mod stages;
mod storage;

use crate::connections::FrontEnd;
use crate::trace::lines_dropped;
use crate::web::Kind;
use plans::PlanMetrics;
pub(crate) use records::RecordMetrics;
pub(crate) use sockets::{Counted, SocketCalls};
use stages::StageMetrics;
use storage::StorageMetrics;

const FRONT_ENDS: [FrontEnd; 4] =
    [FrontEnd::Postgres, FrontEnd::Flight, FrontEnd::Http, FrontEnd::Records];

/// Upper bounds of the histogram buckets of run times, in seconds.
const SECONDS: [f64; 12] =
    [0.0001, 0.000_316, 0.001, 0.003_16, 0.01, 0.031_6, 0.1, 0.316, 1.0, 3.16, 10.0, 100.0];

/// Upper bounds of the histogram buckets of a group's number of rows.
const ROWS: [f64; 6] = [1.0, 10.0, 100.0, 1e3, 1e4, 1e5];

/// SQLSTATE classes (the first two characters) that have their own counter; others share one.
const ERROR_CLASSES: [&str; 18] = [
    "08", "0A", "21", "22", "23", "25", "26", "28", "2B", "3B", "3F", "40", "42", "53", "54", "55",
    "57", "58",
];
const OTHER: &str = "other";

/// The label of a front end.
pub(crate) fn name_of(front_end: FrontEnd) -> &'static str {
    match front_end {
        FrontEnd::Postgres => "postgres",
        FrontEnd::Flight => "flight",
        FrontEnd::Http => "http",
        FrontEnd::Records => "records",
    }
}

/// The kind of a statement, determined by its first word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatementKind {
    Select,
    Insert,
    Update,
    Delete,
    Copy,
    /// `CREATE`, `ALTER`, `DROP`, `TRUNCATE`.
    Define,
    /// `BEGIN`, `COMMIT` and related statements.
    Transaction,
    Other,
}

impl StatementKind {
    const ALL: [StatementKind; 8] = [
        StatementKind::Select,
        StatementKind::Insert,
        StatementKind::Update,
        StatementKind::Delete,
        StatementKind::Copy,
        StatementKind::Define,
        StatementKind::Transaction,
        StatementKind::Other,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            StatementKind::Select => "select",
            StatementKind::Insert => "insert",
            StatementKind::Update => "update",
            StatementKind::Delete => "delete",
            StatementKind::Copy => "copy",
            StatementKind::Define => "define",
            StatementKind::Transaction => "transaction",
            StatementKind::Other => "other",
        }
    }

    pub(crate) fn of(sql: &str) -> StatementKind {
        let word = first_word(sql);
        let is = |words: &[&str]| words.iter().any(|known| word.eq_ignore_ascii_case(known));
        match () {
            () if is(&["select", "with", "values", "table"]) => StatementKind::Select,
            () if is(&["insert"]) => StatementKind::Insert,
            () if is(&["update"]) => StatementKind::Update,
            () if is(&["delete"]) => StatementKind::Delete,
            () if is(&["copy"]) => StatementKind::Copy,
            () if is(&["create", "alter", "drop", "truncate"]) => StatementKind::Define,
            () if is(&["begin", "start", "commit", "end", "rollback", "abort"]) => {
                StatementKind::Transaction
            }
            () if is(&["savepoint", "release"]) => StatementKind::Transaction,
            () => StatementKind::Other,
        }
    }
}

/// The first word of a statement, after comments and parentheses.
fn first_word(sql: &str) -> &str {
    let mut rest = sql;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '(');
        if let Some(comment) = rest.strip_prefix("--") {
            rest = comment.split_once('\n').map_or("", |(_, after)| after);
        } else if let Some(comment) = rest.strip_prefix("/*") {
            rest = comment.split_once("*/").map_or("", |(_, after)| after);
        } else {
            let end = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
            return &rest[..end];
        }
    }
}

/// The counters of one server.
pub(crate) struct Metrics {
    page: PrometheusHandle,
    /// In the order of [`FRONT_ENDS`].
    front_ends: Vec<FrontEndMetrics>,
    records: RecordMetrics,
    stages: StageMetrics,
    plans: PlanMetrics,
    storage: StorageMetrics,
    grpc_calls: SocketCalls,
    http_calls: SocketCalls,
    memory_bytes: Gauge,
    log_bytes: Gauge,
    log_lines_dropped: Counter,
}

struct FrontEndMetrics {
    connections: Gauge,
    connections_total: Counter,
    running: Gauge,
    /// In the order of [`StatementKind::ALL`].
    statements: Vec<(Counter, Histogram)>,
    rows_sent: Counter,
    bytes_sent: Counter,
    /// In the order of [`ERROR_CLASSES`], then one for all others.
    errors: Vec<Counter>,
}

impl Metrics {
    pub(crate) fn new() -> Arc<Metrics> {
        let builder = PrometheusBuilder::new();
        let builder = builder.set_buckets(&SECONDS).expect("there are classes of run times");
        let of_rows = Matcher::Full(records::GROUP_ROWS.to_owned());
        let builder = builder.set_buckets_for_metric(of_rows, &ROWS).expect("there are classes");
        let recorder = builder.build_recorder();
        let page = recorder.handle();
        let metrics = with_local_recorder(&recorder, || {
            describe();
            Metrics {
                page,
                front_ends: FRONT_ENDS.iter().map(|front| FrontEndMetrics::new(*front)).collect(),
                records: RecordMetrics::new(),
                stages: StageMetrics::new(),
                plans: PlanMetrics::new(),
                storage: StorageMetrics::new(),
                grpc_calls: SocketCalls::new("grpc"),
                http_calls: SocketCalls::new("http"),
                memory_bytes: gauge!("thalweg_tables_memory_bytes"),
                log_bytes: gauge!("thalweg_log_bytes"),
                log_lines_dropped: counter!("thalweg_log_lines_dropped_total"),
            }
        });
        Arc::new(metrics)
    }

    /// The page that Prometheus scrapes. The databases of a process are counted together, except
    /// for plans: planning threads are shared, and the plan cache is the first database's.
    pub(crate) fn render(&self, databases: &[Database]) -> String {
        if let Some(database) = databases.first() {
            self.plans.set(database.plan_figures());
            self.plans.set_planning(database.planning_figures());
        }
        let faults = databases.iter().flat_map(|database| database.storage().faults());
        self.storage.set(&faults.collect::<Vec<_>>());
        let sizes = databases.iter().map(Database::size);
        let size = sizes.fold((0, 0), |sum, size| (sum.0 + size.0, sum.1 + size.1));
        let figures = databases.iter().map(Database::figures);
        self.page(size, &figures.fold(PipelineTotals::default(), PipelineTotals::plus))
    }

    fn page(&self, (memory_bytes, log_bytes): (u64, u64), figures: &PipelineTotals) -> String {
        self.memory_bytes.set(memory_bytes as f64);
        self.log_bytes.set(log_bytes as f64);
        self.log_lines_dropped.absolute(lines_dropped());
        self.stages.set(figures);
        let mut page = self.page.render();
        page.push_str(&stages::syncs(figures));
        page
    }

    /// Folds recorded run times into histogram buckets. Call it regularly, since each recorded time
    /// takes memory until then.
    pub(crate) fn fold(&self) {
        self.page.run_upkeep();
    }

    /// Counts a connection until the returned guard is dropped.
    pub(crate) fn connected(self: &Arc<Metrics>, front_end: FrontEnd) -> Connected {
        let of = self.of(front_end);
        of.connections.increment(1.0);
        of.connections_total.increment(1);
        Connected { connections: of.connections.clone() }
    }

    /// Counts a statement that begins now.
    pub(crate) fn statement(
        self: &Arc<Metrics>,
        front_end: FrontEnd,
        kind: StatementKind,
    ) -> Running {
        self.of(front_end).running.increment(1.0);
        let metrics = Arc::clone(self);
        Running { metrics, front_end, kind, began: Instant::now(), ended: false }
    }

    pub(crate) fn records(&self) -> &RecordMetrics {
        &self.records
    }

    /// Counters for the sockets of a port.
    pub(crate) fn socket_calls(&self, kind: Kind) -> SocketCalls {
        match kind {
            Kind::Grpc => self.grpc_calls.clone(),
            Kind::Http => self.http_calls.clone(),
        }
    }

    /// Counts an error outside of a statement, such as a wrong password or too many connections.
    pub(crate) fn failed(&self, front_end: FrontEnd, error: &Error) {
        self.of(front_end).count_error(error.state());
    }

    fn of(&self, front_end: FrontEnd) -> &FrontEndMetrics {
        &self.front_ends[front_end as usize]
    }
}

fn describe() {
    describe_gauge!("thalweg_connections", "Open connections.");
    describe_counter!("thalweg_connections_total", "Connections that were ever opened.");
    describe_gauge!("thalweg_statements_running", "Statements under way.");
    describe_counter!("thalweg_statements_total", "Statements that ended.");
    describe_histogram!(
        "thalweg_statement_seconds",
        Unit::Seconds,
        "Time from a statement's arrival to its last row."
    );
    describe_counter!("thalweg_rows_sent_total", "Rows sent to clients.");
    describe_counter!("thalweg_bytes_sent_total", "Bytes of rows sent to clients.");
    describe_counter!("thalweg_errors_total", "Errors told to clients, by class of SQLSTATE.");
    describe_gauge!("thalweg_tables_memory_bytes", "Memory that tables take.");
    describe_gauge!("thalweg_log_bytes", "Size of the log since its last checkpoint.");
    describe_counter!(
        "thalweg_log_lines_dropped_total",
        "Lines of the process's log that were dropped: standard error was not read fast enough."
    );
    SocketCalls::describe();
}

impl FrontEndMetrics {
    fn new(front_end: FrontEnd) -> FrontEndMetrics {
        let front = name_of(front_end);
        let statement = |kind: &StatementKind| {
            let kind = kind.name();
            (
                counter!("thalweg_statements_total", "front_end" => front, "kind" => kind),
                histogram!("thalweg_statement_seconds", "front_end" => front, "kind" => kind),
            )
        };
        let error = |class: &&'static str| {
            let class = *class;
            counter!("thalweg_errors_total", "front_end" => front, "class" => class)
        };
        FrontEndMetrics {
            connections: gauge!("thalweg_connections", "front_end" => front),
            connections_total: counter!("thalweg_connections_total", "front_end" => front),
            running: gauge!("thalweg_statements_running", "front_end" => front),
            statements: StatementKind::ALL.iter().map(statement).collect(),
            rows_sent: counter!("thalweg_rows_sent_total", "front_end" => front),
            bytes_sent: counter!("thalweg_bytes_sent_total", "front_end" => front),
            errors: ERROR_CLASSES.iter().chain([&OTHER]).map(error).collect(),
        }
    }

    fn count_error(&self, state: SqlState) {
        let class = state.0.get(..2).unwrap_or_default();
        let known = ERROR_CLASSES.iter().position(|known| *known == class);
        self.errors[known.unwrap_or(ERROR_CLASSES.len())].increment(1);
    }
}

/// One open connection.
pub(crate) struct Connected {
    connections: Gauge,
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.connections.decrement(1.0);
    }
}

/// One running statement. If it is dropped before [`Running::end`], its client left and it counts
/// as cancelled.
pub(crate) struct Running {
    metrics: Arc<Metrics>,
    front_end: FrontEnd,
    kind: StatementKind,
    began: Instant,
    ended: bool,
}

impl Running {
    /// Counts rows sent to the client.
    pub(crate) fn sent(&self, rows: usize, bytes: usize) {
        let of = self.metrics.of(self.front_end);
        of.rows_sent.increment(rows as u64);
        of.bytes_sent.increment(bytes as u64);
    }

    /// Counts the end of the statement and returns its run time.
    pub(crate) fn end(mut self, error: Option<&Error>) -> Duration {
        self.count_end(error.map(Error::state))
    }

    fn count_end(&mut self, error: Option<SqlState>) -> Duration {
        self.ended = true;
        let elapsed = self.began.elapsed();
        let of = self.metrics.of(self.front_end);
        of.running.decrement(1.0);
        let (statements, seconds) = &of.statements[self.kind as usize];
        statements.increment(1);
        seconds.record(elapsed.as_secs_f64());
        if let Some(state) = error {
            of.count_error(state);
        }
        elapsed
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.ended {
            self.count_end(Some(SqlState::QUERY_CANCELED));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_follow_from_the_first_word() {
        for (sql, kind) in [
            ("SELECT 1", StatementKind::Select),
            (" -- a\n/* b */ (select 1)", StatementKind::Select),
            ("WITH a AS (SELECT 1) SELECT 2", StatementKind::Select),
            ("insert into t values (1)", StatementKind::Insert),
            ("CREATE TABLE t (a int)", StatementKind::Define),
            ("START TRANSACTION", StatementKind::Transaction),
            ("SET a = 1", StatementKind::Other),
            ("-- nothing", StatementKind::Other),
            ("", StatementKind::Other),
        ] {
            assert_eq!(StatementKind::of(sql), kind, "{sql}");
        }
    }

    #[test]
    fn lists_stand_in_the_order_of_their_numbers() {
        assert!(FRONT_ENDS.iter().enumerate().all(|(index, front)| *front as usize == index));
        let kinds = StatementKind::ALL.iter().enumerate();
        assert!(kinds.into_iter().all(|(index, kind)| *kind as usize == index));
    }

    #[tokio::test]
    async fn the_page_tells_what_happened() {
        let metrics = Metrics::new();
        let connected = metrics.connected(FrontEnd::Flight);
        let running = metrics.statement(FrontEnd::Flight, StatementKind::Select);
        running.sent(3, 100);
        let page = metrics.page((0, 0), &PipelineTotals::default());
        assert!(page.contains("thalweg_connections{front_end=\"flight\"} 1"), "{page}");
        assert!(page.contains("thalweg_statements_running{front_end=\"flight\"} 1"), "{page}");
        drop(connected);
        running.end(None);
        drop(metrics.statement(FrontEnd::Flight, StatementKind::Insert));
        metrics.failed(FrontEnd::Http, &Error::new(SqlState("99999"), "x"));
        let page = metrics.page((0, 0), &PipelineTotals::default());
        for line in [
            "thalweg_connections{front_end=\"flight\"} 0",
            "thalweg_connections_total{front_end=\"flight\"} 1",
            "thalweg_rows_sent_total{front_end=\"flight\"} 3",
            "thalweg_bytes_sent_total{front_end=\"flight\"} 100",
            "thalweg_statements_running{front_end=\"flight\"} 0",
            "thalweg_statements_total{front_end=\"flight\",kind=\"select\"} 1",
            "thalweg_statement_seconds_count{front_end=\"flight\",kind=\"select\"} 1",
            "thalweg_errors_total{front_end=\"flight\",class=\"57\"} 1",
            "thalweg_errors_total{front_end=\"http\",class=\"other\"} 1",
        ] {
            assert!(page.lines().any(|found| found == line), "{line}\n{page}");
        }
    }
}
