//! The route of a statement: the way in which it runs.
//!
//! ```text
//!  prepared ─┬─► Point, IndexRange, WorkerRow ─┐
//!            ├─────────────────────────────────┴─► CachedPlan ─┐
//!            │                                                 ├─► Planned, or a statement about
//!            └─────────────────────────────────────────────────┤   locks, transactions or the
//!  text ─────────► CachedPlan, if the text is known ───────────┘   session
//! ```
//!
//! A text that is known but for its literals runs as a prepared statement (`ad_hoc`).
//!
//! This module chooses the route. A route may decline a statement, for example if a table was
//! altered since it was prepared. Then the next route runs it. The last ones never decline.
//!
//! Invariants: a statement has one timer, which begins before the first route that may wait. The
//! outcome of each route leaves through [`Session::answered`], which puts the timer and the
//! cancellation around rows that are still to come, encoded or not.

use std::sync::Arc;

use datafusion::common::ScalarValue;
use thalweg_dialect::parse::Parsed;
use thalweg_execution::cancel::Timer;
use thalweg_execution::panics::caught;
use thalweg_execution::stack::with_room_for;
use thalweg_types::Result;

use super::Session;
use crate::locks;
use crate::outcome::{Copy, Outcome};
use crate::point::Point;
use crate::prepared::Prepared;
use crate::statement;

/// The way in which a statement ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// A statement about the row of one primary key, without a planner.
    Point,
    /// A query for a few adjacent rows of an index, without a planner.
    IndexRange,
    /// A query for the row of one primary key, which its worker is asked for.
    WorkerRow,
    /// A query with a plan from the plan cache.
    CachedPlan,
    /// A query with a plan from the plan cache that is one aggregate over chunks, whose answer is
    /// complete.
    DirectAggregate,
    /// Calls of functions on advisory locks.
    AdvisoryLock,
    /// A statement that begins or ends a transaction or a savepoint.
    Control,
    /// A statement that changes only the session, such as `PREPARE` or `FETCH`.
    SessionCommand,
    /// Any other statement: it is planned for this run.
    Planned,
}

impl Route {
    /// The first route to try for a prepared statement with this number of values.
    fn of_prepared(
        prepared: &Prepared,
        point: Option<&Point>,
        values: usize,
        is_gateway: bool,
    ) -> Route {
        let point = point.filter(|_| prepared.parameters().len() == values);
        match point {
            Some(point) if point.writes() => Route::Point,
            Some(_) if is_gateway => Route::WorkerRow,
            Some(point) if point.is_range() => Route::IndexRange,
            Some(_) => Route::Point,
            None => Route::without_point(prepared),
        }
    }

    fn without_point(prepared: &Prepared) -> Route {
        match prepared.tree().is_some_and(statement::only_reads) {
            true => Route::CachedPlan,
            false => Route::Planned,
        }
    }

    /// The route of a prepared statement that this one has declined.
    fn next(self, prepared: &Prepared) -> Route {
        match self {
            Route::Point | Route::IndexRange | Route::WorkerRow => Route::without_point(prepared),
            _ => Route::Planned,
        }
    }

    /// True if an outcome may have rows that are still to come.
    fn has_rows_to_come(self) -> bool {
        match self {
            Route::CachedPlan | Route::Control | Route::SessionCommand | Route::Planned => true,
            Route::Point
            | Route::IndexRange
            | Route::WorkerRow
            | Route::DirectAggregate
            | Route::AdvisoryLock => false,
        }
    }
}

impl Session {
    /// The route of the last statement that succeeded; `None` if there was none.
    #[must_use]
    pub fn route(&self) -> Option<Route> {
        self.route
    }

    /// Runs the one statement of a text.
    pub(super) async fn run_text(&mut self, sql: &str) -> Result<Outcome> {
        self.cancels.begin();
        let work = async {
            if let Some(outcome) = self.run_shared(sql).await? {
                return Ok(outcome);
            }
            let timer = self.statement_timer();
            if let Some((route, outcome)) = self.run_again(sql).await? {
                return Ok(self.answered(route, outcome, timer));
            }
            let parsed = self.parsed(sql).await?;
            let reads = statement::only_reads(&parsed.statement);
            let (route, outcome) = Box::pin(self.run_parsed(parsed, sql)).await?;
            if reads {
                self.note(sql);
            }
            Ok(self.answered(route, outcome, timer))
        };
        let outcome = with_room_for(sql, caught(work)).await;
        self.note_failure(outcome)
    }

