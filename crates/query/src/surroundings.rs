//! What a database shows of the program that serves it, and a session of its client.
//!
//! The database itself knows tables and statements only. A server that has more to tell, such as
//! who is connected, implements [`Surroundings`] and hands it to
//! [`Database::surround`](crate::Database::surround); it is asked when a statement looks.

use std::net::SocketAddr;

/// The program around a database, as `pg_catalog` shows it.
pub trait Surroundings: Send + Sync {
    /// The sessions that are open now: the rows of `pg_stat_activity`.
    fn activity(&self) -> Vec<Activity>;

    /// Ends what a session does, or the session itself; false where there is no such session.
    fn end(&self, process_id: i32, what: End) -> bool;
}

/// What of a session is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Statement,
    Session,
}

/// One open session.
#[derive(Clone, Debug)]
pub struct Activity {
    /// The number that a client cancels the session's statement by.
    pub process_id: i32,
    pub user: String,
    pub application_name: String,
    /// `None` for a session that did not come over the network.
    pub client: Option<SocketAddr>,
    /// Times are microseconds since 1970.
    pub connected_micros: i64,
    pub transaction_started_micros: Option<i64>,
    pub statement_started_micros: Option<i64>,
    pub state_changed_micros: Option<i64>,
    pub state: ActivityState,
    /// The statement that runs, or the last one that did.
    pub statement: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActivityState {
    Active,
    Idle,
    IdleInTransaction,
    IdleInFailedTransaction,
}

impl ActivityState {
    /// PostgreSQL's words for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ActivityState::Active => "active",
            ActivityState::Idle => "idle",
            ActivityState::IdleInTransaction => "idle in transaction",
            ActivityState::IdleInFailedTransaction => "idle in transaction (aborted)",
        }
    }
}

/// What a session knows of its client.
#[derive(Clone, Debug, Default)]
pub struct SessionFacts {
    pub process_id: i32,
    pub client: Option<SocketAddr>,
    /// The server's address that the client reached.
    pub server: Option<SocketAddr>,
}
