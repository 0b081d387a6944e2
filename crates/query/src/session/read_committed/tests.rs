//! Histories of small blocks by several sessions: a checker beside a model, and scripts whose
//! outcomes are PostgreSQL 15's.

mod histories;
mod scripts;

use std::pin::Pin;

use arrow::util::display::array_value_to_string;
use futures::StreamExt;

use super::canary;
use crate::Database;
use crate::outcome::Tag;
use crate::session::{Session, TransactionStatus};
use thalweg_txn::LockOwner;
use thalweg_types::{Result, SqlState};

/// Rows as text, `a|b` each, or the number of changed rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Rows(Vec<String>),
    Count(u64),
    Done,
    Failed(SqlState),
}

type Running = Pin<Box<dyn Future<Output = (Session, Answer)>>>;

/// A session with the statement that it runs.
pub(super) struct Client {
    owner: LockOwner,
    idle: Option<Session>,
    running: Option<Running>,
}

/// No statement of these tests is polled so often unless it hangs.
const POLLS_MAX: usize = 5_000_000;

impl Client {
    pub(super) fn new(database: &Database) -> Client {
        let session = database.session();
        Client { owner: session.lock_owner, idle: Some(session), running: None }
    }

    pub(super) fn status(&self) -> TransactionStatus {
        self.idle.as_ref().expect("no statement runs").transaction()
    }

    /// Starts a statement, and returns its answer; `None` if it waits for a row lock.
    pub(super) async fn start(&mut self, database: &Database, sql: &str) -> Option<Answer> {
        let (mut session, sql) = (self.idle.take().expect("no statement runs"), sql.to_owned());
        self.running = Some(Box::pin(async move {
            let answer = answer(&mut session, &sql).await;
            (session, answer)
        }));
        self.go_on(database).await
    }

    /// Lets the running statement continue until it ends or waits for a row lock.
    pub(super) async fn go_on(&mut self, database: &Database) -> Option<Answer> {
        for _ in 0..POLLS_MAX {
            let running = self.running.as_mut().expect("a statement runs");
            let polled = futures::poll!(running);
            if let std::task::Poll::Ready((session, answer)) = polled {
                (self.idle, self.running) = (Some(session), None);
                return Some(answer);
            }
            if database.shared.engine.is_waiting_for_row(self.owner) {
                return None;
            }
            tokio::task::yield_now().await;
        }
        panic!("the statement hangs");
    }
}

/// Runs a statement. Texts with `$` come as `text $ value`: they are prepared.
async fn answer(session: &mut Session, sql: &str) -> Answer {
    match outcome(session, sql).await {
        Ok(answer) => answer,
        Err(error) => Answer::Failed(error.state()),
    }
}

async fn outcome(session: &mut Session, sql: &str) -> Result<Answer> {
    let outcome = match sql.split_once(" $$ ") {
        None => session.execute(sql).await?,
        Some((text, value)) => {
            let prepared = session.prepare(text, &[]).await?;
            let value = value.parse().expect("a number");
            let values = [datafusion::common::ScalarValue::Int32(Some(value))];
            session.execute_prepared(&prepared, &values).await?
        }
    };
    let mut lines = Vec::new();
    if let Some(mut rows) = outcome.rows {
        while let Some(batch) = rows.next().await {
            let batch = batch?;
            for row in 0..batch.num_rows() {
                let cells = batch.columns().iter();
                let cells = cells.map(|cell| array_value_to_string(cell, row).unwrap());
                lines.push(cells.collect::<Vec<_>>().join("|"));
            }
        }
        return Ok(Answer::Rows(lines));
    }
    Ok(match outcome.tag {
        Tag::Insert(count) | Tag::Update(count) | Tag::Delete(count) => Answer::Count(count),
        _ => Answer::Done,
    })
}