    /// Runs a prepared statement by the routes that need no wait. Otherwise returns the route to
    /// begin with.
    ///
    /// This takes a microsecond. The general future has many kilobytes.
    pub(super) fn run_at_once(
        &mut self,
        prepared: &Prepared,
        values: &[ScalarValue],
    ) -> Result<Result<Outcome>, Route> {
        let is_gateway = self.database.shared.cluster().is_present();
        let point = self.point_of(prepared);
        let route = Route::of_prepared(prepared, point, values.len(), is_gateway);
        let point = point.filter(|point| !point.writes());
        match (route, point) {
            (Route::Point | Route::IndexRange, Some(point)) => {
                match self.look_up(prepared, point, values) {
                    Some(looked) => Ok(looked.map(|outcome| self.answered(route, outcome, None))),
                    None => Err(route.next(prepared)),
                }
            }
            _ => Err(route),
        }
    }

    /// Runs a prepared statement, beginning with this route.
    pub(super) async fn run_prepared(
        &mut self,
        prepared: &Prepared,
        values: &[ScalarValue],
        first: Route,
    ) -> Result<Outcome> {
        let (mut route, mut timer) = (first, None);
        loop {
            // A write of one row waits only for its commit, which cannot be canceled.
            if route != Route::Point && timer.is_none() {
                timer = self.statement_timer();
            }
            let ran = match route {
                Route::Point => {
                    let ran = self.run_point(prepared, values).await?;
                    ran.map(|outcome| (route, outcome))
                }
                Route::WorkerRow => {
                    let ran = self.ask_for_row(prepared, values).await?;
                    ran.map(|outcome| (route, outcome))
                }
                Route::CachedPlan => Box::pin(self.run_prepared_query(prepared, values)).await?,
                _ => {
                    let parsed = prepared.with_values(values)?;
                    // The future of planning has many kilobytes, too many to move for each point
                    // statement.
                    Some(Box::pin(self.run_parsed(parsed, prepared.sql())).await?)
                }
            };
            match ran {
                Some((route, outcome)) => return Ok(self.answered(route, outcome, timer)),
                None => route = route.next(prepared),
            }
        }
    }

    /// Runs a parsed statement by one of the routes that never decline.
    async fn run_parsed(&mut self, parsed: Parsed, sql: &str) -> Result<(Route, Outcome)> {
        if locks::is_alone(&parsed.statement, sql) {
            let outcome = Box::pin(self.run_locks(parsed, sql)).await?;
            return Ok((Route::AdvisoryLock, outcome));
        }
        self.run(parsed, sql).await
    }

    /// Like [`run_parsed`](Self::run_parsed), for a statement that may be part of another one, such
    /// as the query of a cursor.
    pub(super) async fn run(&mut self, parsed: Parsed, sql: &str) -> Result<(Route, Outcome)> {
        if let Some(control) = statement::control(&parsed) {
            return Ok((Route::Control, self.control(control).await?));
        }
        if let Some(wanted) = statement::of_session(&parsed) {
            return Ok((Route::SessionCommand, self.run_of_session(wanted, sql).await?));
        }
        let parsed = Arc::new(parsed);
        let outcome = self.run_planned(&parsed, sql).await;
        self.drop_parsed(parsed, sql);
        Ok((Route::Planned, outcome?))
    }

    /// The timer of a statement, if the session has a timeout.
    pub(super) fn statement_timer(&self) -> Option<Timer> {
        self.settings.statement_timeout().map(|timeout| self.cancels.after(timeout))
    }

