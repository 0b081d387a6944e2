//! Information about the program that serves a database, and about a session's client.
//!
//! The database itself knows only tables and statements. A server that has more information, such
//! as the list of connections, implements [`ServerContext`] and registers it with
//! [`Database::surround`](crate::Database::surround). The database calls it when a statement asks
//! for the information.

use std::net::SocketAddr;

/// The program around a database, for `pg_catalog`.
pub trait ServerContext: Send + Sync {
    /// The open sessions: the rows of `pg_stat_activity`.
    fn activity(&self) -> Vec<Activity>;

    /// Ends a session's statement, or the session itself. Returns false if there is no such
    /// session.
    fn end(&self, process_id: i32, what: End) -> bool;
}

/// The part of a session to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Statement,
    Session,
}

/// One open session.
#[derive(Clone, Debug)]
pub struct Activity {
    /// The number that identifies the session in a cancel request.
    pub process_id: i32,
    pub user: String,
    pub application_name: String,
    /// `None` for a session without a network connection.
    pub client: Option<SocketAddr>,
    /// Times are microseconds since 1970.
    pub connected_micros: i64,
    pub transaction_started_micros: Option<i64>,
    pub statement_started_micros: Option<i64>,
    pub state_changed_micros: Option<i64>,
    pub state: ActivityState,
    /// The running statement, or the last one.
    pub statement: String,
}

/// State of a session, as `pg_stat_activity.state` reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActivityState {
    Active,
    Idle,
    IdleInTransaction,
    IdleInFailedTransaction,
}

impl ActivityState {
    /// PostgreSQL's name for it.
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

/// The facts that a session knows about its client.
#[derive(Clone, Debug, Default)]
pub struct SessionInfo {
    pub process_id: i32,
    pub client: Option<SocketAddr>,
    /// The address of the server that the client connected to.
    pub server: Option<SocketAddr>,
    /// True if the client is sent the messages of [`Session::inbox`](crate::Session::inbox).
    pub receives_notifications: bool,
}