    /// Records the route of a statement, and puts its timer and its cancellation around the rows
    /// that are still to come.
    pub(super) fn answered(
        &mut self,
        route: Route,
        mut outcome: Outcome,
        timer: Option<Timer>,
    ) -> Outcome {
        self.route = Some(route);
        if !self.opening_notices.is_empty() {
            let mut notices = self.take_opening_notices();
            notices.append(&mut outcome.notices);
            outcome.notices = notices;
        }
        outcome.style = self.settings.style().cloned();
        if !outcome.notices.is_empty() {
            let least = self.settings.get("client_min_messages").unwrap_or_default();
            outcome.notices.retain(|notice| notice.is_sent(&least));
        }
        if !route.has_rows_to_come() {
            return outcome;
        }
        if let Some(Copy::In(copy)) = &mut outcome.copy {
            copy.keep(timer);
            return outcome;
        }
        match outcome.encoded.take() {
            Some(rows) => outcome.encoded = Some(self.cancels.guard(rows, timer)),
            None => outcome.rows = outcome.rows.map(|rows| self.cancels.guard(rows, timer)),
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt as _;
    use thalweg_types::SqlState;

    use super::*;
    use crate::Database;

    async fn database() -> Database {
        let database = Database::builder().threads(2).open().unwrap();
        let mut session = database.session();
        for sql in [
            "CREATE TABLE t (a integer PRIMARY KEY, b integer, c text)",
            "CREATE INDEX ON t (b)",
            "INSERT INTO t SELECT g, g % 10, 'c' FROM generate_series(1, 100) s(g)",
        ] {
            session.execute(sql).await.unwrap();
        }
        database
    }

    /// Reads all rows of an outcome.
    async fn read(outcome: Result<Outcome>) -> Result<usize> {
        let Some(mut rows) = outcome?.rows else { return Ok(0) };
        let mut count = 0;
        while let Some(batch) = rows.next().await {
            count += batch?.num_rows();
        }
        Ok(count)
    }

    #[tokio::test]
    async fn texts_take_their_routes() {
        let mut session = database().await.session();
        assert_eq!(session.route(), None);
        let query = "SELECT b FROM t WHERE b > 3 ORDER BY b";
        let all = "SELECT b FROM t ORDER BY b";
        let aggregate = "SELECT sum(b) FROM t";
        for (sql, route) in [
            (query, Route::Planned),
            (query, Route::IndexRange),
            (all, Route::Planned),
            (all, Route::Planned),
            (all, Route::CachedPlan),
            (aggregate, Route::Planned),
            (aggregate, Route::Planned),
            (aggregate, Route::DirectAggregate),
            ("INSERT INTO t VALUES (101, 1, 'd')", Route::Planned),
            ("SHOW statement_timeout", Route::Planned),
            ("BEGIN", Route::Control),
            ("SAVEPOINT s", Route::Control),
            ("SELECT pg_advisory_lock(1)", Route::AdvisoryLock),
            ("SELECT pg_try_advisory_xact_lock(2)", Route::AdvisoryLock),
            ("COMMIT", Route::Control),
            ("PREPARE p AS SELECT a FROM t WHERE a = $1", Route::SessionCommand),
            ("EXECUTE p (1)", Route::SessionCommand),
            ("DEALLOCATE p", Route::SessionCommand),
        ] {
            let outcome = session.execute(sql).await;
            assert_eq!(session.route(), Some(route), "{sql}");
            read(outcome).await.unwrap();
        }
        // A statement that fails leaves the route of the last one.
        assert!(session.execute("SELECT x FROM t").await.is_err());
        assert_eq!(session.route(), Some(Route::SessionCommand));
    }

    #[tokio::test]
    async fn clients_get_the_messages_that_they_ask_for() {
        let mut session = database().await.session();
        for (least, remarks, warnings) in
            [("debug1", 1, 1), ("log", 1, 1), ("notice", 1, 1), ("warning", 0, 1), ("error", 0, 0)]
        {
            let set = format!("SET client_min_messages = {least}");
            session.execute(&set).await.unwrap();
            let remark = session.execute("DROP TABLE IF EXISTS missing").await.unwrap();
            assert_eq!(remark.notices.len(), remarks, "{least}");
            let warning = session.execute("COMMIT").await.unwrap();
            assert_eq!(warning.notices.len(), warnings, "{least}");
        }
    }

    #[tokio::test]
    async fn prepared_statements_take_their_routes() {
        let mut session = database().await.session();
        let number = |value| ScalarValue::Int32(Some(value));
        for (sql, values, route) in [
            ("SELECT c FROM t WHERE a = $1", vec![number(7)], Route::Point),
            ("SELECT a FROM t WHERE b = $1", vec![number(7)], Route::IndexRange),
            ("UPDATE t SET b = $1 WHERE a = $2", vec![number(1), number(7)], Route::Point),
            ("DELETE FROM t WHERE a = $1", vec![number(7)], Route::Point),
            ("INSERT INTO t (a, b) VALUES ($1, $2)", vec![number(7), number(1)], Route::Point),
            ("UPDATE t SET b = b + 1 WHERE c = 'd'", vec![], Route::Planned),
            ("SELECT c FROM t WHERE b > $1 ORDER BY c", vec![number(7)], Route::CachedPlan),
            ("SELECT sum(a) FROM t WHERE b > $1", vec![number(7)], Route::DirectAggregate),
            // A plan for all values does not fit NULL.
            (
                "SELECT c FROM t WHERE b > $1 ORDER BY c",
                vec![ScalarValue::Int32(None)],
                Route::Planned,
            ),
            ("BEGIN", vec![], Route::Control),
            ("COMMIT", vec![], Route::Control),
            ("SELECT pg_advisory_unlock_all()", vec![], Route::AdvisoryLock),
        ] {
            let prepared = session.prepare(sql, &[]).await.unwrap();
            let outcome = session.execute_prepared(&prepared, &values).await;
            assert_eq!(session.route(), Some(route), "{sql}");
            read(outcome).await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_route_that_declines_is_followed_by_the_next_one() {
        let mut session = database().await.session();
        let seven = [ScalarValue::Int32(Some(7))];
        let read_one = session.prepare("SELECT c FROM t WHERE a = $1", &[]).await.unwrap();
        let delete = session.prepare("DELETE FROM t WHERE a = $1", &[]).await.unwrap();
        session.execute("ALTER TABLE t ADD COLUMN e integer").await.unwrap();
        let outcome = session.execute_prepared(&read_one, &seven).await;
        assert_eq!(session.route(), Some(Route::CachedPlan));
        assert_eq!(read(outcome).await.unwrap(), 1);
        session.execute_prepared(&delete, &seven).await.unwrap();
        assert_eq!(session.route(), Some(Route::Planned));
        // In a block that has changed a table, the plan cache declines too.
        session.execute("BEGIN").await.unwrap();
        session.execute("ALTER TABLE t ADD COLUMN f integer").await.unwrap();
        let outcome = session.execute_prepared(&read_one, &seven).await;
        assert_eq!(session.route(), Some(Route::Planned));
        assert_eq!(read(outcome).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn the_timer_ends_each_route_that_may_wait() {
        let database = database().await;
        let mut holder = database.session();
        holder.execute("SELECT pg_advisory_lock(1)").await.unwrap();
        let mut session = database.session();
        let endless = "SELECT count(*) FROM t t1, t t2, t t3, t t4, t t5, t t6 \
                       WHERE t1.a + t2.a + t3.a + t4.a + t5.a + t6.a > ";
        let prepared = session.prepare(&format!("{endless} $1"), &[]).await.unwrap();
        session.set("statement_timeout", "1s").unwrap();
        let planned = session.execute(&format!("{endless} 7")).await;
        let outcomes = [
            read(planned).await,
            read(session.execute_prepared(&prepared, &[ScalarValue::Int32(Some(7))]).await).await,
            read(session.execute("SELECT pg_advisory_lock(1)").await).await,
        ];
        for outcome in outcomes {
            assert_eq!(outcome.unwrap_err().state(), SqlState::QUERY_CANCELED);
        }
        session.set("statement_timeout", "0").unwrap();
        read(session.execute("SELECT 1").await).await.unwrap();
    }
}
